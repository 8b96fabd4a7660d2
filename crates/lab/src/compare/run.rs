//! A whole comparison: start the servers, send everything to each, judge.

use super::generate::{self, Signing};
use super::response::{Got, Reply, Response, Section};
use super::{Case, Tally, ask_all};
use crate::peers::{self, Kind, Peer, ServedZone, Setup};
use crate::trace::{Recorded, Transport};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use wire::builder::MessageBuilder;
use wire::name::NameRef;
use wire::number::Rtype;

/// The servers that ours is compared with.
pub const PEERS: [Kind; 3] = [Kind::Nsd, Kind::Knot, Kind::Bind];

/// How often progress is told, in milliseconds.
const PROGRESS_MS: u64 = 1_000;
/// Queries for each generated zone, about: more queries make more zones.
const QUERIES_PER_ZONE: usize = 2_000;
/// Generated zones at most: each is signed by tools that take their time.
const GENERATED_ZONES_MAX: usize = 48;

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
    /// Hears about progress, a line each.
    pub progress: &'a (dyn Fn(&str) + Sync),
}

/// Starts ours and the installed peers, sends every message to each, and adds the verdicts to `tally`. What a datagram
/// had no room for is asked again over TCP, and judged too.
///
/// # Errors
/// When a server that is installed does not start or ends meanwhile, or a socket fails.
pub fn run(plan: &Plan<'_>, tally: &mut Tally) -> Result<(), Box<dyn Error>> {
    let mut servers = Servers::start(plan)?;
    let first = servers.ask(plan.messages, plan.progress)?;
    let mut served = Section::new();
    first.collect_served(&mut served);
    let again = ask_again(plan.messages, &first, &served);
    let second = servers.ask(&again.messages, plan.progress)?;
    second.collect_served(&mut served);
    servers.assert_running()?;

    for (index, message) in plan.messages.iter().enumerate() {
        let mut case = first.case(index, message, &served);
        let place = again.places.get(message.octets.get(2..).unwrap_or_default());
        if let Some(reply) = place.map(|&place| &second.ours[place]) {
            (case.whole, case.whole_octets) = (reply.got.response(), reply.octet_count);
        }
        tally.judge(&case);
    }
    tally.again_over_tcp += again.messages.len();
    for (index, message) in again.messages.iter().enumerate() {
        tally.judge(&second.case(index, message, &served));
    }
    Ok(())
}

/// Ours, and the peers that are installed.
struct Servers {
    ours: Peer,
    peers: Vec<Peer>,
}

impl Servers {
    fn start(plan: &Plan<'_>) -> Result<Self, Box<dyn Error>> {
        let start = |kind: Kind, name: &str| -> Result<Peer, Box<dyn Error>> {
            (plan.progress)(&format!("starting {}", kind.label()));
            let folder = plan.folder.join(name);
            let setup = Setup { zones: plan.zones.clone(), key: None, address: free_address()?, folder };
            Ok(peers::start(kind, &setup)?)
        };
        let ours = start(plan.ours, "ours")?;
        let installed = PEERS.into_iter().filter(|kind| kind.program().is_some());
        let peers: Vec<Peer> = installed.map(|kind| start(kind, kind.label())).collect::<Result<_, _>>()?;
        if peers.is_empty() {
            return Err("no peer is installed: apt-get install nsd knot bind9".into());
        }
        Ok(Self { ours, peers })
    }

    /// Asks all servers at once.
    fn ask(&self, messages: &[Recorded], progress: &(dyn Fn(&str) + Sync)) -> io::Result<Replies> {
        let all: Vec<&Peer> = std::iter::once(&self.ours).chain(&self.peers).collect();
        let counters: Vec<AtomicUsize> = all.iter().map(|_| AtomicUsize::new(0)).collect();
        let is_done = AtomicBool::new(false);
        let mut replies = std::thread::scope(|scope| {
            let threads: Vec<_> = all
                .iter()
                .zip(&counters)
                .map(|(server, done)| scope.spawn(move || ask_all(server.address, messages, done)))
                .collect();
            scope.spawn(|| tell_progress(&all, &counters, messages.len(), &is_done, progress));
            let joined = threads.into_iter().map(|thread| thread.join().expect("a thread that asks"));
            let replies = joined.collect::<io::Result<Vec<_>>>();
            is_done.store(true, Ordering::Relaxed);
            replies
        })?;
        let ours = replies.remove(0);
        Ok(Replies { ours, peers: self.peers.iter().map(|peer| peer.kind).zip(replies).collect() })
    }

    fn assert_running(&mut self) -> Result<(), Box<dyn Error>> {
        match std::iter::once(&mut self.ours).chain(&mut self.peers).find_map(|server| {
            let kind = server.kind;
            (!server.is_running()).then_some(kind)
        }) {
            Some(kind) => Err(format!("{} ended while it was asked", kind.label()).into()),
            None => Ok(()),
        }
    }
}

