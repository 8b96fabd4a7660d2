//! Members that lag: transfers of checkpoints, and the behavior of these members before they have caught up.

use super::cluster::*;
use raft::eraftpb::{Message, MessageType};
use replica::checkpoint::{INCOMING_FILE, Part, TransferFrame, checkpoint_file};
use replica::disk::DiskOp;
use replica::io::{AdminCommand, AdminReply, Contents, Input, NodeId, Role, Serving, ZoneOptions};
use replica::log::LogConfig;
use replica::peer::Frame;
use wire::number::Rtype;
use zone::Record;

/// Logs that are so small that a member needs a checkpoint after it was away.
fn small_log() -> LogConfig {
    LogConfig {
        segment_bytes: 1 << 16,
        entries_behind_checkpoint: 5,
        bytes_behind_checkpoint: 4_096,
        checkpoint_due_bytes: 1 << 15,
        ..LogConfig::default()
    }
}

/// A cluster whose third member is down and needs a checkpoint. Returns the leader and that member.
fn with_lagging() -> (Cluster, NodeId, NodeId) {
    let mut cluster = Cluster::with_log(3, small_log());
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
    // The blocks of the member never arrive. Only its next boot id shows that it has restarted.
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

#[test]
fn late_own_checkpoint_does_not_replace_an_installed_one() {
    let mut cluster = Cluster::with_log(3, small_log());
    cluster.prepare();
    let leader = cluster.elect();
    let late = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let writing = |cluster: &Cluster| cluster.machines[&late].writing_hung.as_ref().map_or(0, Vec::len);
    cluster.machines.get_mut(&late).unwrap().writing_hung = Some(Vec::new());
    for last in 1..=250u8 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    assert!(writing(&cluster) > 0, "it has begun a checkpoint");
    cluster.cut = cluster.machines.keys().flat_map(|&id| [(id, late), (late, id)]).collect();
    for last in 1..=250u8 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    cluster.run(500);
    cluster.cut.clear();
    cluster.run(4_000);
    let leader = cluster.elect();
    assert_caught_up(&cluster, leader, late);
    cluster.unhang_writing(late);
    // Adds enough entries for the log to drop those that it no longer needs.
    for last in 1..=10u8 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    cluster.run(500);
    cluster.kill(late);
    cluster.start(late);
    cluster.run(1_000);
    cluster.assert_same();
}

#[test]
fn a_member_between_its_old_state_and_an_installed_one_does_not_campaign() {
    let (mut cluster, leader, lagging) = with_lagging();
    cluster.lose = |frame| match Frame::decode(frame) {
        Ok((_, Frame::Raft(message))) => message.get_msg_type() == MessageType::MsgSnapshot,
        _ => false,
    };
    cluster.start(lagging);
    cluster.lose = |_| false;
    // The checkpoint arrives, but the record that installs it does not reach the disk.
    cluster.machines.get_mut(&lagging).unwrap().hung = Some(Vec::new());
    cluster.run(4_000);
    assert!(cluster.replica(lagging).is_installing());
    let term = cluster.replica(lagging).status().term;
    // The member knows that its leader is gone, its timeout passes, and it is asked to take over.
    cluster.kill(leader);
    let mut message = Message { from: leader, to: lagging, term, ..Message::default() };
    message.set_msg_type(MessageType::MsgTimeoutNow);
    let frame = Frame::Raft(Box::new(message)).encode(0);
    cluster.input(lagging, Input::Peer { from: leader, frame });
    cluster.run(2_000);
    assert_eq!(cluster.replica(lagging).status().role, Role::Follower);
    cluster.unhang(lagging);
    cluster.run(4_000);
    let leader = cluster.elect();
    assert_caught_up(&cluster, leader, lagging);
}

fn add_zone(serial: u32) -> AdminCommand {
    let zone = zone_id("gone.test.");
    let contents = Contents::new(&zone, records("gone.test.", serial)).unwrap();
    AdminCommand::AddZone { zone, options: ZoneOptions::default(), contents }
}

#[test]
fn zone_added_again_through_a_lagging_member_continues_its_serial() {
    let mut cluster = Cluster::with_zone(3);
    if cluster.elect() == 3 {
        cluster.admin_ok(3, AdminCommand::TransferLeader { to: Some(1) });
    }
    cluster.kill(3);
    cluster.elect();
    assert_eq!(cluster.admin_ok(1, add_zone(5)), AdminReply::Done);
    assert_eq!(cluster.admin_ok(2, AdminCommand::RemoveZone { zone: zone_id("gone.test.") }), AdminReply::Done);
    // The member knows the leader, but not that the zone was added and removed.
    cluster.lose = |frame| match Frame::decode(frame) {
        Ok((_, Frame::Raft(message))) => message.to == 3 && message.get_msg_type() == MessageType::MsgAppend,
        _ => false,
    };
    cluster.start(3);
    cluster.run(200);
    let request = cluster.admin(3, add_zone(1));
    cluster.lose = |_| false;
    cluster.run(1_000);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Done));
    for id in [1, 2, 3] {
        let published = cluster.replica(id).zones().published();
        assert_eq!(published.zone(&zone_id("gone.test.")).unwrap().serial().unwrap().0, 6);
    }
    cluster.assert_same();
}

