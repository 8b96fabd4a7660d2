//! A whole comparison: start the servers, send everything to each, judge.

use super::generate::{self, Signing};
use super::predicates::{chain, covered};
use super::query::Query;
use super::response::{Got, Reply, flag};
use super::served::Served;
use super::{Case, Tally, ask_all};
use crate::peers::{self, Kind, Peer, PeerError, ServedZone, Setup};
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
/// How often a server is started before it counts as broken.
const START_ATTEMPTS_MAX: usize = 3;
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
    Collected::ask(plan)?.judge(tally, |_, _| ());
    Ok(())
}

/// All that the servers have answered.
pub struct Collected<'a> {
    messages: &'a [Recorded],
    first: Replies,
    again: Again,
    second: Replies,
    served: Served,
}

impl<'a> Collected<'a> {
    /// Starts the servers, asks them, and ends them.
    ///
    /// # Errors
    /// As [`run`].
    pub fn ask(plan: &Plan<'a>) -> Result<Self, Box<dyn Error>> {
        let mut servers = Servers::start(plan)?;
        let first = servers.ask(plan.messages, plan.progress)?;
        let mut served = Served::default();
        first.collect_served(&mut served);
        let again = ask_again(plan.messages, &first, &served);
        let second = servers.ask(&again.messages, plan.progress)?;
        second.collect_served(&mut served);
        let doubts = doubts(&[(plan.messages, &first), (&again.messages, &second)], &served);
        servers.ask(&doubts, plan.progress)?.collect_served(&mut served);
        servers.assert_running()?;
        Ok(Self { messages: plan.messages, first, again, second, served })
    }

    /// Judges everything. Before it does, `change` may alter what ours has answered to the messages of the plan, by
    /// their index: whoever tests the judge puts faults in.
    pub fn judge(&self, tally: &mut Tally, mut change: impl FnMut(usize, &mut Reply)) {
        for (index, message) in self.messages.iter().enumerate() {
            let mut ours = self.first.ours[index].clone();
            change(index, &mut ours);
            let mut case = self.first.case(index, message, &ours, &self.served);
            let place = self.again.places.get(message.bytes.get(2..).unwrap_or_default());
            if let Some(reply) = place.map(|&place| &self.second.ours[place]) {
                (case.whole, case.whole_bytes) = (reply.got.response(), reply.byte_count);
            }
            tally.judge(&case);
        }
        tally.again_over_tcp += self.again.messages.len();
        for (index, message) in self.again.messages.iter().enumerate() {
            tally.judge(&self.second.case(index, message, &self.second.ours[index], &self.served));
        }
    }
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
            for attempt in 1.. {
                let folder = plan.folder.join(format!("{name}-{attempt}"));
                let setup = Setup { zones: plan.zones.clone(), key: None, address: free_address()?, folder };
                match peers::start(kind, &setup) {
                    // Somebody else may have taken the port since it was free.
                    Err(error @ PeerError::NotReady(..)) if attempt < START_ATTEMPTS_MAX => {
                        (plan.progress)(&error.to_string());
                    }
                    started => return Ok(started?),
                }
            }
            unreachable!("the last attempt returns")
        };
        let ours = start(plan.ours, "ours")?;
        let installed = PEERS.into_iter().filter(|kind| *kind != plan.ours && kind.program().is_some());
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
            scope.spawn(|| report_progress(&all, &counters, messages.len(), &is_done, progress));
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
            Some(kind) => Err(format!("{} exited during the run", kind.label()).into()),
            None => Ok(()),
        }
    }
}

fn report_progress(
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
    fn case<'a>(&'a self, index: usize, message: &'a Recorded, ours: &'a Reply, served: &'a Served) -> Case<'a> {
        let peers: Vec<_> = self.peers.iter().map(|(kind, replies)| (*kind, &replies[index])).collect();
        Case::new(message, ours, &peers, served)
    }

    fn collect_served(&self, served: &mut Served) {
        let replies = self.peers.iter().flat_map(|(_, replies)| replies);
        replies.filter_map(|reply| reply.got.response()).for_each(|response| served.learn(response));
    }
}

/// Queries that a datagram had too little room for, to be asked over TCP, each once.
#[derive(Default)]
struct Again {
    messages: Vec<Recorded>,
    /// By the bytes behind the ID.
    places: BTreeMap<Vec<u8>, usize>,
}

