//! The state on disk, and its restoration.

use super::cluster::*;
use replica::io::{AdminCommand, AdminReply, Contents, NodeId, Replacement, Serving, ZoneOptions};
use replica::log::LogConfig;
use wire::number::{Rtype, Serial};
use zone::Record;

/// A log with frequent checkpoints. It keeps few entries behind them.
fn small_log() -> LogConfig {
    LogConfig {
        segment_bytes: 1 << 16,
        entries_behind_checkpoint: 5,
        bytes_behind_checkpoint: 4_096,
        checkpoint_due_bytes: 1 << 15,
        ..LogConfig::default()
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_all_lose_power() {
    let mut cluster = Cluster::with_zone(3);
    for last in 1..=20 {
        let request = cluster.add(u64::from(last) % 3 + 1, &address(last));
        cluster.assert_done(request);
    }
    for id in [1, 2, 3] {
        cluster.lose_power(id);
    }
    for id in [1, 2, 3] {
        cluster.start(id);
    }
    cluster.elect();
    cluster.run(500);
    for id in [1, 2, 3] {
        assert!((1..=20).all(|last| cluster.has(id, &address(last))));
        assert_eq!(cluster.serial(id), 21);
    }
    cluster.assert_same();
}

#[test]
fn a_restarted_member_serves_nothing_older_than_it_served() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let request = cluster.add(follower, &address(1));
    cluster.assert_done(request);
    // All members are killed right after they published, before their logs record the commit.
    for id in cluster.alive() {
        cluster.kill(id);
    }
    cluster.start(follower);
    assert_eq!(cluster.replica(follower).serving(), Serving::No);
    cluster.run(6_000);
    let knows_all = cluster.has(follower, &address(1));
    assert_eq!(cluster.replica(follower).serving() == Serving::Stale, knows_all);
    cluster.start(leader);
    cluster.elect();
    cluster.run(200);
    assert_eq!(cluster.replica(follower).serving(), Serving::Yes);
    assert!(cluster.has(follower, &address(1)));
}

#[test]
fn a_member_alone_serves_stale_once_its_log_is_known_to_be_committed() {
    let mut cluster = Cluster::with_zone(3);
    let request = cluster.add(1, &address(1));
    cluster.assert_done(request);
    // A quiet period, in which the commit index is written too.
    cluster.run(500);
    for id in [1, 2, 3] {
        cluster.kill(id);
    }
    cluster.start(1);
    cluster.run(4_000);
    assert_eq!(cluster.replica(1).serving(), Serving::No);
    cluster.run(2_000);
    assert_eq!(cluster.replica(1).serving(), Serving::Stale);
    assert!(cluster.has(1, &address(1)));
    assert!(cluster.replica(1).status().staleness_ms >= 5_000);
}

/// All members are killed under load, and one of them starts alone. It cannot know whether the end of its log was
/// committed.
#[test]
fn a_member_that_was_killed_under_load_answers_alone_with_what_is_known_to_be_committed() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    for last in 1..=5 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    // The leader has stored and published the last update, but no later record shows that it is committed.
    let served = cluster.serial(leader);
    for id in [1, 2, 3] {
        cluster.kill(id);
    }
    cluster.start(leader);
    cluster.run(10_000);
    assert_eq!(cluster.replica(leader).serving(), Serving::No);
    cluster.run(10_000);
    let replica = cluster.replica(leader);
    assert_eq!((replica.serving(), replica.serves_behind()), (Serving::Stale, true));
    assert!(replica.status().staleness_ms >= 15_000);
    // The member serves a prefix of the acknowledged updates.
    let serial = cluster.serial(leader);
    assert!((2..served).contains(&serial), "{serial} of {served}");
    assert!((1..=5).all(|last| cluster.has(leader, &address(last)) == (u32::from(last) < serial)));
    // With a majority, nothing is missing or stale.
    let other = [1, 2, 3].into_iter().find(|&id| id != leader).unwrap();
    cluster.start(other);
    cluster.elect();
    cluster.run(200);
    for id in [leader, other] {
        assert_eq!((cluster.replica(id).serving(), cluster.replica(id).serves_behind()), (Serving::Yes, false));
        assert!((1..=5).all(|last| cluster.has(id, &address(last))));
        assert_eq!(cluster.serial(id), served);
    }
}

