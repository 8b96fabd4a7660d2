//! Runs a comparison: starts the servers, sends all messages to each, and judges.

use super::generate::{self, Signing};
use super::predicates::chain;
use super::query::Query;
use super::response::{Reaction, Reply, flag};
use super::served::Served;
use super::{Case, Tally, ask_all};
use crate::recorded::Recorded;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use testbed::{Kind, Peer, PeerError, ServedZone, Setup};
use trace::Transport;
use wire::builder::MessageBuilder;
use wire::name::NameRef;
use wire::number::Rtype;

/// The servers that can be compared. Ours is first.
pub const SERVERS: [Kind; 4] = [Kind::Catamaran, Kind::Nsd, Kind::Knot, Kind::Bind];
/// The peers.
pub const PEERS: [Kind; 3] = [Kind::Nsd, Kind::Knot, Kind::Bind];

/// Interval of progress lines, in milliseconds.
const PROGRESS_MS: u64 = 1_000;
/// Number of attempts to start a server.
const START_ATTEMPTS_MAX: usize = 3;
/// Approximate number of queries per generated zone. More queries make more zones.
const QUERIES_PER_ZONE: usize = 2_000;
/// Maximum number of generated zones. Signing tools are slow.
const GENERATED_ZONES_MAX: usize = 48;

/// The plan of a comparison.
pub struct Plan<'a> {
    /// The server to judge.
    pub ours: Kind,
    /// Zones that every server loads. No zone is below another.
    pub zones: Vec<ServedZone>,
    /// The messages, in order.
    pub messages: &'a [Recorded],
    /// A folder for the servers. It is created if missing.
    pub folder: &'a Path,
    /// Receives progress lines.
    pub progress: &'a (dyn Fn(&str) + Sync),
}

/// Starts ours and the installed peers, sends every message to each, and adds the verdicts to `tally`. Queries with
/// incomplete UDP responses are repeated over TCP and judged again.
///
/// # Errors
/// If an installed server does not start or exits early, or if a socket fails.
pub fn run(plan: &Plan<'_>, tally: &mut Tally) -> Result<(), Box<dyn Error>> {
    Collected::ask(plan)?.judge(tally, |_, _| ());
    Ok(())
}

/// All replies of the servers.
pub struct Collected<'a> {
    messages: &'a [Recorded],
    first: Replies,
    tcp_repeats: TcpRepeats,
    second: Replies,
    served: Served,
}

impl<'a> Collected<'a> {
    /// Starts the servers, sends the messages, and stops the servers.
    ///
    /// # Errors
    /// As [`run`].
    pub fn ask(plan: &Plan<'a>) -> Result<Self, Box<dyn Error>> {
        let mut servers = Servers::start(plan)?;
        let first = servers.ask(plan.messages, plan.progress)?;
        let mut served = Served::default();
        first.collect_served(&mut served);
        let tcp_repeats = find_tcp_repeats(plan.messages, &first, &served);
        let second = servers.ask(&tcp_repeats.messages, plan.progress)?;
        second.collect_served(&mut served);
        let confirmation_queries =
            confirmation_queries(&[(plan.messages, &first), (&tcp_repeats.messages, &second)], &served);
        servers.ask(&confirmation_queries, plan.progress)?.collect_served(&mut served);
        servers.assert_running()?;
        Ok(Self { messages: plan.messages, first, tcp_repeats, second, served })
    }

    /// Judges all messages. `change` may alter our reply to a message before, given its index, so that tests can inject
    /// faults.
    pub fn judge(&self, tally: &mut Tally, mut change: impl FnMut(usize, &mut Reply)) {
        for (index, message) in self.messages.iter().enumerate() {
            let mut ours = self.first.ours[index].clone();
            change(index, &mut ours);
            let mut case = self.first.case(index, message, &ours, &self.served);
            let index = self.tcp_repeats.indexes.get(message.bytes.get(2..).unwrap_or_default());
            if let Some(reply) = index.map(|&index| &self.second.ours[index]) {
                (case.whole, case.whole_bytes) = (reply.reaction.response(), reply.byte_count);
            }
            tally.judge(&case);
        }
        tally.repeated_over_tcp += self.tcp_repeats.messages.len();
        for (index, message) in self.tcp_repeats.messages.iter().enumerate() {
            tally.judge(&self.second.case(index, message, &self.second.ours[index], &self.served));
        }
    }
}