/// Finds the queries to which ours answers with TC, or otherwise than two peers.
fn ask_again(messages: &[Recorded], first: &Replies, served: &Served) -> Again {
    let mut again = Again::default();
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| message.transport == Transport::Udp) {
        let case = first.case(index, message, &first.ours[index], served);
        let Got::Response(ours) = case.ours else { continue };
        // What is no query leaves nothing out for want of room, and silence over TCP takes its time.
        if case.is_equal() && !ours.flags[flag::TC] || Query::parse(message).is_none() {
            continue;
        }
        let Some(behind_id) = message.bytes.get(2..) else { continue };
        again.places.entry(behind_id.to_vec()).or_insert_with(|| {
            again.messages.push(Recorded { transport: Transport::Tcp, bytes: message.bytes.clone() });
            again.messages.len() - 1
        });
    }
    again
}

/// Queries whose answers show whether others too say what so far ours alone has said: RRs that no peer has sent, and
/// what comes of the last name of a chain of aliases.
fn doubts(rounds: &[(&[Recorded], &Replies)], served: &Served) -> Vec<Recorded> {
    let mut doubted = BTreeSet::new();
    for (messages, replies) in rounds {
        for (index, message) in messages.iter().enumerate() {
            let case = replies.case(index, message, &replies.ours[index], served);
            let Got::Response(ours) = case.ours else { continue };
            // What stands in for a truncated response needs witnesses even where all agree about it.
            if case.is_equal() && message.transport == Transport::Udp {
                continue;
            }
            let rrs = ours.answer.iter().chain(&ours.authority).chain(&ours.additional);
            let alone = rrs.filter(|rr| !served.contains(rr)).map(|rr| (rr.owner.clone(), covered(rr)));
            // Nobody asks for NSEC3 (RFC 5155 7.2.8): it comes with what it proves.
            doubted.extend(alone.filter(|(_, rtype)| *rtype != Rtype::NSEC3));
            if let Some(query) = Query::parse(message) {
                let names = chain(ours, &query.qname);
                doubted.extend(names.into_iter().skip(1).next_back().map(|last| (last, query.qtype)));
            }
        }
    }
    let build = |(name, rtype): (Vec<u8>, Rtype)| {
        let bytes = MessageBuilder::query(0, NameRef::from_octets(&name).ok()?, rtype).edns(1232, true).build();
        Some(Recorded { transport: Transport::Tcp, bytes })
    };
    doubted.into_iter().filter_map(build).collect()
}

/// Zones and queries that were made.
pub struct Generated {
    /// The zones, signed and not.
    pub zones: Vec<ServedZone>,
    /// Queries over all of them.
    pub messages: Vec<Recorded>,
}

/// Makes zones under each way of signing in `folder`, and `query_count` queries over all of them.
///
/// # Errors
/// When a zone cannot be written or signed.
pub fn generate(seed: u64, query_count: usize, folder: &Path) -> io::Result<Generated> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let ways = [Signing::No, Signing::Nsec, Signing::Nsec3, Signing::OptOut];
    let zone_count = (query_count / QUERIES_PER_ZONE).clamp(2 * ways.len(), GENERATED_ZONES_MAX);
    let mut generated = Generated { zones: Vec::new(), messages: Vec::new() };
    for (index, way) in ways.into_iter().cycle().take(zone_count).enumerate() {
        let apex = format!("z{index}.test.");
        let zone = generate::zone(&apex, &mut rng);
        let file = generate::sign(&zone, way, &folder.join(format!("z{index}")))?;
        let left = query_count - generated.messages.len();
        generated.messages.extend(generate::queries(&zone, left / (zone_count - index), &mut rng));
        generated.zones.push(ServedZone { apex, file });
    }
    Ok(generated)
}

/// An address on loopback whose port, and the one before it, nobody listens on.
///
/// # Errors
/// When no socket can be had.
pub fn free_address() -> io::Result<SocketAddr> {
    loop {
        let tcp = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let address = tcp.local_addr()?;
        let shared = (address.ip(), address.port().saturating_sub(1));
        if std::net::UdpSocket::bind(address).is_ok() && std::net::TcpListener::bind(shared).is_ok() {
            return Ok(address);
        }
    }
}
