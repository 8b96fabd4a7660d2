//! Disks with physical blocks that are larger than a sector.

use super::harness::{Machine, config_of_blocks, entries, hard_state, small_config};
use crate::disk::{DiskOp, DiskRead};
use crate::log::limits::SECTOR_BYTES;
use crate::log::segment::segment_file;
use crate::log::{LogConfig, OpenError, Position, Repair, TornRecord};
use crate::testing::MemoryDisk;

const BLOCK_BYTES: usize = 4096;

fn config() -> LogConfig {
    config_of_blocks(BLOCK_BYTES as u64)
}

/// A log in which each entry was written and synced separately.
fn written(config: LogConfig, count: u64, size: usize) -> Machine {
    let mut machine = Machine::create_on(MemoryDisk::with_blocks(BLOCK_BYTES), config);
    for index in 1..=count {
        machine.log.append(entries(index..=index, 3, size), Some(&hard_state(3, 2, index - 1)), index);
        machine.settle();
    }
    machine
}

/// The numbers of the written sectors of a segment.
fn written_sectors(machine: &Machine, file: &str) -> Vec<usize> {
    let sectors = machine.disk.bytes(file).unwrap().chunks(SECTOR_BYTES).enumerate();
    sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0)).map(|(nth, _)| nth).collect()
}

/// Power fails during the next write, and the disk destroys each block that was only partly written.
fn crash_while_writing(mut machine: Machine, config: LogConfig) -> Result<(Machine, Vec<Repair>), OpenError> {
    let next = machine.log.last_index() + 1;
    machine.log.append(entries(next..=next, 3, 20), None, next);
    while machine.disk.is_synced() {
        assert!(machine.step(false), "nothing is written");
    }
    machine.disk.crash(&mut |below| if below == 4 { 2 } else { 1 });
    Machine::open(machine.disk, config)
}

#[test]
fn a_write_spoils_no_earlier_record_of_its_physical_block() {
    let (found, _) = crash_while_writing(written(config(), 3, 20), config()).unwrap();
    assert!(found.log.last_index() >= 3);
    // Without padding, acknowledged records are lost.
    let lost = crash_while_writing(written(small_config(), 3, 20), small_config());
    assert!(lost.is_err_and(|error| matches!(error, OpenError::Damage(_))));
}

/// No write of a log begins or ends within a block, for records of any kind.
#[test]
fn every_write_covers_whole_blocks() {
    for size in [0, 20, 400, 4000, 9000] {
        let mut machine = Machine::create_on(MemoryDisk::with_blocks(BLOCK_BYTES), config());
        let mut writes = 0;
        for index in 1..=6 {
            machine.log.append(entries(index..=index, 3, size), Some(&hard_state(3, 2, index - 1)), index);
            while let Some(job) = machine.log.poll_job(&mut machine.tickets) {
                for op in &job.ops {
                    machine.disk.execute(op);
                    if let DiskOp::Write { offset, data: bytes, .. } = op {
                        assert_eq!((*offset as usize % BLOCK_BYTES, bytes.len() % BLOCK_BYTES), (0, 0), "{op:?}");
                        writes += 1;
                    }
                }
                machine.log.persisted(job.ticket);
            }
        }
        assert!(writes > 6);
    }
}

/// Older software writes such a log.
#[test]
fn a_log_without_padding_is_read_and_its_last_block_is_filled_before_the_next_write() {
    for count in 1..=4 {
        let machine = written(small_config(), count, 20);
        let before = machine.contents();
        for crash in 0..40 {
            let (mut opened, repairs) = Machine::open(machine.disk.clone(), config()).unwrap();
            assert_eq!((opened.contents(), repairs), (before.clone(), Vec::new()));
            // Power fails at each step of the first job.
            for _ in 0..crash {
                opened.step(false);
            }
            let mut draw = crash;
            opened.disk.crash(&mut |below| {
                draw = draw * 31 + 7;
                if below == 4 { 2 } else { draw / 8 % below }
            });
            let (mut again, repairs) = Machine::open(opened.disk, config()).unwrap();
            assert_eq!((again.contents(), repairs), (before.clone(), Vec::new()));
            again.settle();
            let (found, _) = crash_while_writing(again, config()).unwrap();
            assert!(found.log.last_index() >= count);
        }
    }
}

/// A record of a write, or padding after it, is lost: by a crash during the write on a disk with small sectors, or
/// later. Only a lost record can have held entries.
#[test]
fn a_lost_sector_of_a_padded_write_is_a_torn_record_with_the_right_entries() {
    for (size, sectors) in [(20, 1), (700, 2), (4500, 10)] {
        let mut machine = written(config(), 2, 20);
        machine.log.append(entries(3..=3, 4, size), Some(&hard_state(4, 2, 2)), 3);
        machine.settle();
        let file = segment_file(machine.log.writer.segment);
        let written = written_sectors(&machine, &file);
        let last = *written.last().unwrap();
        let blocks = usize::div_ceil(sectors, 8);
        let first = last + 1 - blocks * 8;
        assert_eq!(first % 8, 0, "{written:?}");
        let torn_record = TornRecord::Entries { last: Position { index: 3, term: 4 } };
        for lost in first..last {
            let mut disk = machine.disk.clone();
            disk.zero_sector(&file, lost * SECTOR_BYTES);
            let (mut opened, repairs) = Machine::open(disk, config()).unwrap();
            let is_record = lost < first + sectors;
            let (offset, record) = if is_record { (first, torn_record) } else { (lost, TornRecord::Empty) };
            let offset = (offset * SECTOR_BYTES) as u64;
            assert_eq!(repairs, [Repair::TailCut { file: file.clone(), offset, record }], "{lost}");
            assert_eq!(opened.log.last_index(), if is_record { 2 } else { 3 });
            opened.settle();
            let kept = opened.contents();
            let (again, repairs) = Machine::open(opened.disk, config()).unwrap();
            assert_eq!((again.contents(), repairs), (kept, Vec::new()));
        }
        // Another write followed, so the lost record had been synced.
        machine.log.append(Vec::new(), Some(&hard_state(5, 2, 3)), 4);
        machine.settle();
        machine.disk.zero_sector(&file, first * SECTOR_BYTES);
        assert!(matches!(Machine::open(machine.disk, config()), Err(OpenError::Damage(_))));
    }
}

#[test]
fn a_padded_log_is_read_by_a_log_with_small_blocks() {
    let machine = written(config(), 3, 20);
    let (opened, repairs) = Machine::open(machine.disk.clone(), small_config()).unwrap();
    assert_eq!((opened.contents(), repairs), (machine.contents(), Vec::new()));
    assert!(opened.disk.list().unwrap().len() > 1);
}
