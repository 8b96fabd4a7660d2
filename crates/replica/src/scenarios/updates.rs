//! Updates through any member, and what becomes of them when leaders come and go.

use super::cluster::*;
use crate::command::{Answer, Command, UpdateCommand};
use crate::entry::{Body, StageId};
use crate::io::{
    AdminCommand, AdminError, AdminReply, AuditRecord, Contents, Input, Output, Right, Verdict, ZoneOptions,
};
use crate::limits::EVALUATION_QUEUE_MAX;
use crate::peer::Frame;
use crate::propose::Origin;
use crate::update::client::UpdateBuilder;
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
fn five_members_take_a_burst_as_one_history() {
    let mut cluster = Cluster::with_zone(5);
    let wall_ms = cluster.now.wall_ms;
    let mut requests = Vec::new();
    // Nobody works before all of them are in.
    for last in 1..=100u8 {
        let message = add(&address(last), u16::from(last) + 500, wall_ms);
        requests.push(cluster.update_octets(u64::from(last) % 5 + 1, message, "192.0.2.200:4000"));
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
fn a_repeat_is_answered_from_the_table_on_every_member() {
    let mut cluster = Cluster::with_zone(3);
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_octets(1, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.run(100);
    cluster.assert_done(first);
    for id in [1, 2, 3] {
        // From another port of the same address, as knsupdate does it.
        let again = cluster.update_octets(id, message.clone(), "192.0.2.200:4001");
        cluster.settle();
        cluster.assert_done(again);
        let replay = cluster.update_octets(id, message.clone(), "192.0.2.201:4000");
        cluster.settle();
        assert_eq!(cluster.verdict(replay), Some(Verdict::BadTime));
    }
    assert_eq!(cluster.serial(2), 2);
    cluster.assert_same();
}

#[test]
fn repeats_in_flight_share_one_execution() {
    let mut cluster = Cluster::with_zone(3);
    let message = add(&address(1), 77, cluster.now.wall_ms);
    // Three members get the same octets before any of them is done, one of them from another address.
    let first = cluster.update_octets(1, message.clone(), "192.0.2.200:4000");
    let second = cluster.update_octets(2, message.clone(), "192.0.2.200:4000");
    let same = cluster.update_octets(2, message.clone(), "192.0.2.200:4000");
    let other = cluster.update_octets(2, message.clone(), "192.0.2.201:4000");
    let third = cluster.update_octets(3, message, "192.0.2.200:4000");
    cluster.settle();
    cluster.run(100);
    for request in [first, second, same, third] {
        cluster.assert_done(request);
    }
    assert_eq!(cluster.verdict(other), Some(Verdict::BadTime));
    assert_eq!(cluster.serial(1), 2);
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
    let request = cluster.update_octets(follower, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    assert_eq!(cluster.verdict(request), Some(Verdict::Answer(Rcode::NXRRSET)));
    assert_eq!(cluster.replica(leader).status().applied_index, before + 1, "an entry of its own");
    // The record comes; the repeat still gets the first outcome, from a new leader too.
    cluster.add(leader, &missing);
    cluster.kill(leader);
    cluster.elect();
    let again = cluster.update_octets(follower, message, "192.0.2.200:4000");
    cluster.settle();
    assert_eq!(cluster.verdict(again), Some(Verdict::Answer(Rcode::NXRRSET)));
}

#[test]
fn a_repeat_gets_the_same_1_ms_to_290_s_later_from_any_member() {
    let mut cluster = Cluster::with_zone(3);
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_octets(1, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    let mut waited_ms = 0;
    for (at_ms, id) in [(1, 2), (1_000, 3), (60_000, 1), (200_000, 2), (290_000, 3)] {
        // In steps of a tick, and what is left of one.
        cluster.run(at_ms - waited_ms);
        let rest_ms = at_ms % 10;
        cluster.now.monotonic_ms += rest_ms;
        cluster.now.wall_ms += rest_ms;
        waited_ms = at_ms;
        let again = cluster.update_octets(id, message.clone(), "192.0.2.200:4001");
        cluster.settle();
        cluster.run(200);
        waited_ms += 200;
        cluster.assert_done(again);
        // In between other updates come and go.
        let other = cluster.add(id, &address(100 + id as u8));
        cluster.assert_done(other);
    }
    assert_eq!(cluster.serial(1), 5, "one step for the first, and one for each of three others");
    cluster.assert_same();
}

#[test]
fn add_delete_and_the_add_again_leaves_it_deleted() {
    let mut cluster = Cluster::with_zone(3);
    let record = address(1);
    let message = add(&record, 77, cluster.now.wall_ms);
    let first = cluster.update_octets(1, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    let builder = UpdateBuilder::new(78, name("example.test.").as_ref());
    let delete = builder.delete_record(record.owner.as_ref(), record.rtype, &record.rdata).finish();
    let delete = cluster.update_octets(2, sign(delete, cluster.now.wall_ms), "192.0.2.200:4000");
    cluster.run(100);
    cluster.assert_done(delete);
    let add_again = |cluster: &mut Cluster, id: u64| {
        let again = cluster.update_octets(id, message.clone(), "192.0.2.200:4000");
        cluster.run(500);
        cluster.assert_done(again);
        assert!(!cluster.has(id, &record), "it stays deleted on {id}");
        assert_eq!(cluster.serial(id), 3);
    };
    [1, 2, 3].into_iter().for_each(|id| add_again(&mut cluster, id));
    // Another leader, and a member that reads everything back from its disk.
    let leader = cluster.elect();
    cluster.kill(leader);
    cluster.elect();
    cluster.start(leader);
    cluster.run(1_000);
    [1, 2, 3].into_iter().for_each(|id| add_again(&mut cluster, id));
    cluster.assert_same();
}

#[test]
fn a_leader_without_room_refuses_what_is_new_at_once_and_keeps_what_is_old() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    // Nothing commits, so a change of the settings holds up what comes after it.
    cluster.lose = is_append_response;
    let grant = AdminCommand::Grant { key: name("key."), zone: None, right: Right::Transfer };
    let held_up = cluster.admin(leader, grant);
    let old = cluster.add(follower, &address(1));
    // One flow would leave room for others: so many are needed.
    for token in 0..EVALUATION_QUEUE_MAX as u64 {
        let filler = Command::Propose(Body::ImportAbandon(StageId(u128::from(token).to_be_bytes())));
        cluster.replica_mut(leader).head.enqueue(Origin { peer: None, token: 1 << 60 | token }, filler);
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

/// What a key that nobody else has sends, as a leader gets it: an update that says nothing.
fn flood(number: u64) -> Command {
    Command::Update(UpdateCommand {
        external: Default::default(),
        identity: (u128::from(number) << 32).to_be_bytes(),
        key_name: name("flood."),
        // The table of repeats of this cluster is small: none is at or below the floor of those before.
        time_signed: 1_700_000_000 + number,
        fudge: 300,
        source: [9; 16],
        taken: None,
        message: UpdateBuilder::new(1, name("example.test.").as_ref()).finish(),
    })
}

#[test]
fn a_key_that_sends_very_much_does_not_hold_up_the_others() {
    const FLOOD: u64 = 3_000;
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    // Nothing commits, so a change of the settings holds up what comes after it.
    cluster.lose = is_append_response;
    let grant = AdminCommand::Grant { key: name("key."), zone: None, right: Right::Transfer };
    cluster.admin(leader, grant);
    let before = cluster.replica(leader).status().last_index;
    for number in 0..FLOOD {
        let origin = Origin { peer: None, token: 1 << 60 | number };
        assert!(cluster.replica_mut(leader).head.enqueue(origin, flood(number)));
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
    let places: Vec<u64> = cluster.machines[&leader].audited.iter().filter_map(of_others).collect();
    assert_eq!(places.len(), 2);
    assert!(places.iter().all(|&index| index <= before + 10), "{places:?}, the flood begins after {before}");
    cluster.assert_same();
}

const REVOKE: fn() -> AdminCommand = || AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Update };
const GRANT: fn() -> AdminCommand = || AdminCommand::Grant { key: name("key."), zone: None, right: Right::Update };

/// What is said of an update that was executed does not depend on what became of its key or its zone since.
fn repeats_after(command: AdminCommand) {
    let mut cluster = Cluster::with_zone(3);
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_looked_at(1, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    assert_eq!(cluster.admin_ok(2, command), AdminReply::Done);
    for id in [1, 2, 3] {
        let again = cluster.update_looked_at(id, message.clone(), "192.0.2.200:4001");
        cluster.settle();
        cluster.assert_done(again);
        let replay = cluster.update_looked_at(id, message.clone(), "192.0.2.201:4000");
        cluster.settle();
        assert_eq!(cluster.verdict(replay), Some(Verdict::BadTime));
        // One that is new is refused, and leaves nothing.
        let before = cluster.replica(id).status().last_index;
        let new = add(&address(2), 80 + id as u16, cluster.now.wall_ms);
        let new = cluster.update_looked_at(id, new, "192.0.2.200:4000");
        cluster.run(200);
        assert_eq!(cluster.verdict(new), Some(Verdict::Refused));
        assert_eq!(cluster.replica(id).status().last_index, before);
    }
    cluster.assert_same();
}

#[test]
fn a_repeat_after_a_revoke_gets_the_first_rcode() {
    repeats_after(REVOKE());
}

#[test]
fn a_repeat_after_the_zone_went_gets_the_first_rcode() {
    repeats_after(AdminCommand::RemoveZone { zone: zone_id("example.test.") });
}

#[test]
fn a_member_that_is_behind_a_grant_finds_out_before_it_refuses() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let behind = leader % 3 + 1;
    cluster.admin_ok(leader, REVOKE());
    for other in [1, 2, 3].into_iter().filter(|&id| id != behind) {
        cluster.cut.extend([(behind, other), (other, behind)]);
    }
    cluster.admin_ok(leader, GRANT());
    // Granted, and executed through another; the member that is behind knows of neither.
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_looked_at(leader, message.clone(), "192.0.2.200:4000");
    cluster.run(100);
    cluster.assert_done(first);
    let again = cluster.update_looked_at(behind, message.clone(), "192.0.2.200:4000");
    let new = add(&address(2), 78, cluster.now.wall_ms);
    let new = cluster.update_looked_at(behind, new, "192.0.2.200:4000");
    cluster.run(500);
    assert_eq!((cluster.verdict(again), cluster.verdict(new)), (None, None), "it cannot know");
    cluster.cut.clear();
    cluster.run(2_000);
    cluster.assert_done(again);
    cluster.assert_done(new);
    cluster.run(500);
    cluster.assert_same();
}

#[test]
fn a_member_that_hears_nobody_refuses_nothing() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let alone = leader % 3 + 1;
    cluster.admin_ok(leader, REVOKE());
    for other in [1, 2, 3].into_iter().filter(|&id| id != alone) {
        cluster.cut.extend([(alone, other), (other, alone)]);
    }
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let request = cluster.update_looked_at(alone, message, "192.0.2.200:4000");
    cluster.run(3_000);
    assert_eq!(cluster.verdict(request), Some(Verdict::NotProposed));
}

#[test]
fn rights_are_the_leaders_to_judge() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let revoke = AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Update };
    cluster.admin_ok(leader, revoke);
    let request = cluster.add(follower, &address(1));
    assert_eq!(cluster.verdict(request), Some(Verdict::Answer(Rcode::REFUSED)));
    let transfer = AdminCommand::Grant { key: name("key."), zone: None, right: Right::Transfer };
    cluster.admin_ok(follower, transfer);
    let request = cluster.add(leader, &address(2));
    assert_eq!(cluster.verdict(request), Some(Verdict::Answer(Rcode::REFUSED)));
    let grant = AdminCommand::Grant { key: name("key."), zone: Some(zone_id("example.test.")), right: Right::Update };
    cluster.admin_ok(follower, grant);
    let request = cluster.add(follower, &address(3));
    cluster.assert_done(request);
    assert_eq!(cluster.serial(1), 2);
    cluster.assert_same();
}

#[test]
fn no_such_zone_is_notauth() {
    let mut cluster = Cluster::with_zone(3);
    let owner = name("www.other.test.");
    let builder = UpdateBuilder::new(5, name("other.test.").as_ref());
    let message = builder.add(owner.as_ref(), 60, Rtype::A, &[192, 0, 2, 1]).finish();
    let request = cluster.update_octets(2, sign(message, cluster.now.wall_ms), "192.0.2.200:4000");
    cluster.settle();
    assert_eq!(cluster.verdict(request), Some(Verdict::Answer(Rcode::NOTAUTH)));
}

#[test]
fn without_a_majority_the_client_hears_nothing_or_the_truth() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let followers: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    // The leader is alone: what it proposes may survive it, so its client must not hear SERVFAIL.
    cluster.cut_off(leader);
    let proposed = cluster.add(leader, &address(1));
    cluster.run(3_000);
    assert_eq!(cluster.verdict(proposed), Some(Verdict::Unknown));
    // By now it knows that it does not lead; nothing leaves it, so nothing can come of this one.
    let not_proposed = cluster.add(leader, &address(2));
    cluster.run(3_000);
    assert_eq!(cluster.verdict(not_proposed), Some(Verdict::NotProposed));
    // The others have gone on.
    let new = cluster.elect();
    assert_ne!(new, leader);
    let request = cluster.add(followers[0], &address(3));
    cluster.assert_done(request);
    cluster.cut.clear();
    cluster.run(1_000);
    assert!(cluster.alive().into_iter().all(|id| cluster.has(id, &address(3))));
    assert!(cluster.alive().into_iter().all(|id| !cluster.has(id, &address(1)) && !cluster.has(id, &address(2))));
    cluster.assert_same();
}

#[test]
fn an_update_survives_the_election_that_it_meets() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let followers: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    // It reaches the leader, which dies before anybody hears of it.
    let message = add(&address(1), 9, cluster.now.wall_ms);
    let request = cluster.update_octets(followers[0], message.clone(), "192.0.2.200:4000");
    cluster.kill(leader);
    cluster.run(1_000);
    cluster.assert_done(request);
    assert!(cluster.has(followers[1], &address(1)));
    // The client repeats its octets at the other member: executed once.
    let again = cluster.update_octets(followers[1], message, "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(again);
    assert_eq!(cluster.serial(followers[0]), 2);
    cluster.start(leader);
    cluster.run(1_000);
    cluster.assert_same();
}

/// Entries on their way to followers.
fn has_entries(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::Raft(message))) if !message.entries.is_empty())
}

