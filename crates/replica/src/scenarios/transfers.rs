//! Checkpoints on their way to a member, and what may become of them.

use super::cluster::*;
use crate::io::{NodeId, Serving};
use crate::log::LogConfig;
use crate::peer::Frame;
use raft::eraftpb::MessageType;

/// A cluster whose third member is down and needs a checkpoint; the leader, and that member.
fn with_lagging() -> (Cluster, NodeId, NodeId) {
    let log = LogConfig {
        segment_bytes: 1 << 16,
        entries_behind_checkpoint: 5,
        bytes_behind_checkpoint: 4_096,
        checkpoint_due_bytes: 1 << 15,
        ..LogConfig::default()
    };
    let mut cluster = Cluster::with_log(3, log);
    cluster.prepare();
    let leader = cluster.elect();
    let lagging = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.kill(lagging);
    let leader = cluster.elect();
    for last in 1..=250u8 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    cluster.run(500);
    (cluster, leader, lagging)
}

fn assert_caught_up(cluster: &Cluster, leader: NodeId, lagging: NodeId) {
    assert_eq!(cluster.replica(lagging).state_hash(), cluster.replica(leader).state_hash());
    assert_eq!(cluster.replica(lagging).serving(), Serving::Yes);
    assert_eq!(cluster.replica(lagging).status().counters.checkpoints_installed, 1);
}

#[test]
fn a_member_that_starts_again_during_a_transfer_gets_another_at_once() {
    let (mut cluster, leader, lagging) = with_lagging();
    // Its blocks never arrive, and nobody sees it go: only its next boot tells.
    cluster.lose = |frame| matches!(Frame::decode(frame), Ok((_, Frame::Checkpoint(_))));
    cluster.start(lagging);
    cluster.run(300);
    assert_eq!(cluster.replica(lagging).status().counters.checkpoints_installed, 0);
    cluster.machines.get_mut(&lagging).unwrap().replica = None;
    cluster.lose = |_| false;
    cluster.start(lagging);
    cluster.run(1_500);
    assert_caught_up(&cluster, leader, lagging);
}

#[test]
fn a_manifest_that_is_lost_is_sent_again_soon() {
    let (mut cluster, leader, lagging) = with_lagging();
    cluster.lose = |frame| match Frame::decode(frame) {
        Ok((_, Frame::Raft(message))) => message.get_msg_type() == MessageType::MsgSnapshot,
        _ => false,
    };
    cluster.start(lagging);
    cluster.run(1_000);
    cluster.lose = |_| false;
    cluster.run(4_000);
    assert_caught_up(&cluster, leader, lagging);
}