/// Whether the frame has a block of a checkpoint, from `FIRST` on and before `END`.
fn is_block<const FIRST: u32, const END: u32>(frame: &[u8]) -> bool {
    let Ok((_, Frame::Checkpoint(bytes))) = Frame::decode(frame) else { return false };
    let is_it = |number: u32| (FIRST..END).contains(&number);
    matches!(TransferFrame::decode(&bytes),
        Ok(TransferFrame::Block { part: Part::Data, number, .. }) if is_it(number))
}

/// The same with checkpoints of many blocks. All running members have these checkpoints.
fn with_lagging_far() -> (Cluster, NodeId, NodeId) {
    let (mut cluster, leader, lagging) = with_lagging();
    add_big_zone(&mut cluster, leader);
    (cluster, leader, lagging)
}

fn add_big_zone(cluster: &mut Cluster, leader: NodeId) {
    let zone = zone_id("big.test.");
    let mut all = records("big.test.", 7);
    all.extend((0..60_000u32).map(|number| Record {
        owner: name(&format!("host-{number}.big.test.")),
        rtype: Rtype::TXT,
        ttl: 60,
        rdata: vec![20; 21].into(),
    }));
    let contents = Contents::new(&zone, all).unwrap();
    let add = AdminCommand::AddZone { zone, options: ZoneOptions::default(), contents };
    assert_eq!(cluster.admin_ok(leader, add), AdminReply::Done);
    write_checkpoint(cluster, leader);
}

/// Writes another checkpoint with a later state.
fn write_checkpoint(cluster: &mut Cluster, id: NodeId) {
    let request = cluster.add(id, &address(1));
    cluster.assert_done(request);
    assert!(matches!(cluster.admin_ok(id, AdminCommand::Checkpoint), AdminReply::Checkpoint { .. }));
}

#[test]
fn interrupted_transfer_resumes_despite_a_newer_checkpoint() {
    let (mut cluster, leader, lagging) = with_lagging_far();
    cluster.lose = is_block::<6, { u32::MAX }>;
    cluster.start(lagging);
    cluster.run(300);
    write_checkpoint(&mut cluster, leader);
    // Blocks that have arrived are not sent again.
    cluster.lose = is_block::<0, 6>;
    cluster.reconnect(leader, lagging);
    cluster.run(3_000);
    assert_caught_up(&cluster, leader, lagging);
    // The log continues from there, and any later leader continues the transfer.
    write_checkpoint(&mut cluster, leader);
    cluster.run(500);
    cluster.assert_same();
    cluster.lose_power(lagging);
    cluster.start(lagging);
    cluster.run(1_000);
    cluster.assert_same();
}

