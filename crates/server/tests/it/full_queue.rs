//! More updates than a node keeps: those beyond are refused at once and never done, those that it took are done, and
//! queries are answered meanwhile.

use crate::support::cluster::{Cluster, kill};
use crate::support::dns::{Transport, exchange, read_tcp};
use crate::support::message::name;
use crate::updates::{add, rcode};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};
use wire::Rtype;
use wire::builder::MessageBuilder;

/// Updates without an outcome that a node keeps.
const PENDING_MAX: usize = 8_192;
/// What a node takes of one connection at a time.
const PIPELINE: usize = 128;
/// By then it must be full, also where some were refused on their way in.
const CONNECTIONS_MAX: usize = 120;
/// Between two of them, so that they wait for their outcome and not for their verification.
const PAUSE: Duration = Duration::from_millis(4);
/// Updates and queries while it is full.
const PROBES: usize = 50;
/// A refusal that is given at once.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Those that wait hear within this, elections included.
const PATIENCE: Duration = Duration::from_secs(20);

const SERVFAIL: u8 = 2;

/// Updates on their way over one connection, and their owners by ID.
struct Batch {
    stream: TcpStream,
    octets: Vec<u8>,
    owners: BTreeMap<[u8; 2], String>,
}

impl Batch {
    fn new(cluster: &Cluster, to: SocketAddr, number: usize) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut octets, mut owners) = (Vec::new(), BTreeMap::new());
        while owners.len() < PIPELINE {
            let owner = format!("q{number}-{}.example.test.", owners.len());
            let message = add(&cluster.client_key(), &owner);
            // Tests beside this one take from the same IDs.
            if owners.contains_key(&message[..2]) {
                continue;
            }
            owners.insert([message[0], message[1]], owner);
            octets.extend((message.len() as u16).to_be_bytes());
            octets.extend(message);
        }
        Self { stream, octets, owners }
    }

    /// Hears all responses; gives the owners of those that were done, and of those that were refused.
    fn hear(mut self, refused_count: &AtomicUsize) -> (Vec<String>, Vec<String>) {
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        while !self.owners.is_empty() {
            let left = self.owners.len();
            let response = read_tcp(&mut self.stream).unwrap_or_else(|error| panic!("{left} have no outcome: {error}"));
            let owner = self.owners.remove(&response[..2]).expect("one response to each");
            match response[3] & 0x0F {
                0 => done.push(owner),
                SERVFAIL => {
                    refused.push(owner);
                    refused_count.fetch_add(1, SeqCst);
                }
                other => panic!("{owner}: RCODE {other}"),
            }
        }
        (done, refused)
    }
}

/// Processes that stand still; they go on at the end, however that comes.
struct Stopped(Vec<u32>);

impl Stopped {
    fn new(pids: Vec<u32>) -> Self {
        pids.iter().for_each(|&pid| kill("STOP", pid));
        Self(pids)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.iter().for_each(|&pid| kill("CONT", pid));
    }
}

/// Owners in the zone, as the export of a node has it.
fn owners(cluster: &Cluster, id: u64) -> BTreeSet<String> {
    let api = cluster.api(id).to_string();
    let output = cluster.run(&["zone", "export", "example.test", "--api", &api]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

#[test]
fn what_a_full_node_refuses_is_never_done_and_what_it_took_is() {
    let cluster = Cluster::start("full-queue", 3, &[]);
    cluster.settle();
    let leader = cluster.leader();
    let to = cluster.dns(leader);
    let before = cluster.status(leader).unwrap()["zones"][0]["serial"].as_u64().unwrap();
    let batches: Vec<Batch> = (0..CONNECTIONS_MAX).map(|number| Batch::new(&cluster, to, number)).collect();
    let probes: Vec<(String, Vec<u8>)> = (0..PROBES)
        .map(|number| format!("probe{number}.example.test."))
        .map(|owner| (owner.clone(), add(&cluster.client_key(), &owner)))
        .collect();
    let query = MessageBuilder::query(7, name("www.example.test.").as_ref(), Rtype::A).build();
    let others = cluster.ids().filter(|id| *id != leader).map(|id| cluster.pid(id).unwrap()).collect();
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    let counts: Vec<AtomicUsize> = batches.iter().map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        // Nothing is decided from now on.
        let (stopped, start) = (Stopped::new(others), Instant::now());
        let mut hearing = Vec::new();
        let is_full = || counts.iter().any(|count| count.load(SeqCst) == PIPELINE);
        for (mut batch, count) in batches.into_iter().zip(&counts) {
            let octets = std::mem::take(&mut batch.octets);
            batch.stream.write_all(&octets).unwrap();
            hearing.push(scope.spawn(move || batch.hear(count)));
            sleep(PAUSE);
            if is_full() {
                break;
            }
        }
        assert!(is_full(), "it took all of {} updates", CONNECTIONS_MAX * PIPELINE);
        let filled = start.elapsed();
        let mut slowest = Duration::ZERO;
        for (owner, message) in &probes {
            let asked = Instant::now();
            let response = exchange(Transport::Tcp, to, message, PATIENCE).expect("a word on the update");
            slowest = slowest.max(asked.elapsed());
            assert_eq!(rcode(message, &response), SERVFAIL, "{owner}");
            let answer = exchange(Transport::Udp, to, &query, Duration::from_secs(1)).expect("an answer");
            assert_eq!((answer[3] & 0x0F, answer[7]), (0, 1));
        }
        println!(
            "full after {filled:?}, {} connections; the slowest of {PROBES} refusals {slowest:?}; stopped for {:?}",
            hearing.len(),
            start.elapsed()
        );
        let waiting = hearing.len() * PIPELINE - counts.iter().map(|count| count.load(SeqCst)).sum::<usize>();
        drop(stopped);
        for (theirs, not) in hearing.into_iter().map(|thread| thread.join().unwrap()) {
            done.extend(theirs);
            refused.extend(not);
        }
        println!("{waiting} waited, {} done, {} refused", done.len(), refused.len());
        assert!((PENDING_MAX / 2..=PENDING_MAX).contains(&waiting), "{waiting}");
        assert_eq!(done.len(), waiting, "the oldest promise is kept");
        assert!(slowest <= AT_ONCE, "{slowest:?}");
    });
    cluster.settle();
    for id in cluster.ids() {
        let there = owners(&cluster, id);
        assert!(there.len() > done.len(), "{}", there.len());
        let is_there =
            |owner: &&String| there.contains(*owner) || there.contains(owner.trim_end_matches(".example.test."));
        assert_eq!(done.iter().filter(is_there).count(), done.len(), "node {id}");
        let probed = probes.iter().map(|(owner, _)| owner);
        let alive: Vec<_> = refused.iter().chain(probed).filter(is_there).collect();
        assert!(alive.is_empty(), "refused, and done all the same on node {id}: {alive:?}");
        let serial = cluster.status(id).unwrap()["zones"][0]["serial"].as_u64().unwrap();
        assert_eq!(serial, before + done.len() as u64);
    }
}
