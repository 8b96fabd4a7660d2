//! A running server.

use super::error::PeerError;
use super::kind::Kind;
use super::probe;
use super::setup::{Setup, replace_in_file};
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::name::Name;

/// Time limit for a server to answer for all of its zones, in seconds.
const READY_SECONDS_MAX: u64 = 120;
/// Interval of the checks whether it answers. Benchmarks measure the time until it does.
const READY_INTERVAL: Duration = Duration::from_millis(20);
/// Interval of the checks whether it has exited.
const STOP_INTERVAL: Duration = Duration::from_millis(10);
/// Time limit for a server to exit before it is killed, in seconds.
const STOP_SECONDS_MAX: u64 = 20;
/// Maximum number of bytes shown of a server's output.
const OUTPUT_BYTES_MAX: usize = 2_000;

/// A running server. It is stopped on drop. If a test fails meanwhile, the end of its output is printed.
pub struct Peer {
    /// Its kind.
    pub kind: Kind,
    /// Its address.
    pub address: SocketAddr,
    folder: PathBuf,
    command: Box<Command>,
    words: Vec<String>,
    child: Child,
}

impl Peer {
    pub(super) fn spawn(kind: Kind, inner: &Command, setup: &Setup) -> Result<Self, PeerError> {
        setup.launch.check().map_err(|error| PeerError::Start(kind, error))?;
        let output = setup.folder.join("output");
        File::create(&output).map_err(|error| PeerError::Folder(output.clone(), error))?;
        let words = std::iter::once(inner.get_program()).chain(inner.get_args());
        let words = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let mut command = Box::new(setup.launch.command(inner));
        command.current_dir(&setup.folder);
        let child = spawn_into(&mut command, &output).map_err(|error| PeerError::Start(kind, error))?;
        Ok(Self { kind, address: setup.address, folder: setup.folder.clone(), command, words, child })
    }

    /// Restarts it after it exited, with the same command line. Does not wait until it answers.
    ///
    /// # Errors
    /// It is still running, or it does not start.
    pub fn start_again(&mut self) -> Result<(), PeerError> {
        if self.is_running() {
            return Err(PeerError::Start(self.kind, io::Error::other("it is still running")));
        }
        let child = spawn_into(&mut self.command, &self.folder.join("output"));
        self.child = child.map_err(|error| PeerError::Start(self.kind, error))?;
        Ok(())
    }

    /// Stops it, replaces a text in its configuration, and starts it again. Waits until it answers.
    ///
    /// # Errors
    /// Its configuration does not have the text, or it does not start.
    pub fn reconfigure(mut self, setup: &Setup, from: &str, to: &str) -> Result<Self, PeerError> {
        stop(&mut self.child);
        replace_in_file(&self.folder.join(self.kind.configuration_file()), &[(from, to)])?;
        self.start_again()?;
        self.wait_until_ready(setup)
    }

    /// The words of its command line.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Its configuration. Empty if it has none yet.
    #[must_use]
    pub fn configuration(&self) -> String {
        std::fs::read_to_string(self.folder.join(self.kind.configuration_file())).unwrap_or_default()
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its folder, with its configuration and its output.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it accepts connections on each of its ports, and answers for each of its zones or by its
    /// backends.
    pub(super) fn wait_until_ready(mut self, setup: &Setup) -> Result<Self, PeerError> {
        let kind = self.kind;
        let is_ready = setup.launch.inside(|| Ok(self.wait_here(setup)));
        is_ready.map_err(|error| PeerError::Start(kind, error))??;
        Ok(self)
    }

    /// Waits in the namespace of the calling thread.
    fn wait_here(&mut self, setup: &Setup) -> Result<(), PeerError> {
        let until = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        let address = self.address;
        for port in setup.tcp_ports() {
            self.wait_for(until, || TcpStream::connect((address.ip(), port)).is_ok())?;
        }
        // A secondary answers only after its first transfer. Its primary may not have started yet.
        if setup.primary.is_none() {
            self.wait_for_zones_here(setup)?;
        }
        match self.kind {
            Kind::HaProxy => self.wait_for(until, || probe::responds_over_tcp(address)),
            kind if kind.needs_backends() => self.wait_for(until, || probe::responds_over_udp(address)),
            _ => Ok(()),
        }
    }

    /// Waits until it answers for each of its zones.
    ///
    /// # Errors
    /// It exits, or does not answer in time.
    pub fn wait_for_zones(mut self, setup: &Setup) -> Result<Self, PeerError> {
        let kind = self.kind;
        let is_ready = setup.launch.inside(|| Ok(self.wait_for_zones_here(setup)));
        is_ready.map_err(|error| PeerError::Start(kind, error))??;
        Ok(self)
    }

    fn wait_for_zones_here(&mut self, setup: &Setup) -> Result<(), PeerError> {
        let until = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        let address = self.address;
        for apex in setup.zones.iter().filter_map(|zone| zone.apex.parse::<Name>().ok()) {
            self.wait_for(until, || probe::answers_for(address, &apex))?;
        }
        Ok(())
    }

    fn wait_for(&mut self, until: Instant, is_ready: impl Fn() -> bool) -> Result<(), PeerError> {
        while !is_ready() {
            if Instant::now() > until || !self.is_running() {
                return Err(PeerError::NotReady(self.kind, self.output_end()));
            }
            std::thread::sleep(READY_INTERVAL);
        }
        Ok(())
    }

    /// The end of its output.
    #[must_use]
    pub fn output_end(&self) -> String {
        output_end(&self.folder.join("output"))
    }
}

/// Starts a process that appends its output to a file.
///
/// # Errors
/// The file cannot be opened, or the process does not start.
pub fn spawn_into(command: &mut Command, output: &Path) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(output)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
}

/// The end of a file with the output of a process.
#[must_use]
pub fn output_end(output: &Path) -> String {
    let bytes = std::fs::read(output).unwrap_or_default();
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(OUTPUT_BYTES_MAX)..]).into_owned()
}

impl Drop for Peer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the output of {} ends:\n{}", self.kind.label(), self.output_end());
        }
        stop(&mut self.child);
    }
}

/// Stops a process with SIGTERM, or with SIGKILL if that takes too long.
pub(super) fn stop(child: &mut Child) {
    let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    // The ID of a process that was waited for may belong to another one.
    if !is_running(child) {
        return;
    }
    // SIGTERM first: `catamaran up` stops its nodes before it exits.
    let _sent = Command::new("kill").arg(child.id().to_string()).status();
    let until = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
    while Instant::now() < until {
        if !is_running(child) {
            return;
        }
        std::thread::sleep(STOP_INTERVAL);
    }
    let _killed = child.kill();
    let _ended = child.wait();
}