fn tell_progress(
    servers: &[&Peer],
    counters: &[AtomicUsize],
    count: usize,
    is_done: &AtomicBool,
    progress: &(dyn Fn(&str) + Sync),
) {
    let mut passed_ms = 0;
    while !is_done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        passed_ms += 20;
        if passed_ms % PROGRESS_MS == 0 {
            let each = servers.iter().zip(counters);
            let each = each.map(|(server, done)| format!("{} {}", server.kind.label(), done.load(Ordering::Relaxed)));
            progress(&format!("asked, of {count}: {}", each.collect::<Vec<_>>().join(", ")));
        }
    }
}

/// What each server did with each message.
struct Replies {
    ours: Vec<Reply>,
    peers: Vec<(Kind, Vec<Reply>)>,
}

impl Replies {
    fn case<'a>(&'a self, index: usize, message: &'a Recorded, served: &'a Section) -> Case<'a> {
        let peers: Vec<_> = self.peers.iter().map(|(kind, replies)| (*kind, &replies[index])).collect();
        Case::new(message, &self.ours[index], &peers, served)
    }

    fn collect_served(&self, served: &mut Section) {
        for response in self.peers.iter().flat_map(|(_, replies)| replies).filter_map(|reply| reply.got.response()) {
            for section in [&response.answer, &response.authority, &response.additional] {
                for rr in section {
                    if !served.contains(rr) {
                        served.insert(rr.clone());
                    }
                }
            }
        }
    }
}

/// Queries that are asked over TCP, each once: those that a datagram had too little room for, and those for RRs that so
/// far ours alone has sent, to see whether others serve them too.
#[derive(Default)]
struct Again<'a> {
    messages: Vec<Recorded>,
    /// Those of the first kind, by the octets behind the ID.
    places: BTreeMap<&'a [u8], usize>,
    /// Those of the second kind.
    doubted: BTreeSet<(&'a [u8], Rtype)>,
}

/// Finds the queries to which ours answers with TC, or otherwise than two peers.
fn ask_again<'a>(messages: &'a [Recorded], first: &'a Replies, served: &Section) -> Again<'a> {
    let mut again = Again::default();
    let nothing = Section::new();
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| message.transport == Transport::Udp) {
        let case = first.case(index, message, &nothing);
        let Got::Response(ours) = &first.ours[index].got else { continue };
        let is_whole = |response: &Response| !response.flags[super::response::flag::TC];
        if case.is_equal() && is_whole(ours) {
            continue;
        }
        let Some(behind_id) = message.octets.get(2..) else { continue };
        again.places.entry(behind_id).or_insert_with(|| {
            again.messages.push(Recorded { transport: Transport::Tcp, octets: message.octets.clone() });
            again.messages.len() - 1
        });
        let doubted = ours.additional.iter().filter(|rr| rr.rtype != Rtype::RRSIG && !served.contains(rr));
        again.doubted.extend(doubted.map(|rr| (rr.owner.as_slice(), rr.rtype)));
    }
    let doubts = again.doubted.iter().filter_map(|(owner, rtype)| {
        let octets = MessageBuilder::query(0, NameRef::from_octets(owner).ok()?, *rtype).edns(1232, true).build();
        Some(Recorded { transport: Transport::Tcp, octets })
    });
    again.messages.extend(doubts);
    again
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
    progress: &(dyn Fn(&str) + Sync),
    tally: &mut Tally,
) -> Result<(), Box<dyn Error>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let ways = [Signing::No, Signing::Nsec, Signing::Nsec3, Signing::OptOut];
    let zone_count = (query_count / QUERIES_PER_ZONE).clamp(2 * ways.len(), GENERATED_ZONES_MAX);
    let mut zones = Vec::new();
    let mut messages = Vec::new();
    progress(&format!("making {zone_count} zones"));
    for (index, way) in ways.into_iter().cycle().take(zone_count).enumerate() {
        let apex = format!("z{index}.test.");
        let zone = generate::zone(&apex, &mut rng);
        let file = generate::sign(&zone, way, &folder.join(format!("z{index}")))?;
        let left = query_count - messages.len();
        messages.extend(generate::queries(&zone, left / (zone_count - index), &mut rng));
        zones.push(ServedZone { apex, file });
    }
    run(&Plan { ours, zones, messages: &messages, folder, progress }, tally)
}

/// An address on loopback whose port, and the one before it, nobody listens on.
fn free_address() -> io::Result<SocketAddr> {
    loop {
        let tcp = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let address = tcp.local_addr()?;
        let shared = (address.ip(), address.port().saturating_sub(1));
        if std::net::UdpSocket::bind(address).is_ok() && std::net::TcpListener::bind(shared).is_ok() {
            return Ok(address);
        }
    }
}