#[test]
fn checkpoints_are_written_and_restored() {
    let mut cluster = Cluster::with_log(3, small_log());
    cluster.prepare();
    for last in 1..=200u8 {
        cluster.add(1, &address(last));
    }
    cluster.run(500);
    for id in [1, 2, 3] {
        let status = cluster.replica(id).status();
        assert!(status.counters.checkpoints_written >= 1, "{:?}", status.counters);
        assert!(status.checkpoint_index > 1);
    }
    let hash = cluster.replica(1).state_hash();
    cluster.assert_same();
    for id in [1, 2, 3] {
        cluster.lose_power(id);
    }
    for id in [1, 2, 3] {
        cluster.start(id);
        assert!(cluster.replica(id).state_hash().0 <= hash.0);
    }
    cluster.elect();
    cluster.run(500);
    assert!((1..=200).all(|last| cluster.has(3, &address(last))));
    // The history of the zone is included, and is equal on all members.
    let past = |id: u64| cluster.replica(id).history(&zone_id("example.test."), Serial(150)).unwrap();
    assert_eq!(past(1).len(), 51);
    assert_eq!(past(1), past(3));
    cluster.assert_same();
}

#[test]
fn a_member_that_lags_behind_the_log_gets_a_checkpoint() {
    let mut cluster = Cluster::with_log(3, small_log());
    cluster.prepare();
    let leader = cluster.elect();
    let lagging = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.kill(lagging);
    let writer = cluster.elect();
    for last in 1..=250u8 {
        let request = cluster.add(writer, &address(last));
        cluster.assert_done(request);
    }
    cluster.run(500);
    cluster.start(lagging);
    cluster.run(2_000);
    assert_eq!(cluster.machines[&lagging].zones_replaced, 1);
    assert_eq!(cluster.replica(lagging).status().counters.checkpoints_installed, 1);
    assert!((1..=250).all(|last| cluster.has(lagging, &address(last))));
    assert_eq!(cluster.replica(lagging).serving(), Serving::Yes);
    let request = cluster.add(lagging, &address(251));
    cluster.assert_done(request);
    cluster.run(200);
    cluster.assert_same();
    // The installed checkpoint survives a loss of power.
    cluster.lose_power(lagging);
    cluster.start(lagging);
    cluster.run(1_000);
    assert!((1..=251).all(|last| cluster.has(lagging, &address(last))));
    cluster.assert_same();
}

#[test]
fn a_big_zone_is_imported_in_chunks_and_replaced_at_once() {
    let mut cluster = Cluster::with_zone(3);
    let apex = "big.test.";
    let zone = |serial: u32, rdata: u8| {
        let mut all = records(apex, serial);
        all.extend((0..20_000u32).map(|number| Record {
            owner: name(&format!("host-{number}.{apex}")),
            rtype: Rtype::TXT,
            ttl: 60,
            rdata: vec![20; 21].into_iter().chain([1, rdata]).collect(),
        }));
        all
    };
    let add_zone = |records| AdminCommand::AddZone {
        zone: zone_id(apex),
        options: ZoneOptions::default(),
        contents: Contents::new(&zone_id(apex), records).unwrap(),
    };
    let add = add_zone(zone(7, 1));
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    assert_eq!(cluster.admin_ok(follower, add.clone()), AdminReply::Done);
    let count = |cluster: &Cluster, id: u64| {
        let published = cluster.replica(id).zones().published();
        published.zone(&zone_id(apex)).map(|zone| (zone.record_count(), zone.serial().unwrap().0, zone.hash()))
    };
    for id in cluster.alive() {
        assert_eq!(count(&cluster, id).map(|(count, serial, _)| (count, serial)), Some((20_002, 7)));
    }
    let again = cluster.admin(leader, add);
    assert_eq!(cluster.admin[&again], Err(replica::io::AdminError::ZoneExists));
    // Equal contents change nothing. Other contents with an old serial get the next serial.
    let replace = |cluster: &Cluster, records| {
        let published = cluster.replica(leader).zones().published();
        let replacement = Replacement::new(&published.zone(&zone_id(apex)).unwrap(), records).unwrap();
        AdminCommand::ReplaceZone { zone: zone_id(apex), replacement }
    };
    let same = replace(&cluster, zone(7, 1));
    assert_eq!(cluster.admin_ok(follower, same), AdminReply::Unchanged);
    let (other, late) = (replace(&cluster, zone(3, 2)), replace(&cluster, zone(3, 3)));
    assert_eq!(cluster.admin_ok(follower, other), AdminReply::Done);
    assert!(cluster.alive().into_iter().all(|id| count(&cluster, id).unwrap().1 == 8));
    let late = cluster.admin(follower, late);
    assert_eq!(cluster.admin[&late], Err(replica::io::AdminError::ZoneChanged));
    // One record differs: the change has one entry, which is added to the history.
    let mut small = zone(9, 2);
    small.pop();
    let small = replace(&cluster, small);
    assert_eq!(cluster.admin_ok(follower, small), AdminReply::Done);
    assert_eq!(cluster.replica(leader).history(&zone_id(apex), Serial(8)).unwrap().len(), 1);
    // When the zone is removed and added again, its serial does not go back.
    assert_eq!(cluster.admin_ok(leader, AdminCommand::RemoveZone { zone: zone_id(apex) }), AdminReply::Done);
    assert!(cluster.alive().into_iter().all(|id| count(&cluster, id).is_none()));
    assert_eq!(cluster.admin_ok(follower, add_zone(records(apex, 1))), AdminReply::Done);
    assert!(cluster.alive().into_iter().all(|id| count(&cluster, id).unwrap().1 == 10));
    cluster.assert_same();
}