/// Ours and the installed peers.
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
                let setup = Setup::new(folder, testbed::free_address()?, plan.zones.clone());
                match testbed::start(kind, &setup) {
                    // Another process may have taken the port.
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

    /// Queries all servers in parallel.
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

/// The reply of each server to each message.
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
        replies.filter_map(|reply| reply.reaction.response()).for_each(|response| served.add(response));
    }
}

/// Queries to repeat over TCP, without duplicates.
#[derive(Default)]
struct TcpRepeats {
    messages: Vec<Recorded>,
    /// By the bytes after the ID.
    indexes: BTreeMap<Vec<u8>, usize>,
}

/// Finds the queries for which our response has TC or differs from two peers.
fn find_tcp_repeats(messages: &[Recorded], first: &Replies, served: &Served) -> TcpRepeats {
    let mut tcp_repeats = TcpRepeats::default();
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| message.transport == Transport::Udp) {
        let case = first.case(index, message, &first.ours[index], served);
        let Reaction::Response(ours) = case.ours else { continue };
        // Only queries can have incomplete responses, and waiting for a TCP timeout is slow.
        if case.is_equal() && !ours.flags[flag::TC] || Query::parse(message).is_none() {
            continue;
        }
        let Some(behind_id) = message.bytes.get(2..) else { continue };
        tcp_repeats.indexes.entry(behind_id.to_vec()).or_insert_with(|| {
            tcp_repeats.messages.push(Recorded { transport: Transport::Tcp, bytes: message.bytes.clone() });
            tcp_repeats.messages.len() - 1
        });
    }
    tcp_repeats
}

/// Queries that show whether peers confirm data that only ours has sent: RRs that no peer has sent, and the RCODE of
/// the last name in an alias chain.
fn confirmation_queries(rounds: &[(&[Recorded], &Replies)], served: &Served) -> Vec<Recorded> {
    let mut unconfirmed = BTreeSet::new();
    for (messages, replies) in rounds {
        for (index, message) in messages.iter().enumerate() {
            let case = replies.case(index, message, &replies.ours[index], served);
            let Reaction::Response(ours) = case.ours else { continue };
            // A response over TCP that replaces a truncated one needs confirmation even if all servers agree.
            if case.is_equal() && message.transport == Transport::Udp {
                continue;
            }
            let rrs = ours.answer.iter().chain(&ours.authority).chain(&ours.additional);
            let alone = rrs.filter(|rr| !served.contains(rr)).map(|rr| (rr.owner.clone(), rr.type_covered()));
            // NSEC3 cannot be queried (RFC 5155 7.2.8). It only comes in proofs.
            unconfirmed.extend(alone.filter(|(_, rtype)| *rtype != Rtype::NSEC3));
            if let Some(query) = Query::parse(message) {
                let names = chain(ours, &query.qname);
                unconfirmed.extend(names.into_iter().skip(1).next_back().map(|last| (last, query.qtype)));
            }
        }
    }
    let build = |(name, rtype): (Vec<u8>, Rtype)| {
        let bytes = MessageBuilder::query(0, NameRef::from_bytes(&name).ok()?, rtype).edns(1232, true).build();
        Some(Recorded { transport: Transport::Tcp, bytes })
    };
    unconfirmed.into_iter().filter_map(build).collect()
}

/// Generated zones and queries.
pub struct Generated {
    /// The zones, signed and unsigned.
    pub zones: Vec<ServedZone>,
    /// Queries for all of them.
    pub messages: Vec<Recorded>,
}

/// Generates zones with each way of signing in `folder`, and `query_count` queries for all of them.
///
/// # Errors
/// If a zone cannot be written or signed.
pub fn generate(seed: u64, query_count: usize, folder: &Path) -> io::Result<Generated> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let signings = [Signing::No, Signing::Nsec, Signing::Nsec3, Signing::OptOut];
    let zone_count = (query_count / QUERIES_PER_ZONE).clamp(2 * signings.len(), GENERATED_ZONES_MAX);
    let mut generated = Generated { zones: Vec::new(), messages: Vec::new() };
    for (index, signing) in signings.into_iter().cycle().take(zone_count).enumerate() {
        let apex = format!("z{index}.test.");
        let zone = generate::zone(&apex, &mut rng);
        let file = generate::sign(&zone, signing, &folder.join(format!("z{index}")))?;
        let left = query_count - generated.messages.len();
        generated.messages.extend(generate::queries(&zone, left / (zone_count - index), &mut rng));
        generated.zones.push(ServedZone::new(apex, file));
    }
    Ok(generated)
}
