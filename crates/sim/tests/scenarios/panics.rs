//! Panics of this software on a change, on a leader before the proposal or on members that apply it.

use super::cluster::*;
use replica::io::{FatalReason, NodeId, Serving, Verdict};
use replica::testing::panics::{APPLY_LABEL, plan_apply};
use replica::{InvariantViolations, OpenError, Replica};
use wire::number::{Rcode, Rtype};
use zone::Record;

const CLIENT: &str = "192.0.2.200:4000";

fn panic_record() -> Record {
    let owner = format!("{APPLY_LABEL}.example.test.");
    Record { owner: name(&owner), rtype: Rtype::A, ttl: 60, rdata: [192, 0, 2, 9].into() }
}

/// Ends the processes that cannot continue, as their shells do. Returns them with their reasons.
fn bury(cluster: &mut Cluster) -> Vec<(NodeId, FatalReason)> {
    let ended: Vec<_> = cluster.machines.iter().filter_map(|(&id, machine)| Some((id, machine.fatal?))).collect();
    for &(id, _) in &ended {
        cluster.kill(id);
        cluster.machines.get_mut(&id).unwrap().fatal = None;
    }
    ended
}

fn reopen(cluster: &Cluster, id: NodeId) -> Result<Replica, OpenError> {
    Replica::open(&cluster.machines[&id].disk, cluster.config(id), cluster.now)
}

/// Checks that all members run with the same state, without the record.
fn assert_sound_without_it(cluster: &mut Cluster, ids: &[NodeId]) {
    cluster.elect();
    cluster.run(1_000);
    assert_eq!(cluster.alive(), ids);
    cluster.assert_same();
    for &id in ids {
        assert!(!cluster.has(id, &panic_record()), "member {id}");
        assert_eq!(cluster.machines[&id].serving, Some(Serving::Yes), "member {id}");
    }
}

#[test]
fn change_that_panics_stops_only_one_leader() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    plan_apply(&[true; 20]);
    let fatal = add(&panic_record(), 900, cluster.now.wall_ms);
    // Other updates are in the same batch, before and after it. One is already in the log.
    let before = cluster.add(leader, &address(1));
    let batch = [(address(2), 901), (address(3), 902)];
    let [second, third] = batch.map(|(record, id)| add(&record, id, cluster.now.wall_ms));
    let second = cluster.update_bytes(leader, second, CLIENT);
    let refused = cluster.update_bytes(leader, fatal.clone(), CLIENT);
    let third = cluster.update_bytes(leader, third, CLIENT);
    cluster.settle();
    assert_eq!(
        cluster.replica(leader).status().invariant_violations,
        InvariantViolations { apply_panics: 1, ..InvariantViolations::default() }
    );
    // The leader hands over and exits, as the time of its exit shows.
    cluster.run(500);
    let expected = Some(Verdict::Answer(Rcode::SERVFAIL));
    assert_eq!(cluster.verdict(refused), expected);
    assert_eq!(bury(&mut cluster), [(leader, FatalReason::CarryOutPanicked)]);
    let next = cluster.leader().expect("the leadership was handed over without an election");
    assert_ne!(next, leader);
    // The same bytes do not stop any other member.
    for id in [next, follower] {
        let request = cluster.update_bytes(id, fatal.clone(), CLIENT);
        cluster.run(200);
        assert_eq!(cluster.verdict(request), expected, "through member {id}");
    }
    // The leader restarts from its disk, and the other updates in flight are done.
    cluster.start(leader);
    assert_sound_without_it(&mut cluster, &[1, 2, 3]);
    cluster.assert_done(before);
    for (request, record) in [(second, address(2)), (third, address(3))] {
        // The client of the stopped node may not have got an answer, and repeats its update.
        let verdict = cluster.verdict(request);
        let is_done = [None, Some(Verdict::Answer(Rcode::NOERROR))].contains(&verdict);
        assert!(is_done || !cluster.has(next, &record), "{verdict:?}");
    }
    let after = cluster.add(leader, &address(4));
    cluster.run(100);
    cluster.assert_done(after);
    plan_apply(&[]);
}

