//! Clean stops: clients get the outcomes of their updates before the node exits.

use super::cluster::*;
use replica::io::{AckOption, AdminCommand, AdminReply, Input, NodeId, Right, Verdict, ZoneOptions};
use replica::limits::STOP_WAIT_MS;

/// Returns three members whose frames take two ticks, and the leader.
fn far_apart() -> (Cluster, NodeId) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.way_ms = 20;
    cluster.run(100);
    (cluster, leader)
}

/// Sends an update, and immediately stops the receiving member.
fn update_and_stop(cluster: &mut Cluster, id: NodeId) -> u64 {
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let request = cluster.update_bytes(id, message, "192.0.2.200:4000");
    cluster.input(id, Input::Stop);
    cluster.settle();
    request
}

/// Runs until the member has stopped. Returns the time that it took.
fn run_until_stopped(cluster: &mut Cluster, id: NodeId) -> u64 {
    let since_ms = cluster.now.monotonic_ms;
    while !cluster.machines[&id].is_stopped {
        cluster.run(10);
        assert!(cluster.now.monotonic_ms < since_ms + STOP_WAIT_MS + 1_000, "it never stops");
    }
    cluster.now.monotonic_ms - since_ms
}

#[test]
fn stopping_follower_reports_outcomes_of_its_updates() {
    let (mut cluster, leader) = far_apart();
    let follower = leader % 3 + 1;
    let request = update_and_stop(&mut cluster, follower);
    // Later updates must go to another member.
    let late = cluster.add(follower, &address(2));
    assert_eq!(cluster.verdict(late), Some(Verdict::NotProposed));
    run_until_stopped(&mut cluster, follower);
    cluster.assert_done(request);
    assert!(cluster.has(follower, &address(1)));
}

#[test]
fn stopping_leader_reports_outcomes_of_its_updates() {
    let (mut cluster, leader) = far_apart();
    let request = update_and_stop(&mut cluster, leader);
    run_until_stopped(&mut cluster, leader);
    cluster.assert_done(request);
    assert!(cluster.leader().is_some_and(|id| id != leader));
}

#[test]
fn stopping_single_member_reports_outcomes_of_its_updates() {
    let mut cluster = Cluster::with_zone(1);
    cluster.elect();
    cluster.machines.get_mut(&1).unwrap().hung = Some(Vec::new());
    let request = update_and_stop(&mut cluster, 1);
    cluster.run(100);
    assert!(!cluster.machines[&1].is_stopped);
    cluster.unhang(1);
    run_until_stopped(&mut cluster, 1);
    cluster.assert_done(request);
}

#[test]
fn update_is_refused_before_a_stop() {
    let (mut cluster, leader) = far_apart();
    let follower = leader % 3 + 1;
    cluster.admin_ok(leader, AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Update });
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let request = cluster.update_looked_at(follower, message, "192.0.2.200:4000");
    cluster.input(follower, Input::Stop);
    cluster.settle();
    run_until_stopped(&mut cluster, follower);
    assert_eq!(cluster.verdict(request), Some(Verdict::Refused));
}

#[test]
fn all_live_outcomes_are_reported_before_a_stop() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let options = ZoneOptions { ack: AckOption::AllLive, ..ZoneOptions::default() };
    let set = AdminCommand::SetZoneOptions { zone: zone_id("example.test."), change: options.into() };
    assert_eq!(cluster.admin_ok(leader, set), AdminReply::Done);
    cluster.way_ms = 20;
    cluster.run(100);
    let follower = leader % 3 + 1;
    let request = update_and_stop(&mut cluster, follower);
    run_until_stopped(&mut cluster, follower);
    cluster.assert_done(request);
}

#[test]
fn a_stop_waits_no_longer_than_its_limit() {
    let (mut cluster, leader) = far_apart();
    let follower = leader % 3 + 1;
    cluster.cut = cluster.machines.keys().flat_map(|&id| [(id, follower), (follower, id)]).collect();
    let request = update_and_stop(&mut cluster, follower);
    let took_ms = run_until_stopped(&mut cluster, follower);
    assert!((STOP_WAIT_MS..STOP_WAIT_MS + 100).contains(&took_ms), "{took_ms} ms");
    assert_eq!(cluster.verdict(request), None, "the outcome is unknown, and the client repeats its update");
    // A member without waiting clients stops immediately.
    let other = cluster.alive().into_iter().find(|&id| id != leader && id != follower).unwrap();
    cluster.input(other, Input::Stop);
    cluster.settle();
    assert!(run_until_stopped(&mut cluster, other) <= 20);
}
