//! Update policies in a cluster: any member receives an update, and the leader decides by its applied state.

use super::cluster::*;
use policy::text::parse_policy;
use policy::{DaemonAnswers, Question, SocketPath};
use replica::io::{AdminCommand, AdminError, AdminReply, Right, Verdict};
use std::sync::Arc;
use tsig::KeyAlgorithm;
use tsig::client::UpdateBuilder;
use wire::number::{Rcode, Rtype};
use zone::Record;

fn set(cluster: &mut Cluster, id: u64, zone: Option<&str>, rules: &str) -> AdminReply {
    let policy = Arc::new(parse_policy(rules).unwrap());
    cluster.admin_ok(id, AdminCommand::SetPolicy { zone: zone.map(zone_id), policy, expected: None })
}

/// Three members. `key.` has no rights except by rules.
fn cluster() -> (Cluster, u64, u64) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.admin_ok(leader, AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Update });
    (cluster, leader, follower)
}

fn answer(cluster: &Cluster, request: u64) -> Rcode {
    match cluster.verdict(request).map(Verdict::plain) {
        Some(Verdict::Answer(rcode)) => rcode,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rules_count_from_the_entry_that_sets_them() {
    let (mut cluster, leader, follower) = cluster();
    let request = cluster.add(follower, &address(1));
    assert_eq!(answer(&cluster, request), Rcode::REFUSED);
    let rules = "grant key. name a1.example.test. A;";
    assert_eq!(set(&mut cluster, follower, Some("example.test."), rules), AdminReply::Done);
    assert_eq!(set(&mut cluster, leader, Some("example.test."), rules), AdminReply::Unchanged);
    for (id, last, rcode) in [(follower, 1, Rcode::NOERROR), (leader, 2, Rcode::REFUSED), (follower, 3, Rcode::REFUSED)]
    {
        let request = cluster.add(id, &address(last));
        assert_eq!(answer(&cluster, request), rcode, "{last}");
    }
    // Rules for all zones apply after the zone's own rules.
    set(&mut cluster, leader, None, "deny key. name a1.example.test. A;\ngrant key. zonesub A;");
    let request = cluster.add(follower, &address(2));
    cluster.assert_done(request);
    let delete = UpdateBuilder::new(7, name("example.test.").as_ref()).delete_name(address(1).owner.as_ref());
    let delete = sign(delete.finish(), cluster.now.wall_ms);
    let request = cluster.update_bytes(follower, delete, "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(request);
    assert_eq!(cluster.serial(leader), 4);
    cluster.assert_same();
}

/// `wait_all_live` at any member returns once a change by an administrator is in effect on all reachable members.
#[test]
fn wait_all_live_waits_for_all_live_members() {
    let (mut cluster, leader, follower) = cluster();
    for id in [leader, follower] {
        let request = cluster.admin(id, AdminCommand::WaitAllLive);
        cluster.run(200);
        assert_eq!(cluster.admin[&request], Ok(AdminReply::Unchanged), "through {id}");
    }
    // The command waits for a reachable member without the entries, until it has them ..
    let slow = cluster.alive().into_iter().find(|&id| id != leader && id != follower).unwrap();
    cluster.machines.get_mut(&slow).unwrap().hung = Some(Vec::new());
    set(&mut cluster, follower, None, "grant key. zonesub A;");
    let request = cluster.admin(follower, AdminCommand::WaitAllLive);
    cluster.run(1_000);
    assert_eq!(cluster.admin.get(&request), None);
    cluster.kill(slow);
    cluster.machines.get_mut(&slow).unwrap().hung = None;
    cluster.start(slow);
    cluster.run(500);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Unchanged));
    // .. or for two seconds.
    cluster.machines.get_mut(&slow).unwrap().hung = Some(Vec::new());
    set(&mut cluster, follower, None, "grant key. zonesub AAAA;");
    let request = cluster.admin(leader, AdminCommand::WaitAllLive);
    cluster.run(1_900);
    assert_eq!(cluster.admin.get(&request), None);
    cluster.run(200);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Unchanged));
    // The command does not wait for an unreachable member.
    cluster.kill(slow);
    cluster.run(1_500);
    set(&mut cluster, follower, None, "grant key. zonesub ANY;");
    let request = cluster.admin(follower, AdminCommand::WaitAllLive);
    cluster.run(100);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Unchanged));
}

#[test]
fn rules_outlive_a_restart_and_a_new_leader() {
    let (mut cluster, leader, follower) = cluster();
    set(&mut cluster, leader, Some("example.test."), "grant key. wildcard *.example.test. A(1);");
    cluster.run(200);
    cluster.kill(leader);
    cluster.elect();
    let request = cluster.add(follower, &address(1));
    cluster.assert_done(request);
    let second = Record { rdata: [192, 0, 2, 99].into(), ..address(1) };
    let request = cluster.add(follower, &second);
    assert_eq!(answer(&cluster, request), Rcode::REFUSED);
    cluster.start(leader);
    cluster.run(1_000);
    cluster.assert_same();
}