#[test]
fn an_update_whose_place_died_with_its_leader_goes_to_the_next_at_once_also_in_a_quiet_cluster() {
    let mut cluster = Cluster::with_zone(3);
    let old = cluster.elect();
    let follower = old % 3 + 1;
    cluster.lose = has_entries;
    for last in 1..=5 {
        cluster.add(old, &address(last));
    }
    // Its leader put it behind five others; it dies, and nobody has any of them.
    let request = cluster.add(follower, &address(9));
    let place = cluster.replica(old).status().last_index;
    cluster.kill(old);
    cluster.lose = |_| false;
    cluster.run(500);
    assert!(cluster.replica(follower).status().last_index < place, "nothing else brings the log there");
    cluster.assert_done(request);
    assert_eq!(cluster.serial(follower), 2);
    cluster.run(500);
    cluster.assert_same();
}

#[test]
fn an_answer_that_tells_a_place_of_a_dead_term_late_is_known_to_be_void() {
    let mut cluster = Cluster::with_zone(3);
    let old = cluster.elect();
    let follower = old % 3 + 1;
    let term = cluster.replica(old).status().term;
    let message = add(&address(9), 77, cluster.now.wall_ms);
    let request = cluster.update_octets(follower, message, "192.0.2.200:4000");
    let attempt = attempt_on_its_way(&mut cluster, follower, old).unwrap();
    // The next leader takes nothing that is forwarded, so that the first attempt stays the only one.
    cluster.lose = |frame| matches!(Frame::decode(frame), Ok((_, Frame::Forward { .. })));
    cluster.kill(old);
    cluster.run(300);
    let index = cluster.replica(follower).status().applied_index + 5;
    let answer = Frame::Answer { token: attempt, answer: Answer::Proposed { index, term } }.encode(0);
    cluster.lose = |_| false;
    cluster.input(follower, Input::Peer { from: old, frame: answer });
    cluster.run(20);
    cluster.assert_done(request);
    cluster.run(500);
    cluster.assert_same();
}

