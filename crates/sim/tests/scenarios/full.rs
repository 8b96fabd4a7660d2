//! Full disks: members continue to answer queries, refuse updates that cannot be stored, and resume when there is room.

use super::cluster::{Cluster, name};
use replica::io::{NodeId, Role, Serving, Verdict};
use replica::limits::DISK_HUNG_ABORT_MS;
use replica::log::LogConfig;
use wire::number::{Rcode, Rtype};
use zone::Record;

const DONE: Option<Verdict> = Some(Verdict::Answer(Rcode::NOERROR));

/// A cluster with small segments, so that a few updates fill one.
fn cluster() -> Cluster {
    let mut cluster = Cluster::with_log(3, LogConfig { segment_bytes: 32 << 10, ..LogConfig::default() });
    cluster.prepare();
    cluster.run(1_000);
    cluster
}

/// A cluster whose leader has a full disk. Returns the leader and the others.
fn with_full_leader() -> (Cluster, NodeId, Vec<NodeId>) {
    let mut cluster = cluster();
    let full = cluster.elect();
    cluster.fill_disk(full, true);
    let others = (1..=3).filter(|&id| id != full).collect();
    (cluster, full, others)
}

fn record(number: usize) -> Record {
    let owner = name(&format!("full-{number}.example.test."));
    Record { owner, rtype: Rtype::A, ttl: 60, rdata: [192, 0, 2, 1].into() }
}

/// Sends updates one at a time, and records which were acknowledged.
#[derive(Default)]
struct Updates {
    count: usize,
    acknowledged: Vec<Record>,
}

impl Updates {
    /// Sends one update through a member. Returns the response if it arrives immediately.
    fn send(&mut self, cluster: &mut Cluster, id: NodeId) -> Option<Verdict> {
        let record = record(self.count);
        self.count += 1;
        let request = cluster.add(id, &record);
        cluster.run(20);
        let verdict = cluster.verdict(request);
        if verdict == DONE {
            self.acknowledged.push(record);
        }
        verdict
    }

    /// Sends updates until a response says that the update was not done.
    fn send_until_refused(&mut self, cluster: &mut Cluster, id: NodeId) {
        for _ in 0..500 {
            match self.send(cluster, id) {
                DONE => {}
                verdict => return assert_eq!(verdict, Some(Verdict::NotProposed)),
            }
        }
        panic!("the disk does not fill");
    }

    fn assert_all_there(&self, cluster: &Cluster) {
        assert!(!self.acknowledged.is_empty());
        for id in cluster.alive() {
            assert!(self.acknowledged.iter().all(|record| cluster.has(id, record)), "{id} lacks acknowledged records");
        }
        cluster.assert_same();
    }
}

fn assert_answers(cluster: &Cluster) {
    for id in cluster.alive() {
        assert_eq!(cluster.machines[&id].serving, Some(Serving::Yes), "{id}");
        assert_eq!(cluster.replica(id).status().fatal, None, "{id}");
    }
}

#[test]
fn updates_resume_after_all_disks_were_full() {
    let mut cluster = cluster();
    let mut updates = Updates::default();
    (1..=3).for_each(|id| cluster.fill_disk(id, true));
    let first = cluster.elect();
    updates.send_until_refused(&mut cluster, first);
    // The first leader may have handed over to a member with more room. From now on the leader does not change. Data
    // does not become stale, and zones that require all live members are still answered.
    cluster.run(1_000);
    let leader = cluster.elect();
    cluster.run(10 * DISK_HUNG_ABORT_MS);
    assert_answers(&cluster);
    for id in 1..=3 {
        assert!(cluster.replica(id).status().staleness_ms < 1_000, "{id}");
        assert!(cluster.replica(id).status().is_disk_full, "{id}");
        assert_eq!(updates.send(&mut cluster, id), Some(Verdict::NotProposed), "{id}");
    }
    assert_eq!(cluster.leader(), Some(leader));
    (1..=3).for_each(|id| cluster.fill_disk(id, false));
    cluster.run(100);
    for id in 1..=3 {
        assert_eq!(updates.send(&mut cluster, id), DONE, "{id}");
        assert!(!cluster.replica(id).status().is_disk_full, "{id}");
    }
    cluster.run(200);
    updates.assert_all_there(&cluster);
}

