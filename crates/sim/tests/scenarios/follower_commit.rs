//! Updates that a follower commits before its leader does.

use super::cluster::*;
use raft::eraftpb::MessageType;
use replica::io::{Input, NodeId, Serving, Verdict};
use replica::peer::{Durable, Frame};
use wire::number::Rcode;

/// Returns a leader and its two followers.
fn three() -> (Cluster, NodeId, [NodeId; 2]) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let followers: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    (cluster, leader, followers.try_into().unwrap())
}

fn is_durable(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::Durable(_))))
}

fn is_append(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::Raft(message))) if message.get_msg_type() == MessageType::MsgAppend)
}

fn is_response_or_durable(frame: &[u8]) -> bool {
    is_append_response(frame) || is_durable(frame)
}

#[test]
fn follower_acknowledges_before_the_leader_commits() {
    let (mut cluster, leader, [taker, other]) = three();
    cluster.lose = is_append_response;
    let before = cluster.replica(leader).brief_status().commit_index;
    let request = cluster.add(taker, &address(1));
    cluster.assert_done(request);
    assert!(cluster.has(taker, &address(1)));
    assert_eq!(cluster.replica(leader).brief_status().commit_index, before, "the leader does not know yet");
    assert!(![leader, other].iter().any(|&id| cluster.has(id, &address(1))));
    cluster.lose = |_| false;
    cluster.run(200);
    assert!([leader, other].iter().all(|&id| cluster.has(id, &address(1))));
    cluster.assert_same();
}

#[test]
fn read_through_any_member_sees_follower_commits() {
    let (mut cluster, leader, [taker, other]) = three();
    cluster.lose = is_append_response;
    let request = cluster.add(taker, &address(1));
    cluster.assert_done(request);
    let applied = cluster.replica(taker).state_hash().0;
    for (request_id, id) in [(900, leader), (901, other), (902, taker)] {
        cluster.input(id, Input::ReadIndex { request_id });
    }
    cluster.run(100);
    assert!(!cluster.reads.contains_key(&900) && !cluster.reads.contains_key(&901), "{:?}", cluster.reads);
    assert_eq!(cluster.reads[&902], Ok(applied), "a member that applied it need not wait");
    cluster.lose = |_| false;
    cluster.run(200);
    assert!([900, 901].iter().all(|request| cluster.reads[request].unwrap() >= applied), "{:?}", cluster.reads);
}

#[test]
fn restarted_follower_serves_nothing_older_than_it_acknowledged() {
    let (mut cluster, leader, [taker, other]) = three();
    cluster.run(500);
    cluster.lose = is_append_response;
    let request = cluster.add(taker, &address(1));
    cluster.assert_done(request);
    cluster.kill(taker);
    cluster.start(taker);
    cluster.run(1_000);
    assert_eq!(cluster.leader(), Some(leader), "the leader is the same");
    assert!(!cluster.has(taker, &address(1)), "it has not learned of it again");
    assert_eq!(cluster.replica(taker).serving(), Serving::No);
    cluster.lose = |_| false;
    cluster.run(300);
    assert_eq!(cluster.replica(taker).serving(), Serving::Yes);
    assert!([leader, taker, other].iter().all(|&id| cluster.has(id, &address(1))));
}

#[test]
fn follower_commit_survives_the_loss_of_the_leader() {
    let (mut cluster, leader, [taker, _]) = three();
    cluster.lose = is_append_response;
    let request = cluster.add(taker, &address(1));
    cluster.assert_done(request);
    cluster.lose_power(leader);
    cluster.lose = |_| false;
    let next = cluster.elect();
    assert_eq!(next, taker, "the other lacks the entry");
    cluster.run(300);
    assert!(cluster.alive().iter().all(|&id| cluster.has(id, &address(1))));
}

#[test]
fn two_of_five_are_no_majority() {
    let mut cluster = Cluster::with_zone(5);
    let leader = cluster.elect();
    let taker = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.lose = is_append_response;
    let request = cluster.add(taker, &address(1));
    assert_eq!(cluster.verdict(request), None);
    cluster.lose = |_| false;
    cluster.run(200);
    cluster.assert_done(request);
}

