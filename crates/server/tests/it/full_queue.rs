//! More updates than a node keeps. Updates beyond the limit are refused at once and never executed, and accepted ones
//! are executed. Queries are answered meanwhile. If all pending updates are of one key, updates of another key still
//! have room.

use crate::fairness::key;
use crate::support::cluster::{Cluster, Scratch, kill};
use crate::support::dns::{Transport, exchange, is_timeout, read_message};
use crate::support::http;
use crate::support::message::name;
use crate::updates::{add, rcode};
use skip::stalls::StallWatch;
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tsig::client::ClientKey;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// Updates without an outcome that a node keeps.
const PENDING_MAX: usize = 8_192;
/// Number of keys that fill the queue. With this number no key exceeds its share, and no two keys share a counter.
const KEYS: usize = 64;
/// Updates that a node accepts from one connection at a time.
const PIPELINE: usize = 128;
/// With this number of connections the queue must be full, even if some updates were refused earlier.
const CONNECTIONS_MAX: usize = 120;
/// More connections of one key than fill the queue.
const CONNECTIONS_OF_ONE: usize = PENDING_MAX / PIPELINE + 8;
/// Pause between two updates, so that they wait for their outcome and not for their verification.
const PAUSE: Duration = Duration::from_millis(4);
/// Nodes that were stopped for longer than this may elect a leader when they continue.
const STOPPED_MAX: Duration = Duration::from_millis(600);
/// The source address of the other key, in another network than the first key's.
const ELSEWHERE: ([u8; 4], u16) = ([127, 0, 1, 1], 0);
/// Updates and queries while the queue is full.
const PROBES: usize = 50;
/// Time limit for an immediate refusal.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Time limit for the outcome of a waiting update, including elections.
const PATIENCE: Duration = Duration::from_secs(20);

const SERVFAIL: u8 = 2;

/// Updates in flight on one connection, and their owners by ID.
struct Batch {
    stream: TcpStream,
    bytes: Vec<u8>,
    owners: BTreeMap<[u8; 2], String>,
}

impl Batch {
    fn new(key: &ClientKey, stream: TcpStream, number: usize) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut bytes, mut owners) = (Vec::new(), BTreeMap::new());
        while owners.len() < PIPELINE {
            let owner = format!("q{number}-{}.example.test.", owners.len());
            let message = add(key, &owner);
            // Other tests of this process use the same ID counter.
            if owners.contains_key(&message[..2]) {
                continue;
            }
            owners.insert([message[0], message[1]], owner);
            bytes.extend((message.len() as u16).to_be_bytes());
            bytes.extend(message);
        }
        Self { stream, bytes, owners }
    }

    /// Reads all responses. After an election outcomes are unknown, and the node closes the connection.
    fn hear(mut self, refused_count: &AtomicUsize) -> Heard {
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        while !self.owners.is_empty() {
            let response = match read_message(&mut self.stream) {
                Ok(response) => response,
                Err(error) => {
                    assert!(!is_timeout(&error), "{} have no outcome: {error}", self.owners.len());
                    break;
                }
            };
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
        Heard { done, refused, unknown: self.owners.len() }
    }
}

/// The outcomes of the updates of one connection.
struct Heard {
    /// Owners of updates that were done, and of those that were refused.
    done: Vec<String>,
    refused: Vec<String>,
    /// How many have no outcome, because the connection was closed.
    unknown: usize,
}

/// Stopped processes. They continue when this is dropped.
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

/// Adds keys with these names that may write to the zone.
fn keys<const COUNT: usize>(cluster: &Cluster, names: [String; COUNT]) -> [ClientKey; COUNT] {
    let scratch = Scratch::new("full-queue-rules");
    let keys = names.each_ref().map(|name| key(cluster, name));
    let rules: String = names.iter().map(|name| format!("grant {name} zonesub A;\n")).collect();
    let set = cluster.run(&["policy", "set", "example.test.", &scratch.file("rules", &rules)]);
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    keys
}