#[test]
fn heads_of_a_deposed_leader_are_dropped() {
    let mut cluster = Cluster::with_zone(3);
    let old = cluster.elect();
    let followers: Vec<_> = cluster.alive().into_iter().filter(|&id| id != old).collect();
    cluster.cut_off(old);
    // Three on the head of the old leader, none of them committed; each builds on the one before.
    for last in 1..=3 {
        cluster.add(old, &address(last));
    }
    assert_eq!(cluster.replica(old).head.uncommitted_count(), 3);
    assert_eq!(cluster.serial(old), 1, "nothing of it is published");
    // The new leader goes another way.
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
    assert_eq!(cluster.replica(old).head.uncommitted_count(), 0);
    assert!(cluster.has(old, &address(9)));
    // Their clients still wait at the old leader, which asks the new one: executed after all, once.
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
    // In the log, and not committed.
    let first = cluster.add(leader, &address(1));
    assert_eq!(cluster.replica(leader).head.uncommitted_count(), 1);
    // Raft takes no more: its limit of uncommitted octets is reached.
    cluster.replica_mut(leader).driver.drop_next_proposal();
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

#[test]
fn reads_wait_for_what_was_acknowledged_before_them() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    for (request_id, id) in [(900, leader), (901, follower)] {
        cluster.input(id, Input::ReadIndex { request_id });
        cluster.settle();
        assert!(cluster.reads[&request_id].is_ok());
        assert!(cluster.has(id, &address(1)));
    }
    // A leader that is cut off confirms nothing.
    for id in cluster.alive() {
        cluster.cut.insert((id, leader));
    }
    cluster.input(leader, Input::ReadIndex { request_id: 902 });
    cluster.run(3_000);
    assert!(cluster.reads[&902].is_err());
}

