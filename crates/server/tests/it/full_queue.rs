//! A node that is sent more updates than it has room for, while it cannot carry out any: it keeps those that it took,
//! refuses the others at once, and answers queries as if nothing were.

use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::message::{name, now_s};
use crate::updates::{is_there, socket};
use replica::update::client::{ClientKey, UpdateBuilder};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wire::Rtype;
use wire::builder::MessageBuilder;
use wire::number::Rcode;

/// More than a node keeps at one time, verified or not (`UPDATES_PENDING_MAX`, `UPDATE_QUEUE_MAX`).
const UPDATES: u16 = 16_000;
/// So many go out before their answers are read: what a socket holds.
const BURST: u16 = 64;
/// A refusal comes at once; this much later on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_millis(250);
/// So long an update waits for a leader at the node that took it, before that says that it was certainly not proposed.
const WAIT: Duration = Duration::from_millis(2_500);
/// So long the node cannot reach a majority: less than it keeps what it took.
const STOPPED: Duration = Duration::from_secs(4);
/// Of what was refused and of what was taken so many are looked up.
const SAMPLES: usize = 500;

fn owner(number: u16) -> String {
    format!("full-{number}.example.test.")
}

fn update(key: &ClientKey, number: u16) -> Vec<u8> {
    let builder = UpdateBuilder::new(number, name("example.test.").as_ref());
    let message = builder.add(name(&owner(number)).as_ref(), 60, Rtype::A, &[192, 0, 2, 9]).finish();
    key.sign(message, now_s()).unwrap()
}

/// What became of each update.
#[derive(Default)]
struct Heard {
    sent: BTreeMap<u16, Instant>,
    refused: BTreeMap<u16, Duration>,
    done: BTreeMap<u16, Duration>,
}

impl Heard {
    /// Reads what has come.
    fn read(&mut self, socket: &UdpSocket) {
        let mut response = [0; 512];
        while let Ok(len) = socket.recv(&mut response) {
            assert!(len >= 12, "{:02x?}", &response[..len]);
            let number = u16::from_be_bytes([response[0], response[1]]);
            let took = self.sent[&number].elapsed();
            let before = match Rcode(u16::from(response[3] & 15)) {
                Rcode::SERVFAIL => self.refused.insert(number, took),
                Rcode::NOERROR => self.done.insert(number, took),
                other => panic!("update {number} hears {other:?}"),
            };
            // The same octets may be answered twice, alike.
            let other = if self.done.contains_key(&number) { &self.refused } else { &self.done };
            assert!(before.is_some() || !other.contains_key(&number), "update {number} hears two outcomes");
        }
    }
}

/// Asks one query after the other until it is told to stop; gives how many were answered and the longest wait.
fn ask(to: SocketAddr, stop: &AtomicBool) -> (u32, Duration) {
    let socket = socket();
    let (mut count, mut longest) = (0, Duration::ZERO);
    while !stop.load(SeqCst) {
        let start = Instant::now();
        assert!(is_there(&socket, to, "www.example.test."), "query {count} has no answer");
        longest = longest.max(start.elapsed());
        count += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    (count, longest)
}

fn serial(cluster: &Cluster, id: u64) -> u32 {
    let query = MessageBuilder::query(7, name("example.test.").as_ref(), Rtype::SOA).build();
    let response = exchange(Transport::Udp, cluster.dns(id), &query, Duration::from_secs(5)).expect("an answer");
    // The fifth number from the end.
    let at = response.len() - 20;
    u32::from_be_bytes(response[at..at + 4].try_into().unwrap())
}

/// For some there was no room; others had room, and were not proposed before the node gave up waiting for a leader.
fn judge_refusals(heard: &Heard) {
    let (mut at_once, waited): (Vec<Duration>, Vec<Duration>) =
        heard.refused.values().copied().partition(|wait| *wait <= AT_ONCE);
    at_once.sort_unstable();
    println!("{} refused at once, half of them within {:?}", at_once.len(), at_once.get(at_once.len() / 2));
    println!("{} refused after they had waited for a leader", waited.len());
    assert!(at_once.len() >= 1_000, "only {} were refused at once", at_once.len());
    let early: Vec<_> = waited.iter().filter(|wait| **wait < WAIT).collect();
    assert!(early.is_empty(), "neither at once nor after {WAIT:?}: {early:?}");
}

#[test]
fn a_full_queue_refuses_at_once_and_keeps_what_it_took() {
    let cluster = Cluster::start("full-queue", 3, &[]);
    cluster.settle();
    let (leader, key) = (cluster.leader(), cluster.client_key());
    let others: Vec<u64> = cluster.ids().filter(|&id| id != leader).collect();
    let pids: Vec<u32> = others.iter().map(|&id| cluster.pid(id).unwrap()).collect();
    let messages: Vec<Vec<u8>> = (0..UPDATES).map(|number| update(&key, number)).collect();
    let before = serial(&cluster, leader);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(cluster.dns(leader)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let (mut heard, stop) = (Heard::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(cluster.dns(leader), &stop));
        pids.iter().for_each(|&pid| kill("STOP", pid));
        let stopped = Instant::now();
        for (number, message) in (0..UPDATES).zip(&messages) {
            heard.sent.insert(number, Instant::now());
            socket.send(message).unwrap();
            if number % BURST == 0 {
                heard.read(&socket);
            }
        }
        let offered = stopped.elapsed();
        while stopped.elapsed() < STOPPED {
            heard.read(&socket);
        }
        let (done, refused) = (heard.done.len(), heard.refused.len());
        println!("{UPDATES} offered in {offered:?}; {refused} refused, {done} done while no majority was there");
        pids.iter().for_each(|&pid| kill("CONT", pid));
        assert!(offered < STOPPED, "the machine is too slow to fill the queue: {offered:?}");
        stop.store(true, SeqCst);
        let (queries, longest) = asking.join().unwrap();
        println!("{queries} queries meanwhile, the longest wait {longest:?}");
        assert!(queries > 100 && longest < Duration::from_secs(1), "{queries} queries, {longest:?}");
    });
    assert!(heard.done.is_empty(), "{} were done without a majority", heard.done.len());
    judge_refusals(&heard);
    // Those that were not refused are told their outcome: the same octets again, as clients send them.
    wait_for("the outcome of all others", || {
        let waiting: Vec<u16> = (0..UPDATES)
            .filter(|number| !heard.done.contains_key(number) && !heard.refused.contains_key(number))
            .collect();
        for number in waiting.iter().take(512) {
            socket.send(&messages[usize::from(*number)]).unwrap();
        }
        heard.read(&socket);
        waiting.is_empty().then_some(())
    });
    cluster.settle();
    assert_eq!(heard.done.len() + heard.refused.len(), usize::from(UPDATES));
    let plain = crate::updates::socket();
    for id in cluster.ids() {
        let step = |of: &BTreeMap<u16, Duration>| (of.len() / SAMPLES).max(1);
        for number in heard.refused.keys().step_by(step(&heard.refused)) {
            assert!(!is_there(&plain, cluster.dns(id), &owner(*number)), "node {id} has {number}, which was refused");
        }
        for number in heard.done.keys().step_by(step(&heard.done)) {
            assert!(is_there(&plain, cluster.dns(id), &owner(*number)), "node {id} lacks {number}");
        }
        // Each that was done is one step, and nothing else is.
        assert_eq!(serial(&cluster, id), before.wrapping_add(heard.done.len() as u32), "node {id}");
    }
}