#[test]
fn transfer_resumes_when_its_leader_is_reelected() {
    let (mut cluster, leader, lagging) = with_lagging_far();
    let other = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.lose = is_block::<6, { u32::MAX }>;
    cluster.start(lagging);
    cluster.run(300);
    // The other member leads briefly, but the lagging member does not receive its frames.
    cluster.cut = [(other, lagging), (lagging, other)].into();
    for to in [other, leader] {
        assert_eq!(cluster.admin_ok(leader, AdminCommand::TransferLeader { to: Some(to) }), AdminReply::Done);
    }
    cluster.cut.clear();
    write_checkpoint(&mut cluster, leader);
    cluster.lose = is_block::<0, 6>;
    cluster.reconnect(leader, lagging);
    cluster.run(3_000);
    assert_caught_up(&cluster, leader, lagging);
    cluster.assert_same();
}

#[test]
fn transfer_of_a_removed_checkpoint_restarts_with_the_newer_one() {
    let (mut cluster, leader, lagging) = with_lagging_far();
    cluster.lose = is_block::<6, { u32::MAX }>;
    cluster.start(lagging);
    cluster.run(300);
    // Writes more checkpoints than are kept for receivers.
    for _ in 0..4 {
        write_checkpoint(&mut cluster, leader);
    }
    cluster.lose = |_| false;
    cluster.reconnect(leader, lagging);
    cluster.run(3_000);
    assert_caught_up(&cluster, leader, lagging);
    cluster.assert_same();
}

#[test]
fn new_leader_sends_its_own_checkpoint() {
    let (mut cluster, leader, lagging) = with_lagging_far();
    cluster.lose = is_block::<6, { u32::MAX }>;
    cluster.start(lagging);
    cluster.run(300);
    cluster.kill(leader);
    cluster.lose = |_| false;
    cluster.run(3_000);
    let new = cluster.elect();
    assert_caught_up(&cluster, new, lagging);
    cluster.start(leader);
    cluster.run(2_000);
    cluster.assert_same();
}

#[test]
fn transfer_is_abandoned_when_the_log_catches_up() {
    let mut cluster = Cluster::with_log(3, small_log());
    cluster.prepare();
    let leader = cluster.elect();
    let rest: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    let (lagging, keeping) = (rest[0], rest[1]);
    // One member keeps its whole log.
    let mut config = cluster.config(keeping);
    config.log = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    cluster.kill(keeping);
    cluster.start_with(keeping, config);
    cluster.kill(lagging);
    add_big_zone(&mut cluster, leader);
    cluster.lose = is_block::<6, { u32::MAX }>;
    cluster.start(lagging);
    cluster.run(300);
    assert!(cluster.machines[&lagging].disk.contents().bytes(INCOMING_FILE).is_some(), "it is on its way");
    // The leader dies, and the next leader's log has everything that the lagging member needs.
    cluster.kill(leader);
    cluster.lose = |_| false;
    cluster.run(3_000);
    assert_eq!(cluster.leader(), Some(keeping));
    assert_eq!(cluster.replica(lagging).state_hash(), cluster.replica(keeping).state_hash());
    assert_eq!(cluster.replica(lagging).status().counters.checkpoints_installed, 0);
    // The member writes its own checkpoints again.
    write_checkpoint(&mut cluster, lagging);
    assert!(cluster.machines[&lagging].disk.contents().bytes(INCOMING_FILE).is_none(), "nothing of it stays");
    cluster.start(leader);
    cluster.run(1_000);
    cluster.assert_same();
}

/// A cluster with a member that has a complete checkpoint and is loading it.
fn with_loading() -> (Cluster, NodeId, NodeId) {
    let (mut cluster, leader, lagging) = with_lagging_far();
    cluster.machines.get_mut(&lagging).unwrap().reads_hung = Some(Vec::new());
    cluster.start(lagging);
    cluster.run(300);
    assert!(!cluster.machines[&lagging].reads_hung.as_ref().unwrap().is_empty(), "it loads");
    // No further block of any checkpoint arrives.
    cluster.lose = is_block::<0, { u32::MAX }>;
    (cluster, leader, lagging)
}

#[test]
fn loading_checkpoint_is_installed_despite_a_newer_one() {
    let (mut cluster, leader, lagging) = with_loading();
    write_checkpoint(&mut cluster, leader);
    cluster.reconnect(leader, lagging);
    cluster.run(500);
    cluster.unhang_reads(lagging);
    cluster.run(3_000);
    assert_caught_up(&cluster, leader, lagging);
    cluster.assert_same();
}

