//! Nodes that were away while many updates were written. They fetch the entries from the logs of the other nodes, and
//! the leader stays.

use crate::support::cluster::{Cluster, PATIENCE, kill, wait_for};
use crate::support::nodes::Nodes;
use crate::updates::{add, rcode};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use tsig::client::ClientKey;

/// Entries that a node misses, with `--full` and otherwise. The log keeps at least twice as many.
const ENTRIES_FULL: usize = 100_000;
const ENTRIES: usize = 30_000;
/// Entries for tests where only the return of the node matters.
const FEW: usize = 2_000;
/// Updates in flight.
const IN_FLIGHT: usize = 256;
/// After this time without a response, all updates in flight are sent again.
const AGAIN: Duration = Duration::from_millis(500);
/// Maximum time from the start of its process until a node has the entries: this, or half the time that writing them
/// took.
const BACK_MAX: Duration = Duration::from_secs(30);
/// A node that returns and campaigns does so within this time.
const CAMPAIGN: Duration = Duration::from_secs(2);
/// On a busy machine a leader may lose its place because it gets no processor time. That is occasional. An error in how
/// a node returns shows each time.
const ATTEMPTS: usize = 3;

/// Sends updates as fast as they are acknowledged.
struct Writer {
    socket: UdpSocket,
    key: ClientKey,
    /// Number of names so far.
    count: usize,
}

impl Writer {
    fn new(cluster: &Cluster) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(AGAIN)).unwrap();
        Self { socket, key: cluster.client_key(), count: 0 }
    }

    /// Sends this many updates, each for a new name, until all are acknowledged.
    fn write(&mut self, to: SocketAddr, count: usize) {
        let mut waiting: BTreeMap<[u8; 2], (String, Vec<u8>)> = BTreeMap::new();
        let (mut done, mut last) = (0, Instant::now());
        let mut response = [0; 4_096];
        let end = self.count + count;
        while done < count {
            while waiting.len() < IN_FLIGHT && self.count < end {
                self.count += 1;
                self.send(to, format!("away-{}.example.test.", self.count), &mut waiting);
            }
            let Ok((length, from)) = self.socket.recv_from(&mut response) else {
                assert!(last.elapsed() < PATIENCE, "{done} of {count} are acknowledged, and no more");
                // The same bytes: a node that has executed the update repeats its response.
                waiting.values().for_each(|(_, message)| _ = self.socket.send_to(message, to).unwrap());
                continue;
            };
            if from != to || length < 12 {
                continue;
            }
            let Some((owner, message)) = waiting.remove(&[response[0], response[1]]) else { continue };
            if rcode(&message, &response) == 0 {
                (done, last) = (done + 1, Instant::now());
            } else {
                // The update was certainly not executed.
                self.send(to, owner, &mut waiting);
            }
        }
    }

    fn send(&self, to: SocketAddr, owner: String, waiting: &mut BTreeMap<[u8; 2], (String, Vec<u8>)>) {
        let message = loop {
            let message = add(&self.key, &owner);
            // Other tests of this process use the same ID counter, which may have wrapped.
            if !waiting.contains_key(&[message[0], message[1]]) {
                break message;
            }
        };
        self.socket.send_to(&message, to).unwrap();
        waiting.insert([message[0], message[1]], (owner, message));
    }
}

/// The term, once all nodes have the same.
fn term(cluster: &Cluster) -> u64 {
    wait_for("one term", || {
        let mut terms = cluster.ids().map(|id| cluster.status(id)?["term"].as_u64());
        let first = terms.next()??;
        terms.all(|term| term == Some(first)).then_some(first)
    })
}

/// Several attempts with this number of entries. In at least one, the return of the node must not begin a term.
fn without_an_election(entries: usize, mut one_return: impl FnMut(usize) -> (u64, u64)) {
    let mut terms = Vec::new();
    for _ in 0..ATTEMPTS {
        let (before, after) = one_return(entries);
        if before == after {
            return;
        }
        terms.push((before, after));
    }
    panic!("each return began a term: {terms:?}");
}

#[test]
fn nodes_far_behind_come_back_without_an_election() {
    let mut cluster = Cluster::start("missed", 3, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let mut nodes = Nodes::default();
    cluster.ids().for_each(|id| nodes.start(&cluster, id));
    let mut writer = Writer::new(&cluster);
    nodes.leader(&cluster);
    cluster.settle();
    without_an_election(if skip::is_full_run() { ENTRIES_FULL } else { ENTRIES }, |entries| {
        let leader = nodes.leader(&cluster);
        let away = leader % 3 + 1;
        nodes.kill(away);
        let zone = || cluster.status(leader).unwrap()["zones"][0].clone();
        let [records, serial] = ["records", "serial"].map(|what| zone()[what].as_u64().unwrap());
        let start = Instant::now();
        writer.write(cluster.dns(leader), entries);
        let wrote = start.elapsed();
        println!("{entries} updates in {wrote:?}");
        let before = cluster.status(leader).unwrap()["term"].as_u64().unwrap();
        let start = Instant::now();
        nodes.start(&cluster, away);
        cluster.settle();
        let back = start.elapsed();
        println!("the node has them {back:?} after its start");
        assert!(back <= BACK_MAX.max(wrote / 2), "{back:?}");
        let has = cluster.status(away).unwrap()["zones"][0].clone();
        let wanted = [records, serial].map(|count| count + entries as u64);
        assert_eq!(["records", "serial"].map(|what| has[what].as_u64().unwrap()), wanted, "each once, and no other");
        assert_eq!(cluster.metric(away, "catamaran_checkpoints_installed_total"), 0, "from the log");
        std::thread::sleep(CAMPAIGN);
        (before, term(&cluster))
    });
    // A process that was stopped continues with all its timeouts expired.
    without_an_election(FEW, |entries| {
        let leader = nodes.leader(&cluster);
        let away = leader % 3 + 1;
        let status = wait_for("its process", || cluster.status(away));
        let pid = status["pid"].as_u64().unwrap() as u32;
        kill("STOP", pid);
        writer.write(cluster.dns(leader), entries);
        std::thread::sleep(CAMPAIGN);
        let before = cluster.status(leader).unwrap()["term"].as_u64().unwrap();
        kill("CONT", pid);
        std::thread::sleep(CAMPAIGN);
        cluster.settle();
        (before, term(&cluster))
    });
    cluster.ids().for_each(|id| nodes.stop(id));
}
