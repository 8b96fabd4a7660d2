//! Updates and commands that a follower forwards: lost leaders, late answers, second attempts.

use super::cluster::*;
use replica::io::{AdminCommand, AdminError, AdminReply, Contents, Input, Output, Verdict, ZoneOptions};
use replica::peer::Frame;
use replica::testing::Answer;

#[test]
fn client_gets_no_false_outcome_without_a_majority() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let followers: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    // The leader is alone. Its proposals may still be committed later, so the client must not get SERVFAIL.
    cluster.cut_off(leader);
    let proposed = cluster.add(leader, &address(1));
    cluster.run(3_000);
    assert_eq!(cluster.verdict(proposed), Some(Verdict::Unknown));
    // By now the member knows that it does not lead, and it cannot send anything. This update is certainly not
    // executed.
    let not_proposed = cluster.add(leader, &address(2));
    cluster.run(3_000);
    assert_eq!(cluster.verdict(not_proposed), Some(Verdict::NotProposed));
    // The others have continued.
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
fn update_survives_an_election() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let followers: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    // The update reaches the leader, which dies before any other member gets it.
    let message = add(&address(1), 9, cluster.now.wall_ms);
    let request = cluster.update_bytes(followers[0], message.clone(), "192.0.2.200:4000");
    cluster.kill(leader);
    cluster.run(1_000);
    cluster.assert_done(request);
    assert!(cluster.has(followers[1], &address(1)));
    // The client repeats its bytes at the other member. The update is executed once.
    let again = cluster.update_bytes(followers[1], message, "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(again);
    assert_eq!(cluster.serial(followers[0]), 2);
    cluster.start(leader);
    cluster.run(1_000);
    cluster.assert_same();
}

/// Whether the frame has entries for a follower.
fn has_entries(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::Raft(message))) if !message.entries.is_empty())
}

#[test]
fn update_in_a_lost_log_position_is_resent_immediately() {
    let mut cluster = Cluster::with_zone(3);
    let old = cluster.elect();
    let follower = old % 3 + 1;
    cluster.lose = has_entries;
    for last in 1..=5 {
        cluster.add(old, &address(last));
    }
    // The leader appended the update after five other entries, and dies before any other member has them.
    let request = cluster.add(follower, &address(9));
    let last_index = cluster.replica(old).status().last_index;
    cluster.kill(old);
    cluster.lose = |_| false;
    cluster.run(500);
    assert!(cluster.replica(follower).status().last_index < last_index, "nothing else brings the log there");
    cluster.assert_done(request);
    assert_eq!(cluster.serial(follower), 2);
    cluster.run(500);
    cluster.assert_same();
}

#[test]
fn late_answer_with_a_position_of_an_old_term_is_void() {
    let mut cluster = Cluster::with_zone(3);
    let old = cluster.elect();
    let follower = old % 3 + 1;
    let term = cluster.replica(old).status().term;
    let message = add(&address(9), 77, cluster.now.wall_ms);
    let request = cluster.update_bytes(follower, message, "192.0.2.200:4000");
    let attempt = attempt_on_its_way(&mut cluster, follower, old).unwrap();
    // The next leader gets no forwarded command, so the first attempt remains the only one.
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

/// The frames of one kind that a member sends to another.
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
fn repeated_forward_frame_is_executed_once() {
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

/// The number of the last attempt that is on its way between two members.
fn attempt_on_its_way(cluster: &mut Cluster, from: u64, to: u64) -> Option<u64> {
    let frames = frames_to(cluster, from, to);
    let mut tokens = frames.iter().filter_map(|frame| match Frame::decode(frame) {
        Ok((_, Frame::Forward { token, .. })) => Some(token),
        _ => None,
    });
    tokens.next_back()
}

/// Returns an update whose first attempt has an unknown outcome, and the number of the second attempt.
fn asked_twice(cluster: &mut Cluster, follower: u64, leader: u64) -> (u64, u64) {
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let request = cluster.update_bytes(follower, message, "192.0.2.200:4000");
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

/// The outcome of the first attempt remains unknown, even if the leader refuses the second attempt.
#[test]
fn repeated_answer_does_not_settle_other_attempts() {
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

/// The leader executes the first attempt after it has refused the second.
#[test]
fn update_refused_once_and_executed_later_succeeds() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let (request, second) = asked_twice(&mut cluster, follower, leader);
    let answer = Answer::Refused(AdminError::TooLarge);
    cluster.input(follower, Input::Peer { from: leader, frame: Frame::Answer { token: second, answer }.encode(0) });
    // The same bytes sent through another member count as the first attempt.
    let message = add(&address(1), 77, cluster.now.wall_ms);
    cluster.update_bytes(leader, message, "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(request);
}

#[test]
fn update_with_one_refused_attempt_is_reported_as_not_done() {
    for answer in [Answer::Overloaded, Answer::Refused(AdminError::TooLarge)] {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
        let message = add(&address(1), 77, cluster.now.wall_ms);
        let request = cluster.update_bytes(follower, message, "192.0.2.200:4000");
        let token = attempt_on_its_way(&mut cluster, follower, leader).unwrap();
        cluster.input(follower, Input::Peer { from: leader, frame: Frame::Answer { token, answer }.encode(0) });
        cluster.settle();
        assert_eq!(cluster.verdict(request).map(Verdict::plain), Some(Verdict::NotProposed));
    }
}
