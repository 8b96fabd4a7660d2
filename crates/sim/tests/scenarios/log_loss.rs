//! A leader contradicts a member's log. A single message has no lasting effect. A member whose log lost acknowledged
//! entries does not help to elect a leader without them.

use super::cluster::*;
use raft::eraftpb::{Entry, Message, MessageType};
use replica::io::{FatalReason, Input, NodeId, SuspectedLoss};
use replica::peer::Frame;

fn heartbeat(cluster: &Cluster, from: NodeId, to: NodeId, commit: u64) -> Input {
    let term = cluster.replica(to).status().term;
    let mut message = Message { from, to, term, commit, ..Message::default() };
    message.set_msg_type(MessageType::MsgHeartbeat);
    Input::Peer { from, frame: Frame::Raft(Box::new(message)).encode(0) }
}

/// A message with another entry at a committed index.
fn other_entry(cluster: &Cluster, from: NodeId, to: NodeId) -> Input {
    let status = cluster.replica(to).status();
    let mut message = Message { from, to, term: status.term, index: status.commit_index - 1, ..Message::default() };
    message.set_msg_type(MessageType::MsgAppend);
    message.set_entries(vec![Entry { index: status.commit_index, term: 1, ..Entry::default() }].into());
    message.log_term = 1;
    Input::Peer { from, frame: Frame::Raft(Box::new(message)).encode(0) }
}

#[test]
fn single_contradiction_has_no_effect() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (follower, other) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let before = cluster.replica(follower).status();
    // The leader sends it once. A member that does not lead sends it repeatedly.
    let once = heartbeat(&cluster, leader, follower, 1_000_000_000);
    cluster.input(follower, once);
    assert!(cluster.replica(follower).must_not_campaign());
    for _ in 0..60 {
        for input in [heartbeat(&cluster, other, follower, 1_000_000_000), other_entry(&cluster, other, follower)] {
            cluster.input(follower, input);
        }
        cluster.run(50);
    }
    let after = cluster.replica(follower).status();
    assert_eq!(cluster.machines[&follower].fatal, None);
    assert!(!cluster.replica(follower).must_not_campaign());
    assert_eq!((after.term, after.commit_index, after.role), (before.term, before.commit_index, before.role));
    assert_eq!(after.invariant_violations.refused_messages, 121);
    // The member votes and leads as before.
    cluster.kill(leader);
    cluster.elect();
    let request = cluster.add(follower, &address(1));
    cluster.run(200);
    cluster.assert_done(request);
}

/// A leader lies repeatedly: the member exits, reports the claim, and starts again.
#[test]
fn lying_leader_stops_a_member_which_then_restarts() {
    for is_diverged in [false, true] {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let follower = leader % 3 + 1;
        let (term, last_index) =
            (cluster.replica(follower).status().term, cluster.replica(follower).status().last_index);
        let mut rounds = 0;
        while cluster.machines[&follower].fatal.is_none() && rounds < 100 {
            let lie = match is_diverged {
                false => heartbeat(&cluster, leader, follower, 1_000_000_000),
                true => other_entry(&cluster, leader, follower),
            };
            cluster.input(follower, lie);
            cluster.run(50);
            rounds += 1;
        }
        assert!((20..30).contains(&rounds), "{rounds}");
        let contradicted = match (cluster.machines[&follower].fatal, is_diverged) {
            (Some(FatalReason::LogLost(contradicted)), false)
            | (Some(FatalReason::LogDiverged(contradicted)), true) => contradicted,
            (other, _) => panic!("{other:?}"),
        };
        let index = if is_diverged { last_index } else { 1_000_000_000 };
        assert_eq!(
            (contradicted.by, contradicted.term, contradicted.last_index, contradicted.index),
            (leader, term, last_index, index)
        );
        assert_eq!(contradicted.loss, SuspectedLoss { term, index, is_diverged, is_torn: false });
        // The member starts, stores new entries, and forms a majority with the leader.
        cluster.kill(follower);
        cluster.machines.get_mut(&follower).unwrap().fatal = None;
        cluster.start(follower);
        cluster.run(2_000);
        let other = (leader + 1) % 3 + 1;
        cluster.kill(other);
        let request = cluster.add(leader, &address(1));
        cluster.run(200);
        cluster.assert_done(request);
        cluster.start(other);
        cluster.run(500);
        // Another leader resolves the suspected loss.
        assert!(cluster.replica(follower).must_not_campaign());
        cluster.admin_ok(leader, replica::io::AdminCommand::TransferLeader { to: Some(other) });
        cluster.run(1_000);
        assert_eq!((cluster.leader(), cluster.machines[&follower].suspected_loss), (Some(other), None));
        assert!(!cluster.replica(follower).must_not_campaign());
        cluster.kill(other);
        cluster.elect();
    }
}

/// The victim's disk is rolled back while the third member is cut off. Now only the leader has the acknowledged update.
/// The leader contradicts the victim's log and then goes away.
fn a_disk_that_went_back() -> (Cluster, NodeId, NodeId, NodeId) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (victim, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let older = cluster.machines[&victim].disk.contents().clone();
    cluster.cut_off(third);
    for last in 1..=5 {
        let request = cluster.add(leader, &address(last));
        cluster.run(100);
        cluster.assert_done(request);
    }
    cluster.kill(victim);
    *cluster.machines.get_mut(&victim).unwrap().disk.contents_mut() = older;
    cluster.start(victim);
    cluster.run(3_000);
    let fatal = cluster.machines[&victim].fatal;
    assert!(matches!(fatal, Some(FatalReason::LogLost(contradicted)) if contradicted.by == leader), "{fatal:?}");
    cluster.kill(victim);
    cluster.machines.get_mut(&victim).unwrap().fatal = None;
    (cluster, leader, victim, third)
}

#[test]
fn log_that_lost_acknowledged_entries_votes_only_for_complete_logs() {
    let (mut cluster, leader, victim, third) = a_disk_that_went_back();
    cluster.kill(leader);
    cluster.cut.clear();
    cluster.start(victim);
    cluster.run(10_000);
    assert_eq!(cluster.leader(), None, "the third lacks what was acknowledged");
    assert!(cluster.replica(victim).status().counters.votes_withheld > 0);
    // The member with the update is elected with the victim's vote.
    cluster.cut_off(third);
    cluster.start(leader);
    cluster.run(3_000);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.cut.clear();
    cluster.run(2_000);
    for id in cluster.alive() {
        assert!((1..=5).all(|last| cluster.has(id, &address(last))), "{id}");
    }
    assert!(cluster.machines[&victim].suspected_loss.is_none() && !cluster.replica(victim).must_not_campaign());
    cluster.kill(leader);
    cluster.elect();
}

/// Shows why the suspected loss must be stored. Without it, the same log elects a leader without the acknowledged
/// update, which is then lost.
#[test]
fn without_the_suspicion_acknowledged_entries_are_lost() {
    let (mut cluster, leader, victim, third) = a_disk_that_went_back();
    cluster.kill(leader);
    cluster.cut.clear();
    cluster.machines.get_mut(&victim).unwrap().suspected_loss = None;
    cluster.start(victim);
    cluster.run(10_000);
    assert!(cluster.leader().is_some());
    assert!(!cluster.has(third, &address(5)));
}
