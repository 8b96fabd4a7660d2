//! Commands of administrators whose leaders do not answer: each is done once, and what others were told since stands.

use super::cluster::*;
use crate::command::{Answer, Command};
use crate::entry::SettingsChange;
use crate::io::{
    AckOption, AdminCommand, AdminError, AdminReply, Contents, Input, KeyAlgorithm, LimitsChange, NodeId,
    OptionsChange, Right, SerialPolicyOption, StaleOption, TrustCommand, ZoneOptions,
};
use crate::peer::Frame;
use crate::policy::text::parse_policy;
use raft::eraftpb::{Message, MessageType};
use std::sync::Arc;

/// The word of a leader that it proposed something.
fn is_proposed(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::Answer { answer: Answer::Proposed { .. }, .. })))
}

fn epoch(cluster: &Cluster, id: NodeId) -> u64 {
    cluster.replica(id).machine.settings.epoch()
}

/// A follower's command is executed, and the word of its leader on it is lost: its administrator is told by the log.
/// The leader acknowledges another's, and dies. The first one is not done again; gives who leads then.
fn second_stands(cluster: &mut Cluster, first: AdminCommand, second: AdminCommand) -> NodeId {
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    let before = epoch(cluster, leader);
    cluster.lose = is_proposed;
    let first = cluster.admin(follower, first);
    cluster.run(50);
    assert_eq!(epoch(cluster, leader), before + 1, "it is executed");
    assert!(matches!(cluster.admin[&first], Ok(AdminReply::Done)));
    let told = cluster.admin(leader, second);
    cluster.run(50);
    assert!(matches!(cluster.admin[&told], Ok(AdminReply::Done | AdminReply::Joined { .. })));
    cluster.kill(leader);
    cluster.lose = |_| false;
    let leader = cluster.elect();
    cluster.run(31_000);
    assert_eq!(epoch(cluster, leader), before + 2, "the first is done again");
    cluster.assert_same();
    leader
}

fn add_key(nonce: u8) -> AdminCommand {
    let (name, secret) = (name("late."), SECRET.to_vec());
    AdminCommand::AddKey { name, algorithm: KeyAlgorithm::HmacSha256, secret, nonce: [nonce; 12] }
}

fn roll(number: u8) -> AdminCommand {
    roll_key(&[number; 32], number)
}

fn grant() -> AdminCommand {
    AdminCommand::Grant { key: name("key."), zone: None, right: Right::Transfer }
}

fn revoke() -> AdminCommand {
    AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Transfer }
}

fn set_options(change: OptionsChange) -> AdminCommand {
    AdminCommand::SetZoneOptions { zone: zone_id("example.test."), change }
}

#[test]
fn a_key_that_was_removed_does_not_come_back() {
    let mut cluster = Cluster::with_zone(3);
    let leader = second_stands(&mut cluster, add_key(5), AdminCommand::RemoveKey { name: name("late.") });
    assert!(!cluster.replica(leader).machine.settings.keys().contains_key(&name("late.")));
}

#[test]
fn rules_that_were_replaced_do_not_come_back() {
    let mut cluster = Cluster::with_zone(3);
    let set = |rules: &str| {
        let policy = Arc::new(parse_policy(rules).unwrap());
        AdminCommand::SetPolicy { zone: Some(zone_id("example.test.")), policy, expected: None }
    };
    let stricter = "grant key. name a1.example.test. A;";
    let leader = second_stands(&mut cluster, set("grant key. zonesub ANY;"), set(stricter));
    let policies = cluster.replica(leader).machine.settings.policies();
    assert_eq!(*policies[&Some(zone_id("example.test."))], parse_policy(stricter).unwrap());
}

#[test]
fn a_secret_that_is_needed_since_another_roll_is_not_void() {
    let mut cluster = Cluster::with_zone(3);
    assert_eq!(cluster.admin_ok(1, roll(11)), AdminReply::Done);
    let leader = second_stands(&mut cluster, AdminCommand::RetireKey { name: name("key.") }, roll(12));
    assert!(cluster.replica(leader).machine.settings.keys()[&name("key.")].previous.is_some());
}