/// The frames that a member wants to send to another, of one kind.
fn frames_to(cluster: &mut Cluster, from: u64, to: u64) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(output) = cluster.replica_mut(from).poll() {
        if let Output::Send { to: receiver, frame, .. } = output
            && receiver == to
        {
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn a_command_whose_frame_comes_again_is_carried_out_once() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let zone = zone_id("twice.test.");
    let contents = Contents::new(&zone, records("twice.test.", 1)).unwrap();
    let add = AdminCommand::AddZone { zone: zone.clone(), options: ZoneOptions::default(), contents };
    cluster.admin_ok(follower, add.clone());
    let removal = 9_999;
    let command = AdminCommand::RemoveZone { zone: zone.clone() };
    cluster.input(follower, Input::Admin { request_id: removal, command });
    let frames = frames_to(&mut cluster, follower, leader);
    assert_eq!(frames.len(), 1, "it was forwarded");
    let deliver = |cluster: &mut Cluster| {
        cluster.input(leader, Input::Peer { from: follower, frame: frames[0].clone() });
        cluster.settle();
        cluster.run(100);
    };
    deliver(&mut cluster);
    assert_eq!(cluster.admin[&removal], Ok(AdminReply::Done));
    cluster.admin_ok(follower, add);
    deliver(&mut cluster);
    assert!(cluster.replica(leader).zones().published().zone(&zone).is_some(), "it was added again, and stays");
    assert_eq!(cluster.replica(leader).status().counters.forwards_repeated, 1);
    cluster.assert_same();
}

/// The number of the last attempt at a command that is on its way between the two.
fn attempt_on_its_way(cluster: &mut Cluster, from: u64, to: u64) -> Option<u64> {
    let frames = frames_to(cluster, from, to);
    let mut tokens = frames.iter().filter_map(|frame| match Frame::decode(frame) {
        Ok((_, Frame::Forward { token, .. })) => Some(token),
        _ => None,
    });
    tokens.next_back()
}

/// An update of which nobody knows what became of the first attempt, and the number of the second.
fn asked_twice(cluster: &mut Cluster, follower: u64, leader: u64) -> (u64, u64) {
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let request = cluster.update_octets(follower, message, "192.0.2.200:4000");
    let first = attempt_on_its_way(cluster, follower, leader).unwrap();
    let mut second = None;
    while second.is_none() {
        cluster.now.monotonic_ms += 10;
        cluster.input(follower, Input::Tick);
        second = attempt_on_its_way(cluster, follower, leader);
    }
    let second = second.unwrap();
    assert_ne!(first, second, "each attempt has a number of its own");
    (request, second)
}

/// Whatever the leader says no to the second attempt with, nobody knows what became of the first.
#[test]
fn an_answer_that_comes_again_makes_nothing_certain() {
    for answer in [Answer::NotProposed, Answer::Overloaded, Answer::Refused(AdminError::TooLarge)] {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
        let (request, second) = asked_twice(&mut cluster, follower, leader);
        let refusal = Frame::Answer { token: second, answer }.encode(0);
        for _ in 0..2 {
            cluster.input(follower, Input::Peer { from: leader, frame: refusal.clone() });
        }
        cluster.cut = [(follower, leader), (leader, follower)].into();
        cluster.run(5_000);
        assert_eq!(cluster.verdict(request), Some(Verdict::Unknown), "{answer:?}: the first may have been carried out");
    }
}

/// The leader has the first attempt after all, once it has refused the second.
#[test]
fn an_update_that_was_refused_once_and_is_carried_out_is_told_so() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let (request, second) = asked_twice(&mut cluster, follower, leader);
    let answer = Answer::Refused(AdminError::TooLarge);
    cluster.input(follower, Input::Peer { from: leader, frame: Frame::Answer { token: second, answer }.encode(0) });
    // The same octets through another member stand for the first attempt.
    let message = add(&address(1), 77, cluster.now.wall_ms);
    cluster.update_octets(leader, message, "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(request);
}

#[test]
fn an_update_whose_only_attempt_is_refused_was_certainly_not_made() {
    for answer in [Answer::Overloaded, Answer::Refused(AdminError::TooLarge)] {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
        let message = add(&address(1), 77, cluster.now.wall_ms);
        let request = cluster.update_octets(follower, message, "192.0.2.200:4000");
        let token = attempt_on_its_way(&mut cluster, follower, leader).unwrap();
        cluster.input(follower, Input::Peer { from: leader, frame: Frame::Answer { token, answer }.encode(0) });
        cluster.settle();
        assert_eq!(cluster.verdict(request).map(Verdict::plain), Some(Verdict::NotProposed));
    }
}

#[test]
fn a_sender_that_comes_after_a_stranger_to_a_member_that_lags_hears_its_outcome() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let lagging = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    // Its disk hangs: it does not apply what the others have.
    cluster.machines.get_mut(&lagging).unwrap().hung = Some(Vec::new());
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_octets(leader, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    let stranger = cluster.update_octets(lagging, message.clone(), "192.0.2.201:4000");
    let again = cluster.update_octets(lagging, message.clone(), "192.0.2.200:4001");
    let other = cluster.update_octets(lagging, message, "192.0.2.202:4001");
    cluster.settle();
    cluster.unhang(lagging);
    cluster.run(500);
    cluster.assert_done(again);
    assert_eq!(cluster.verdict(stranger), Some(Verdict::BadTime));
    assert_eq!(cluster.verdict(other), Some(Verdict::BadTime));
    cluster.assert_same();
}
