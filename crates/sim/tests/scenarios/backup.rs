//! Backups of a cluster, and other clusters created from them.

use super::cluster::*;
use replica::checkpoint::CheckpointError;
use replica::disk::{DiskOp, DiskRead};
use replica::io::{
    AdminCommand, AdminReply, Contents, OptionsChange, Right, SerialPolicyOption, TrustCommand, Verdict, ZoneOptions,
};
use replica::limits::RESTORE_SERIAL_GAP;
use replica::testing::MemoryDisk;
use replica::update::serial::{SerialGap, step};
use replica::{Backup, DataKey, Founder, OpenError, Replica, ReplicaConfig, RestoreFailure, Restored};
use wire::number::{Rcode, Serial};

const OLD_KEY: [u8; 32] = [9; 32];
const NEW_KEY: [u8; 32] = [8; 32];
const NEW_CLUSTER: [u8; 16] = [6; 16];
/// The time at which new clusters are created.
const NOW_S: u64 = 1_800_000_000;

fn ids(restored: &Restored) -> Vec<u64> {
    restored.members.iter().map(|member| member.id).collect()
}

/// Backs up a member's current state, as a file with another name on a separate disk.
fn backup(cluster: &mut Cluster, id: u64) -> MemoryDisk {
    let AdminReply::Checkpoint { file, .. } = cluster.admin_ok(id, AdminCommand::Checkpoint) else { panic!() };
    let disk = cluster.machines[&id].disk.contents();
    let (_, bytes) = disk.list().unwrap().into_iter().find(|(name, _)| *name == file).unwrap();
    let bytes = disk.read(&file, 0, bytes as usize).unwrap();
    let mut copy = MemoryDisk::default();
    copy.execute(&DiskOp::Create { file: "backup".into(), zeroed_bytes: 0 });
    copy.execute(&DiskOp::Write { file: "backup".into(), offset: 0, data: bytes });
    copy
}

fn new_config(cluster: &Cluster) -> ReplicaConfig {
    ReplicaConfig { cluster_id: NEW_CLUSTER, data_key: DataKey::new(1, &NEW_KEY), ..cluster.config(1) }
}

fn founder<'f>(config: &'f ReplicaConfig, old_key: &'f DataKey, nonce: &'f mut dyn FnMut() -> [u8; 12]) -> Founder<'f> {
    let serial_gap = SerialGap::default();
    Founder { config, address: "[::1]:7101".into(), old_key, serial_gap, now_s: NOW_S, nonce }
}

/// Founds a cluster of one machine from a restored state.
fn founded(from: &Cluster, result: Result<(Restored, replica::Founding), RestoreFailure>) -> (Cluster, Restored) {
    let (restored, founding) = result.unwrap();
    let mut disk = MemoryDisk::default();
    founding.flatten().for_each(|op| disk.execute(&op));
    let mut cluster = Cluster::new(0);
    cluster.now = from.now;
    cluster.machines.insert(1, Machine::with_disk(disk));
    cluster.start_with(1, new_config(from));
    cluster.elect();
    (cluster, restored)
}

fn restored(from: &Cluster, disk: &MemoryDisk) -> (Cluster, Restored) {
    let (config, old_key, mut salt) = (new_config(from), DataKey::new(1, &OLD_KEY), 0);
    let mut nonce = || {
        salt += 1;
        [salt; 12]
    };
    let opened = Backup::open(disk, "backup").unwrap();
    founded(from, Replica::restore(disk, &opened, founder(&config, &old_key, &mut nonce)))
}