#[test]
fn a_leader_whose_disk_is_full_hands_over_and_nothing_is_refused() {
    let (mut cluster, full, others) = with_full_leader();
    let mut updates = Updates::default();
    // More updates than fit into a segment, so the full member cannot store the last ones.
    for round in 0..100 {
        for &id in &others {
            assert_eq!(updates.send(&mut cluster, id), DONE, "round {round}, {id}");
        }
    }
    assert!(cluster.leader().is_some_and(|leader| leader != full));
    assert_eq!(cluster.replica(full).status().counters.disk_full_transfers, 1);
    assert!(cluster.replica(full).has_full_log());
    assert_eq!(updates.send(&mut cluster, full), Some(Verdict::NotProposed));
    // The full member lags for a long time. It keeps running, does not disturb other members, and does not become
    // leader.
    let term = cluster.replica(others[0]).status().term;
    cluster.run(2 * DISK_HUNG_ABORT_MS);
    assert_answers(&cluster);
    assert_eq!(cluster.replica(others[0]).status().term, term);
    // The member could not store its own vote, so it does not campaign even when it is cut off.
    cluster.cut_off(full);
    cluster.run(5_000);
    assert_eq!(cluster.replica(full).status().role, Role::Follower);
    cluster.cut.clear();
    cluster.fill_disk(full, false);
    cluster.run(500);
    assert_eq!(updates.send(&mut cluster, full), DONE);
    cluster.run(200);
    updates.assert_all_there(&cluster);
}

#[test]
fn a_leader_refuses_when_too_many_others_are_full() {
    let mut cluster = cluster();
    let mut updates = Updates::default();
    let leader = cluster.elect();
    let others: Vec<_> = (1..=3).filter(|&id| id != leader).collect();
    cluster.fill_disk(others[0], true);
    for _ in 0..200 {
        assert_eq!(updates.send(&mut cluster, leader), DONE, "a follower with a full disk only lags");
    }
    cluster.fill_disk(others[1], true);
    updates.send_until_refused(&mut cluster, leader);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.fill_disk(others[1], false);
    cluster.run(1_000);
    assert_eq!(updates.send(&mut cluster, leader), DONE);
    cluster.fill_disk(others[0], false);
    cluster.run(1_000);
    updates.assert_all_there(&cluster);
}

#[test]
fn members_that_start_on_a_full_disk_answer_and_go_on_when_there_is_room() {
    let (mut cluster, full, others) = with_full_leader();
    let mut updates = Updates::default();
    while !cluster.replica(full).has_full_log() {
        assert_eq!(updates.send(&mut cluster, others[0]), DONE);
    }
    (1..=3).for_each(|id| cluster.kill(id));
    // Each start writes a record, until the segment has no free sectors.
    for _ in 0..64 {
        cluster.start(full);
        if cluster.replica(full).has_full_log() {
            break;
        }
        cluster.kill(full);
    }
    assert!(!cluster.replica(full).log().is_durable());
    cluster.run(20_000);
    assert_eq!(cluster.machines[&full].serving, Some(Serving::Stale));
    assert_eq!(cluster.machines[&full].fatal, None);
    others.iter().for_each(|&id| cluster.start(id));
    cluster.elect();
    cluster.run(1_000);
    assert_eq!(updates.send(&mut cluster, others[0]), DONE);
    cluster.fill_disk(full, false);
    cluster.run(1_000);
    assert_answers(&cluster);
    updates.assert_all_there(&cluster);
}

#[test]
fn below_its_feature_level_a_leader_hands_over_when_its_log_is_full() {
    let mut cluster = cluster();
    for id in 1..=3 {
        cluster.replica_mut(id).pretend_feature_level(4);
    }
    let mut updates = Updates::default();
    let full = cluster.elect();
    cluster.fill_disk(full, true);
    let other = full % 3 + 1;
    while !cluster.replica(full).has_full_log() {
        updates.send(&mut cluster, other);
    }
    cluster.run(2_000);
    assert!(cluster.leader().is_some_and(|leader| leader != full));
    assert_eq!(updates.send(&mut cluster, other), DONE);
    cluster.fill_disk(full, false);
    cluster.run(500);
    updates.assert_all_there(&cluster);
}
