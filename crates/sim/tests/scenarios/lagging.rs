//! Commands at a lagging node: keys and rules are compared with the leader's.

use super::cluster::*;
use super::commands::{add_key, epoch, is_forward, roll};
use policy::text::parse_policy;
use replica::io::{AdminCommand, AdminError, AdminReply};
use std::sync::Arc;
use tsig::KeyAlgorithm;

/// Executes commands through the leader while a follower's disk hangs. Then sends a command to the follower, and lets
/// its disk continue. Returns the follower's answer.
fn at_a_node_that_lags(done: Vec<AdminCommand>, command: AdminCommand) -> (Cluster, Result<AdminReply, AdminError>) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    cluster.machines.get_mut(&follower).unwrap().hung = Some(Vec::new());
    for command in done {
        assert_eq!(cluster.admin_ok(leader, command), AdminReply::Done);
    }
    let before = epoch(&cluster, leader);
    assert_ne!(epoch(&cluster, follower), before, "it lags");
    let request = cluster.admin(follower, command);
    cluster.run(200);
    cluster.unhang(follower);
    cluster.run(1_000);
    cluster.assert_same();
    let result = cluster.admin.remove(&request).unwrap();
    assert_eq!(epoch(&cluster, follower), before + u64::from(result == Ok(AdminReply::Done)));
    (cluster, result)
}

/// Adds the first key of the cluster.
fn add_first_key(secret: &[u8]) -> AdminCommand {
    let (name, secret) = (name("key."), secret.to_vec());
    AdminCommand::AddKey { name, algorithm: KeyAlgorithm::HmacSha256, secret, nonce: [7; 12] }
}

fn remove_first_key() -> AdminCommand {
    AdminCommand::RemoveKey { name: name("key.") }
}

#[test]
fn lagging_node_adds_a_key_that_was_removed() {
    let (cluster, result) = at_a_node_that_lags(vec![remove_first_key()], add_first_key(SECRET));
    assert_eq!(result, Ok(AdminReply::Done));
    assert_eq!(cluster.replica(1).secrets(&name("key.")), Some(vec![SECRET.to_vec().into()]));
}

#[test]
fn adding_an_identical_key_changes_nothing() {
    // The node knows another secret, or no such key.
    let again = || vec![remove_first_key(), add_first_key(b"another")];
    let (_, result) = at_a_node_that_lags(again(), add_first_key(b"another"));
    assert_eq!(result, Ok(AdminReply::Unchanged));
    let (_, result) = at_a_node_that_lags(again(), add_first_key(SECRET));
    assert_eq!(result, Err(AdminError::KeyExists));
    let (_, result) = at_a_node_that_lags(vec![add_key(5)], add_key(6));
    assert_eq!(result, Ok(AdminReply::Unchanged));
    let (_, result) = at_a_node_that_lags(vec![roll(11)], add_first_key(SECRET));
    assert_eq!(result, Err(AdminError::KeyExists), "its newest secret is another");
}

#[test]
fn lagging_node_rolls_a_key_from_its_known_secret() {
    // Both nodes know a key of that name, but not the same one.
    let others = vec![remove_first_key(), add_first_key(b"another")];
    let (cluster, result) = at_a_node_that_lags(others, roll_key(SECRET, 8));
    assert_eq!(result, Ok(AdminReply::Done));
    assert_eq!(
        cluster.replica(1).secrets(&name("key.")),
        Some(vec![SECRET.to_vec().into(), b"another".to_vec().into()])
    );
    let (_, result) = at_a_node_that_lags(vec![roll(11)], roll_key(&[11; 32], 8));
    assert_eq!(result, Ok(AdminReply::Unchanged));
    let (_, result) = at_a_node_that_lags(vec![roll(11)], roll_key(SECRET, 8));
    assert_eq!(result, Err(AdminError::KeyRolling));
    let (name, algorithm) = (name("late."), KeyAlgorithm::HmacSha256);
    let late = AdminCommand::RollKey { name, algorithm, secret: vec![9; 32], nonce: [9; 12] };
    let (_, result) = at_a_node_that_lags(vec![add_key(5)], late);
    assert_eq!(result, Ok(AdminReply::Done), "a key that the node does not know of yet");
    let (_, result) = at_a_node_that_lags(vec![remove_first_key()], roll_key(SECRET, 8));
    assert_eq!(result, Err(AdminError::KeyUnknown));
}