#[test]
fn a_backup_becomes_another_cluster() {
    let mut cluster = Cluster::with_zone(3);
    for last in 1..=20 {
        let request = cluster.add(1, &address(last));
        cluster.assert_done(request);
    }
    // The last update is kept. Later its client repeats it without knowing its outcome.
    let bytes = add(&address(99), 77, cluster.now.wall_ms);
    let request = cluster.update_bytes(2, bytes.clone(), "192.0.2.200:4000");
    cluster.settle();
    cluster.assert_done(request);
    assert_eq!(cluster.admin_ok(1, roll_key(&[4; 32], 2)), AdminReply::Done);
    cluster.admin_ok(1, AdminCommand::CreateToken { digest: [1; 32], life_ms: 60_000, is_learner: true });
    let ca = TrustCommand::AddCa { number: 1, certificate: vec![0x30], key: vec![5], nonce: [3; 12] };
    cluster.admin_ok(2, AdminCommand::Trust(ca));
    let serial = cluster.serial(3);
    let disk = backup(&mut cluster, 3);
    let (mut new, report) = restored(&cluster, &disk);
    assert_eq!((report.cluster_id, report.zones.len(), report.key_count), ([7; 16], 1, 1));
    // The contents of the report, and the first entry of the new cluster.
    assert_eq!((ids(&report), report.founded), (vec![1, 2, 3], report.applied.0 + 1));
    assert!((1..=20).chain([99]).all(|last| new.has(1, &address(last))));
    assert_eq!(new.serial(1), serial + RESTORE_SERIAL_GAP);
    let status = new.replica(1).status();
    assert_eq!((status.cluster_id, status.members.len()), (NEW_CLUSTER, 1));
    // Nodes of the old cluster have certificates of its CA.
    assert_eq!(cluster.replica(1).trust().issuer, 1);
    assert!(new.replica(1).trust().cas.is_empty());
    // The key works, its grants are kept, and executed updates are not executed again.
    let again = new.update_bytes(1, bytes, "192.0.2.200:4000");
    new.settle();
    assert_eq!(new.verdict(again), Some(Verdict::Answer(Rcode::NOERROR)));
    assert_eq!(new.serial(1), serial + RESTORE_SERIAL_GAP);
    let request = new.add(1, &address(21));
    new.assert_done(request);
    assert_eq!(new.serial(1), serial + RESTORE_SERIAL_GAP + 1);
    assert_eq!(new.replica(1).keys()[0].grants, [(None, Right::Update)]);
    // It restarts from its own disk, and refuses the old members' directories.
    new.machines.get_mut(&1).unwrap().replica = None;
    new.start_with(1, new_config(&cluster));
    new.elect();
    assert!(new.has(1, &address(21)));
    let foreign = Replica::open(&cluster.machines[&1].disk, new_config(&cluster), cluster.now);
    assert_eq!(foreign.err(), Some(OpenError::Foreign));
}

#[test]
fn backup_taken_with_a_fast_clock_does_not_move_the_new_cluster_ahead() {
    let mut cluster = Cluster::with_zone(3);
    cluster.now.wall_ms += 3 * 3_600_000;
    let request = cluster.add(1, &address(1));
    cluster.assert_done(request);
    let disk = backup(&mut cluster, 1);
    cluster.now.wall_ms -= 3 * 3_600_000;
    let (mut new, _) = restored(&cluster, &disk);
    new.run(1_000);
    let ahead_ms = new.replica(1).entry_time_ms().abs_diff(new.now.wall_ms);
    assert!(ahead_ms <= 2_000, "{ahead_ms}");
    new.admin_ok(1, AdminCommand::CreateToken { digest: [1; 32], life_ms: 60_000, is_learner: true });
    let joined = new.admin_ok(1, AdminCommand::Join { digest: [1; 32], address: "[::1]:7109".into() });
    assert!(matches!(joined, AdminReply::Joined { .. }), "{joined:?}");
}

/// A secondary follows the old cluster for 70,000 updates that the backup lacks. It only accepts a zone whose serial is
/// newer than its own (RFC 1982 3.2).
#[test]
fn secondary_accepts_a_restored_zone_after_70_000_lost_updates() {
    for policy in [SerialPolicyOption::Increment, SerialPolicyOption::UnixTime] {
        let mut cluster = Cluster::with_zone(1);
        let change = OptionsChange { serial_policy: Some(policy), ..OptionsChange::default() };
        cluster.admin_ok(1, AdminCommand::SetZoneOptions { zone: zone_id("example.test."), change });
        let request = cluster.add(1, &address(1));
        cluster.assert_done(request);
        let disk = backup(&mut cluster, 1);
        let mut secondary = Serial(cluster.serial(1));
        let request = cluster.add(1, &address(2));
        cluster.assert_done(request);
        // Checks that the cluster moves serials as the model does.
        secondary = step(secondary, policy, cluster.now.wall_ms / 1_000);
        assert_eq!(cluster.serial(1), secondary.0, "{policy:?}");
        for number in 1..=70_000 {
            secondary = step(secondary, policy, NOW_S - (70_000 - number) / 1_000);
        }
        let (new, report) = restored(&cluster, &disk);
        let serial = Serial(new.serial(1));
        assert!(serial.is_newer_than(secondary), "{policy:?}: {} is not newer than {}", serial.0, secondary.0);
        let [zone] = &report.zones[..] else { panic!("{:?}", report.zones) };
        assert_eq!((zone.serial_to, zone.serial_to.is_newer_than(zone.serial_from)), (serial, true));
    }
}

