//! Long work in small steps, on idle and on busy machines.

use super::cluster::*;
use replica::io::{AdminCommand, AdminReply, Contents, ZoneOptions};
use replica::limits::{BACKGROUND_WAIT_MS, IMPORT_CHUNK_BYTES};
use replica::log::LogConfig;

/// A zone of several chunks.
fn add_large_zone() -> AdminCommand {
    let apex = "large.test.";
    let contents = Contents::new(&zone_id(apex), large_zone(apex, 1, 8_000)).unwrap();
    assert!(contents.chunk_count() >= 5, "chunks of {IMPORT_CHUNK_BYTES} bytes: {}", contents.chunk_count());
    AdminCommand::AddZone { zone: zone_id(apex), options: ZoneOptions::default(), contents }
}

/// Milliseconds until the command is done, in ticks of 10 ms.
fn ms_until_done(cluster: &mut Cluster, request: u64) -> u64 {
    let mut ms = 0;
    while !cluster.admin.contains_key(&request) {
        cluster.run(10);
        ms += 10;
        assert!(ms < 60_000, "it never ends");
    }
    assert_eq!(cluster.admin[&request], Ok(AdminReply::Done));
    ms
}

#[test]
fn import_chunks_wait_for_idle_time_but_not_forever() {
    let add = add_large_zone();
    let AdminCommand::AddZone { contents, .. } = &add else { unreachable!() };
    let chunks = u64::from(contents.chunk_count());
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.run(100);
    let request = cluster.admin(leader, add.clone());
    assert_eq!(ms_until_done(&mut cluster, request), 0, "on an idle machine it does not wait");
    let removed = AdminCommand::RemoveZone { zone: zone_id("large.test.") };
    assert_eq!(cluster.admin_ok(leader, removed), AdminReply::Done);

    cluster.machines.get_mut(&leader).unwrap().is_busy = true;
    cluster.run(100);
    let request = cluster.admin(leader, add);
    let ms = ms_until_done(&mut cluster, request);
    let least = (chunks - 1) * BACKGROUND_WAIT_MS;
    assert!((least..=least + chunks * 10).contains(&ms), "{ms} ms for {chunks} chunks");
    // Other work does not wait for it.
    let update = cluster.add(leader, &address(1));
    cluster.assert_done(update);
}

#[test]
fn checkpoint_waits_for_idle_time_unless_it_is_urgent() {
    const LATE_BYTES: u64 = 1 << 15;
    let log = LogConfig { bytes_while_checkpoint: LATE_BYTES, checkpoint_due_bytes: u64::MAX, ..LogConfig::default() };
    let mut cluster = Cluster::with_log(1, log);
    cluster.prepare();
    assert_eq!(cluster.admin_ok(1, add_large_zone()), AdminReply::Done);
    cluster.run(100);
    cluster.machines.get_mut(&1).unwrap().is_busy = true;
    let written = |cluster: &Cluster| cluster.replica(1).status().counters.checkpoints_written;
    let before = written(&cluster);
    let request = cluster.admin(1, AdminCommand::Checkpoint);
    cluster.run(200);
    assert_eq!(written(&cluster), before, "only a part was written");
    // Enough is logged in the meantime that the checkpoint would soon be abandoned.
    let bytes = |cluster: &Cluster| cluster.replica(1).log().bytes_after_checkpoint();
    let (begun, began_ms, mut last) = (bytes(&cluster), cluster.now.monotonic_ms, 0);
    while written(&cluster) == before {
        last = bytes(&cluster) - begun;
        assert!(last <= LATE_BYTES / 4 + 1_024, "{last} bytes");
        let byte = 1 + (last / 512 % 200) as u8;
        let update = cluster.add(1, &address(byte));
        cluster.assert_done(update);
    }
    let took_ms = cluster.now.monotonic_ms - began_ms;
    assert!(last >= LATE_BYTES / 8 && took_ms < 5 * BACKGROUND_WAIT_MS, "{last} bytes, {took_ms} ms");
    cluster.run(100);
    assert!(matches!(cluster.admin[&request], Ok(AdminReply::Checkpoint { .. })));
    assert_eq!(cluster.replica(1).status().counters.checkpoints_abandoned, 0);
}