#[test]
fn grants_options_and_tokens_stay_as_others_left_them() {
    let mut cluster = Cluster::with_zone(3);
    let leader = second_stands(&mut cluster, grant(), revoke());
    assert!(!cluster.replica(leader).is_granted(&name("key."), &zone_id("example.test."), Right::Transfer));

    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(1, grant());
    let leader = second_stands(&mut cluster, revoke(), grant());
    assert!(cluster.replica(leader).is_granted(&name("key."), &zone_id("example.test."), Right::Transfer));

    let mut cluster = Cluster::with_zone(3);
    let zone = zone_id("example.test.");
    let set = |options: ZoneOptions| set_options(options.into());
    let options = ZoneOptions::default();
    let leader = second_stands(&mut cluster, set(ZoneOptions { stale: StaleOption::Expire, ..options }), set(options));
    assert_eq!(cluster.replica(leader).zone_options(&zone), Some(options));

    let mut cluster = Cluster::with_zone(3);
    let life_ms = 3_600_000;
    let token = AdminCommand::CreateToken { digest: [7; 32], life_ms, is_learner: false };
    let join = || AdminCommand::Join { digest: [7; 32], address: "[::1]:7004".to_owned() };
    let leader = second_stands(&mut cluster, token, join());
    let again = cluster.admin(leader, join());
    cluster.run(500);
    assert_eq!(cluster.admin[&again], Err(AdminError::TokenInvalid));
}

#[test]
fn what_can_undo_nothing_is_sent_again() {
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
fn a_command_that_nobody_has_waits_for_a_leader_and_is_done_once() {
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
fn a_command_that_a_leader_has_not_come_to_is_done_by_the_next_once() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (follower, next) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let before = epoch(&cluster, leader);
    // Nothing commits, so a change of the settings holds up what comes after it.
    cluster.lose = is_append_response;
    let first = cluster.admin(leader, add_key(5));
    let second = cluster.admin(follower, grant());
    cluster.run(50);
    assert_eq!((cluster.admin.get(&first), cluster.admin.get(&second)), (None, None));
    cluster.replica_mut(leader).driver.transfer_leader(next);
    cluster.lose = |_| false;
    cluster.run(2_000);
    assert_ne!(cluster.elect(), leader);
    assert_eq!((&cluster.admin[&first], &cluster.admin[&second]), (&Ok(AdminReply::Done), &Ok(AdminReply::Done)));
    assert_eq!(epoch(&cluster, next), before + 2);
    cluster.assert_same();
}

const UNIX_TIME: OptionsChange = OptionsChange {
    serial_policy: Some(SerialPolicyOption::UnixTime),
    stale: None,
    ack: None,
    limits: LimitsChange::NONE,
};
const EXPIRE: OptionsChange =
    OptionsChange { serial_policy: None, stale: Some(StaleOption::Expire), ack: None, limits: LimitsChange::NONE };

fn assert_both(cluster: &Cluster, id: NodeId) {
    let both = ZoneOptions {
        serial_policy: SerialPolicyOption::UnixTime,
        stale: StaleOption::Expire,
        ..ZoneOptions::default()
    };
    assert_eq!(cluster.replica(id).zone_options(&zone_id("example.test.")), Some(both));
}

#[test]
fn two_administrators_at_two_nodes_set_an_option_each() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    // Each node takes its command before it knows of the other.
    cluster.way_ms = 20;
    let first = cluster.admin(leader % 3 + 1, set_options(UNIX_TIME));
    let second = cluster.admin((leader + 1) % 3 + 1, set_options(EXPIRE));
    cluster.run(1_000);
    for request in [first, second] {
        assert_eq!(cluster.admin[&request], Ok(AdminReply::Done));
    }
    cluster.alive().into_iter().for_each(|id| assert_both(&cluster, id));
    cluster.assert_same();
}

#[test]
fn a_node_that_lags_puts_no_option_back() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    // What it has in its log it can acknowledge and apply only when its disk has it.
    cluster.machines.get_mut(&follower).unwrap().hung = Some(Vec::new());
    assert_eq!(cluster.admin_ok(leader, set_options(UNIX_TIME)), AdminReply::Done);
    let known = cluster.replica(follower).zone_options(&zone_id("example.test."));
    assert_eq!(known, Some(ZoneOptions::default()), "it lags");
    let request = cluster.admin(follower, set_options(EXPIRE));
    cluster.run(200);
    assert_both(&cluster, leader);
    cluster.unhang(follower);
    cluster.run(1_000);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Done));
    assert_both(&cluster, follower);
    cluster.assert_same();
}

