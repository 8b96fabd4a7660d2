//! A running server.

use super::{Kind, Setup};
use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, io};
use wire::name::Name;

/// How long a server may take to answer for all of its zones.
const READY_SECONDS_MAX: u64 = 60;
/// How long a server may take to end before it is killed.
const STOP_SECONDS_MAX: u64 = 5;
/// Bytes of a server's own output that an error shows.
const OUTPUT_BYTES_MAX: usize = 2_000;

/// Why a server does not run.
#[derive(Debug)]
pub enum PeerError {
    /// The program is not installed.
    Missing(Kind),
    /// A file of its folder could not be written.
    Folder(PathBuf, io::Error),
    /// It could not be started.
    Start(Kind, io::Error),
    /// It ended, or did not answer in time; with the end of its output.
    NotReady(Kind, String),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(kind) => write!(f, "{} is not installed", kind.label()),
            Self::Folder(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Start(kind, error) => write!(f, "{} did not start: {error}", kind.label()),
            Self::NotReady(kind, output) => write!(f, "{} does not answer; its output ends:\n{output}", kind.label()),
        }
    }
}

impl std::error::Error for PeerError {}

/// A running server; ends with this value.
pub struct Peer {
    /// Which one.
    pub kind: Kind,
    /// Where it answers.
    pub address: SocketAddr,
    setup: Setup,
    child: Child,
}

impl Peer {
    pub(super) fn spawn(kind: Kind, mut command: Command, setup: &Setup) -> Result<Self, PeerError> {
        let output = setup.folder.join("output");
        let log = File::create(&output).map_err(|error| PeerError::Folder(output, error))?;
        let twin = log.try_clone().map_err(|error| PeerError::Start(kind, error))?;
        let child = command.current_dir(&setup.folder).stdin(Stdio::null()).stdout(log).stderr(twin).spawn();
        let child = child.map_err(|error| PeerError::Start(kind, error))?;
        Ok(Self { kind, address: setup.address, setup: setup.clone(), child })
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(super) fn wait_until_ready(mut self) -> Result<Self, PeerError> {
        let until = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        let apexes: Vec<Name> = self.setup.zones.iter().filter_map(|zone| zone.apex.parse().ok()).collect();
        for apex in apexes {
            while !answers_for(self.address, &apex) {
                if Instant::now() > until || !self.is_running() {
                    let output = self.output_end();
                    return Err(PeerError::NotReady(self.kind, output));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(self)
    }

    fn output_end(&self) -> String {
        let bytes = std::fs::read(self.setup.folder.join("output")).unwrap_or_default();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(OUTPUT_BYTES_MAX)..]).into_owned()
    }
}

/// Whether an SOA query gets NOERROR with an answer.
fn answers_for(address: SocketAddr, apex: &Name) -> bool {
    let ask = || -> io::Result<bool> {
        let socket = UdpSocket::bind((address.ip(), 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(300)))?;
        let mut query = vec![0x4A, 0x11, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend_from_slice(apex.as_bytes());
        query.extend_from_slice(&[0, 6, 0, 1]);
        socket.send_to(&query, address)?;
        let mut response = [0u8; 4096];
        let (length, _) = socket.recv_from(&mut response)?;
        Ok(length >= 12 && response[3] & 0x0F == 0 && (response[6], response[7]) != (0, 0))
    };
    ask().unwrap_or(false)
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SIGTERM first: a cluster stops its own children, and only then itself.
        let _sent = Command::new("kill").arg(self.child.id().to_string()).status();
        let until = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
        while Instant::now() < until {
            if !self.is_running() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}
