//! Commands whose answer from the leader is lost. Each is executed once, and does not undo later commands.

use super::cluster::*;
use policy::text::parse_policy;
use raft::eraftpb::{Message, MessageType};
use replica::entry::SettingsChange;
use replica::io::{
    AdminCommand, AdminError, AdminReply, Input, NodeId, OptionsChange, Right, StaleOption, TrustCommand, ZoneOptions,
};
use replica::peer::Frame;
use replica::testing::{Answer, Command};
use std::sync::Arc;
use tsig::KeyAlgorithm;

/// Whether a leader answers with this frame that it proposed something.
fn is_proposed(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::Answer { answer: Answer::Proposed { .. }, .. })))
}

pub(super) fn epoch(cluster: &Cluster, id: NodeId) -> u64 {
    cluster.replica(id).settings_epoch()
}

/// A follower's command is executed, but the leader's answer is lost. The follower learns the outcome from the log.
/// Then the leader acknowledges a second command and dies. The first command must not be executed again. Returns the
/// next leader.
fn last_command_wins(cluster: &mut Cluster, first: AdminCommand, second: AdminCommand) -> NodeId {
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    let before = epoch(cluster, leader);
    cluster.lose = is_proposed;
    let first = cluster.admin(follower, first);
    cluster.run(50);
    assert_eq!(epoch(cluster, leader), before + 1, "it is executed");
    assert!(matches!(cluster.admin[&first], Ok(AdminReply::Done)));
    let request_id = cluster.admin(leader, second);
    cluster.run(50);
    assert!(matches!(cluster.admin[&request_id], Ok(AdminReply::Done | AdminReply::Joined { .. })));
    cluster.kill(leader);
    cluster.lose = |_| false;
    let leader = cluster.elect();
    cluster.run(31_000);
    assert_eq!(epoch(cluster, leader), before + 2, "the first is done again");
    cluster.assert_same();
    leader
}

pub(super) fn add_key(nonce: u8) -> AdminCommand {
    let (name, secret) = (name("late."), SECRET.to_vec());
    AdminCommand::AddKey { name, algorithm: KeyAlgorithm::HmacSha256, secret, nonce: [nonce; 12] }
}

pub(super) fn roll(number: u8) -> AdminCommand {
    roll_key(&[number; 32], number)
}

fn grant() -> AdminCommand {
    AdminCommand::Grant { key: name("key."), zone: None, right: Right::Transfer }
}

fn revoke() -> AdminCommand {
    AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Transfer }
}

pub(super) fn set_options(change: OptionsChange) -> AdminCommand {
    AdminCommand::SetZoneOptions { zone: zone_id("example.test."), change }
}

#[test]
fn a_key_that_was_removed_does_not_come_back() {
    let mut cluster = Cluster::with_zone(3);
    let leader = last_command_wins(&mut cluster, add_key(5), AdminCommand::RemoveKey { name: name("late.") });
    assert!(cluster.replica(leader).keys().iter().all(|key| key.name != name("late.")));
}

#[test]
fn rules_that_were_replaced_do_not_come_back() {
    let mut cluster = Cluster::with_zone(3);
    let set = |rules: &str| {
        let policy = Arc::new(parse_policy(rules).unwrap());
        AdminCommand::SetPolicy { zone: Some(zone_id("example.test.")), policy, expected: None }
    };
    let stricter = "grant key. name a1.example.test. A;";
    let leader = last_command_wins(&mut cluster, set("grant key. zonesub ANY;"), set(stricter));
    let policies = cluster.replica(leader).policies().0;
    assert_eq!(*policies[&Some(zone_id("example.test."))], parse_policy(stricter).unwrap());
}

#[test]
fn a_secret_that_is_needed_since_another_roll_is_not_void() {
    let mut cluster = Cluster::with_zone(3);
    assert_eq!(cluster.admin_ok(1, roll(11)), AdminReply::Done);
    let leader = last_command_wins(&mut cluster, AdminCommand::RetireKey { name: name("key.") }, roll(12));
    assert!(cluster.replica(leader).keys().iter().any(|key| key.name == name("key.") && key.is_rolling));
}