#[test]
fn follower_commit_is_off_below_its_feature_level() {
    let (mut cluster, _, [taker, _]) = three();
    for id in cluster.alive() {
        cluster.replica_mut(id).pretend_feature_level(1);
    }
    cluster.lose = |frame| {
        assert!(!is_durable(frame), "software of the first level would take it for malformed");
        is_append_response(frame)
    };
    let request = cluster.add(taker, &address(1));
    assert_eq!(cluster.verdict(request), None);
}

#[test]
fn durable_messages_count_only_from_the_leader_with_the_same_voters() {
    let (mut cluster, leader, [taker, other]) = three();
    cluster.lose = is_response_or_durable;
    let request = cluster.add(taker, &address(1));
    assert_eq!(cluster.verdict(request), None);
    let status = cluster.replica(leader).brief_status();
    let right = Durable { term: status.term, index: status.last_index, voters: vec![1, 2, 3] };
    let mut say = |from, durable: &Durable| {
        let frame = Frame::Durable(durable.clone()).encode(cluster.replica(taker).config().group);
        cluster.input(taker, Input::Peer { from, frame });
        cluster.settle();
        cluster.verdict(request).is_some()
    };
    assert!(!say(other, &right), "of one that does not lead");
    assert!(!say(leader, &Durable { term: right.term - 1, ..right.clone() }), "of another term");
    assert!(!say(leader, &Durable { index: right.index - 1, ..right.clone() }), "the entry before");
    assert!(!say(leader, &Durable { voters: vec![1, 2, 3, 4], ..right.clone() }), "of other voters");
    assert!(!say(leader, &Durable { voters: vec![1, 2], ..right.clone() }), "of fewer voters");
    assert!(say(leader, &Durable { index: right.index + 1_000, ..right }), "it holds this much of it");
    cluster.assert_done(request);
}

#[test]
fn follower_commits_only_what_is_on_both_disks() {
    for is_own in [true, false] {
        let (mut cluster, leader, [taker, _]) = three();
        let hangs = if is_own { taker } else { leader };
        cluster.lose = is_append_response;
        cluster.machines.get_mut(&hangs).unwrap().hung = Some(Vec::new());
        let request = cluster.add(taker, &address(1));
        assert_eq!(cluster.verdict(request), None);
        cluster.unhang(hangs);
        cluster.assert_done(request);
    }
}

/// The leader names an index at which this member still has entries from an earlier leader.
#[test]
fn entries_of_an_earlier_term_are_not_committed_early() {
    let (mut cluster, old, _) = three();
    cluster.cut_off(old);
    let lost = [1, 2, 3, 4, 5].map(|last| cluster.add(old, &address(last)));
    cluster.run(3_000);
    let leader = cluster.leader().unwrap();
    assert_ne!(leader, old);
    let request = cluster.add(leader, &address(9));
    cluster.assert_done(request);
    // The old leader receives frames of the new leader, which cannot replace its entries yet.
    cluster.cut.clear();
    cluster.lose = is_append;
    cluster.run(500);
    let [before, theirs] = [old, leader].map(|id| cluster.replica(id).brief_status());
    assert_eq!((before.term, before.leader), (theirs.term, Some(leader)));
    assert!(before.commit_index < theirs.last_index && theirs.last_index <= before.last_index);
    let durable = Durable { term: theirs.term, index: theirs.last_index, voters: vec![1, 2, 3] };
    let frame = Frame::Durable(durable).encode(cluster.replica(old).config().group);
    cluster.input(old, Input::Peer { from: leader, frame });
    cluster.settle();
    assert_eq!(cluster.replica(old).brief_status().commit_index, before.commit_index);
    cluster.lose = |_| false;
    cluster.run(1_000);
    cluster.assert_same();
    assert!(cluster.has(old, &address(9)));
    // The outcome of the others may differ, but no client was told that an update is done if it is not.
    for (request, last) in lost.into_iter().zip(1..) {
        let is_done = cluster.verdict(request) == Some(Verdict::Answer(Rcode::NOERROR));
        assert!(!is_done || cluster.has(old, &address(last)), "{last}");
    }
}
