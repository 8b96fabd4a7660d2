//! Checkpoints in files: any file leads to an error or to a state, never to a panic.

use super::chunks::{join, split};
use super::world::{CLUSTER, config, data_key, machine};
use crate::checkpoint::{CheckpointHeader, CheckpointItems, CheckpointWriter, Section, Written};
use crate::disk::{DiskOp, DiskRead, Tickets};
use crate::testing::MemoryDisk;
use crate::update::serial::SerialGap;
use crate::{Backup, DataKey, Founder, Replica, ReplicaConfig};
use raft::eraftpb::ConfState;

const FILE: &str = "backup";

/// Any items, in a file with correct checksums. Each chunk is an item, and its tag is the section.
///
/// # Panics
/// If a replica cannot start from a restored state.
pub fn checkpoint(bytes: &[u8]) {
    let items = split(bytes).into_iter().map(|(tag, item)| (Section(u16::from(tag)), item.to_vec())).collect();
    let (disk, file) = written(Items(items));
    restore(&disk, &file);
}

/// A file with any contents.
///
/// # Panics
/// If a replica cannot start from a restored state.
pub fn backup(bytes: &[u8]) {
    let mut disk = MemoryDisk::default();
    disk.execute(&DiskOp::Create { file: FILE.to_owned(), zeroed_bytes: 0 });
    disk.execute(&DiskOp::Write { file: FILE.to_owned(), offset: 0, data: bytes.to_vec() });
    restore(&disk, FILE);
}

/// Restores the file if possible, and starts a replica from the result.
fn restore(disk: &MemoryDisk, file: &str) {
    let Ok(backup) = Backup::open(disk, file) else { return };
    let is_whole = backup.verify(disk).is_ok();
    let config = ReplicaConfig { cluster_id: [6; 16], data_key: DataKey::new(1, &[8; 32]), ..config(1) };
    let (old_key, mut salt) = (data_key(), 0_u8);
    let mut nonce = || {
        salt = salt.wrapping_add(1);
        [salt; 12]
    };
    let founder = Founder {
        config: &config,
        address: "[::1]:7101".to_owned(),
        old_key: &old_key,
        serial_gap: SerialGap::default(),
        now_s: super::world::TIME_MS / 1_000,
        nonce: &mut nonce,
    };
    let Ok((_, founding)) = Replica::restore(disk, &backup, founder) else { return };
    assert!(is_whole, "a damaged file was restored");
    let mut new = MemoryDisk::default();
    founding.flatten().for_each(|op| new.execute(&op));
    let now = crate::io::Now { monotonic_ms: 1_000, wall_ms: super::world::TIME_MS };
    assert!(Replica::open(&new, config, now).is_ok(), "a replica must start from a restored state");
}

/// Items from a list.
struct Items(Vec<(Section, Vec<u8>)>);

impl CheckpointItems for Items {
    fn next_item(&mut self, bytes: &mut Vec<u8>) -> Option<Section> {
        if self.0.is_empty() {
            return None;
        }
        let (section, item) = self.0.remove(0);
        bytes.extend_from_slice(&item);
        Some(section)
    }
}

/// Writes a checkpoint of these items; returns its file name.
fn written(mut items: impl CheckpointItems) -> (MemoryDisk, String) {
    let members = ConfState { voters: vec![1, 2, 3], ..ConfState::default() };
    let header = CheckpointHeader { cluster: CLUSTER, group: 0, index: 11, term: 1, feature_level: 2, members };
    let (mut disk, mut tickets, mut writer) =
        (MemoryDisk::default(), Tickets::default(), CheckpointWriter::new(header));
    while let Some(job) = writer.poll(&mut items, &mut tickets) {
        job.ops.iter().for_each(|op| disk.execute(op));
        if let Written::Whole(whole) = writer.persisted(job.ticket) {
            return (disk, whole.0.file());
        }
    }
    panic!("the checkpoint was not completed");
}

fn state() -> Vec<(Section, Vec<u8>)> {
    let mut machine = machine();
    let mut frozen = machine.freeze();
    let (mut items, mut bytes) = (Vec::new(), Vec::new());
    while let Some(section) = frozen.next_item(&mut bytes) {
        items.push((section, core::mem::take(&mut bytes)));
    }
    items
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let items = state();
    let tagged = || items.iter().map(|(section, item)| (section.0 as u8, &item[..]));
    // All items together, and each item alone.
    let mut seeds: Vec<Vec<u8>> = tagged().map(|item| join([item])).collect();
    seeds.push(join(tagged()));
    seeds
}

pub(super) fn backup_seeds() -> Vec<Vec<u8>> {
    let (disk, file) = written(Items(state()));
    let files = disk.list().expect("a disk in memory");
    let bytes = files.iter().find(|(name, _)| *name == file).map_or(0, |(_, bytes)| *bytes);
    vec![disk.read(&file, 0, bytes as usize).expect("it was written")]
}
