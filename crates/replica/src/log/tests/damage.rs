//! Flipped bits, lost files and contradictions are all found, and nothing is cut.

use super::harness::{Machine, entries, hard_state, small_config};
use crate::disk::DiskRead;
use crate::log::limits::SECTOR_BYTES;
use crate::log::record::{HEADER_BYTES, decode_header};
use crate::log::segment::segment_file;
use crate::log::vote::VOTE_FILE;
use crate::log::{Damage, LogConfig, OpenError, Position, Repair, TornRecord};

/// A log of several small segments in which everything is synced.
fn settled() -> Machine {
    let mut machine = Machine::create(LogConfig { segment_bytes: 2048, ..small_config() });
    let mut next = 1;
    for (mark, size) in [(1, 10), (2, 300), (3, 700), (4, 20), (5, 100)] {
        machine.log.append(entries(next..=next + 1, mark, size), Some(&hard_state(mark, 2, next - 1)), mark);
        machine.settle();
        next += 2;
    }
    assert!(machine.disk.is_synced());
    machine
}

#[test]
fn every_flipped_bit_of_a_segment_is_found_or_harmless() {
    let machine = settled();
    let (before, state) = (machine.contents(), machine.log.hard_state().clone());
    let (mut found, mut harmless) = (0, 0);
    for (file, bytes) in machine.disk.list().unwrap() {
        for bit in 0..bytes as usize * 8 {
            let mut disk = machine.disk.clone();
            disk.flip(&file, bit);
            match Machine::open(disk, small_config()) {
                Err(OpenError::Damage(_)) => found += 1,
                Err(error) => panic!("{file} bit {bit}: {error}"),
                Ok((opened, _)) => {
                    assert_eq!(opened.contents(), before, "{file} bit {bit}");
                    assert_eq!(*opened.log.hard_state(), state, "{file} bit {bit}");
                    let byte = machine.disk.bytes(&file).unwrap()[bit / 8];
                    assert!(byte == 0 || file == VOTE_FILE, "{file} bit {bit} was written, but its flip was not found");
                    harmless += 1;
                }
            }
        }
    }
    assert!(found > 30_000 && harmless > 1_000, "{found} {harmless}");
}

#[test]
fn either_copy_of_term_and_vote_may_be_lost() {
    let mut machine = settled();
    machine.log.append(Vec::new(), Some(&hard_state(9, 3, 8)), 6);
    machine.settle();
    for slot in [0, 4096] {
        let mut disk = machine.disk.clone();
        disk.flip(VOTE_FILE, slot * 8 + 77);
        let (mut opened, repairs) = Machine::open(disk, small_config()).unwrap();
        assert_eq!(repairs, [Repair::VoteCopy]);
        assert_eq!(*opened.log.hard_state(), hard_state(9, 3, 8));
        opened.settle();
        assert_eq!(Machine::open(opened.disk, small_config()).unwrap().1, []);
    }
    let mut disk = machine.disk.clone();
    disk.flip(VOTE_FILE, 0);
    disk.flip(VOTE_FILE, 4096 * 8);
    assert_damage(disk, VOTE_FILE, Damage::Vote);
    let mut disk = machine.disk.clone();
    disk.lose(VOTE_FILE);
    assert_damage(disk, VOTE_FILE, Damage::Vote);
}

#[test]
fn a_missing_segment_is_damage_wherever_it_was() {
    let machine = settled();
    let segments: Vec<String> = machine
        .disk
        .list()
        .unwrap()
        .into_iter()
        .map(|(file, _)| file)
        .filter(|file| file.starts_with("log-"))
        .collect();
    assert!(segments.len() >= 3, "{segments:?}");
    for file in &segments {
        let mut disk = machine.disk.clone();
        disk.lose(file);
        assert_damage(disk, file, Damage::Missing);
    }
}

#[test]
fn a_synced_record_in_the_middle_is_never_cut_even_if_a_sector_of_it_is_zero() {
    let config = LogConfig { segment_bytes: 16_384, ..small_config() };
    let mut machine = Machine::create(config.clone());
    for (indices, size) in [(1..=2, 400), (3..=4, 300), (5..=5, 4), (6..=7, 500), (8..=8, 4)] {
        let mark = *indices.end();
        machine.log.append(entries(indices, 6, size), Some(&hard_state(6, 2, mark - 1)), mark);
        machine.settle();
    }
    assert_eq!(Machine::open(machine.disk.clone(), config.clone()).unwrap().0.log.last_index(), 8);
    let file = segment_file(machine.log.writer.segment);
    let bytes = machine.disk.bytes(&file).unwrap().to_vec();
    let starts: Vec<usize> =
        (0..bytes.len()).step_by(SECTOR_BYTES).filter(|at| decode_header(&bytes[*at..]).is_ok()).collect();
    assert!(starts.len() >= 5, "{starts:?}");
    // These records have a record before them and one after them, so the chain of the segment is intact up to them. The
    // last two headers may be a one-sector record and its seal.
    for sector in (starts[1]..starts[starts.len() - 2]).step_by(SECTOR_BYTES) {
        let mut disk = machine.disk.clone();
        disk.zero_sector(&file, sector);
        let opened = Machine::open(disk, config.clone());
        assert!(matches!(opened, Err(OpenError::Damage(_))), "sector {sector}");
    }
}