#[test]
fn single_member_drops_a_change_that_panics() {
    let mut cluster = Cluster::with_zone(1);
    plan_apply(&[true; 20]);
    let fatal = add(&panic_record(), 900, cluster.now.wall_ms);
    let request = cluster.update_bytes(1, fatal.clone(), CLIENT);
    cluster.run(200);
    let expected = Some(Verdict::Answer(Rcode::SERVFAIL));
    assert_eq!(cluster.verdict(request), expected);
    assert_eq!(bury(&mut cluster), [(1, FatalReason::CarryOutPanicked)]);
    cluster.start(1);
    cluster.elect();
    let again = cluster.update_bytes(1, fatal, CLIENT);
    cluster.run(100);
    assert_eq!(cluster.verdict(again), expected);
    assert_sound_without_it(&mut cluster, &[1]);
    plan_apply(&[]);
}

#[test]
fn member_that_panics_at_an_entry_reports_its_index() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let serial = cluster.serial(leader);
    // The leader applies the update. The first follower that applies it panics.
    plan_apply(&[false, true]);
    let request = cluster.add(leader, &panic_record());
    cluster.run(100);
    cluster.assert_done(request);
    let ended = bury(&mut cluster);
    let [(victim, FatalReason::ApplyPanicked { index })] = ended[..] else { panic!("{ended:?}") };
    assert_ne!(victim, leader);
    // After each restart, the member reaches the same entry before any contact with a peer.
    for _ in 0..2 {
        plan_apply(&[true]);
        assert_eq!(reopen(&cluster, victim).err(), Some(OpenError::Apply { index }));
    }
    // The others continue and lack nothing.
    let request = cluster.add(leader, &address(1));
    cluster.run(100);
    cluster.assert_done(request);
    // Software without the panic continues from that entry.
    plan_apply(&[]);
    cluster.start(victim);
    cluster.run(1_000);
    assert_eq!(cluster.alive(), [1, 2, 3]);
    cluster.assert_same();
    for id in [1, 2, 3] {
        assert!(cluster.has(id, &panic_record()) && cluster.has(id, &address(1)), "member {id}");
        assert_eq!(cluster.serial(id), serial + 2, "member {id}");
    }
}

#[test]
fn members_never_skip_an_entry_that_panics() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let serial = cluster.serial(leader);
    let (first, second) = (cluster.add(leader, &address(1)), address(2));
    cluster.run(100);
    cluster.assert_done(first);
    // Both followers panic. Only the leader remains, because it applied the update before.
    plan_apply(&[false, true, true]);
    let request = cluster.add(leader, &panic_record());
    cluster.run(100);
    let ended = bury(&mut cluster);
    let [(_, one), (_, other)] = ended[..] else { panic!("{ended:?}") };
    assert_eq!(one, other, "at the same entry");
    assert!(matches!(one, FatalReason::ApplyPanicked { .. }));
    // A majority has the update on disk, so it was acknowledged. Nothing is acknowledged afterwards.
    cluster.assert_done(request);
    cluster.run(3_000);
    assert_eq!(cluster.machines[&leader].serving, Some(Serving::Yes), "reads never stop");
    let unheard = cluster.add(leader, &second);
    cluster.run(3_000);
    assert_ne!(cluster.verdict(unheard), Some(Verdict::Answer(Rcode::NOERROR)));
    for &(id, _) in &ended {
        plan_apply(&[true]);
        assert!(matches!(reopen(&cluster, id).err(), Some(OpenError::Apply { .. })), "member {id}");
    }
    plan_apply(&[]);
    for (id, _) in ended {
        cluster.start(id);
    }
    cluster.elect();
    cluster.run(2_000);
    cluster.assert_same();
    for id in [1, 2, 3] {
        assert!(cluster.has(id, &panic_record()) && cluster.has(id, &address(1)), "member {id}");
        assert!(cluster.serial(id) >= serial + 2, "member {id}");
    }
}
