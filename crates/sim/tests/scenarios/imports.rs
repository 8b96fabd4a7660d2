//! Imports whose driver dies, stalls or is slow.

use super::cluster::*;
use replica::entry::Body;
use replica::io::{AdminCommand, AdminError, AdminReply, Contents, NodeId, ZoneOptions};
use replica::limits::{ADMIN_WAIT_MS, IMPORT_IDLE_MS};
use replica::peer::Frame;
use replica::testing::Command;
use wire::number::Rtype;
use zone::Record;

const APEX: &str = "big.test.";

/// A zone with three times the maximum number of chunks in flight.
fn add_big_zone() -> AdminCommand {
    let mut all = records(APEX, 7);
    all.extend((0..60_000u32).map(|number| Record {
        owner: name(&format!("host-{number}.{APEX}")),
        rtype: Rtype::TXT,
        ttl: 60,
        rdata: vec![20; 21].into(),
    }));
    let contents = Contents::new(&zone_id(APEX), all).unwrap();
    AdminCommand::AddZone { zone: zone_id(APEX), options: ZoneOptions::default(), contents }
}

fn add_small_zone() -> AdminCommand {
    let contents = Contents::new(&zone_id(APEX), records(APEX, 7)).unwrap();
    AdminCommand::AddZone { zone: zone_id(APEX), options: ZoneOptions::default(), contents }
}

/// Whether the frame is a chunk for the leader, with at least this number.
fn is_chunk_from<const FIRST: u32>(frame: &[u8]) -> bool {
    let Ok((_, Frame::Forward { command, .. })) = Frame::decode(frame) else { return false };
    matches!(command, Command::Propose(Body::ImportChunk(chunk)) if chunk.chunk_index >= FIRST)
}

fn is_staged(cluster: &Cluster, id: NodeId) -> bool {
    cluster.replica(id).import_of(&zone_id(APEX)).is_some()
}

/// Returns a cluster of three, the leader, and a follower whose import has started and is stalled.
fn with_half_an_import() -> (Cluster, NodeId, NodeId, u64) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let driver = leader % 3 + 1;
    cluster.lose = is_chunk_from::<0>;
    let request = cluster.admin(driver, add_big_zone());
    cluster.run(1_000);
    assert!([1, 2, 3].into_iter().all(|id| is_staged(&cluster, id)));
    (cluster, leader, driver, request)
}

#[test]
fn import_of_a_dead_node_is_abandoned_and_can_be_repeated() {
    let (mut cluster, leader, driver, _) = with_half_an_import();
    cluster.kill(driver);
    cluster.lose = |_| false;
    let other = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    for id in [leader, other] {
        let early = cluster.admin(id, add_small_zone());
        cluster.run(200);
        assert_eq!(cluster.admin[&early], Err(AdminError::ImportUnderWay), "through {id}");
    }
    cluster.run(IMPORT_IDLE_MS - 2_000);
    assert!(is_staged(&cluster, leader), "abandoned too early");
    cluster.run(3_000);
    assert!(!cluster.alive().into_iter().any(|id| is_staged(&cluster, id)), "not abandoned");
    assert_eq!(cluster.admin_ok(other, add_small_zone()), AdminReply::Done);
    cluster.start(driver);
    cluster.run(1_000);
    assert!(!is_staged(&cluster, driver));
    cluster.assert_same();
}

#[test]
fn new_leader_abandons_a_stalled_import() {
    let (mut cluster, leader, driver, _) = with_half_an_import();
    cluster.kill(driver);
    cluster.lose = |_| false;
    // Leaders change, but the stalled import keeps its age.
    let other = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.run(IMPORT_IDLE_MS - 10_000);
    assert_eq!(cluster.admin_ok(leader, AdminCommand::TransferLeader { to: Some(other) }), AdminReply::Done);
    cluster.run(5_000);
    assert!(is_staged(&cluster, other), "abandoned too early");
    cluster.run(6_000);
    assert!(!cluster.alive().into_iter().any(|id| is_staged(&cluster, id)));
    assert_eq!(cluster.admin_ok(leader, add_small_zone()), AdminReply::Done);
    cluster.assert_same();
}

#[test]
fn slow_import_is_not_abandoned_after_leader_changes() {
    let (mut cluster, leader, driver, request) = with_half_an_import();
    let other = cluster.alive().into_iter().find(|&id| id != leader && id != driver).unwrap();
    let began_ms = cluster.now.monotonic_ms;
    let loses: [fn(&[u8]) -> bool; 3] = [is_chunk_from::<4>, is_chunk_from::<8>, is_chunk_from::<12>];
    for (next, lose) in [other, leader, other].into_iter().zip(loses) {
        // This delay almost reaches the driver's time limit for a step.
        cluster.run(ADMIN_WAIT_MS - 5_000);
        cluster.admin_ok(driver, AdminCommand::TransferLeader { to: Some(next) });
        assert_eq!(cluster.admin.get(&request), None);
        assert!(is_staged(&cluster, next));
        cluster.lose = lose;
        cluster.run(1_000);
    }
    assert!(cluster.now.monotonic_ms - began_ms > IMPORT_IDLE_MS, "it took longer than the limit for a stalled import");
    cluster.lose = |_| false;
    cluster.run(2_000);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Done));
    for id in [1, 2, 3] {
        let published = cluster.replica(id).zones().published();
        assert_eq!(published.zone(&zone_id(APEX)).unwrap().record_count(), 60_002);
    }
    cluster.assert_same();
}

#[test]
fn importing_node_learns_that_its_import_was_abandoned() {
    let (mut cluster, leader, driver, request) = with_half_an_import();
    let stage = cluster.replica(leader).import_of(&zone_id(APEX)).unwrap();
    cluster.replica_mut(leader).abandon_import(stage);
    cluster.run(100);
    cluster.lose = |_| false;
    cluster.run(1_000);
    assert_eq!(cluster.admin[&request], Err(AdminError::ImportGivenUp));
    assert_eq!(cluster.admin_ok(driver, add_big_zone()), AdminReply::Done);
    cluster.assert_same();
}