#[test]
fn a_node_that_does_not_know_of_a_zone_yet_sets_its_options() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    cluster.machines.get_mut(&follower).unwrap().hung = Some(Vec::new());
    let zone = zone_id("late.test.");
    let contents = Contents::new(&zone, records("late.test.", 1)).unwrap();
    let add = AdminCommand::AddZone { zone: zone.clone(), options: ZoneOptions::default(), contents };
    assert_eq!(cluster.admin_ok(leader, add), AdminReply::Done);
    assert_eq!(cluster.replica(follower).zone_options(&zone), None, "it lags");
    let request = cluster.admin(follower, AdminCommand::SetZoneOptions { zone: zone.clone(), change: EXPIRE });
    cluster.run(200);
    cluster.unhang(follower);
    cluster.run(1_000);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Done));
    assert_eq!(cluster.replica(follower).zone_options(&zone).unwrap().stale, StaleOption::Expire);
}

/// A leader of software before that level could make nothing of the command.
#[test]
fn below_its_feature_level_options_go_to_the_leader_whole() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    for id in cluster.alive() {
        cluster.replica_mut(id).machine.settings.pretend_feature_level(1);
    }
    cluster.lose =
        |frame| matches!(Frame::decode(frame), Ok((_, Frame::Forward { command: Command::ZoneSet { .. }, .. })));
    assert_eq!(cluster.admin_ok(follower, set_options(UNIX_TIME)), AdminReply::Done);
    assert_eq!(cluster.admin_ok(follower, set_options(EXPIRE)), AdminReply::Done);
    assert_eq!(cluster.admin_ok(follower, set_options(EXPIRE)), AdminReply::Unchanged);
    assert_both(&cluster, leader);
    let all_live = OptionsChange { ack: Some(AckOption::AllLive), ..OptionsChange::default() };
    let request = cluster.admin(follower, set_options(all_live));
    assert_eq!(cluster.admin[&request], Err(AdminError::LevelTooLow));
    cluster.assert_same();
}

/// Members with software of level 3 could not read these options and keys.
#[test]
fn below_level_4_there_are_no_serials_by_date_no_limits_of_zones_and_no_weak_keys() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    let date = OptionsChange { serial_policy: Some(SerialPolicyOption::Date), ..OptionsChange::default() };
    let limits = LimitsChange { ttl_max_s: Some(60), ..LimitsChange::NONE };
    let limited = OptionsChange { limits, ..OptionsChange::default() };
    let weak = |algorithm, nonce| {
        let (name, secret) = (name("weak."), vec![nonce; 32]);
        AdminCommand::AddKey { name, algorithm, secret, nonce: [nonce; 12] }
    };
    for level in [3, 4] {
        for id in cluster.alive() {
            cluster.replica_mut(id).machine.settings.pretend_feature_level(level);
        }
        for (nonce, asked) in [(1, leader), (2, follower)] {
            for command in
                [set_options(date), set_options(limited), weak(KeyAlgorithm::WEAK[usize::from(nonce)], nonce)]
            {
                let request = cluster.admin(asked, command);
                cluster.run(500);
                let refused = cluster.admin[&request] == Err(AdminError::LevelTooLow);
                assert_eq!(refused, level == 3, "{level}: {:?}", cluster.admin[&request]);
            }
        }
        cluster.assert_same();
    }
}

/// What is done through the leader while a follower's disk hangs, so that it does not know of it; then the follower is
/// asked, and its disk goes on. Gives what it says.
fn at_a_node_that_lags(done: Vec<AdminCommand>, asked: AdminCommand) -> (Cluster, Result<AdminReply, AdminError>) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    cluster.machines.get_mut(&follower).unwrap().hung = Some(Vec::new());
    for command in done {
        assert_eq!(cluster.admin_ok(leader, command), AdminReply::Done);
    }
    let before = epoch(&cluster, leader);
    assert_ne!(epoch(&cluster, follower), before, "it lags");
    let request = cluster.admin(follower, asked);
    cluster.run(200);
    cluster.unhang(follower);
    cluster.run(1_000);
    cluster.assert_same();
    let said = cluster.admin.remove(&request).unwrap();
    assert_eq!(epoch(&cluster, follower), before + u64::from(said == Ok(AdminReply::Done)));
    (cluster, said)
}

/// The key that the cluster begins with.
fn add_first_key(secret: &[u8]) -> AdminCommand {
    let (name, secret) = (name("key."), secret.to_vec());
    AdminCommand::AddKey { name, algorithm: KeyAlgorithm::HmacSha256, secret, nonce: [7; 12] }
}

fn remove_first_key() -> AdminCommand {
    AdminCommand::RemoveKey { name: name("key.") }
}

#[test]
fn a_node_that_lags_adds_a_key_that_is_gone() {
    let (cluster, said) = at_a_node_that_lags(vec![remove_first_key()], add_first_key(SECRET));
    assert_eq!(said, Ok(AdminReply::Done));
    assert_eq!(cluster.replica(1).secrets(&name("key.")), Some(vec![SECRET.to_vec().into()]));
}

