//! A whole comparison: start the servers, send everything to each, judge.

use super::generate::{self, Signing};
use super::{Tally, ask_all, judge, response::Got};
use crate::peers::{self, Kind, Peer, ServedZone, Setup};
use crate::trace::Recorded;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;

/// What is compared.
pub struct Plan<'a> {
    /// The server that is judged.
    pub ours: Kind,
    /// Zones that every server loads; one tree, no zone below another.
    pub zones: Vec<ServedZone>,
    /// The messages, in order.
    pub messages: &'a [Recorded],
    /// A folder for the servers; made when it is not there.
    pub folder: &'a Path,
}

/// Starts ours and the installed peers, sends every message to each, and adds the verdicts to `tally`.
///
/// # Errors
/// When a server that is installed does not start, or a socket fails.
pub fn run(plan: &Plan<'_>, tally: &mut Tally) -> Result<(), Box<dyn Error>> {
    let start = |kind: Kind, name: &str| -> Result<Peer, Box<dyn Error>> {
        let folder = plan.folder.join(name);
        let setup = Setup { zones: plan.zones.clone(), key: None, address: free_address()?, folder };
        Ok(peers::start(kind, &setup)?)
    };
    let ours = start(plan.ours, "ours")?;
    let mut answers: [Option<Vec<Got>>; 3] = [None, None, None];
    for (slot, kind) in answers.iter_mut().zip([Kind::Nsd, Kind::Knot, Kind::Bind]) {
        if kind.program().is_some() {
            let peer = start(kind, kind.label())?;
            *slot = Some(ask_all(peer.address, plan.messages)?);
        }
    }
    let own = ask_all(ours.address, plan.messages)?;
    for (index, (message, got)) in plan.messages.iter().zip(&own).enumerate() {
        let peers = [0, 1, 2].map(|peer: usize| answers[peer].as_ref().map(|answers| &answers[index]));
        judge(message, got, peers, tally);
    }
    Ok(())
}

/// Generated zones under each way of signing, `query_count` queries over all of them.
///
/// # Errors
/// As [`run`], and when a zone cannot be signed.
pub fn run_generated(
    ours: Kind,
    seed: u64,
    query_count: usize,
    folder: &Path,
    tally: &mut Tally,
) -> Result<(), Box<dyn Error>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let ways = [Signing::No, Signing::Nsec, Signing::Nsec3, Signing::OptOut];
    let mut zones = Vec::new();
    let mut messages = Vec::new();
    for (index, way) in ways.into_iter().cycle().take(2 * ways.len()).enumerate() {
        let apex = format!("z{index}.test.");
        let zone = generate::zone(&apex, &mut rng);
        let file = generate::sign(&zone, way, &folder.join(format!("z{index}")))?;
        messages.extend(generate::queries(&zone, query_count / (2 * ways.len()), &mut rng));
        zones.push(ServedZone { apex, file });
    }
    run(&Plan { ours, zones, messages: &messages, folder }, tally)
}

/// An address on loopback whose port, and the one before it, nobody listens on.
fn free_address() -> std::io::Result<SocketAddr> {
    loop {
        let tcp = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let address = tcp.local_addr()?;
        let shared = (address.ip(), address.port().saturating_sub(1));
        if std::net::UdpSocket::bind(address).is_ok() && std::net::TcpListener::bind(shared).is_ok() {
            return Ok(address);
        }
    }
}