#[test]
fn lost_commands_do_not_undo_grants_options_or_tokens() {
    let mut cluster = Cluster::with_zone(3);
    let leader = last_command_wins(&mut cluster, grant(), revoke());
    assert!(!cluster.replica(leader).is_granted(&name("key."), &zone_id("example.test."), Right::Transfer));

    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(1, grant());
    let leader = last_command_wins(&mut cluster, revoke(), grant());
    assert!(cluster.replica(leader).is_granted(&name("key."), &zone_id("example.test."), Right::Transfer));

    let mut cluster = Cluster::with_zone(3);
    let zone = zone_id("example.test.");
    let set = |options: ZoneOptions| set_options(options.into());
    let options = ZoneOptions::default();
    let leader =
        last_command_wins(&mut cluster, set(ZoneOptions { stale: StaleOption::Expire, ..options }), set(options));
    assert_eq!(cluster.replica(leader).zone_options(&zone), Some(options));

    let mut cluster = Cluster::with_zone(3);
    let life_ms = 3_600_000;
    let token = AdminCommand::CreateToken { digest: [7; 32], life_ms, is_learner: false };
    let join = || AdminCommand::Join { digest: [7; 32], address: "[::1]:7004".to_owned() };
    let leader = last_command_wins(&mut cluster, token, join());
    let again = cluster.admin(leader, join());
    cluster.run(500);
    assert_eq!(cluster.admin[&again], Err(AdminError::TokenInvalid));
}

#[test]
fn idempotent_command_is_sent_again() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.lose = is_forward;
    let request = cluster.admin(leader % 3 + 1, AdminCommand::Trust(TrustCommand::Renew { number: 1 }));
    cluster.run(50);
    cluster.lose = |_| false;
    cluster.run(1_000);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Done));
}

#[test]
fn unsent_command_waits_for_a_leader_and_runs_once() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let others: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    let before = epoch(&cluster, leader);
    cluster.cut.extend([(others[0], others[1]), (others[1], others[0])]);
    cluster.kill(leader);
    let requests = [cluster.admin(others[0], grant()), cluster.admin(others[1], add_key(5))];
    cluster.run(2_000);
    assert!(requests.iter().all(|request| !cluster.admin.contains_key(request)));
    cluster.cut.clear();
    cluster.run(3_000);
    assert!(requests.iter().all(|request| cluster.admin[request] == Ok(AdminReply::Done)), "{:?}", cluster.admin);
    assert_eq!(epoch(&cluster, others[0]), before + 2);
    cluster.assert_same();
}

#[test]
fn queued_command_runs_once_on_the_next_leader() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (follower, next) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let before = epoch(&cluster, leader);
    // Nothing commits, so a change of the settings delays later commands.
    cluster.lose = is_append_response;
    let first = cluster.admin(leader, add_key(5));
    let second = cluster.admin(follower, grant());
    cluster.run(50);
    assert_eq!((cluster.admin.get(&first), cluster.admin.get(&second)), (None, None));
    cluster.replica_mut(leader).transfer_leadership(next);
    cluster.lose = |_| false;
    cluster.run(2_000);
    assert_ne!(cluster.elect(), leader);
    assert_eq!((&cluster.admin[&first], &cluster.admin[&second]), (&Ok(AdminReply::Done), &Ok(AdminReply::Done)));
    assert_eq!(epoch(&cluster, next), before + 2);
    cluster.assert_same();
}

pub(super) fn is_forward(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::Forward { .. })))
}

/// Whether the frame has entries for other logs, or a leader's answer that it proposed something.
fn is_of_proposal(frame: &[u8]) -> bool {
    let is_append = |message: &Message| message.get_msg_type() == MessageType::MsgAppend;
    is_proposed(frame) || matches!(Frame::decode(frame), Ok((_, Frame::Raft(message))) if is_append(&message))
}