#[test]
fn a_key_is_there_already_if_the_leader_has_it_with_that_secret() {
    // The node knows another secret, or no such key.
    let again = || vec![remove_first_key(), add_first_key(b"another")];
    let (_, said) = at_a_node_that_lags(again(), add_first_key(b"another"));
    assert_eq!(said, Ok(AdminReply::Unchanged));
    let (_, said) = at_a_node_that_lags(again(), add_first_key(SECRET));
    assert_eq!(said, Err(AdminError::KeyExists));
    let (_, said) = at_a_node_that_lags(vec![add_key(5)], add_key(6));
    assert_eq!(said, Ok(AdminReply::Unchanged));
    let (_, said) = at_a_node_that_lags(vec![roll(11)], add_first_key(SECRET));
    assert_eq!(said, Err(AdminError::KeyExists), "its newest secret is another");
}

#[test]
fn a_node_that_lags_rolls_a_key_from_the_secret_that_it_has() {
    // Both know a key of that name, and not the same.
    let others = vec![remove_first_key(), add_first_key(b"another")];
    let (cluster, said) = at_a_node_that_lags(others, roll_key(SECRET, 8));
    assert_eq!(said, Ok(AdminReply::Done));
    assert_eq!(
        cluster.replica(1).secrets(&name("key.")),
        Some(vec![SECRET.to_vec().into(), b"another".to_vec().into()])
    );
    let (_, said) = at_a_node_that_lags(vec![roll(11)], roll_key(&[11; 32], 8));
    assert_eq!(said, Ok(AdminReply::Unchanged));
    let (_, said) = at_a_node_that_lags(vec![roll(11)], roll_key(SECRET, 8));
    assert_eq!(said, Err(AdminError::KeyRolling));
    let (name, algorithm) = (name("late."), KeyAlgorithm::HmacSha256);
    let late = AdminCommand::RollKey { name, algorithm, secret: vec![9; 32], nonce: [9; 12] };
    let (_, said) = at_a_node_that_lags(vec![add_key(5)], late);
    assert_eq!(said, Ok(AdminReply::Done), "a key that the node does not know of yet");
    let (_, said) = at_a_node_that_lags(vec![remove_first_key()], roll_key(SECRET, 8));
    assert_eq!(said, Err(AdminError::KeyUnknown));
}

#[test]
fn a_secret_for_another_algorithm_is_none_for_the_key() {
    let roll = |algorithm| AdminCommand::RollKey { name: name("key."), algorithm, secret: vec![9; 64], nonce: [9; 12] };
    let mut cluster = Cluster::with_zone(3);
    let request = cluster.admin(1, roll(KeyAlgorithm::HmacSha512));
    cluster.run(500);
    assert_eq!(cluster.admin[&request], Err(AdminError::KeyOfAnotherAlgorithm));
    // The node still knows one of the other algorithm.
    let (name, secret) = (name("key."), SECRET.to_vec());
    let other = AdminCommand::AddKey { name, algorithm: KeyAlgorithm::HmacSha512, secret, nonce: [7; 12] };
    let (_, said) = at_a_node_that_lags(vec![remove_first_key(), other], roll(KeyAlgorithm::HmacSha512));
    assert_eq!(said, Ok(AdminReply::Done));
}

/// A leader of software before that level compares sealed octets, which differ each time.
#[test]
fn below_its_feature_level_a_key_that_the_node_knows_is_there_already() {
    let mut cluster = Cluster::with_zone(3);
    let follower = cluster.elect() % 3 + 1;
    for id in cluster.alive() {
        cluster.replica_mut(id).machine.settings.pretend_feature_level(1);
    }
    cluster.lose = is_forward;
    let request = cluster.admin(follower, add_first_key(SECRET));
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Unchanged));
    let request = cluster.admin(follower, roll(9));
    assert_eq!(cluster.admin[&request], Err(AdminError::LevelTooLow));
}

const RULES: [&str; 3] = ["", "grant key. zonesub A;", "grant key. zonesub TXT;"];

/// These rules for the zone, made from those.
fn set_rules(to: usize, from: usize) -> AdminCommand {
    let [policy, base] = [to, from].map(|number| parse_policy(RULES[number]).unwrap());
    let zone = Some(zone_id("example.test."));
    AdminCommand::SetPolicy { zone, policy: Arc::new(policy), expected: Some(base.revision()) }
}

