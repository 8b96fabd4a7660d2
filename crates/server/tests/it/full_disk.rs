//! Full disks: nodes keep answering queries, refuse updates with SERVFAIL, and accept them again once there is room.

use crate::support::cluster::{Cluster, PATIENCE, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::message::{name, sign};
use crate::support::mounts::Mounts;
use crate::support::nodes::{Nodes, data};
use crate::support::tools::forbidden;
use crate::updates::{add, assert_on_every_node, rcode};
use skip::stalls::StallWatch;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::Rtype;
use wire::builder::MessageBuilder;

const NOERROR: u8 = 0;
const SERVFAIL: u8 = 2;
/// How long a client waits for the outcome of an update. This is longer than a node's own limit.
const UPDATE_WAIT: Duration = Duration::from_secs(10);
/// Number of large updates that certainly fill the log: two segments of 16 MiB.
const LARGE_UPDATES_MAX: usize = 1_000;
/// The promise is 5 s. The test allows more, because the machine may be busy.
const RESUME_MAX: Duration = Duration::from_secs(15);

/// Three nodes, each with its whole directory on a small disk. `None` if this machine does not allow that.
fn nodes_on_small_disks(name: &str) -> Option<(Cluster, Mounts, Nodes)> {
    let mut cluster = Cluster::start(name, 3, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let made = Mounts::make(&cluster, |id| cluster.dir.join(format!("node-{id}")));
    let mounts = match made {
        Ok(mounts) => mounts,
        Err(why) => {
            forbidden(&format!("a small disk (root, loop devices, e2fsprogs: {why})"));
            return None;
        }
    };
    let mut nodes = Nodes::default();
    cluster.ids().for_each(|id| nodes.start(&cluster, id));
    cluster.settle();
    Some((cluster, mounts, nodes))
}

fn filler(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir.join(format!("node-{id}/filler"))
}

/// Fills the disk of a node completely.
fn fill(cluster: &Cluster, id: u64) {
    let mut file = File::options().create(true).append(true).open(filler(cluster, id)).unwrap();
    for block in [1 << 20, 4_096, 512] {
        while file.write_all(&vec![1; block]).is_ok() {}
    }
    let _ = file.sync_all();
}

fn make_room(cluster: &Cluster, id: u64) {
    std::fs::remove_file(filler(cluster, id)).unwrap();
}

/// Queries one name. Returns the RCODE of the response.
fn query(cluster: &Cluster, id: u64, wait: Duration) -> Option<u8> {
    let query = MessageBuilder::query(7, name("example.test.").as_ref(), Rtype::SOA).build();
    let response = exchange(Transport::Udp, cluster.dns(id), &query, wait)?;
    Some(rcode(&query, &response))
}

/// Sends queries to one node repeatedly, and counts the responses.
struct Queries {
    stop: Arc<AtomicBool>,
    counts: Arc<[AtomicUsize; 2]>,
    thread: JoinHandle<()>,
}

impl Queries {
    fn start(cluster: &Cluster, id: u64) -> Self {
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<[AtomicUsize; 2]>::default());
        let (their_stop, theirs, to) = (stop.clone(), counts.clone(), cluster.dns(id));
        let thread = std::thread::spawn(move || {
            let query = MessageBuilder::query(7, name("example.test.").as_ref(), Rtype::SOA).build();
            while !their_stop.load(Ordering::Relaxed) {
                let response = exchange(Transport::Udp, to, &query, PATIENCE);
                let is_answered = response.is_some_and(|response| rcode(&query, &response) == NOERROR);
                theirs[usize::from(is_answered)].fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { stop, counts, thread }
    }

    /// Returns the number of queries without and with a response.
    fn finish(self) -> [usize; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        [0, 1].map(|which| self.counts[which].load(Ordering::Relaxed))
    }
}

/// Clients that send updates, and the names of the acknowledged updates.
struct Updates<'c> {
    cluster: &'c Cluster,
    count: usize,
    acknowledged: Vec<String>,
}

impl<'c> Updates<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        Self { cluster, count: 0, acknowledged: Vec::new() }
    }

    fn owner(&mut self) -> String {
        self.count += 1;
        format!("full-{}.example.test.", self.count)
    }

    /// Sends one update through a node.
    fn send(&mut self, id: u64) -> Option<u8> {
        let owner = self.owner();
        let message = add(&self.cluster.client_key(), &owner);
        self.exchange(id, owner, &message)
    }

    /// Sends one update with 50 kB of text.
    fn send_large(&mut self, id: u64) -> Option<u8> {
        let owner = self.owner();
        let text = [&[250][..], &[b'x'; 250]].concat().repeat(200);
        let update = MessageBuilder::update(self.count as u16, name("example.test.").as_ref())
            .add(name(&owner).as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
            .add(name(&owner).as_ref(), Rtype::TXT, 60, &text);
        let message = sign(&self.cluster.client_key(), update.build(), 0);
        self.exchange(id, owner, &message)
    }

    fn exchange(&mut self, id: u64, owner: String, message: &[u8]) -> Option<u8> {
        let response = exchange(Transport::Tcp, self.cluster.dns(id), message, UPDATE_WAIT)?;
        let rcode = rcode(message, &response);
        if rcode == NOERROR {
            self.acknowledged.push(owner);
        }
        Some(rcode)
    }

    /// Sends large updates through all nodes until each has answered SERVFAIL to ten in a row.
    fn send_until_refused(&mut self) {
        let mut refused = 0;
        for number in 0..LARGE_UPDATES_MAX {
            refused = if self.send_large(number as u64 % 3 + 1) == Some(SERVFAIL) { refused + 1 } else { 0 };
            if refused == 30 {
                return;
            }
        }
        panic!("{LARGE_UPDATES_MAX} updates did not fill the disks");
    }

    /// Sends updates through each node until one is acknowledged. Returns how long that took.
    fn wait_until_done(&mut self) -> Duration {
        let start = Instant::now();
        for id in self.cluster.ids() {
            wait_for("an update to be done", || (self.send(id) == Some(NOERROR)).then_some(()));
        }
        start.elapsed()
    }
}

fn is_full(cluster: &Cluster, id: u64) -> bool {
    let status = cluster.status(id).unwrap();
    let is_full = status["disk_full"].as_bool().unwrap();
    assert_eq!(cluster.metric(id, "catamaran_disk_full "), u64::from(is_full));
    is_full
}

/// Number of nodes that report a full disk.
fn full_count(cluster: &Cluster) -> usize {
    cluster.ids().filter(|&id| is_full(cluster, id)).count()
}

fn assert_none_ended(cluster: &Cluster, nodes: &mut Nodes) {
    cluster.ids().for_each(|id| assert_eq!(nodes.has_ended(id), None, "node {id} ended"));
}

#[test]
fn all_nodes_answer_on_full_disks_and_take_updates_again_when_there_is_room() {
    let Some((cluster, mounts, mut nodes)) = nodes_on_small_disks("full") else { return };
    let mut updates = Updates::new(&cluster);
    updates.wait_until_done();
    let reserve = |id| data(&cluster, id).join("reserve");
    cluster.ids().for_each(|id| wait_for("the reserve", || reserve(id).exists().then_some(())));

    let queries: Vec<_> = cluster.ids().map(|id| Queries::start(&cluster, id)).collect();
    cluster.ids().for_each(|id| fill(&cluster, id));
    updates.send_until_refused();
    for id in cluster.ids() {
        assert_eq!(updates.send(id), Some(SERVFAIL), "{id}");
    }
    // Updates are refused as soon as two nodes have no room. The third one may still have an empty log segment.
    let full = full_count(&cluster);
    assert!(full >= 2, "{full} nodes report a full disk");
    wait_for("the status to show each full disk", || {
        let status = cluster.run(&["status"]);
        let shown = String::from_utf8_lossy(&status.stdout).matches("its disk is full").count();
        (shown == full_count(&cluster)).then_some(())
    });
    std::thread::sleep(Duration::from_secs(12));
    assert_none_ended(&cluster, &mut nodes);

    cluster.ids().for_each(|id| make_room(&cluster, id));
    let resumed = updates.wait_until_done();
    println!("updates through all three nodes {resumed:?} after there was room");
    assert!(resumed < RESUME_MAX, "{resumed:?}");
    let counts: Vec<_> = queries.into_iter().map(Queries::finish).collect();
    println!("queries without and with an answer, by node: {counts:?}");
    assert!(counts.iter().all(|[unanswered, answered]| *unanswered == 0 && *answered > 100), "{counts:?}");
    cluster.settle();
    assert_on_every_node(&cluster, &updates.acknowledged);
    // A node takes updates as soon as its log has room. Its checkpoints may be written later.
    cluster.ids().for_each(|id| wait_for("a disk that is not full", || (!is_full(&cluster, id)).then_some(())));
    starts_on_full_disks(&cluster, &mut nodes, &mut updates);
    drop((nodes, mounts));
}

/// Kills and starts all nodes while their disks are full, one of them without its reserve.
fn starts_on_full_disks(cluster: &Cluster, nodes: &mut Nodes, updates: &mut Updates<'_>) {
    cluster.ids().for_each(|id| fill(cluster, id));
    cluster.ids().for_each(|id| nodes.kill(id));
    std::fs::remove_file(data(cluster, 1).join("reserve")).unwrap();
    cluster.ids().for_each(|id| fill(cluster, id));
    cluster.ids().for_each(|id| nodes.start(cluster, id));
    for id in cluster.ids() {
        wait_for("an answer", || (query(cluster, id, Duration::from_secs(1)) == Some(NOERROR)).then_some(()));
        assert!(!data(cluster, id).join("reserve").exists(), "{id}: the start used the reserve");
    }
    assert_none_ended(cluster, nodes);
    cluster.ids().for_each(|id| make_room(cluster, id));
    let resumed = updates.wait_until_done();
    println!("updates through all three nodes {resumed:?} after there was room, after a start without");
    cluster.settle();
    assert_on_every_node(cluster, &updates.acknowledged);
    assert_none_ended(cluster, nodes);
}

#[test]
fn a_leader_on_a_full_disk_hands_over_and_catches_up_when_there_is_room() {
    let Some((cluster, mounts, mut nodes)) = nodes_on_small_disks("full-leader") else { return };
    let mut updates = Updates::new(&cluster);
    updates.wait_until_done();
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let full = nodes.leader(&cluster);
    let others: Vec<u64> = cluster.ids().filter(|id| *id != full).collect();
    let queries = Queries::start(&cluster, full);
    fill(&cluster, full);
    let mut failed = 0;
    for number in 0..LARGE_UPDATES_MAX {
        failed += usize::from(updates.send_large(others[number % 2]) != Some(NOERROR));
        if number % 50 == 0 && updates.send(full) == Some(SERVFAIL) {
            break;
        }
    }
    println!("{failed} of {} updates through the others were not acknowledged", updates.count);
    assert!(is_full(&cluster, full));
    wait_for("another leader", || cluster.status(others[0])?["leader"].as_u64().filter(|leader| *leader != full));
    // After a stall, the other nodes may have elected another leader before it could hand over.
    let transfers = cluster.metric(full, "catamaran_disk_full_transfers_total");
    let is_handed_over = failed <= 2 && transfers >= 1;
    let is_excused = !is_handed_over && watch.stall("that the leader hands over by itself").is_some();
    assert!(is_handed_over || is_excused, "{failed} updates failed, the leader handed over {transfers} times");
    drop(watch);
    for &id in &others {
        wait_for("an update to be done", || (updates.send(id) == Some(NOERROR)).then_some(()));
    }
    assert_eq!(updates.send(full), Some(SERVFAIL));
    make_room(&cluster, full);
    let resumed = updates.wait_until_done();
    println!("updates through all three nodes {resumed:?} after there was room");
    assert!(resumed < RESUME_MAX, "{resumed:?}");
    let counts = queries.finish();
    println!("queries to the full node without and with an answer: {counts:?}");
    assert!(counts[0] == 0 && counts[1] > 20, "{counts:?}");
    cluster.settle();
    assert_on_every_node(&cluster, &updates.acknowledged);
    assert_none_ended(&cluster, &mut nodes);
    drop((nodes, mounts));
}
