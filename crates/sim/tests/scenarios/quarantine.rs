//! Members that must stop: damaged ones, and those that meet unknown entries.

use super::cluster::*;
use raft::eraftpb::{Message, MessageType};
use replica::disk::DiskRead;
use replica::io::{AdminCommand, AdminError, AdminReply, FatalReason, Input, Serving, Verdict};
use replica::peer::{FEATURE_LEVEL, Frame};
use replica::{OpenError, Replica, log};

/// The newest segment of a member's log that has a record.
fn newest_segment(cluster: &Cluster, id: u64) -> String {
    let disk = cluster.machines[&id].disk.contents();
    let files = disk.list().unwrap();
    let is_used = |file: &String| disk.bytes(file).is_some_and(|bytes| bytes.iter().any(|&byte| byte != 0));
    files.into_iter().map(|(file, _)| file).filter(|file| file.starts_with("log-") && is_used(file)).max().unwrap()
}

#[test]
fn damaged_member_rejoins_under_a_new_id() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let damaged = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    for last in 1..=10 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    cluster.kill(damaged);
    let file = newest_segment(&cluster, damaged);
    cluster.machines.get_mut(&damaged).unwrap().disk.contents_mut().flip(&file, 8 * 700);
    let opened = Replica::open(&cluster.machines[&damaged].disk, cluster.config(damaged), cluster.now);
    let Err(OpenError::Log(log::OpenError::Damage(damage))) = opened else { panic!("it starts") };
    assert_eq!(damage.file, file);
    assert!(damage.to_string().contains(&file));
    // With an empty directory, the member could vote twice, so it becomes another member.
    assert_eq!(cluster.admin_ok(leader, AdminCommand::RemoveNode { id: damaged }), AdminReply::Done);
    let add = AdminCommand::AddNode { node: damaged as u32, address: format!("[::1]:{}", 7_000 + damaged) };
    let AdminReply::Joined { id: anew } = cluster.admin_ok(leader, add) else { panic!("not joined") };
    assert_eq!(anew, 1 << 32 | damaged);
    cluster.machines.remove(&damaged);
    let mut machine = Machine::default();
    for op in Replica::init_joining(&cluster.config(anew)) {
        machine.disk.contents_mut().execute(&op);
    }
    cluster.machines.insert(anew, machine);
    cluster.start(anew);
    cluster.run(2_000);
    assert_eq!(cluster.replica(anew).serving(), Serving::Yes);
    assert!((1..=10).all(|last| cluster.has(anew, &address(last))));
    assert!(cluster.replica(leader).status().members.iter().all(|member| member.is_voter));
    cluster.assert_same();
    // Messages from the old member change nothing.
    let term = cluster.replica(leader).status().term;
    let mut vote = Message::default();
    vote.set_msg_type(MessageType::MsgRequestVote);
    (vote.from, vote.to, vote.term, vote.index, vote.log_term) = (damaged, leader, term + 9, 1_000, term);
    cluster.input(leader, Input::Peer { from: damaged, frame: Frame::Raft(Box::new(vote)).encode(0) });
    cluster.run(200);
    assert_eq!((cluster.leader(), cluster.replica(leader).status().term), (Some(leader), term));
    // The new member votes: with its vote, one of the other two may die.
    let third = cluster.alive().into_iter().find(|&id| id != leader && id != anew).unwrap();
    cluster.kill(third);
    let request = cluster.add(anew, &address(11));
    cluster.run(200);
    cluster.assert_done(request);
}

#[test]
fn repairs_at_start_are_reported() {
    let mut cluster = Cluster::with_zone(1);
    assert!(cluster.replica(1).repairs().is_empty());
    cluster.kill(1);
    cluster.machines.get_mut(&1).unwrap().disk.contents_mut().flip("vote", 100);
    cluster.start(1);
    assert_eq!(cluster.replica(1).repairs(), [log::Repair::VoteCopy]);
    cluster.elect();
    cluster.kill(1);
    cluster.start(1);
    assert!(cluster.replica(1).repairs().is_empty());
}

#[test]
fn member_stops_at_an_entry_of_newer_software() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let applied = cluster.replica(leader).status().applied_index;
    // Version 2 of the format of entries.
    cluster.replica_mut(leader).propose_bytes(vec![2, 0, 0, 0]);
    cluster.run(100);
    for id in [1, 2, 3] {
        assert_eq!(cluster.machines[&id].fatal, Some(FatalReason::EntryUnknown));
        assert_eq!(cluster.machines[&id].serving, Some(Serving::No));
        assert_eq!(cluster.replica(id).status().applied_index, applied);
    }
}

