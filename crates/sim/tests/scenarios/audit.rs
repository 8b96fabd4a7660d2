//! Audit records of updates that changed zones.

use super::cluster::*;
use replica::io::{AdminCommand, AuditRecord, Right, UpdateRecord};
use replica::log::LogConfig;
use std::collections::BTreeMap;
use tsig::client::UpdateBuilder;
use wire::number::Rtype;

fn records(cluster: &Cluster, id: u64) -> Vec<UpdateRecord> {
    let lines = &cluster.machines[&id].audited;
    lines
        .iter()
        .filter_map(|line| match line {
            Audited::Update(AuditRecord::Update(record)) => Some(record.clone()),
            Audited::Update(AuditRecord::Action(_)) | Audited::Gap(..) => None,
        })
        .collect()
}

#[test]
fn every_member_audits_each_effective_update_once() {
    let mut cluster = Cluster::with_zone(3);
    for last in 1..=5 {
        let request = cluster.add(u64::from(last) % 3 + 1, &address(last));
        cluster.assert_done(request);
    }
    // These change nothing: a repeat, an existing record, and a prerequisite that fails.
    let again = add(&address(5), 77, cluster.now.wall_ms);
    for id in [1, 2] {
        cluster.update_bytes(id, again.clone(), "192.0.2.200:4000");
        cluster.settle();
    }
    let failing = UpdateBuilder::new(9, name("example.test.").as_ref())
        .require_rrset(name("no.example.test.").as_ref(), Rtype::A)
        .add(address(9).owner.as_ref(), 60, Rtype::A, &[1, 2, 3, 4])
        .finish();
    cluster.update_bytes(3, sign(failing, cluster.now.wall_ms), "192.0.2.200:4000");
    cluster.settle();
    cluster.run(200);
    let first = records(&cluster, 1);
    assert_eq!(first.len(), 5);
    let serials: Vec<_> = first.iter().map(|record| (record.serial_from.unwrap().0, record.serial_to.0)).collect();
    assert_eq!(serials, [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]);
    let UpdateRecord { key, source, zone, deleted_count, added_count, names, .. } = &first[0];
    assert_eq!((&names.names[..], names.has_more), (&[(address(1).owner, Rtype::A)][..], false));
    assert_eq!((key.to_string(), source.to_canonical().to_string()), ("key.".to_owned(), "192.0.2.200".to_owned()));
    assert_eq!((zone, *deleted_count, *added_count), (&zone_id("example.test."), 1, 2));
    for id in [2, 3] {
        assert_eq!(records(&cluster, id), first);
    }
}

/// Changes by administrators are audited too, in the same order on every member, without secrets.
#[test]
fn what_administrators_do_is_audited_on_every_member() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let grant = AdminCommand::Grant { key: name("key."), zone: Some(zone_id("example.test.")), right: Right::Transfer };
    cluster.admin_ok(leader, grant.clone());
    // A command without effect leaves no record.
    cluster.admin_ok(leader, grant);
    cluster.admin_ok(leader % 3 + 1, AdminCommand::RemoveKey { name: name("key.") });
    let actions = |id: u64| -> Vec<String> {
        let lines = cluster.machines[&id].audited.iter();
        lines
            .filter_map(|line| match line {
                Audited::Update(AuditRecord::Action(record)) => Some(format!("{}: {}", record.action, record.subject)),
                _ => None,
            })
            .collect()
    };
    let expected = [
        "zone import: example.test.",
        "key add: key.",
        "grant: key. update all zones",
        "grant: key. transfer example.test.",
        "key remove: key.",
    ];
    for id in [1, 2, 3] {
        assert_eq!(actions(id), expected, "{id}");
        assert!(cluster.machines[&id].audited.is_sorted_by_key(Audited::last_index));
    }
}

#[test]
fn nothing_is_missing_or_twice_after_restarts_and_checkpoints() {
    // The log is so small that checkpoints are written and sent.
    let mut cluster = Cluster::with_log(3, LogConfig { segment_bytes: 1 << 16, ..LogConfig::default() });
    cluster.prepare();
    let mut last = 0;
    for round in 0..6u64 {
        for _ in 0..5 {
            last += 1;
            let alive = cluster.alive();
            let request = cluster.add(alive[last as usize % alive.len()], &address(last));
            cluster.assert_done(request);
        }
        let id = round % 3 + 1;
        // Some lines were not written when the power failed.
        let lost = cluster.machines[&id].audited.len().saturating_sub(round as usize);
        cluster.lose_power(id);
        cluster.machines.get_mut(&id).unwrap().audited.truncate(lost);
        cluster.elect();
        cluster.start(id);
        cluster.run(1_000);
    }
    // If one member has a gap, others have those lines. Together the members have all lines.
    let mut all = BTreeMap::new();
    for id in [1, 2, 3] {
        let lines = &cluster.machines[&id].audited;
        assert!(lines.is_sorted_by_key(Audited::last_index), "{id}");
        let mine = records(&cluster, id);
        for record in mine {
            let there = all.entry(record.index).or_insert_with(|| record.clone());
            assert_eq!(*there, record, "{id}");
        }
    }
    let steps: Vec<_> = all.values().map(|record| (record.serial_from.unwrap().0, record.serial_to.0)).collect();
    let expected: Vec<_> = (1..=u32::from(last)).map(|serial| (serial, serial + 1)).collect();
    assert_eq!(steps, expected);
    // Every member has the lines outside its gaps.
    for id in [1, 2, 3] {
        for index in all.keys() {
            let in_gap = |line: &Audited| matches!(line, Audited::Gap(after, to) if after < index && index <= to);
            let is_there = records(&cluster, id).iter().any(|record| record.index == *index);
            assert!(
                is_there || cluster.machines[&id].audited.iter().any(in_gap),
                "{id} has neither a line nor a gap for {index}"
            );
        }
    }
    cluster.assert_same();
}