#[test]
fn an_import_survives_the_leaders_that_it_meets() {
    let mut cluster = Cluster::with_zone(3);
    let apex = "big.test.";
    let contents = Contents::new(&zone_id(apex), large_zone(apex, 7, 40_000)).unwrap();
    let leader = cluster.elect();
    let others: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    // Nothing commits, because two of three disks hang while the first steps are on their way.
    for id in [leader, others[1]] {
        cluster.machines.get_mut(&id).unwrap().hung = Some(Vec::new());
    }
    let add = AdminCommand::AddZone { zone: zone_id(apex), options: ZoneOptions::default(), contents };
    let request = cluster.admin(others[0], add);
    cluster.run(300);
    cluster.kill(leader);
    cluster.unhang(others[1]);
    cluster.run(5_000);
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Done));
    cluster.machines.get_mut(&leader).unwrap().hung = None;
    cluster.start(leader);
    cluster.run(2_000);
    for id in cluster.alive() {
        let published = cluster.replica(id).zones().published();
        assert_eq!(published.zone(&zone_id(apex)).unwrap().record_count(), 40_002);
    }
    cluster.assert_same();
}

#[test]
fn old_repeats_are_refused_after_their_session_is_gone() {
    let mut cluster = Cluster::new(3);
    cluster.session_count_max = 4;
    for id in [1, 2, 3] {
        cluster.kill(id);
    }
    for id in [1, 2, 3] {
        cluster.start(id);
    }
    cluster.prepare();
    let old = add(&address(1), 9, cluster.now.wall_ms);
    let first = cluster.update_bytes(1, old.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(first);
    for last in 2..=9 {
        cluster.run(1_000);
        cluster.add(2, &address(last));
    }
    cluster.run(100);
    let serial = cluster.serial(1);
    for id in [1, 2, 3] {
        let again = cluster.update_bytes(id, old.clone(), "192.0.2.200:4000");
        cluster.settle();
        assert_eq!(cluster.verdict(again), Some(replica::io::Verdict::BadTime));
    }
    assert_eq!(cluster.serial(1), serial);
    cluster.assert_same();
}

/// Returns a leader, and a member whose checkpoints hang and soon exceed their limits.
fn with_slow_checkpoints() -> (Cluster, NodeId, NodeId) {
    let log = LogConfig { bytes_while_checkpoint: 1 << 14, ..small_log() };
    let mut cluster = Cluster::with_log(3, log);
    cluster.prepare();
    let leader = cluster.elect();
    let slow = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.machines.get_mut(&slow).unwrap().bulk_hung = Some(Vec::new());
    (cluster, leader, slow)
}

#[test]
fn slow_checkpoint_is_abandoned_and_frees_memory() {
    let (mut cluster, leader, slow) = with_slow_checkpoints();
    for last in 1..=250u8 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    let counters = cluster.replica(slow).status().counters;
    assert_eq!((counters.checkpoints_written, counters.checkpoints_abandoned), (0, 1), "{counters:?}");
    assert!(cluster.replica(leader).status().counters.checkpoints_written >= 1);
    cluster.unhang(slow);
    cluster.run(500);
    let counters = cluster.replica(slow).status().counters;
    assert!(counters.checkpoints_written >= 1, "{counters:?}");
    cluster.assert_same();
    cluster.lose_power(slow);
    cluster.start(slow);
    cluster.run(1_000);
    assert!((1..=250).all(|last| cluster.has(slow, &address(last))));
    cluster.assert_same();
}

#[test]
fn checkpoint_completes_on_a_slow_disk_under_load() {
    let (mut cluster, leader, slow) = with_slow_checkpoints();
    for count in 0..1_500u32 {
        let request = cluster.add(leader, &address((count % 250) as u8));
        cluster.assert_done(request);
        cluster.run(10);
        if count % 10 == 9 {
            cluster.step_bulk(slow);
        }
    }
    let counters = cluster.replica(slow).status().counters;
    assert!(counters.checkpoints_abandoned >= 2 && counters.checkpoints_written >= 2, "{counters:?}");
    cluster.unhang(slow);
    cluster.assert_same();
}

#[test]
fn checkpoint_that_retains_too_much_memory_is_abandoned() {
    const HELD_BYTES: u64 = 1 << 14;
    let log = LogConfig { retired_while_checkpoint: HELD_BYTES, ..small_log() };
    let mut cluster = Cluster::with_log(3, log);
    cluster.prepare();
    let leader = cluster.elect();
    let slow = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.machines.get_mut(&slow).unwrap().bulk_hung = Some(Vec::new());
    let (mut most, mut last_let_go, mut largest_step) = (0, 0, 0);
    for last in 1..=250u8 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
        let stats = cluster.replica(slow).zones().stats();
        most = most.max(stats.retired_bytes as u64);
        largest_step = largest_step.max(stats.retired_bytes_total - last_let_go);
        last_let_go = stats.retired_bytes_total;
    }
    let counters = cluster.replica(slow).status().counters;
    assert_eq!((counters.checkpoints_written, counters.checkpoints_abandoned), (0, 1), "{counters:?}");
    assert!((HELD_BYTES / 2..=HELD_BYTES + largest_step).contains(&most), "{most} bytes, {largest_step}");
    assert!(last_let_go > 2 * HELD_BYTES, "{last_let_go} bytes");
    cluster.unhang(slow);
    cluster.run(500);
    let counters = cluster.replica(slow).status().counters;
    assert!(counters.checkpoints_written >= 1, "{counters:?}");
    cluster.assert_same();
}