/// A follower sends a command. Frames matching `lose` are lost, and the follower and its leader may be cut off. Then
/// the leader dies. The command is executed once, and its administrator is told as soon as another member leads.
fn done_once_although_the_leader_died(lose: fn(&[u8]) -> bool, is_cut_off: bool) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    let before = epoch(&cluster, leader);
    cluster.lose = lose;
    if is_cut_off {
        cluster.cut.insert((leader, follower));
    }
    let request = cluster.admin(follower, grant());
    cluster.run(50);
    cluster.kill(leader);
    cluster.lose = |_| false;
    cluster.cut.clear();
    let next = cluster.elect();
    cluster.run(500);
    assert_eq!(cluster.admin.get(&request), Some(&Ok(AdminReply::Done)));
    assert_eq!(epoch(&cluster, next), before + 1);
    cluster.start(leader);
    cluster.run(2_000);
    assert_eq!(epoch(&cluster, leader), before + 1);
    cluster.assert_same();
}

#[test]
fn lost_command_runs_on_the_next_leader_immediately() {
    done_once_although_the_leader_died(is_forward, false);
}

#[test]
fn command_only_in_the_old_log_runs_on_the_next_leader() {
    done_once_although_the_leader_died(is_of_proposal, false);
}

#[test]
fn executed_command_succeeds_although_the_answer_was_lost() {
    done_once_although_the_leader_died(is_proposed, false);
}

#[test]
fn executed_command_is_found_in_the_next_leaders_log() {
    done_once_although_the_leader_died(|_| false, true);
}

#[test]
fn joining_node_learns_its_id_although_the_answer_was_lost() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.lose = |frame| matches!(Frame::decode(frame), Ok((_, Frame::Answer { answer: Answer::Joined { .. }, .. })));
    let add = AdminCommand::AddNode { node: 4, address: "[::1]:7004".to_owned() };
    let request = cluster.admin(leader % 3 + 1, add);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Joined { id: 4 }));
}

/// A command may arrive late, after its sender has asked the next leader or another one.
#[test]
fn a_command_for_the_leader_of_another_term_is_not_taken() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (follower, before) = (leader % 3 + 1, epoch(&cluster, leader));
    let term = cluster.replica(leader).brief_status().term;
    let mut ask = |token, term| {
        let remove = SettingsChange::KeyRemove { name: name("key.") };
        let frame = Frame::Forward { token, term, command: Command::Settings(remove) }.encode(0);
        cluster.input(leader, Input::Peer { from: follower, frame });
        cluster.run(50);
        epoch(&cluster, leader)
    };
    assert_eq!((ask(1 << 50, Some(term - 1)), ask((1 << 50) + 1, Some(term + 1))), (before, before));
    assert_eq!(ask((1 << 50) + 2, Some(term)), before + 1);
}

/// If leaders accept commands from any term, the outcome of a lost command is unknown.
#[test]
fn below_its_feature_level_a_lost_command_is_not_sent_again() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let before = epoch(&cluster, leader);
    for id in cluster.alive() {
        cluster.replica_mut(id).pretend_feature_level(1);
    }
    cluster.lose = is_forward;
    let request = cluster.admin(leader % 3 + 1, grant());
    cluster.run(50);
    cluster.kill(leader);
    cluster.lose = |_| false;
    let next = cluster.elect();
    cluster.run(29_000);
    assert_eq!(cluster.admin.get(&request), None);
    cluster.run(2_000);
    assert_eq!((&cluster.admin[&request], epoch(&cluster, next)), (&Err(AdminError::Unknown), before));
}

/// After a checkpoint has replaced entries, the log does not show which entries of that term it had.
#[test]
fn a_command_whose_entry_may_be_in_a_checkpoint_is_not_sent_again() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (follower, before) = (leader % 3 + 1, epoch(&cluster, leader));
    cluster.lose = is_forward;
    let request = cluster.admin(follower, grant());
    cluster.run(50);
    cluster.replica_mut(follower).forget_terms();
    cluster.kill(leader);
    cluster.lose = |_| false;
    let next = cluster.elect();
    cluster.run(31_000);
    assert_eq!((&cluster.admin[&request], epoch(&cluster, next)), (&Err(AdminError::Unknown), before));
}