/// A second backup is requested while the first is being written. It contains everything applied at its request.
#[test]
fn backup_contains_everything_applied_at_the_request() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.machines.get_mut(&leader).unwrap().writing_hung = Some(Vec::new());
    let first = cluster.admin(leader, AdminCommand::Checkpoint);
    cluster.run(100);
    assert_eq!(cluster.admin.get(&first), None);
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    let applied = cluster.replica(leader).status().applied_index;
    let second = cluster.admin(leader, AdminCommand::Checkpoint);
    while !cluster.admin.contains_key(&second) {
        cluster.unhang_writing(leader);
        cluster.settle();
        cluster.machines.get_mut(&leader).unwrap().writing_hung = Some(Vec::new());
        cluster.run(50);
    }
    let index_of = |request: &u64| match &cluster.admin[request] {
        Ok(AdminReply::Checkpoint { index, .. }) => *index,
        other => panic!("{other:?}"),
    };
    // The second backup may also answer the first request, because it contains more.
    assert!(index_of(&second) >= applied && index_of(&first) <= index_of(&second));
}

#[test]
fn a_file_that_is_no_backup_is_refused() {
    let mut cluster = Cluster::with_zone(1);
    let disk = backup(&mut cluster, 1);
    let bytes = disk.list().unwrap()[0].1 as usize;
    let whole = disk.read("backup", 0, bytes).unwrap();
    let config = new_config(&cluster);
    let mut nonce = || [1; 12];
    // A key of another cluster is refused.
    let (opened, wrong) = (Backup::open(&disk, "backup").unwrap(), DataKey::new(1, &[1; 32]));
    assert_eq!(opened.verify(&disk), Ok(bytes as u64));
    let refused = Replica::restore(&disk, &opened, founder(&config, &wrong, &mut nonce)).err();
    assert_eq!(refused, Some(RestoreFailure::DataKey(name("key."))));
    assert_eq!(opened.verify_with_key(&disk, &wrong), Err(RestoreFailure::DataKey(name("key."))));
    assert_eq!(opened.verify_with_key(&disk, &DataKey::new(1, &OLD_KEY)), Ok(bytes as u64));
    // Single damaged bytes and truncations, for a sample of positions.
    for at in (0..bytes).step_by(37) {
        let mut damaged = disk.clone();
        let write = |bytes: Vec<u8>| DiskOp::Write { file: "backup".into(), offset: at as u64, data: bytes };
        damaged.execute(&write(vec![whole[at] ^ 1]));
        let opened = Backup::open(&damaged, "backup").and_then(|opened| opened.verify(&damaged));
        assert!(matches!(opened, Err(CheckpointError::Damage(_))), "byte {at}");
        let mut cut = MemoryDisk::default();
        cut.execute(&DiskOp::Create { file: "backup".into(), zeroed_bytes: 0 });
        cut.execute(&DiskOp::Write { file: "backup".into(), offset: 0, data: whole[..at].to_vec() });
        assert!(Backup::open(&cut, "backup").is_err(), "cut at {at}");
    }
    assert!(Backup::open(&disk, "other").is_err());
}