#[test]
fn of_two_who_change_the_same_rules_at_once_the_later_is_refused() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    // Each node takes its command before it knows of the other.
    cluster.way_ms = 20;
    let requests = [1, 2].map(|rules| cluster.admin((leader + rules as u64) % 3 + 1, set_rules(rules, 0)));
    cluster.run(1_000);
    let said = requests.map(|request| cluster.admin[&request].clone());
    let there = 1 + said.iter().position(Result::is_ok).unwrap();
    assert_eq!(said[2 - there], Err(AdminError::PolicyChanged));
    for id in cluster.alive() {
        let (policies, _) = cluster.replica(id).policies();
        assert_eq!(*policies[&Some(zone_id("example.test."))], parse_policy(RULES[there]).unwrap());
    }
    // From what is there; and what is there already, from whatever.
    let other = 3 - there;
    assert_eq!(cluster.admin_ok(leader, set_rules(other, there)), AdminReply::Done);
    assert_eq!(cluster.admin_ok(leader, set_rules(other, there)), AdminReply::Unchanged);
    assert_eq!(cluster.admin_ok(leader, set_rules(0, other)), AdminReply::Done);
    cluster.assert_same();
}

#[test]
fn rules_are_compared_with_what_the_leader_has() {
    let (_, said) = at_a_node_that_lags(vec![set_rules(1, 0)], set_rules(2, 0));
    assert_eq!(said, Err(AdminError::PolicyChanged));
    let (_, said) = at_a_node_that_lags(vec![set_rules(1, 0)], set_rules(2, 1));
    assert_eq!(said, Ok(AdminReply::Done));
    let gone = AdminCommand::RemoveZone { zone: zone_id("example.test.") };
    let (_, said) = at_a_node_that_lags(vec![set_rules(1, 0), gone], set_rules(2, 1));
    assert_eq!(said, Err(AdminError::ZoneUnknown));
}

fn is_forward(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::Forward { .. })))
}

/// What goes into logs of others, and the word of a leader that it proposed something.
fn is_of_proposal(frame: &[u8]) -> bool {
    let is_append = |message: &Message| message.get_msg_type() == MessageType::MsgAppend;
    is_proposed(frame) || matches!(Frame::decode(frame), Ok((_, Frame::Raft(message))) if is_append(&message))
}

/// A follower's command, of which such frames are lost, and nothing between these two; then its leader dies. It is done
/// once, and its administrator hears so as soon as another leads.
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
fn a_command_that_its_leader_never_got_is_done_by_the_next_at_once() {
    done_once_although_the_leader_died(is_forward, false);
}

#[test]
fn a_command_that_is_in_no_other_log_is_done_by_the_next_at_once() {
    done_once_although_the_leader_died(is_of_proposal, false);
}

#[test]
fn a_command_that_was_executed_is_told_so_when_its_leader_said_nothing() {
    done_once_although_the_leader_died(is_proposed, false);
}

#[test]
fn a_command_that_was_executed_is_told_so_by_the_next_leaders_log() {
    done_once_although_the_leader_died(|_| false, true);
}

#[test]
fn who_joins_hears_its_id_when_the_leader_said_nothing() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.lose = |frame| matches!(Frame::decode(frame), Ok((_, Frame::Answer { answer: Answer::Joined { .. }, .. })));
    let add = AdminCommand::AddNode { node: 4, address: "[::1]:7004".to_owned() };
    let request = cluster.admin(leader % 3 + 1, add);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Joined { id: 4 }));
}

/// It may come late: its sender has asked the next leader meanwhile, or another.
#[test]
fn a_command_for_the_leader_of_another_term_is_not_taken() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (follower, before) = (leader % 3 + 1, epoch(&cluster, leader));
    let term = cluster.replica(leader).driver.term();
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

/// Where leaders take commands of any term nobody knows of one that was lost.
#[test]
fn below_its_feature_level_a_lost_command_is_not_sent_again() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let before = epoch(&cluster, leader);
    for id in cluster.alive() {
        cluster.replica_mut(id).machine.settings.pretend_feature_level(1);
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

/// What its term left in the log is not known where a checkpoint took the place of entries.
#[test]
fn a_command_whose_entry_may_be_in_a_checkpoint_is_not_sent_again() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (follower, before) = (leader % 3 + 1, epoch(&cluster, leader));
    cluster.lose = is_forward;
    let request = cluster.admin(follower, grant());
    cluster.run(50);
    cluster.replica_mut(follower).waiters.forget_terms();
    cluster.kill(leader);
    cluster.lose = |_| false;
    let next = cluster.elect();
    cluster.run(31_000);
    assert_eq!((&cluster.admin[&request], epoch(&cluster, next)), (&Err(AdminError::Unknown), before));
}
