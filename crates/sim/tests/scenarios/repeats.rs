//! Repeats of updates: each update is executed once, and its repeats get the first outcome.

use super::cluster::*;
use super::rights::REVOKE;
use replica::io::{AdminCommand, AdminReply, Verdict};
use tsig::client::UpdateBuilder;

#[test]
fn a_repeat_is_answered_from_the_table_on_every_member() {
    let mut cluster = Cluster::with_zone(3);
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_bytes(1, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.run(100);
    cluster.assert_done(first);
    for id in [1, 2, 3] {
        // The repeat comes from another port of the same address, as with knsupdate.
        let again = cluster.update_bytes(id, message.clone(), "192.0.2.200:4001");
        cluster.settle();
        cluster.assert_done(again);
        let replay = cluster.update_bytes(id, message.clone(), "192.0.2.201:4000");
        cluster.settle();
        assert_eq!(cluster.verdict(replay), Some(Verdict::BadTime));
    }
    assert_eq!(cluster.serial(2), 2);
    cluster.assert_same();
}

#[test]
fn repeats_in_flight_share_one_execution() {
    let mut cluster = Cluster::with_zone(3);
    let message = add(&address(1), 77, cluster.now.wall_ms);
    // Three members get the same bytes before any of these updates is done. One copy comes from another address.
    let first = cluster.update_bytes(1, message.clone(), "192.0.2.200:4000");
    let second = cluster.update_bytes(2, message.clone(), "192.0.2.200:4000");
    let same = cluster.update_bytes(2, message.clone(), "192.0.2.200:4000");
    let other = cluster.update_bytes(2, message.clone(), "192.0.2.201:4000");
    let third = cluster.update_bytes(3, message, "192.0.2.200:4000");
    cluster.settle();
    cluster.run(100);
    for request in [first, second, same, third] {
        cluster.assert_done(request);
    }
    assert_eq!(cluster.verdict(other), Some(Verdict::BadTime));
    assert_eq!(cluster.serial(1), 2);
    cluster.assert_same();
}

#[test]
fn a_repeat_gets_the_same_1_ms_to_290_s_later_from_any_member() {
    let mut cluster = Cluster::with_zone(3);
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_bytes(1, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    let mut waited_ms = 0;
    for (at_ms, id) in [(1, 2), (1_000, 3), (60_000, 1), (200_000, 2), (290_000, 3)] {
        // Advances by whole ticks, then by the remainder.
        cluster.run(at_ms - waited_ms);
        let rest_ms = at_ms % 10;
        cluster.now.monotonic_ms += rest_ms;
        cluster.now.wall_ms += rest_ms;
        waited_ms = at_ms;
        let again = cluster.update_bytes(id, message.clone(), "192.0.2.200:4001");
        cluster.settle();
        cluster.run(200);
        waited_ms += 200;
        cluster.assert_done(again);
        // Other updates are executed in between.
        let other = cluster.add(id, &address(100 + id as u8));
        cluster.assert_done(other);
    }
    assert_eq!(cluster.serial(1), 5, "one step for the first, and one for each of three others");
    cluster.assert_same();
}

#[test]
fn repeated_add_after_a_delete_changes_nothing() {
    let mut cluster = Cluster::with_zone(3);
    let record = address(1);
    let message = add(&record, 77, cluster.now.wall_ms);
    let first = cluster.update_bytes(1, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    let builder = UpdateBuilder::new(78, name("example.test.").as_ref());
    let delete = builder.delete_record(record.owner.as_ref(), record.rtype, &record.rdata).finish();
    let delete = cluster.update_bytes(2, sign(delete, cluster.now.wall_ms), "192.0.2.200:4000");
    cluster.run(100);
    cluster.assert_done(delete);
    let add_again = |cluster: &mut Cluster, id: u64| {
        let again = cluster.update_bytes(id, message.clone(), "192.0.2.200:4000");
        cluster.run(500);
        cluster.assert_done(again);
        assert!(!cluster.has(id, &record), "it stays deleted on {id}");
        assert_eq!(cluster.serial(id), 3);
    };
    [1, 2, 3].into_iter().for_each(|id| add_again(&mut cluster, id));
    // Repeats go to another leader, and to a member that restores its state from disk.
    let leader = cluster.elect();
    cluster.kill(leader);
    cluster.elect();
    cluster.start(leader);
    cluster.run(1_000);
    [1, 2, 3].into_iter().for_each(|id| add_again(&mut cluster, id));
    cluster.assert_same();
}

/// The response to a repeat does not depend on later changes of its key or zone.
fn repeats_after(command: AdminCommand) {
    let mut cluster = Cluster::with_zone(3);
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_looked_at(1, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    assert_eq!(cluster.admin_ok(2, command), AdminReply::Done);
    for id in [1, 2, 3] {
        let again = cluster.update_looked_at(id, message.clone(), "192.0.2.200:4001");
        cluster.settle();
        cluster.assert_done(again);
        let replay = cluster.update_looked_at(id, message.clone(), "192.0.2.201:4000");
        cluster.settle();
        assert_eq!(cluster.verdict(replay), Some(Verdict::BadTime));
        // A new update is refused and leaves no trace.
        let before = cluster.replica(id).status().last_index;
        let new = add(&address(2), 80 + id as u16, cluster.now.wall_ms);
        let new = cluster.update_looked_at(id, new, "192.0.2.200:4000");
        cluster.run(200);
        assert_eq!(cluster.verdict(new), Some(Verdict::Refused));
        assert_eq!(cluster.replica(id).status().last_index, before);
    }
    cluster.assert_same();
}

#[test]
fn a_repeat_after_a_revoke_gets_the_first_rcode() {
    repeats_after(REVOKE());
}

#[test]
fn repeat_after_the_zone_was_removed_gets_the_first_rcode() {
    repeats_after(AdminCommand::RemoveZone { zone: zone_id("example.test.") });
}

#[test]
fn sender_gets_its_outcome_after_a_stranger_sent_its_bytes() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let lagging = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    // The member's disk hangs, so it does not apply entries from others.
    cluster.machines.get_mut(&lagging).unwrap().hung = Some(Vec::new());
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_bytes(leader, message.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    let stranger = cluster.update_bytes(lagging, message.clone(), "192.0.2.201:4000");
    let again = cluster.update_bytes(lagging, message.clone(), "192.0.2.200:4001");
    let other = cluster.update_bytes(lagging, message, "192.0.2.202:4001");
    cluster.settle();
    cluster.unhang(lagging);
    cluster.run(500);
    cluster.assert_done(again);
    assert_eq!(cluster.verdict(stranger), Some(Verdict::BadTime));
    assert_eq!(cluster.verdict(other), Some(Verdict::BadTime));
    cluster.assert_same();
}
