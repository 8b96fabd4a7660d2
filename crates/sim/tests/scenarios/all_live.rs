//! Zones of `ack = all-live`: an acknowledged update is visible on every member that answers.

use super::cluster::*;
use replica::io::{AckOption, AdminCommand, AdminError, AdminReply, NodeId, Verdict, ZoneOptions};
use replica::limits::{LEASE_GUARD_MS, LEASE_MS, ROTATION_CAUGHT_UP_MS, ROTATION_UNUSED_MS, UPDATE_WAIT_MS};
use tsig::client::UpdateBuilder;
use wire::number::Rtype;
use zone::Record;

const ALL_LIVE: ZoneOptions = ZoneOptions {
    serial_policy: replica::io::SerialPolicyOption::Increment,
    stale: replica::io::StaleOption::Serve,
    ack: AckOption::AllLive,
    limits: replica::io::ZoneLimits::NONE,
};

fn set_options(options: ZoneOptions) -> AdminCommand {
    AdminCommand::SetZoneOptions { zone: zone_id("example.test."), change: options.into() }
}

/// A cluster of `count` members that all answer for the zone. Returns the cluster, the leader, and the others.
pub(super) fn cluster(count: u64) -> (Cluster, NodeId, Vec<NodeId>) {
    let mut cluster = Cluster::with_zone(count);
    let leader = cluster.elect();
    let others: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    // A new leader reports nothing while an earlier leader's leases may be valid.
    cluster.run(LEASE_GUARD_MS + 100);
    assert_eq!(cluster.admin_ok(others[0], set_options(ALL_LIVE)), AdminReply::Done);
    assert!(cluster.alive().into_iter().all(|id| answers(&cluster, id) && is_in(&cluster, leader, id)));
    (cluster, leader, others)
}

/// Whether a member answers a query for the zone now. Its shell must agree.
pub(super) fn answers(cluster: &Cluster, id: NodeId) -> bool {
    let (now, machine) = (cluster.now.monotonic_ms, &cluster.machines[&id]);
    let may = cluster.replica(id).may_answer(&zone_id("example.test."), now);
    let is_leased = now < machine.lease_until_ms;
    let needs = cluster.replica(id).zone_options(&zone_id("example.test.")).unwrap().ack == AckOption::AllLive;
    assert_eq!(may, cluster.replica(id).serving() != replica::io::Serving::No && (is_leased || !needs), "{id}");
    may
}

/// Whether a member is in the rotation, according to another member's applied state.
pub(super) fn is_in(cluster: &Cluster, by: NodeId, id: NodeId) -> bool {
    let members = cluster.replica(by).status().members;
    members.into_iter().find(|it| it.member.id == id).and_then(|it| it.in_rotation).unwrap_or(false)
}

/// Runs until a client gets the outcome. Returns the milliseconds. All members that answer must then show the record.
pub(super) fn run_until_acknowledged(cluster: &mut Cluster, request: u64, record: &Record, most_ms: u64) -> u64 {
    let start_ms = cluster.now.monotonic_ms;
    while cluster.verdict(request).is_none() && cluster.now.monotonic_ms < start_ms + most_ms {
        cluster.run(10);
    }
    cluster.assert_done(request);
    for id in cluster.alive() {
        assert!(!answers(cluster, id) || cluster.has(id, record), "{id} answers and lacks {:?}", record.owner);
    }
    cluster.now.monotonic_ms - start_ms
}

#[test]
fn update_is_acknowledged_when_all_live_members_show_it() {
    let (mut cluster, leader, others) = cluster(3);
    for (id, last) in [(leader, 1), (others[0], 2), (others[1], 3)] {
        let request = cluster.add(id, &address(last));
        cluster.assert_done(request);
        assert!(cluster.alive().into_iter().all(|id| cluster.has(id, &address(last)) && answers(&cluster, id)));
    }
    // Updates wait for a member that falls behind, even if a majority has them.
    cluster.cut.insert((leader, others[1]));
    let request = cluster.add(others[0], &address(4));
    assert_eq!(cluster.verdict(request), None);
    assert!(cluster.has(leader, &address(4)) && cluster.has(others[0], &address(4)));
    assert!(!cluster.has(others[1], &address(4)) && answers(&cluster, others[1]));
    cluster.cut.clear();
    run_until_acknowledged(&mut cluster, request, &address(4), 500);
    assert!(cluster.has(others[1], &address(4)));
    cluster.run(2_000);
    cluster.assert_same();
}

#[test]
fn repeat_is_not_acknowledged_before_the_first() {
    let (mut cluster, leader, others) = cluster(3);
    cluster.cut.insert((leader, others[1]));
    let bytes = add(&address(4), 99, cluster.now.wall_ms);
    let first = cluster.update_bytes(others[0], bytes.clone(), "192.0.2.200:4000");
    cluster.settle();
    let repeats = [leader, others[0]].map(|id| cluster.update_bytes(id, bytes.clone(), "192.0.2.200:4001"));
    cluster.settle();
    for request in [first, repeats[0], repeats[1]] {
        assert_eq!(cluster.verdict(request), None);
    }
    cluster.cut.clear();
    cluster.run(500);
    for request in [first, repeats[0], repeats[1]] {
        cluster.assert_done(request);
    }
    assert!(cluster.has(others[1], &address(4)));
}