#[test]
fn leader_enforces_a_quota_that_two_nodes_use() {
    let (mut cluster, leader, follower) = cluster();
    set(&mut cluster, leader, Some("example.test."), "grant key. name w.example.test. TXT(4);");
    let wall_ms = cluster.now.wall_ms;
    let txt = |number: u8| {
        let rdata = [1, b'a' + number].into();
        Record { owner: name("w.example.test."), rtype: Rtype::TXT, ttl: 60, rdata }
    };
    // All nodes receive the updates before any update is evaluated.
    let requests: Vec<_> = (0..10u8)
        .map(|number| {
            let id = if number % 2 == 0 { leader } else { follower };
            cluster.update_bytes(id, add(&txt(number), u16::from(number) + 100, wall_ms), "192.0.2.200:4000")
        })
        .collect();
    cluster.settle();
    cluster.run(200);
    let done = requests.iter().filter(|&&request| answer(&cluster, request) == Rcode::NOERROR).count();
    let refused = requests.iter().filter(|&&request| answer(&cluster, request) == Rcode::REFUSED).count();
    assert_eq!((done, refused), (4, 6));
    assert_eq!((0..10).filter(|&number| cluster.has(follower, &txt(number))).count(), 4);
    assert_eq!(cluster.serial(follower), 5);
    cluster.assert_same();
}

#[test]
fn policy_uses_the_address_seen_by_the_receiving_node() {
    let (mut cluster, leader, follower) = cluster();
    set(&mut cluster, leader, Some("example.test."), "grant * tcp-self . ANY;\ngrant * zonesub A;");
    // The clients of this test use UDP, so their source address grants nothing.
    let ptr = Record { owner: name("7.2.0.192.in-addr.arpa."), rtype: Rtype::PTR, ttl: 60, rdata: [0].into() };
    let zone = AdminCommand::AddZone {
        zone: zone_id("in-addr.arpa."),
        options: replica::io::ZoneOptions::default(),
        contents: replica::io::Contents::new(&zone_id("in-addr.arpa."), records("in-addr.arpa.", 1)).unwrap(),
    };
    cluster.admin_ok(leader, zone);
    set(&mut cluster, leader, Some("in-addr.arpa."), "grant * tcp-self . PTR(1);");
    for (number, (id, transport, source, rcode)) in (0..).zip([
        (follower, replica::io::Transport::Tcp, "192.0.2.7:1000", Rcode::NOERROR),
        (follower, replica::io::Transport::Udp, "192.0.2.7:1000", Rcode::REFUSED),
        (leader, replica::io::Transport::Tcp, "192.0.2.8:1000", Rcode::REFUSED),
        (leader, replica::io::Transport::Tcp, "192.0.2.7:2000", Rcode::NOERROR),
    ]) {
        let builder = UpdateBuilder::new(number, name("in-addr.arpa.").as_ref());
        let message = builder.add(ptr.owner.as_ref(), ptr.ttl, ptr.rtype, &ptr.rdata).finish();
        let message = sign(message, cluster.now.wall_ms);
        let request = cluster.update_bytes_over(transport, id, message, source);
        cluster.settle();
        assert_eq!(answer(&cluster, request), rcode, "{number}");
    }
    cluster.assert_same();
}