#[test]
fn a_fenced_member_writes_and_offers_no_checkpoint() {
    let mut cluster = Cluster::with_log(3, small_log());
    cluster.prepare();
    let leader = cluster.elect();
    let victim = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.replica_mut(victim).remember_unsent_update(&name("key."));
    // The next entry reveals the difference.
    let request = cluster.add(leader, &address(0));
    cluster.assert_done(request);
    cluster.run(500);
    assert!(cluster.replica(victim).status().is_fenced);
    let before = cluster.replica(victim).status().counters.checkpoints_written;
    for last in 1..=250u8 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    assert_eq!(cluster.replica(victim).status().counters.checkpoints_written, before);
    assert!(cluster.replica(leader).status().counters.checkpoints_written > before);
    // After a restart, the member uses an intact checkpoint and log.
    cluster.kill(victim);
    cluster.start(victim);
    cluster.run(2_000);
    assert!((1..=250).all(|last| cluster.has(victim, &address(last))));
    assert_eq!(cluster.machines[&victim].serving, Some(Serving::Yes));
}

#[test]
fn a_restarted_member_knows_how_stale_it_is() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    // Nothing is written for a long time while the members exchange frames.
    cluster.run(60_000);
    for id in [1, 2, 3] {
        cluster.kill(id);
    }
    for id in [leader, follower] {
        cluster.start(id);
        cluster.cut.extend([1, 2, 3].into_iter().flat_map(|peer| [(id, peer), (peer, id)]));
    }
    cluster.run(6_000);
    for id in [leader, follower] {
        let staleness_ms = cluster.replica(id).status().staleness_ms;
        // The time during which the member was down counts. Time that it cannot know of does not.
        assert!((6_000..6_000 + 2 * replica::limits::CONTACT_NOTE_MS).contains(&staleness_ms), "{id}: {staleness_ms}");
    }
}

#[test]
fn times_of_entries_do_not_go_back_with_a_clock() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let time = |cluster: &Cluster| cluster.replica(leader).entry_time_ms();
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    let before = time(&cluster);
    assert_eq!(before, cluster.now.wall_ms);
    let wall_ms = cluster.now.wall_ms;
    cluster.now.wall_ms -= 100_000;
    let request = cluster.add(leader, &address(2));
    cluster.assert_done(request);
    assert_eq!(time(&cluster), before);
    cluster.now.wall_ms = wall_ms + 5_000;
    let request = cluster.add(leader, &address(3));
    cluster.assert_done(request);
    assert_eq!(time(&cluster), wall_ms + 5_000);
    cluster.assert_same();
}

#[test]
fn a_member_that_forgot_a_transfer_is_sent_the_checkpoint_again() {
    let mut cluster = Cluster::with_log(3, small_log());
    cluster.prepare();
    let leader = cluster.elect();
    let lagging = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.kill(lagging);
    for last in 1..=250u8 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    cluster.machines.get_mut(&lagging).unwrap().bulk_hung = Some(Vec::new());
    cluster.start(lagging);
    cluster.run(2_000);
    assert_eq!(cluster.replica(lagging).status().counters.checkpoints_installed, 0);
    // The member restarts so quickly that its leader sees no connection end, and does not know of the transfer.
    let machine = cluster.machines.get_mut(&lagging).unwrap();
    (machine.replica, machine.bulk_hung) = (None, None);
    cluster.start(lagging);
    cluster.run(5_000);
    assert_eq!(cluster.replica(lagging).status().counters.checkpoints_installed, 1);
    assert!((1..=250).all(|last| cluster.has(lagging, &address(last))));
    cluster.assert_same();
}