#[test]
fn a_leader_writes_nothing_above_the_feature_level() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.replica_mut(leader).pretend_feature_level(0);
    let before = cluster.replica(leader).status().last_index;
    let request = cluster.add(follower, &address(1));
    let command = cluster.admin(leader, AdminCommand::RemoveZone { zone: zone_id("example.test.") });
    cluster.run(4_000);
    assert_eq!(cluster.verdict(request), Some(Verdict::NotProposed));
    assert_eq!(cluster.admin[&command], Err(AdminError::LevelTooLow));
    assert_eq!(cluster.leader(), Some(leader));
    assert_eq!(cluster.replica(leader).status().last_index, before, "no entry was written, not even the level");
    cluster.replica_mut(leader).pretend_feature_level(1);
    let request = cluster.add(follower, &address(1));
    cluster.assert_done(request);
    cluster.assert_same();
}

#[test]
fn a_command_above_the_feature_level_is_refused_at_once_and_not_sent() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    // A leader with older software could not decode the frame. This leader would accept the command.
    cluster.replica_mut(follower).pretend_feature_level(0);
    let command = cluster.admin(follower, AdminCommand::RemoveZone { zone: zone_id("example.test.") });
    assert_eq!(cluster.admin[&command], Err(AdminError::LevelTooLow));
    cluster.run(1_000);
    let zone = zone_id("example.test.");
    assert!(cluster.alive().into_iter().all(|id| cluster.replica(id).zone_options(&zone).is_some()));
}

fn level(cluster: &Cluster, id: u64) -> u32 {
    cluster.replica(id).status().feature_level
}

/// All three members run software with this level, and the leader knows it.
fn all_know(cluster: &mut Cluster, level: u32) {
    for id in [1, 2, 3] {
        cluster.replica_mut(id).config_mut().feature_level = level;
    }
    cluster.run(500);
}

fn raise(cluster: &mut Cluster, through: u64) -> Result<AdminReply, AdminError> {
    let command = cluster.admin(through, AdminCommand::RaiseFeatureLevel);
    cluster.run(500);
    cluster.admin[&command].clone()
}

#[test]
fn feature_level_rises_only_on_request_and_when_all_members_support_it() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    assert!(
        [1, 2, 3].into_iter().all(|id| level(&cluster, id) == FEATURE_LEVEL),
        "the level of the founders' software"
    );
    let newer = FEATURE_LEVEL + 1;
    assert_eq!(raise(&mut cluster, follower), Ok(AdminReply::Unchanged));
    for id in [follower, leader, follower % 3 + 1] {
        cluster.replica_mut(id).config_mut().feature_level = newer;
        cluster.run(500);
        let is_last = [1, 2, 3].into_iter().all(|id| cluster.replica(id).config().feature_level == newer);
        if !is_last {
            assert_eq!(raise(&mut cluster, follower), Err(AdminError::LevelTooLow), "after {id}");
        }
        assert!(
            [1, 2, 3].into_iter().all(|id| level(&cluster, id) == FEATURE_LEVEL),
            "raised without a request, at {id}"
        );
    }
    assert_eq!(raise(&mut cluster, follower), Ok(AdminReply::Done));
    assert!([1, 2, 3].into_iter().all(|id| level(&cluster, id) == newer));
    assert_eq!(raise(&mut cluster, leader), Ok(AdminReply::Unchanged));
    // A member that is away prevents raising the level.
    cluster.kill(follower);
    for id in cluster.alive() {
        cluster.replica_mut(id).config_mut().feature_level = newer + 1;
    }
    cluster.run(3_000);
    assert_eq!(raise(&mut cluster, leader), Err(AdminError::LevelTooLow));
    assert!(cluster.alive().into_iter().all(|id| level(&cluster, id) == newer));
    cluster.assert_same();
}

#[test]
fn downgraded_member_stops_at_the_feature_level_entry() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    let newer = FEATURE_LEVEL + 1;
    all_know(&mut cluster, newer);
    // The leader still has the level from before the downgrade.
    cluster.replica_mut(follower).config_mut().feature_level = FEATURE_LEVEL;
    assert_eq!(raise(&mut cluster, leader), Ok(AdminReply::Done));
    assert_eq!(cluster.machines[&follower].fatal, Some(FatalReason::EntryUnknown));
    assert_eq!(cluster.machines[&follower].serving, Some(Serving::No));
    assert_eq!(level(&cluster, follower), FEATURE_LEVEL, "it did not apply the level");
}

#[test]
fn older_software_does_not_start_after_the_level_rose() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    let newer = FEATURE_LEVEL + 1;
    all_know(&mut cluster, newer);
    assert_eq!(raise(&mut cluster, leader), Ok(AdminReply::Done));
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    cluster.kill(follower);
    let machine = &cluster.machines[&follower];
    let opened = Replica::open(&machine.disk, cluster.config(follower), cluster.now);
    assert_eq!(opened.err(), Some(OpenError::Level { cluster: newer, known: FEATURE_LEVEL }));
}