#[test]
fn a_dead_member_stalls_updates_once() {
    let (mut cluster, leader, others) = cluster(3);
    cluster.kill(others[1]);
    let request = cluster.add(others[0], &address(1));
    assert_eq!(cluster.verdict(request), None);
    let stall_ms = run_until_acknowledged(&mut cluster, request, &address(1), 2 * LEASE_MS);
    assert!((LEASE_MS..=2 * LEASE_MS).contains(&stall_ms), "{stall_ms}");
    assert!(!is_in(&cluster, leader, others[1]));
    let request = cluster.add(leader, &address(2));
    cluster.assert_done(request);
    // After its return, the member shows everything. It answers only after some time without problems.
    cluster.start(others[1]);
    cluster.run(ROTATION_CAUGHT_UP_MS - 500);
    assert!(cluster.has(others[1], &address(2)) && !answers(&cluster, others[1]));
    let request = cluster.add(leader, &address(3));
    cluster.assert_done(request);
    cluster.run(1_500);
    assert!(is_in(&cluster, leader, others[1]) && answers(&cluster, others[1]));
    cluster.assert_same();
}

#[test]
fn all_live_option_waits_until_every_member_knows_it() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let other = cluster.alive().into_iter().rfind(|&id| id != leader).unwrap();
    cluster.kill(other);
    cluster.run(1_500);
    let request = cluster.admin(leader, set_options(ALL_LIVE));
    cluster.run(1_000);
    assert_eq!(cluster.admin.get(&request), Some(&Err(AdminError::NodeBehind)));
    cluster.start(other);
    cluster.run(1_000);
    let request = cluster.admin(leader, set_options(ALL_LIVE));
    cluster.run(ROTATION_CAUGHT_UP_MS + 1_000);
    assert_eq!(cluster.admin.get(&request), Some(&Ok(AdminReply::Done)));
    // A member is cut off while another zone gets the option. Until the member knows that, updates of the zone are
    // acknowledged as usual, and the administrator is told so.
    let leader = cluster.elect();
    let zone = zone_id("second.test.");
    let contents = replica::io::Contents::new(&zone, records("second.test.", 1)).unwrap();
    let options = ZoneOptions::default();
    cluster.admin_ok(leader, AdminCommand::AddZone { zone: zone.clone(), options, contents });
    let away = cluster.alive().into_iter().rfind(|&id| id != leader).unwrap();
    for id in cluster.alive() {
        cluster.cut.extend([(away, id), (id, away)]);
    }
    let second = AdminCommand::SetZoneOptions { zone: zone.clone(), change: ALL_LIVE.into() };
    let request = cluster.admin(leader, second);
    assert_eq!(cluster.replica(leader).zone_options(&zone), Some(ALL_LIVE));
    assert!(!cluster.replica(leader).is_all_live(&zone));
    cluster.run(31_000);
    assert_eq!(cluster.admin.get(&request), Some(&Err(AdminError::NodeBehind)));
    cluster.cut.clear();
    cluster.run(1_500);
    assert!(cluster.replica(leader).is_all_live(&zone));
}

#[test]
fn all_live_can_be_set_when_a_zone_is_added() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.run(LEASE_GUARD_MS + 100);
    let zone = zone_id("second.test.");
    let contents = replica::io::Contents::new(&zone, records("second.test.", 1)).unwrap();
    let command = AdminCommand::AddZone { zone: zone.clone(), options: ALL_LIVE, contents };
    assert_eq!(cluster.admin_ok(leader, command), AdminReply::Done);
    assert!(cluster.replica(leader).is_all_live(&zone));
    let now_ms = cluster.now.monotonic_ms;
    assert!(cluster.alive().into_iter().all(|id| cluster.replica(id).may_answer(&zone, now_ms)));
    // The rotation is no longer needed.
    cluster.admin_ok(leader, AdminCommand::RemoveZone { zone });
    cluster.run(ROTATION_UNUSED_MS + 2 * UPDATE_WAIT_MS + 1_000);
    assert!(cluster.replica(leader).rotation().is_empty());
    cluster.assert_same();
}

#[test]
fn member_that_serves_no_clients_is_not_waited_for() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let witness = cluster.alive().into_iter().rfind(|&id| id != leader).unwrap();
    cluster.kill(witness);
    let mut config = cluster.config(witness);
    config.answers_queries = false;
    cluster.start_with(witness, config);
    cluster.run(2_000);
    let request = cluster.admin(leader, set_options(ALL_LIVE));
    cluster.run(3_000);
    assert_eq!(cluster.admin.get(&request), Some(&Ok(AdminReply::Done)));
    assert!(!is_in(&cluster, leader, witness) && is_in(&cluster, leader, leader));
    // The witness may die without delaying updates.
    cluster.kill(witness);
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
}

