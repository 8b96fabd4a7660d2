//! Tests of checkpoints: bytes, damage, crashes while writing, transfers over bad connections.

// The bytes, written by hand.
mod golden;
// Writing, reading, damage.
mod files;
// Transfers between members.
mod transfer;

use super::format::{CheckpointHeader, Section, Table};
use super::{CheckpointItems, CheckpointWriter, Manifest, Written};
use crate::disk::Tickets;
use crate::testing::MemoryDisk;
use raft::eraftpb::ConfState;

fn header() -> CheckpointHeader {
    let members = ConfState { voters: vec![3, 1, 2], learners: vec![9], auto_leave: true, ..ConfState::default() };
    CheckpointHeader { cluster: *b"cluster-of-tests", group: 6, index: 0x31, term: 0x41, feature_level: 2, members }
}

/// Items of three sections: many small ones, a few large ones, no two alike.
struct Items {
    next: usize,
    sizes: Vec<(Section, usize)>,
}

impl Items {
    fn new(small: usize, large: usize) -> Self {
        let mut sizes: Vec<(Section, usize)> = (0..small).map(|item| (Section(1), item % 300)).collect();
        sizes.extend((0..large).map(|item| (Section(4), super::limits::ITEM_BYTES_MAX - item * 100_000 % 262_000)));
        sizes.push((Section(5), 0));
        Self { next: 0, sizes }
    }

    fn all(mut self) -> Vec<(Section, Vec<u8>)> {
        let mut items = Vec::new();
        let mut bytes = Vec::new();
        while let Some(section) = self.next_item(&mut bytes) {
            items.push((section, std::mem::take(&mut bytes)));
        }
        items
    }
}

impl CheckpointItems for Items {
    fn next_item(&mut self, bytes: &mut Vec<u8>) -> Option<Section> {
        let (section, size) = *self.sizes.get(self.next)?;
        bytes.extend((0..size).map(|at| (at / 7 + self.next * 13) as u8));
        self.next += 1;
        Some(section)
    }
}

/// Writes a complete checkpoint.
fn write(disk: &mut MemoryDisk, mut items: Items, tickets: &mut Tickets) -> (Manifest, Table) {
    let mut writer = CheckpointWriter::new(header());
    loop {
        let job = writer.poll(&mut items, tickets).expect("there is a job until the end");
        job.ops.iter().for_each(|op| disk.execute(op));
        if let Written::Whole(whole) = writer.persisted(job.ticket) {
            assert_eq!(writer.poll(&mut items, tickets), None);
            return *whole;
        }
    }
}