/// Two of three members are gone for good. All entries of the third count, even if it does not know that they are
/// committed.
#[test]
fn last_member_recovers_into_a_new_cluster() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let last = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let other = cluster.alive().into_iter().find(|&id| id != leader && id != last).unwrap();
    for number in 1..=5 {
        let request = cluster.add(leader, &address(number));
        cluster.assert_done(request);
    }
    // The update is acknowledged by the leader and `last`. `last` does not learn that it is committed.
    cluster.cut.extend([(leader, other), (other, leader)]);
    let request = cluster.add(leader, &address(6));
    cluster.assert_done(request);
    cluster.kill(leader);
    cluster.kill(other);
    let status = cluster.replica(last).status();
    cluster.kill(last);
    let (config, old_key, mut nonce) = (new_config(&cluster), DataKey::new(1, &OLD_KEY), || [3; 12]);
    let (old, disk) = (cluster.config(last), cluster.machines[&last].disk.contents().clone());
    let result = Replica::recover(&disk, &old, founder(&config, &old_key, &mut nonce), false);
    let (mut new, report) = founded(&cluster, result);
    assert_eq!(report.applied.0, status.last_index);
    assert_eq!((report.cluster_id, ids(&report), report.founded), ([7; 16], vec![1, 2, 3], status.last_index + 1));
    assert!((1..=6).all(|number| new.has(1, &address(number))));
    let request = new.add(1, &address(7));
    new.assert_done(request);
    // The record of entry 4 is damaged. Only the entries before it are restored, and only if the operator accepts that.
    let log = disk.list().unwrap().into_iter().map(|(file, _)| file).find(|file| file.starts_with("log-")).unwrap();
    let at = disk.bytes(&log).unwrap().windows(3).position(|bytes| bytes == b"\x02a4").unwrap();
    let mut damaged = disk.clone();
    damaged.flip(&log, at * 8 + 1);
    let refused = Replica::recover(&damaged, &old, founder(&config, &old_key, &mut nonce), false).err();
    assert!(matches!(refused, Some(RestoreFailure::Open(OpenError::Log(_)))), "{refused:?}");
    let result = Replica::recover(&damaged, &old, founder(&config, &old_key, &mut nonce), true);
    let (new, part) = founded(&cluster, result);
    assert_eq!(part.lost, Some((part.applied.0 + 1, status.last_index)));
    let kept: Vec<u8> = (1..=6).filter(|number| new.has(1, &address(*number))).collect();
    assert_eq!(kept, [1, 2, 3]);
    assert_eq!(report.lost, None);
    // Another member's directory is refused.
    let foreign = Replica::recover(&disk, &cluster.config(leader), founder(&config, &old_key, &mut nonce), false).err();
    assert_eq!(foreign, Some(RestoreFailure::Open(OpenError::Foreign)));
}

#[test]
fn data_of_a_removed_member_is_recognized() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let mut others = cluster.alive().into_iter().filter(|&id| id != leader);
    let (gone, left) = (others.next().unwrap(), others.next().unwrap());
    assert_eq!(cluster.admin_ok(leader, AdminCommand::RemoveNode { id: gone }), AdminReply::Done);
    cluster.run(300);
    let (config, old_key) = (new_config(&cluster), DataKey::new(1, &OLD_KEY));
    for (id, was_removed) in [(gone, true), (left, false), (leader, false)] {
        cluster.kill(id);
        let (old, disk, mut nonce) = (cluster.config(id), cluster.machines[&id].disk.contents().clone(), || [3; 12]);
        let (report, _) = Replica::recover(&disk, &old, founder(&config, &old_key, &mut nonce), false).unwrap();
        assert_eq!(report.was_removed, was_removed, "member {id}");
        assert_eq!(ids(&report).contains(&id), !was_removed, "member {id}");
    }
}

/// The zone was added again in the old cluster after the backup, and secondaries followed it.
#[test]
fn zone_added_again_after_a_restore_has_a_higher_serial() {
    let mut cluster = Cluster::with_zone(1);
    let zone = || zone_id("example.test.");
    let add_zone = |serial| {
        let contents = Contents::new(&zone(), records("example.test.", serial)).unwrap();
        AdminCommand::AddZone { zone: zone(), options: ZoneOptions::default(), contents }
    };
    let ended = cluster.serial(1);
    cluster.admin_ok(1, AdminCommand::RemoveZone { zone: zone() });
    let disk = backup(&mut cluster, 1);
    cluster.admin_ok(1, add_zone(ended));
    for last in 1..=20 {
        let request = cluster.add(1, &address(last));
        cluster.assert_done(request);
    }
    let secondary = Serial(cluster.serial(1));
    assert_eq!(secondary.0, ended + 21);
    let (mut new, report) = restored(&cluster, &disk);
    assert!(report.zones.is_empty());
    new.run(1_000);
    new.admin_ok(1, add_zone(ended));
    let serial = Serial(new.serial(1));
    assert!(serial.is_newer_than(secondary), "{} is behind {}", serial.0, secondary.0);
}