/// Owners in the zone, from the export of a node.
fn owners(cluster: &Cluster, id: u64) -> BTreeSet<String> {
    let api = cluster.api(id).to_string();
    let output = cluster.run(&["zone", "export", "example.test", "--api", &api]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

/// The other nodes are stopped until the queue is full. On a busy machine that takes longer than an election, after
/// which outcomes are unknown. The test needs an otherwise idle machine. `scenarios::overload` of the replica tests the
/// same rule in virtual time.
#[test]
fn a_full_node_executes_accepted_updates_and_no_refused_ones() {
    if !crate::support::tools::is_full("updates to a node whose queue is full") {
        return;
    }
    let cluster = Cluster::start("full-queue", 3, &[]);
    let keys: [ClientKey; KEYS] = keys(&cluster, std::array::from_fn(|number| format!("full{number}")));
    cluster.settle();
    let leader = cluster.leader();
    let to = cluster.dns(leader);
    let before = cluster.status(leader).unwrap()["zones"][0]["serial"].as_u64().unwrap();
    let batches: Vec<Batch> = (0..CONNECTIONS_MAX)
        .map(|number| Batch::new(&keys[number % KEYS], TcpStream::connect(to).unwrap(), number))
        .collect();
    let probes: Vec<(String, Vec<u8>)> = (0..PROBES)
        .map(|number| format!("probe{number}.example.test."))
        .map(|owner| (owner.clone(), add(&keys[0], &owner)))
        .collect();
    let query = MessageBuilder::query(7, name("www.example.test.").as_ref(), Rtype::A).build();
    let others = cluster.ids().filter(|id| *id != leader).map(|id| cluster.pid(id).unwrap()).collect();
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    let counts: Vec<AtomicUsize> = batches.iter().map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        // No update is committed from now on.
        let (stopped, start) = (Stopped::new(others), Instant::now());
        let mut hearing = Vec::new();
        let is_full = || counts.iter().any(|count| count.load(SeqCst) == PIPELINE);
        for (mut batch, count) in batches.into_iter().zip(&counts) {
            let bytes = std::mem::take(&mut batch.bytes);
            batch.stream.write_all(&bytes).unwrap();
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
            let sent_at = Instant::now();
            let response = exchange(Transport::Tcp, to, message, PATIENCE).expect("a response to the update");
            slowest = slowest.max(sent_at.elapsed());
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
        for heard in hearing.into_iter().map(|thread| thread.join().unwrap()) {
            assert_eq!(heard.unknown, 0, "have no outcome");
            done.extend(heard.done);
            refused.extend(heard.refused);
        }
        println!("{waiting} waited, {} done, {} refused", done.len(), refused.len());
        assert!((PENDING_MAX / 2..=PENDING_MAX).contains(&waiting), "{waiting}");
        assert_eq!(done.len(), waiting, "the oldest promise is kept");
        assert!(slowest <= AT_ONCE, "{slowest:?}");
    });
    cluster.settle();
    refused.extend(probes.into_iter().map(|(owner, _)| owner));
    assert_kept(&cluster, before, &done, &refused);
}

/// Every node has the records of executed updates and none of refused ones. Its serial increased once per executed
/// update.
fn assert_kept(cluster: &Cluster, serial_before: u64, done: &[String], refused: &[String]) {
    for id in cluster.ids() {
        let there = owners(cluster, id);
        assert!(there.len() > done.len(), "{}", there.len());
        let is_there =
            |owner: &&String| there.contains(*owner) || there.contains(owner.trim_end_matches(".example.test."));
        assert_eq!(done.iter().filter(is_there).count(), done.len(), "node {id}");
        let alive: Vec<_> = refused.iter().filter(is_there).collect();
        assert!(alive.is_empty(), "refused, and done all the same on node {id}: {alive:?}");
        let serial = cluster.status(id).unwrap()["zones"][0]["serial"].as_u64().unwrap();
        assert_eq!(serial, serial_before + done.len() as u64);
    }
}

#[test]
fn a_flooding_key_leaves_room_in_the_queue_for_others() {
    let cluster = Cluster::start("full-share", 3, &[]);
    let [much, little] = keys(&cluster, ["much", "little"].map(str::to_owned));
    cluster.settle();
    let leader = cluster.leader();
    let to = cluster.dns(leader);
    let batches: Vec<Batch> =
        (0..CONNECTIONS_OF_ONE).map(|number| Batch::new(&much, TcpStream::connect(to).unwrap(), number)).collect();
    let elsewhere = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    elsewhere.bind(&SocketAddr::from(ELSEWHERE).into()).unwrap();
    elsewhere.connect(&to.into()).unwrap();
    let mut other = Batch::new(&little, elsewhere.into(), CONNECTIONS_OF_ONE);
    let others = cluster.ids().filter(|id| *id != leader).map(|id| cluster.pid(id).unwrap()).collect();
    let refused_count = AtomicUsize::new(0);
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let is_judged = std::thread::scope(|scope| {
        // No update is committed from now on.
        let (stopped, start) = (Stopped::new(others), Instant::now());
        let mut hearing = Vec::new();
        for mut batch in batches {
            let bytes = std::mem::take(&mut batch.bytes);
            // If the connection is closed, the updates have no outcome.
            let _ = batch.stream.write_all(&bytes);
            hearing.push(scope.spawn(|| batch.hear(&refused_count)));
            sleep(PAUSE);
        }
        let bytes = std::mem::take(&mut other.bytes);
        let _ = other.stream.write_all(&bytes);
        let other = scope.spawn(|| other.hear(&refused_count));
        sleep(20 * PAUSE);
        let stopped_for = start.elapsed();
        println!("stopped for {stopped_for:?}");
        drop(stopped);
        let other = other.join().unwrap();
        let heard: Vec<_> = hearing.into_iter().map(|thread| thread.join().unwrap()).collect();
        let done: usize = heard.iter().map(|heard| heard.done.len()).sum();
        println!("{done} of {} of the first key were done", CONNECTIONS_OF_ONE * PIPELINE);
        // After an election other updates are done.
        if watch.stall("the share of a key in a full queue").is_some() {
            return false;
        }
        if stopped_for > STOPPED_MAX {
            skip::platform(format_args!("the share of a key in a full queue: nodes were stopped for {stopped_for:?}"));
            return false;
        }
        assert_eq!((other.done.len(), other.refused.len(), other.unknown), (PIPELINE, 0, 0), "of the other key");
        assert_eq!(heard.iter().map(|heard| heard.unknown).sum::<usize>(), 0, "have no outcome");
        assert!((PENDING_MAX / 4..=PENDING_MAX * 3 / 4).contains(&done), "{done}");
        true
    });
    drop(watch);
    if !is_judged {
        cluster.settle();
        return;
    }
    let page = http::get(cluster.api(leader), "/metrics").unwrap().text();
    let refused = page.lines().filter(|line| line.contains("reason=\"share_taken\""));
    let refused: f64 = refused.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    assert!(refused > 0.0, "{page}");
}