#[test]
fn secret_of_another_algorithm_is_refused() {
    let roll = |algorithm| AdminCommand::RollKey { name: name("key."), algorithm, secret: vec![9; 64], nonce: [9; 12] };
    let mut cluster = Cluster::with_zone(3);
    let request = cluster.admin(1, roll(KeyAlgorithm::HmacSha512));
    cluster.run(500);
    assert_eq!(cluster.admin[&request], Err(AdminError::KeyOfAnotherAlgorithm));
    // The node still knows a key with the other algorithm.
    let (name, secret) = (name("key."), SECRET.to_vec());
    let other = AdminCommand::AddKey { name, algorithm: KeyAlgorithm::HmacSha512, secret, nonce: [7; 12] };
    let (_, result) = at_a_node_that_lags(vec![remove_first_key(), other], roll(KeyAlgorithm::HmacSha512));
    assert_eq!(result, Ok(AdminReply::Done));
}

/// A leader with older software compares sealed bytes, which differ each time.
#[test]
fn known_key_is_refused_below_the_feature_level() {
    let mut cluster = Cluster::with_zone(3);
    let follower = cluster.elect() % 3 + 1;
    for id in cluster.alive() {
        cluster.replica_mut(id).pretend_feature_level(1);
    }
    cluster.lose = is_forward;
    let request = cluster.admin(follower, add_first_key(SECRET));
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Unchanged));
    let request = cluster.admin(follower, roll(9));
    assert_eq!(cluster.admin[&request], Err(AdminError::LevelTooLow));
}

const RULES: [&str; 3] = ["", "grant key. zonesub A;", "grant key. zonesub TXT;"];

/// Sets rules `to`, based on rules `from`.
fn set_rules(to: usize, from: usize) -> AdminCommand {
    let [policy, base] = [to, from].map(|number| parse_policy(RULES[number]).unwrap());
    let zone = Some(zone_id("example.test."));
    AdminCommand::SetPolicy { zone, policy: Arc::new(policy), expected: Some(base.revision()) }
}

#[test]
fn concurrent_policy_change_is_refused() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    // Each node gets its command before it learns of the other.
    cluster.way_ms = 20;
    let requests = [1, 2].map(|rules| cluster.admin((leader + rules as u64) % 3 + 1, set_rules(rules, 0)));
    cluster.run(1_000);
    let result = requests.map(|request| cluster.admin[&request].clone());
    let there = 1 + result.iter().position(Result::is_ok).unwrap();
    assert_eq!(result[2 - there], Err(AdminError::PolicyChanged));
    for id in cluster.alive() {
        let (policies, _) = cluster.replica(id).policies();
        assert_eq!(*policies[&Some(zone_id("example.test."))], parse_policy(RULES[there]).unwrap());
    }
    // A change based on the current rules is accepted. Setting the current rules again changes nothing, and is accepted
    // even if it is based on older rules.
    let other = 3 - there;
    assert_eq!(cluster.admin_ok(leader, set_rules(other, there)), AdminReply::Done);
    assert_eq!(cluster.admin_ok(leader, set_rules(other, there)), AdminReply::Unchanged);
    assert_eq!(cluster.admin_ok(leader, set_rules(0, other)), AdminReply::Done);
    cluster.assert_same();
}

#[test]
fn policy_changes_are_compared_on_the_leader() {
    let (_, result) = at_a_node_that_lags(vec![set_rules(1, 0)], set_rules(2, 0));
    assert_eq!(result, Err(AdminError::PolicyChanged));
    let (_, result) = at_a_node_that_lags(vec![set_rules(1, 0)], set_rules(2, 1));
    assert_eq!(result, Ok(AdminReply::Done));
    let gone = AdminCommand::RemoveZone { zone: zone_id("example.test.") };
    let (_, result) = at_a_node_that_lags(vec![set_rules(1, 0), gone], set_rules(2, 1));
    assert_eq!(result, Err(AdminError::ZoneUnknown));
}
