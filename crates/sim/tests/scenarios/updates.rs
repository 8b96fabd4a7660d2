//! Updates through any member lead to the same history on all members. A leader drops its head when it loses the
//! leadership.

use super::cluster::*;
use replica::io::Verdict;
use tsig::client::UpdateBuilder;
use wire::number::{Rcode, Rtype};

#[test]
fn an_update_through_each_member_is_on_all() {
    let mut cluster = Cluster::with_zone(3);
    for id in [1, 2, 3] {
        let request = cluster.add(id, &address(id as u8));
        cluster.assert_done(request);
        assert!(cluster.has(id, &address(id as u8)), "visible where it is acknowledged");
    }
    cluster.run(100);
    for id in [1, 2, 3] {
        assert_eq!(cluster.serial(id), 4);
        assert!((1..=3).all(|last| cluster.has(id, &address(last))));
    }
    cluster.assert_same();
}

#[test]
fn a_single_member_is_a_cluster_too() {
    let mut cluster = Cluster::with_zone(1);
    let request = cluster.add(1, &address(1));
    cluster.assert_done(request);
    cluster.kill(1);
    cluster.start(1);
    cluster.elect();
    assert!(cluster.has(1, &address(1)));
    cluster.assert_same();
}

#[test]
fn five_members_apply_a_burst_in_one_order() {
    let mut cluster = Cluster::with_zone(5);
    let wall_ms = cluster.now.wall_ms;
    let mut requests = Vec::new();
    // No member works before all requests have arrived.
    for last in 1..=100u8 {
        let message = add(&address(last), u16::from(last) + 500, wall_ms);
        requests.push(cluster.update_bytes(u64::from(last) % 5 + 1, message, "192.0.2.200:4000"));
    }
    cluster.settle();
    cluster.run(100);
    for request in requests {
        cluster.assert_done(request);
    }
    assert!((1..=5).all(|id| cluster.serial(id) == 101));
    cluster.assert_same();
}

#[test]
fn failures_are_durable_outcomes_too() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let missing = address(9);
    let builder = UpdateBuilder::new(5, name("example.test.").as_ref());
    let builder = builder.require_rrset(missing.owner.as_ref(), Rtype::A);
    let message = builder.add(missing.owner.as_ref(), 60, Rtype::A, &missing.rdata).finish();
    let message = sign(message, cluster.now.wall_ms);
    let before = cluster.replica(leader).status().applied_index;
    let request = cluster.update_bytes(follower, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    assert_eq!(cluster.verdict(request), Some(Verdict::Answer(Rcode::NXRRSET)));
    assert_eq!(cluster.replica(leader).status().applied_index, before + 1, "an entry of its own");
    // After the record exists, a repeat still gets the first outcome, also from a new leader.
    cluster.add(leader, &missing);
    cluster.kill(leader);
    cluster.elect();
    let again = cluster.update_bytes(follower, message, "192.0.2.200:4000");
    cluster.settle();
    assert_eq!(cluster.verdict(again), Some(Verdict::Answer(Rcode::NXRRSET)));
}

#[test]
fn heads_of_a_deposed_leader_are_dropped() {
    let mut cluster = Cluster::with_zone(3);
    let old = cluster.elect();
    let followers: Vec<_> = cluster.alive().into_iter().filter(|&id| id != old).collect();
    cluster.cut_off(old);
    // The old leader's head has three uncommitted updates, each based on the previous one.
    for last in 1..=3 {
        cluster.add(old, &address(last));
    }
    assert_eq!(cluster.replica(old).uncommitted_count(), 3);
    assert_eq!(cluster.serial(old), 1, "nothing of it is published");
    // The new leader continues with other entries.
    for _ in 0..100 {
        cluster.run(10);
        if cluster.leader().is_some_and(|id| id != old) {
            break;
        }
    }
    let other = cluster.add(followers[0], &address(9));
    cluster.run(200);
    cluster.assert_done(other);
    cluster.cut.clear();
    cluster.run(1_000);
    assert_eq!(cluster.replica(old).uncommitted_count(), 0);
    assert!(cluster.has(old, &address(9)));
    // The clients still wait at the old leader, which forwards their updates to the new leader. The updates are
    // executed once.
    cluster.run(3_000);
    cluster.assert_same();
    assert!(cluster.alive().into_iter().all(|id| cluster.serial(id) == cluster.serial(old)));
}

#[test]
fn a_dropped_proposal_rewinds_the_zones() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let followers: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    for &id in &followers {
        cluster.cut.insert((id, leader));
    }
    // The update is in the log, but not committed.
    let first = cluster.add(leader, &address(1));
    assert_eq!(cluster.replica(leader).uncommitted_count(), 1);
    // Raft refuses proposals when its limit of uncommitted bytes is reached.
    cluster.replica_mut(leader).drop_next_proposal();
    let second = cluster.add(leader, &address(2));
    assert_eq!(cluster.replica(leader).status().counters.proposals_dropped, 1);
    assert_eq!(cluster.verdict(second), None);
    cluster.cut.clear();
    cluster.run(500);
    cluster.assert_done(first);
    cluster.assert_done(second);
    assert_eq!(cluster.serial(leader), 3);
    cluster.assert_same();
}
