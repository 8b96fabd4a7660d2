//! More updates than a leader can evaluate at once.

use super::cluster::*;
use replica::entry::{Body, StageId};
use replica::io::{AdminCommand, AdminReply, AuditRecord, Right, Verdict};
use replica::limits::EVALUATION_QUEUE_MAX;
use replica::testing::{Command, UpdateCommand};
use tsig::client::UpdateBuilder;

#[test]
fn overloaded_leader_refuses_new_updates_and_keeps_queued_ones() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    // Nothing commits, so a change of the settings delays later commands.
    cluster.lose = is_append_response;
    let grant = AdminCommand::Grant { key: name("key."), zone: None, right: Right::Transfer };
    let held_up = cluster.admin(leader, grant);
    let old = cluster.add(follower, &address(1));
    // The fillers belong to many flows: a single flow would leave room in the queue for others.
    for token in 0..EVALUATION_QUEUE_MAX as u64 {
        let filler = Command::Propose(Body::ImportAbandon(StageId(u128::from(token).to_be_bytes())));
        cluster.replica_mut(leader).enqueue(1 << 60 | token, filler);
    }
    for id in [leader, follower] {
        let new = cluster.add(id, &address(2));
        assert_eq!(cluster.verdict(new), Some(Verdict::NotProposed), "through {id}");
    }
    assert_eq!(cluster.verdict(old), None);
    assert_eq!(cluster.replica(follower).status().counters.updates_overloaded, 1);
    cluster.lose = |_| false;
    cluster.run(1_000);
    assert_eq!(cluster.admin[&held_up], Ok(AdminReply::Done));
    cluster.assert_done(old);
    assert!(!cluster.has(leader, &address(2)), "SERVFAIL was true");
    cluster.assert_same();
}

/// An update without content from a unique key, as a leader receives it.
fn flood(number: u64) -> Command {
    Command::Update(UpdateCommand {
        external: Default::default(),
        identity: (u128::from(number) << 32).to_be_bytes(),
        key_name: name("flood."),
        // The table of repeats is small in this cluster. The signing time of each update is above the floor of earlier
        // ones.
        time_signed: 1_700_000_000 + number,
        fudge: 300,
        source: [9; 16],
        reception: None,
        message: UpdateBuilder::new(1, name("example.test.").as_ref()).finish(),
    })
}

#[test]
fn busy_key_does_not_delay_other_keys() {
    const FLOOD: u64 = 3_000;
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    // Nothing commits, so a change of the settings delays later commands.
    cluster.lose = is_append_response;
    let grant = AdminCommand::Grant { key: name("key."), zone: None, right: Right::Transfer };
    cluster.admin(leader, grant);
    let before = cluster.replica(leader).status().last_index;
    for number in 0..FLOOD {
        assert!(cluster.replica_mut(leader).enqueue(1 << 60 | number, flood(number)));
    }
    let late = [leader, follower].map(|id| cluster.add(id, &address(id as u8)));
    cluster.lose = |_| false;
    cluster.run(1_000);
    late.into_iter().for_each(|request| cluster.assert_done(request));
    assert!(cluster.replica(leader).status().last_index >= before + FLOOD, "all of the flood was evaluated");
    let of_others = |line: &Audited| match line {
        Audited::Update(AuditRecord::Update(record)) => Some(record.index),
        Audited::Update(AuditRecord::Action(_)) | Audited::Gap(..) => None,
    };
    let indexes: Vec<u64> = cluster.machines[&leader].audited.iter().filter_map(of_others).collect();
    assert_eq!(indexes.len(), 2);
    assert!(indexes.iter().all(|&index| index <= before + 10), "{indexes:?}, the flood begins after {before}");
    cluster.assert_same();
}