#[test]
fn loading_checkpoint_is_installed_after_a_leader_change() {
    let (mut cluster, leader, lagging) = with_loading();
    let before = cluster.replica(lagging).status().applied_index;
    cluster.kill(leader);
    cluster.run(2_000);
    // Nothing commits without the lagging member.
    assert!(cluster.leader().is_some_and(|new| new != leader && new != lagging));
    cluster.unhang_reads(lagging);
    cluster.run(500);
    assert_eq!(cluster.replica(lagging).status().counters.checkpoints_installed, 1);
    assert!(cluster.replica(lagging).status().applied_index > before);
    // The log of the new leader may begin later. Then another checkpoint follows.
    cluster.lose = |_| false;
    cluster.run(20_000);
    cluster.start(leader);
    cluster.run(2_000);
    let request = cluster.add(lagging, &address(7));
    cluster.run(500);
    cluster.assert_done(request);
    cluster.assert_same();
}

#[test]
fn damaged_checkpoint_is_replaced_in_an_idle_cluster() {
    for is_quiet in [true, false] {
        let (mut cluster, leader, lagging) = with_lagging();
        write_checkpoint(&mut cluster, leader);
        let newest = cluster.replica(leader).log().checkpoint();
        assert_eq!(newest.index, cluster.replica(leader).status().applied_index);
        let file = checkpoint_file(&newest);
        let sound = cluster.machines[&leader].disk.contents().bytes(&file).unwrap().to_vec();
        cluster.machines.get_mut(&leader).unwrap().disk.contents_mut().flip(&file, 8 * 5_000);
        if !is_quiet {
            let request = cluster.add(leader, &address(2));
            cluster.assert_done(request);
        }
        let written = cluster.replica(leader).status().counters.checkpoints_written;
        cluster.start(lagging);
        cluster.run(4_000);
        assert_caught_up(&cluster, leader, lagging);
        assert_eq!(cluster.replica(leader).status().counters.checkpoints_written, written + 1);
        let left = cluster.machines[&leader].disk.contents().bytes(&file).map(<[u8]>::to_vec);
        assert_eq!(left, is_quiet.then_some(sound));
        // The member starts from the new checkpoint.
        cluster.lose_power(leader);
        cluster.start(leader);
        cluster.run(1_000);
        cluster.assert_same();
    }
}

#[test]
fn an_old_checkpoint_stays_until_the_record_that_replaces_it_is_durable() {
    let mut cluster = Cluster::with_log(1, small_log());
    cluster.prepare();
    write_checkpoint(&mut cluster, 1);
    cluster.run(500);
    let old = checkpoint_file(&cluster.replica(1).log().checkpoint());
    let request = cluster.add(1, &address(2));
    cluster.assert_done(request);
    cluster.run(500);
    // The process dies when the record for the next checkpoint is written but not synced.
    cluster.machines.get_mut(&1).unwrap().hung = Some(Vec::new());
    cluster.admin(1, AdminCommand::Checkpoint);
    let new = checkpoint_file(&cluster.replica(1).log().checkpoint());
    let machine = cluster.machines.get_mut(&1).unwrap();
    let jobs = machine.hung.replace(Vec::new()).unwrap();
    assert_eq!((jobs.len(), old == new), (1, false));
    for op in jobs[0].ops.iter().filter(|op| !matches!(op, DiskOp::Sync { .. })) {
        machine.disk.contents_mut().execute(op);
    }
    cluster.kill(1);
    cluster.start(1);
    cluster.run(100);
    // Power is lost before its first sync completes.
    cluster.kill(1);
    let machine = cluster.machines.get_mut(&1).unwrap();
    machine.hung = None;
    machine.disk.contents_mut().crash(&mut |_| 0);
    let is_there = |cluster: &Cluster, file: &str| cluster.machines[&1].disk.contents().bytes(file).is_some();
    assert!(is_there(&cluster, &old));
    cluster.start(1);
    assert_eq!(checkpoint_file(&cluster.replica(1).log().checkpoint()), old);
    cluster.run(500);
    assert!(cluster.has(1, &address(2)));
    assert!(!is_there(&cluster, &new), "nothing refers to it");
    assert!(is_there(&cluster, &old));
}