#[test]
fn both_secrets_are_valid_during_a_key_roll() {
    let (mut cluster, leader, follower) = cluster();
    set(&mut cluster, leader, None, "grant key. zonesub A;");
    let roll = |secret: &[u8]| roll_key(secret, 9);
    let old = add(&address(1), 1, cluster.now.wall_ms);
    let request = cluster.update_bytes(follower, old.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(request);
    assert_eq!(cluster.admin_ok(follower, roll(b"another secret")), AdminReply::Done);
    assert_eq!(cluster.admin_ok(leader, roll(b"another secret")), AdminReply::Unchanged);
    let third = cluster.admin(leader, roll(b"a third"));
    cluster.run(1_000);
    assert_eq!(cluster.admin[&third], Err(AdminError::KeyRolling));
    // Updates signed with the old secret are still repeats, and the old secret is still valid.
    for id in [leader, follower] {
        let again = cluster.update_bytes(id, old.clone(), "192.0.2.200:4000");
        cluster.settle();
        cluster.assert_done(again);
        let request = cluster.add(id, &address(10 + id as u8));
        cluster.assert_done(request);
    }
    assert_eq!(cluster.serial(leader), 4);
    cluster.admin_ok(leader, AdminCommand::RetireKey { name: name("key.") });
    assert!(!cluster.replica(follower).keys()[0].is_rolling);
    cluster.assert_same();
}

/// The answer of a daemon at `/run/auth` about the A record of `address(last)`.
fn external(last: u8, is_granted: bool) -> DaemonAnswers {
    let mut external = DaemonAnswers::default();
    let socket = SocketPath::new("/run/auth").unwrap();
    external.insert(Question { socket, owner: address(last).owner, rtype: Rtype::A }, is_granted);
    external
}

#[test]
fn external_decision_travels_with_the_update() {
    let (mut cluster, leader, follower) = cluster();
    let rules = "grant \"local:/run/auth\" external * A;";
    set(&mut cluster, leader, Some("example.test."), rules);
    for (last, id, external, rcode) in [
        (1, follower, external(1, true), Rcode::NOERROR),
        (2, leader, external(2, true), Rcode::NOERROR),
        (3, follower, external(3, false), Rcode::REFUSED),
        (4, leader, DaemonAnswers::default(), Rcode::REFUSED),
        (5, follower, DaemonAnswers::default(), Rcode::REFUSED),
        // The daemon answers for another name.
        (6, follower, external(7, true), Rcode::REFUSED),
    ] {
        cluster.external = external;
        let request = cluster.add(id, &address(last));
        assert_eq!(answer(&cluster, request), rcode, "{last}");
    }
    // The outcome of an executed update does not change, even if a daemon answers differently for a repeat.
    let message = add(&address(8), 800, cluster.now.wall_ms);
    for (id, external) in
        [(follower, external(8, true)), (leader, external(8, false)), (follower, DaemonAnswers::default())]
    {
        cluster.external = external;
        let request = cluster.update_bytes(id, message.clone(), "192.0.2.200:4000");
        cluster.settle();
        cluster.assert_done(request);
    }
    // The rules that the leader has applied are in force.
    cluster.external = external(9, true);
    let request = cluster.update_bytes(follower, add(&address(9), 900, cluster.now.wall_ms), "192.0.2.200:4000");
    set(&mut cluster, leader, Some("example.test."), &format!("deny key. zonesub;\n{rules}"));
    let first = answer(&cluster, request);
    let request = cluster.add(follower, &address(9));
    assert_eq!(answer(&cluster, request), Rcode::REFUSED);
    assert_eq!(cluster.serial(leader), if first == Rcode::NOERROR { 5 } else { 4 });
    cluster.run(500);
    cluster.assert_same();
}

/// A node that is cut off still accepts a secret that is no longer valid. The leader decides when the node reaches it
/// again.
#[test]
fn a_signature_counts_only_while_the_leader_knows_its_secret() {
    let roll = |secret: &[u8]| roll_key(secret, 2);
    let retire = || AdminCommand::RetireKey { name: name("key.") };
    let remove = || AdminCommand::RemoveKey { name: name("key.") };
    let add = || AdminCommand::AddKey {
        name: name("key."),
        algorithm: KeyAlgorithm::HmacSha256,
        secret: b"another".to_vec(),
        nonce: [3; 12],
    };
    let grant = || AdminCommand::Grant { key: name("key."), zone: None, right: Right::Update };
    for (commands, rcode) in [
        (vec![roll(b"newer"), retire()], Rcode::REFUSED),
        (vec![remove(), add(), grant()], Rcode::REFUSED),
        (vec![remove()], Rcode::REFUSED),
        // The old secret is valid until it is retired.
        (vec![roll(b"newer")], Rcode::NOERROR),
    ] {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let cut = leader % 3 + 1;
        for id in cluster.alive() {
            cluster.cut.extend([(cut, id), (id, cut)]);
        }
        for command in commands.clone() {
            assert_eq!(cluster.admin_ok(leader, command), AdminReply::Done);
        }
        let request = cluster.add(cut, &address(1));
        assert_eq!(cluster.verdict(request), None, "{commands:?}: it waits for a leader");
        cluster.cut.clear();
        cluster.run(1_000);
        assert_eq!(cluster.verdict(request), Some(Verdict::Answer(rcode)), "{commands:?}");
        for id in cluster.alive() {
            assert_eq!(cluster.has(id, &address(1)), rcode == Rcode::NOERROR, "{commands:?}, {id}");
        }
    }
}

/// If a zone is at a key's limit, updates with that key are accepted only if they do not enlarge it. Other keys are not
/// limited.
#[test]
fn key_quota_limits_zone_growth() {
    let (mut cluster, leader, follower) = cluster();
    // The zone already has this many records.
    let zone = cluster.replica(leader).zones().published();
    let before = zone.zone(&zone_id("example.test.")).unwrap().record_count();
    let rules = format!("grant key. zonesub A;\nlimit key. zone-records {};", before + 2);
    set(&mut cluster, leader, Some("example.test."), &rules);
    for (last, rcode) in [(1, Rcode::NOERROR), (2, Rcode::NOERROR), (3, Rcode::REFUSED)] {
        let request = cluster.add(follower, &address(last));
        assert_eq!(answer(&cluster, request), rcode, "{last}");
    }
    let exchange = UpdateBuilder::new(7, name("example.test.").as_ref()).delete_name(address(1).owner.as_ref()).add(
        address(3).owner.as_ref(),
        60,
        Rtype::A,
        &address(3).rdata,
    );
    let request = cluster.update_bytes(follower, sign(exchange.finish(), cluster.now.wall_ms), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(request);
    assert!(cluster.has(leader, &address(3)) && !cluster.has(leader, &address(4)));
    set(&mut cluster, leader, Some("example.test."), "grant key. zonesub A;\nlimit other. zone-records 1;");
    let request = cluster.add(follower, &address(4));
    cluster.assert_done(request);
    cluster.assert_same();
}