#[test]
fn member_that_does_not_apply_leaves_the_rotation() {
    let (mut cluster, leader, others) = cluster(3);
    let stuck = others[1];
    cluster.machines.get_mut(&stuck).unwrap().hung = Some(Vec::new());
    let request = cluster.add(leader, &address(1));
    assert_eq!(cluster.verdict(request), None);
    run_until_acknowledged(&mut cluster, request, &address(1), 2_400);
    assert!(!is_in(&cluster, leader, stuck) && !answers(&cluster, stuck) && !cluster.has(stuck, &address(1)));
    cluster.unhang(stuck);
    cluster.run(ROTATION_CAUGHT_UP_MS + 1_500);
    assert!(answers(&cluster, stuck));
    cluster.assert_same();
}

#[test]
fn updates_of_other_zones_do_not_wait_for_the_rotation() {
    let (mut cluster, leader, others) = cluster(3);
    cluster.admin_ok(leader, set_options(ZoneOptions::default()));
    cluster.kill(others[1]);
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    assert!(cluster.alive().into_iter().all(|id| answers(&cluster, id)));
}

/// A member need not be in the rotation to answer for zones without the option.
#[test]
fn both_all_live_indexes_are_reported() {
    let (mut cluster, leader, others) = cluster(3);
    let (receiver, late) = (others[0], others[1]);
    let zone = zone_id("second.test.");
    let contents = replica::io::Contents::new(&zone, records("second.test.", 1)).unwrap();
    let add_zone = AdminCommand::AddZone { zone: zone.clone(), options: ZoneOptions::default(), contents };
    assert_eq!(cluster.admin_ok(leader, add_zone), AdminReply::Done);
    cluster.kill(late);
    cluster.run(2 * LEASE_MS);
    assert!(!is_in(&cluster, leader, late));
    cluster.start(late);
    cluster.run(500);
    cluster.machines.get_mut(&late).unwrap().hung = Some(Vec::new());
    let owner = name("a.second.test.");
    let builder = UpdateBuilder::new(7, name("second.test.").as_ref());
    let message = builder.add(owner.as_ref(), 60, Rtype::A, &[192, 0, 2, 1]).finish();
    let message = sign(message, cluster.now.wall_ms);
    let request = cluster.update_bytes(receiver, message, "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(request);
    let shown = cluster.replica(receiver).status().applied_index;
    cluster.run(500);
    let has = |cluster: &Cluster, id| {
        let published = cluster.replica(id).zones().published();
        published.zone(&zone).unwrap().rrset(owner.as_ref(), Rtype::A).is_some()
    };
    // The member answers and is reachable, but lacks the record.
    assert!(cluster.replica(late).may_answer(&zone, cluster.now.monotonic_ms) && !has(&cluster, late));
    assert!(cluster.replica(leader).is_reachable(late) && !is_in(&cluster, leader, late));
    for id in [leader, receiver] {
        let machine = &cluster.machines[&id];
        assert!(machine.shown_by_rotation >= shown && machine.shown_by_heard < shown, "known to {id}");
    }
    cluster.unhang(late);
    cluster.run(200);
    assert!(has(&cluster, late));
    for id in [leader, receiver] {
        assert!(cluster.machines[&id].shown_by_heard >= shown, "known to {id}");
    }
}

#[test]
fn all_live_update_times_out_as_unknown() {
    let (mut cluster, _, others) = cluster(3);
    // The leader's messages with the all-live index are lost.
    cluster.lose = |frame| frame.get(1) == Some(&14);
    let request = cluster.add(others[0], &address(1));
    cluster.run(2_400);
    assert_eq!(cluster.verdict(request), None);
    cluster.run(300);
    // The update is committed, so it must not be reported as not done.
    assert_eq!(cluster.verdict(request), Some(Verdict::Unknown));
    assert!(cluster.has(others[0], &address(1)));
}

#[test]
fn a_single_member_acknowledges_all_live_updates() {
    let mut cluster = Cluster::with_zone(1);
    cluster.run(LEASE_GUARD_MS + 100);
    assert_eq!(cluster.admin_ok(1, set_options(ALL_LIVE)), AdminReply::Done);
    let request = cluster.add(1, &address(1));
    cluster.assert_done(request);
    assert!(answers(&cluster, 1));
}

#[test]
fn a_rotation_works_with_long_delays() {
    let (mut cluster, leader, others) = cluster(3);
    cluster.way_ms = 80;
    cluster.run(1_000);
    // An acknowledgement of a report arrives after the next three were sent.
    for id in &others {
        let members = cluster.replica(leader).brief_status().members;
        let member = members.iter().find(|status| status.member.id == *id).unwrap();
        assert!(member.last_report_age_ms.unwrap() < 200, "{id}");
    }
    for round in 0..20 {
        cluster.run(100);
        assert!(cluster.alive().into_iter().all(|id| answers(&cluster, id)), "{round}");
    }
    let request = cluster.add(others[0], &address(1));
    let took_ms = run_until_acknowledged(&mut cluster, request, &address(1), 2_000);
    // Frames go from the receiving member to the leader, to the members and back, and to the receiving member.
    assert!((320..800).contains(&took_ms), "{took_ms}");
}