#[test]
fn a_log_of_another_member_is_foreign() {
    let mut machine = settled();
    let file = segment_file(machine.log.writer.segment);
    let mut bytes = machine.disk.bytes(&file).unwrap().to_vec();
    bytes[9] ^= 1;
    let crc = crc32c::crc32c(&bytes[..=HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 3..=HEADER_BYTES].copy_from_slice(&crc.to_be_bytes());
    machine.disk.execute(&crate::disk::DiskOp::Write { file: file.clone(), offset: 0, data: bytes });
    assert_damage(machine.disk, &file, Damage::Foreign);
}

#[test]
fn damage_met_by_a_later_read_is_reported() {
    let mut machine = settled();
    machine.log.set_applied(4);
    machine.log.append(entries(11..=40, 6, 100), Some(&hard_state(6, 2, 40)), 6);
    machine.settle();
    machine.log.set_applied(40);
    let Ok(crate::log::Fetch::Read(read)) = machine.log.fetch(3, 9, &mut machine.tickets) else { panic!("not a read") };
    let mut bytes = machine.disk.read(&read.file, read.offset, read.len).unwrap();
    bytes[800] ^= 4;
    let damage = machine.log.fetched(read.ticket, &bytes).unwrap_err();
    assert_eq!((damage.file, damage.what), (read.file, Damage::Body));
}

fn assert_damage(disk: crate::testing::MemoryDisk, file: &str, what: Damage) {
    match Machine::open(disk, small_config()) {
        Err(OpenError::Damage(damage)) => assert_eq!((damage.file.as_str(), damage.what), (file, what)),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("opened"),
    }
}

/// The member must not help a log without the cut entries to win an election. So the log must know which entries it
/// cut.
#[test]
fn a_torn_record_says_which_entries_it_held() {
    let mut machine = Machine::create(LogConfig { segment_bytes: 16_384, ..small_config() });
    machine.log.append(entries(1..=10, 5, 20), Some(&hard_state(5, 2, 0)), 1);
    machine.settle();
    machine.log.append(entries(11..=12, 6, 700), Some(&hard_state(6, 2, 10)), 2);
    machine.settle();
    let segments = machine.disk.list().unwrap().into_iter().map(|(file, _)| file);
    let file = segments.filter(|file| file.starts_with("log-")).max().unwrap();
    let bytes = machine.disk.bytes(&file).unwrap();
    let written: Vec<usize> = (0..bytes.len() / SECTOR_BYTES)
        .filter(|sector| bytes[sector * SECTOR_BYTES..][..SECTOR_BYTES].iter().any(|byte| *byte != 0))
        .collect();
    let first = written.iter().copied().rfind(|sector| bytes[sector * SECTOR_BYTES + 1..][..4] == *b"CtLg").unwrap();
    let last = *written.last().unwrap();
    assert!(first > 0 && last >= first + 2, "{written:?}");
    let torn_record = TornRecord::Entries { last: Position { index: 12, term: 6 } };
    for (sector, record) in [(first, TornRecord::Unknown), (first + 1, torn_record), (last, torn_record)] {
        let mut disk = machine.disk.clone();
        disk.zero_sector(&file, sector * SECTOR_BYTES);
        let offset = (first * SECTOR_BYTES) as u64;
        let (opened, repairs) = Machine::open(disk, small_config()).unwrap();
        assert_eq!(repairs, [Repair::TailCut { file: file.clone(), offset, record }]);
        assert_eq!(opened.log.last_index(), 10);
    }
}

/// Without a seal, a lost record of one sector would look like one that was never written.
#[test]
fn a_record_of_one_sector_leaves_a_trace_when_it_is_lost() {
    let mut machine = Machine::create(LogConfig { segment_bytes: 16_384, ..small_config() });
    for (index, term) in [(1, 4), (2, 5)] {
        machine.log.append(entries(index..=index, term, 20), Some(&hard_state(term, 2, 0)), index);
        machine.settle();
    }
    let file = segment_file(1);
    let mut sectors = machine.disk.bytes(&file).unwrap().chunks(SECTOR_BYTES);
    let last = sectors.rposition(|sector| sector.iter().any(|byte| *byte != 0)).unwrap();
    let [record, seal] = [last - 1, last].map(|sector| sector * SECTOR_BYTES);
    // The record is lost.
    let mut disk = machine.disk.clone();
    disk.zero_sector(&file, record);
    let (mut opened, repairs) = Machine::open(disk, small_config()).unwrap();
    let torn_record = TornRecord::Entries { last: Position { index: 2, term: 5 } };
    assert_eq!(repairs, [Repair::TailCut { file: file.clone(), offset: record as u64, record: torn_record }]);
    assert_eq!(opened.log.last_index(), 1);
    opened.settle();
    assert_eq!(Machine::open(opened.disk, small_config()).unwrap().1, [], "the seal is gone too");
    // Only the seal is lost, the record is there.
    let mut disk = machine.disk.clone();
    disk.zero_sector(&file, seal);
    let (opened, repairs) = Machine::open(disk, small_config()).unwrap();
    assert_eq!((opened.log.last_index(), repairs), (2, Vec::new()));
    // The record is lost, but another was written after its seal. So the lost record had been synced.
    machine.log.append(entries(3..=3, 5, 20), None, 3);
    machine.settle();
    let mut disk = machine.disk.clone();
    disk.zero_sector(&file, record);
    assert!(matches!(Machine::open(disk, small_config()), Err(OpenError::Damage(_))));
}
