//! Options of zones: two administrators, lagging nodes, and feature levels without an option.

use super::cluster::*;
use super::commands::set_options;
use replica::io::{
    AckOption, AdminCommand, AdminError, AdminReply, Contents, LimitsChange, NodeId, OptionsChange, SerialPolicyOption,
    StaleOption, ZoneOptions,
};
use replica::peer::Frame;
use replica::testing::Command;
use tsig::KeyAlgorithm;

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
fn concurrent_option_changes_on_two_nodes_both_apply() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    // Each node gets its command before it learns of the other.
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
fn lagging_node_does_not_revert_options() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    // The member acknowledges and applies log entries only when they are on its disk.
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
fn options_can_be_set_through_a_node_that_lacks_the_zone() {
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

/// A leader with older software could not decode the command.
#[test]
fn options_are_sent_whole_below_the_feature_level() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    for id in cluster.alive() {
        cluster.replica_mut(id).pretend_feature_level(1);
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
            cluster.replica_mut(id).pretend_feature_level(level);
        }
        for (nonce, node) in [(1, leader), (2, follower)] {
            for command in
                [set_options(date), set_options(limited), weak(KeyAlgorithm::WEAK[usize::from(nonce)], nonce)]
            {
                let request = cluster.admin(node, command);
                cluster.run(500);
                let refused = cluster.admin[&request] == Err(AdminError::LevelTooLow);
                assert_eq!(refused, level == 3, "{level}: {:?}", cluster.admin[&request]);
            }
        }
        cluster.assert_same();
    }
}
