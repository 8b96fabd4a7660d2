//! The servers under test, each with one packet thread on one core.

use super::machine::{self, SERVER_CORE, bind_process, family, on_cores, role};
use super::zones::{APEX, Zone};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use testbed::{Kind, Peer, PeerError, ServedZone, Setup};

/// All servers, in the order of their turns.
pub(crate) const NAMES: [&str; 7] = ["echo", "catamaran", "knot", "nsd", "bind", "powerdns", "coredns"];
/// Those that are servers.
const KINDS: [Kind; 6] = [Kind::Catamaran, Kind::Knot, Kind::Nsd, Kind::Bind, Kind::PowerDns, Kind::CoreDns];

/// A running server. It is stopped on drop.
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    process: Process,
    /// Time from its start to its first answer.
    pub(crate) ready_after: Duration,
}

enum Process {
    Peer(Peer),
    Echo(machine::Server),
}

impl Rival {
    /// The processes of the server: the one that was started and its children.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.process {
            Process::Peer(peer) => family(peer.pid()),
            Process::Echo(server) => family(server.pid()),
        }
    }
}

/// Starts a server with the zone. Returns `None` and says so if the server is not installed.
pub(crate) fn start(name: &'static str, zone: &Zone, folder: &Path) -> Result<Option<Rival>, String> {
    let began = Instant::now();
    let (process, address) = match KINDS.iter().find(|kind| kind.label() == name) {
        Some(&kind) => {
            let address = testbed::free_address().map_err(|error| error.to_string())?;
            let zones = vec![ServedZone::new(APEX, &zone.file)];
            let setup = Setup::new(folder.join(name), address, zones);
            match on_cores(&[SERVER_CORE], || testbed::start(kind, &setup)) {
                Ok(peer) => (Process::Peer(peer), address),
                Err(PeerError::Missing(_)) => {
                    eprintln!("skipped: {name} is not installed");
                    return Ok(None);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        None => {
            let server = on_cores(&[SERVER_CORE], || machine::Server::start(role(None, &["echo"])))?;
            let address = server.address.parse().map_err(|_| format!("the echo printed {}", server.address))?;
            (Process::Echo(server), address)
        }
    };
    let rival = Rival { name, address, process, ready_after: began.elapsed() };
    // Some servers choose the cores of their threads themselves.
    rival.pids().into_iter().for_each(|pid| bind_process(pid, SERVER_CORE));
    Ok(Some(rival))
}
