//! Damaged logs are repaired from intact ones, and only the missing entries are accepted.

use super::super::record::{Padding, decode_header};
use super::super::segment::segment_number;
use super::super::tests::harness::{Contents, Machine, config_of_blocks, entries, hard_state, small_config};
use super::*;
use crate::log::limits::SECTOR_BYTES;
use crate::log::{Log, LogConfig, OpenError};
use crate::testing::MemoryDisk;

/// A log of several segments: short and long records, and entries that a later term replaced.
fn settled() -> Machine {
    settled_with(LogConfig { segment_bytes: 4096, ..small_config() })
}

/// The same with padding, as on a disk with large physical blocks.
fn settled_with_padding() -> Machine {
    settled_with(config_of_blocks(4096))
}

fn settled_with(config: LogConfig) -> Machine {
    let mut machine = Machine::create(config);
    let appended = [(1, 2, 10), (3, 6, 300), (5, 8, 700), (9, 10, 20), (11, 14, 400), (13, 16, 30), (17, 20, 300)];
    for (mark, (first, last, size)) in (1..).zip(appended) {
        machine.log.append(entries(first..=last, mark, size), Some(&hard_state(mark, 2, first - 1)), mark);
        machine.settle();
    }
    machine.log.set_commit(20);
    machine.log.touch();
    machine.settle();
    machine
}

fn segments(disk: &MemoryDisk) -> Vec<String> {
    let mut files: Vec<String> = disk.list().unwrap().into_iter().map(|(file, _)| file).collect();
    files.retain(|file| segment_number(file).is_some());
    files.sort();
    files
}

/// Offsets of all records: file, offset, header.
fn records(disk: &MemoryDisk) -> Vec<(String, usize, Header)> {
    let mut found = Vec::new();
    for file in segments(disk) {
        let bytes = disk.bytes(&file).unwrap();
        let starts = (0..bytes.len()).step_by(SECTOR_BYTES);
        found.extend(starts.filter_map(|at| Some((file.clone(), at, decode_header(&bytes[at..]).ok()?))));
    }
    found
}

/// Asks these members until no entry is missing. Returns whether that succeeded.
fn heal(salvage: &mut Salvage, disk: &MemoryDisk, peers: &[&MemoryDisk]) -> bool {
    let checkpoint = salvage.checkpoint();
    for _ in 0..100 {
        let missing_ranges = salvage.missing_ranges(disk, &checkpoint).unwrap();
        let mut is_better = false;
        for request in &missing_ranges {
            assert_eq!(EntriesRequest::decode(&request.encode()), Ok(*request));
            for peer in peers {
                let answer = Salvage::examine(*peer).unwrap().answer(*peer, request).unwrap();
                assert_eq!(EntriesResponse::decode(&answer.encode(), request.first), Ok(answer.clone()));
                is_better |= salvage.take(request, answer).is_ok();
            }
        }
        if missing_ranges.is_empty() {
            return true;
        }
        if !is_better {
            return false;
        }
    }
    panic!("the repair does not end")
}

fn write(salvage: &Salvage, disk: &MemoryDisk) -> MemoryDisk {
    let mut written = disk.clone();
    let mut rewrite = salvage.rewrite(disk, salvage.checkpoint()).unwrap();
    while let Some(ops) = rewrite.next_ops().unwrap() {
        ops.iter().for_each(|op| written.execute(op));
    }
    written
}

fn assert_damaged(disk: &MemoryDisk, what: &str) {
    assert!(matches!(Log::open(disk, small_config()), Err(OpenError::Damage(_))), "{what}");
}

fn assert_same(disk: MemoryDisk, machine: &Machine, what: &str) {
    let (mut opened, _) = Machine::open(disk, small_config()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let contents = opened.contents();
    assert_eq!(contents, machine.contents(), "{what}");
    let (state, before) = (opened.log.hard_state().clone(), machine.log.hard_state());
    assert_eq!((state.term, state.vote), (before.term, before.vote), "{what}");
    assert!((opened.log.checkpoint().index..=before.commit).contains(&state.commit), "{what}: {state:?}");
    // The log can be appended to, and the new entries can be read after a restart.
    let last = opened.log.last_index();
    let term = opened.log.hard_state().term;
    opened.log.append(entries(last + 1..=last + 2, term, 40), None, 99);
    opened.settle();
    let (again, repairs) = Machine::open(opened.disk, small_config()).unwrap();
    assert_eq!((again.log.last_index(), repairs.len()), (last + 2, 0), "{what}");
    let Contents { entries: all, .. } = again.contents();
    assert_eq!(all[..contents.entries.len()], contents.entries[..], "{what}");
}

#[test]
fn one_flipped_bit_in_each_record_of_three_logs_is_repaired_from_the_others() {
    for machine in [settled(), settled_with_padding()] {
        flip_each(&machine);
    }
}

fn flip_each(machine: &Machine) {
    let records = records(&machine.disk);
    assert!(records.len() > 10 && segments(&machine.disk).len() > 2, "{}", records.len());
    let mut count = 0;
    for (nth, (file, at, header)) in records.iter().enumerate() {
        // In the header, at the start of the body, and at its end.
        let end = (header.disk_bytes() as usize - 1) * 8;
        for bit in [(9 * 8), (HEADER_BITS + 40).min(end), end - 2000 % end] {
            let mut disk = machine.disk.clone();
            disk.flip(file, at * 8 + bit);
            if Log::open(&disk, small_config()).is_ok() {
                continue;
            }
            // The other members are damaged elsewhere.
            let mut others = [machine.disk.clone(), machine.disk.clone()];
            for (step, other) in others.iter_mut().enumerate() {
                let (file, at, _) = &records[(nth + 2 * step + 2) % records.len()];
                other.flip(file, at * 8 + 9 * 8);
            }
            let what = format!("{file} at {at}, bit {bit}");
            let mut salvage = Salvage::examine(&disk).unwrap();
            assert!(!salvage.findings().is_empty(), "{what}");
            assert!(heal(&mut salvage, &disk, &[&others[0], &others[1]]), "{what}");
            assert_eq!(salvage.suspected_loss(), None, "{what}");
            assert_same(write(&salvage, &disk), machine, &what);
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

const HEADER_BITS: usize = 201 * 8;

#[test]
fn lost_padding_is_repaired_without_another_member() {
    let machine = settled_with_padding();
    let records = records(&machine.disk);
    let is_padding = |(file, at, header): &(String, usize, Header)| {
        Padding::of(header, &machine.disk.bytes(file).unwrap()[*at..]).is_some()
    };
    let mut count = 0;
    for (nth, (file, at, header)) in records.iter().enumerate() {
        // Up to the end of the block. The record after the lost ones shows what they were.
        for sectors in 1..8 {
            let lost = records[nth..].iter().take(sectors).take_while(|record| is_padding(record)).count();
            let Some((next_file, next_at, _)) = records.get(nth + sectors) else { break };
            if lost < sectors || (next_file, *next_at) != (file, at + sectors * SECTOR_BYTES) {
                break;
            }
            let mut disk = machine.disk.clone();
            (0..sectors).for_each(|sector| disk.zero_sector(file, at + sector * SECTOR_BYTES));
            let what = format!("{file} at {at}, {sectors} sectors, record {}", header.number);
            // In the last write it is a torn tail.
            if Log::open(&disk, small_config()).is_ok() {
                continue;
            }
            let mut salvage = Salvage::examine(&disk).unwrap();
            assert!(heal(&mut salvage, &disk, &[]), "{what}");
            assert_same(write(&salvage, &disk), &machine, &what);
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn lost_sectors_blocks_and_segments_are_repaired_from_an_intact_log() {
    for machine in [settled(), settled_with_padding()] {
        lose_each(&machine);
    }
}

fn lose_each(machine: &Machine) {
    let is_last = |file: &String| segments(&machine.disk).last() == Some(file);
    for (file, at, header) in records(&machine.disk) {
        for sectors in [1, header.disk_bytes() as usize / SECTOR_BYTES, 8] {
            let mut disk = machine.disk.clone();
            let bytes = disk.bytes(&file).unwrap().len();
            let lost = (at..bytes.min(at + sectors * SECTOR_BYTES)).step_by(SECTOR_BYTES);
            lost.for_each(|sector| disk.zero_sector(&file, sector));
            if Log::open(&disk, small_config()).is_ok() {
                continue;
            }
            let what = format!("{file} at {at}, {sectors} sectors");
            let mut salvage = Salvage::examine(&disk).unwrap();
            assert!(heal(&mut salvage, &disk, &[&machine.disk]), "{what}");
            if salvage.suspected_loss().is_none() {
                assert_same(write(&salvage, &disk), machine, &what);
            } else {
                assert!(is_last(&file), "{what}");
            }
        }
    }
    for file in segments(&machine.disk) {
        let mut disk = machine.disk.clone();
        disk.lose(&file);
        assert_damaged(&disk, &file);
        let mut salvage = Salvage::examine(&disk).unwrap();
        assert!(heal(&mut salvage, &disk, &[&machine.disk]), "{file}");
        assert_eq!(salvage.suspected_loss().is_some(), is_last(&file), "{file}");
        if !is_last(&file) {
            assert_same(write(&salvage, &disk), machine, &file);
        }
    }
}

#[test]
fn record_lost_on_all_members_is_dropped_only_if_last_and_uncommitted() {
    let mut machine = settled();
    let damaged = |machine: &Machine, first: u64| {
        let mut disk = machine.disk.clone();
        let records = records(&disk);
        let (file, at, _) = records.iter().rfind(|(_, _, h)| h.first == first && h.entry_count > 0).unwrap();
        disk.flip(file, at * 8 + HEADER_BITS + 40);
        disk
    };
    let disk = damaged(&machine, 7);
    let mut salvage = Salvage::examine(&disk).unwrap();
    assert!(!heal(&mut salvage, &disk, &[&disk]));
    let missing_ranges = salvage.missing_ranges(&disk, &salvage.checkpoint()).unwrap();
    assert_eq!(missing_ranges.iter().map(|request| (request.first, request.last)).collect::<Vec<_>>(), [(7, 8)]);
    assert!(!salvage.give_up(&missing_ranges[0]), "gave up the committed entry 7");
    // The last node of a cluster keeps the readable part and reports the lost entries.
    assert_eq!(salvage.cut(&disk, &salvage.checkpoint()).unwrap(), Some((7, 20)));
    let (cut, _) = Machine::open(write(&salvage, &disk), small_config()).unwrap();
    assert_eq!(cut.contents().entries, machine.contents().entries[..6]);

    machine.log.append(entries(21..=24, 9, 300), Some(&hard_state(9, 1, 20)), 50);
    machine.settle();
    let disk = damaged(&machine, 21);
    let mut salvage = Salvage::examine(&disk).unwrap();
    assert!(!heal(&mut salvage, &disk, &[&disk]));
    let request = salvage.missing_ranges(&disk, &salvage.checkpoint()).unwrap()[0];
    assert!(salvage.give_up(&request));
    assert_eq!(salvage.suspected_loss(), Some(SuspectedLoss { term: 9, index: 24, is_diverged: false, is_torn: true }));
    let (opened, _) = Machine::open(write(&salvage, &disk), small_config()).unwrap();
    assert_eq!((opened.log.last_index(), opened.log.hard_state().vote), (20, 1));
    // A member that has the record provides it, although it is unknown whether the record is committed.
    let mut salvage = Salvage::examine(&disk).unwrap();
    assert!(heal(&mut salvage, &disk, &[&machine.disk]));
    assert_same(write(&salvage, &disk), &machine, "the last record");
}

#[test]
fn a_wrong_replacement_is_refused() {
    let machine = settled();
    let records = records(&machine.disk);
    let of = |first: u64| records.iter().rfind(|(_, _, h)| h.first == first && h.entry_count > 0).unwrap();
    let mut by_body = machine.disk.clone();
    by_body.flip(&of(7).0, of(7).1 * 8 + HEADER_BITS + 40);
    let mut by_header = machine.disk.clone();
    (of(7).1..of(7).1 + SECTOR_BYTES).for_each(|at| by_header.flip(&of(7).0, at * 8));
    let cases: [(&MemoryDisk, bool); 2] = [(&by_body, true), (&by_header, false)];
    for (disk, has_checksum) in cases {
        let mut salvage = Salvage::examine(disk).unwrap();
        let request = salvage.missing_ranges(disk, &salvage.checkpoint()).unwrap()[0];
        let right = machine.contents().entries[request.first as usize - 1..request.last as usize].to_vec();
        assert!(request.last == 8 && request.after.is_some(), "{request:?}");
        let answer =
            |commit, has_after, entries: Vec<_>| EntriesResponse { commit, has_before: true, has_after, entries };
        let mut other = right.clone();
        other[0].data = vec![9; 700].into();
        if has_checksum {
            assert_eq!(salvage.take(&request, answer(20, true, other.clone())), Err(Refused::Checksum));
        } else {
            // Another branch of the log. Neither its commit index nor the entry after the gap shows that it matches.
            assert_eq!(salvage.take(&request, answer(request.first - 1, false, other.clone())), Err(Refused::Unproven));
        }
        assert_eq!(salvage.take(&request, answer(20, true, Vec::new())), Err(Refused::Empty));
        other.iter_mut().for_each(|entry| entry.term = 99);
        assert_eq!(salvage.take(&request, answer(20, true, other.clone())), Err(Refused::Terms));
        other[0].term = 0;
        assert_eq!(salvage.take(&request, answer(20, true, other)), Err(Refused::Terms));
        assert!(!salvage.missing_ranges(disk, &salvage.checkpoint()).unwrap().is_empty(), "nothing of it was taken");
        assert_eq!(salvage.take(&request, answer(0, true, right.clone())), Ok(right.len()));
        assert_same(write(&salvage, disk), &machine, "the right one");
    }
}

#[test]
fn a_stale_branch_before_the_gap_does_not_go_on_with_committed_entries() {
    // The log has entries 21 to 24 of a leader that no majority followed; the last record is damaged.
    let mut stale = settled();
    let mut healthy = settled();
    for (machine, term) in [(&mut stale, 8), (&mut healthy, 9)] {
        machine.log.append(entries(21..=22, term, 300), Some(&hard_state(10, 1, 20)), 50);
        machine.settle();
        machine.log.append(entries(23..=24, term, 300), None, 51);
        machine.settle();
    }
    healthy.log.set_commit(24);
    healthy.log.touch();
    healthy.settle();
    let records = records(&stale.disk);
    let (file, at, _) = records.iter().rfind(|(_, _, header)| header.first == 23 && header.entry_count > 0).unwrap();
    stale.disk.flip(file, at * 8 + HEADER_BITS + 40);
    let mut salvage = Salvage::examine(&stale.disk).unwrap();
    assert!(!heal(&mut salvage, &stale.disk, &[&healthy.disk]));
    // Without a checksum the commit index alone is not enough.
    salvage.checksum_records.clear();
    assert!(!heal(&mut salvage, &stale.disk, &[&healthy.disk]));
    let request = salvage.missing_ranges(&stale.disk, &salvage.checkpoint()).unwrap()[0];
    assert!(salvage.give_up(&request));
}

#[test]
fn a_record_whose_first_sector_is_lost_is_a_suspected_loss() {
    let mut machine = settled();
    let peer = machine.disk.clone();
    // The record has two sectors, so no seal follows it.
    machine.log.append(entries(21..=22, 9, 300), Some(&hard_state(9, 1, 20)), 50);
    machine.settle();
    let all = records(&machine.disk);
    let (file, at, header) = all.last().unwrap();
    assert_eq!((header.first, header.last, header.disk_bytes()), (21, 22, 2 * SECTOR_BYTES as u64));
    machine.disk.zero_sector(file, *at);
    let (_, repairs) = Log::open(&machine.disk, small_config()).unwrap();
    assert!(!repairs.is_empty(), "without other damage this is a torn tail");
    // With damage elsewhere the log is repaired. The record may still have been acknowledged.
    let (file, at, _) = all.iter().rfind(|(_, _, header)| header.first == 7 && header.entry_count > 0).unwrap();
    machine.disk.flip(file, at * 8 + HEADER_BITS + 40);
    let mut salvage = Salvage::examine(&machine.disk).unwrap();
    assert!(heal(&mut salvage, &machine.disk, &[&peer]));
    assert!(salvage.suspected_loss().is_some_and(|loss| loss.is_torn));
}

#[test]
fn entries_of_two_members_are_not_joined_where_terms_go_back() {
    // The log had entries 21 to 24 of a leader that no majority followed, in two records; both are damaged.
    let mut stale = settled();
    let mut healthy = settled();
    for (machine, term) in [(&mut stale, 8), (&mut healthy, 9)] {
        machine.log.append(entries(21..=22, term, 300), Some(&hard_state(10, 1, 20)), 50);
        machine.settle();
    }
    healthy.log.set_commit(22);
    healthy.log.touch();
    healthy.settle();
    stale.log.append(entries(23..=24, 8, 300), None, 51);
    stale.settle();
    let other = stale.disk.clone();
    let all = records(&other);
    let of = |first: u64| all.iter().rfind(|(_, _, h)| h.first == first && h.entry_count > 0).unwrap();
    [9, 19].into_iter().for_each(|byte| stale.disk.flip(&of(21).0, (of(21).1 + byte) * 8));
    stale.disk.flip(&of(23).0, of(23).1 * 8 + HEADER_BITS + 40);
    for peers in [[&healthy.disk, &other], [&other, &healthy.disk]] {
        let mut salvage = Salvage::examine(&stale.disk).unwrap();
        if !heal(&mut salvage, &stale.disk, &peers) {
            let request = salvage.missing_ranges(&stale.disk, &salvage.checkpoint()).unwrap()[0];
            assert!(salvage.give_up(&request));
        }
        Machine::open(write(&salvage, &stale.disk), small_config()).unwrap();
    }
}

#[test]
fn the_same_entries_from_many_members_take_memory_once() {
    let machine = settled();
    let records = records(&machine.disk);
    let (file, at, _) = records.iter().rfind(|(_, _, header)| header.first == 7 && header.entry_count > 0).unwrap();
    let mut disk = machine.disk.clone();
    disk.flip(file, at * 8 + HEADER_BITS + 40);
    let mut salvage = Salvage::examine(&disk).unwrap();
    let request = salvage.missing_ranges(&disk, &salvage.checkpoint()).unwrap()[0];
    let answer = Salvage::examine(&machine.disk).unwrap().answer(&machine.disk, &request).unwrap();
    for _ in 0..3 {
        salvage.take(&request, answer.clone()).unwrap();
    }
    assert_eq!(salvage.taken_bytes, salvage.taken.values().map(entry_bytes).sum());
}

#[test]
fn a_vote_is_never_guessed() {
    let machine = settled();
    let records = records(&machine.disk);
    let (file, at, _) = records.last().unwrap();
    let mut disk = machine.disk.clone();
    disk.flip(file, at * 8 + 9 * 8);
    disk.flip(file, at * 8 + 19 * 8);
    assert_damaged(&disk, "the last record");
    assert_same(write(&Salvage::examine(&disk).unwrap(), &disk), &machine, "an empty last record");
    disk.flip(VOTE_FILE, 77);
    let Err(OpenError::Damage(damage)) = Salvage::examine(&disk) else { panic!("a vote may be lost") };
    assert_eq!(damage.what, Damage::Vote);
}

#[test]
fn a_crash_during_the_rewrite_leaves_the_damaged_log_or_the_repaired_one() {
    let machine = settled();
    let mut disk = machine.disk.clone();
    let (file, at, _) = &records(&disk)[4];
    disk.flip(file, at * 8 + 9 * 8);
    disk.flip(file, at * 8 + 19 * 8);
    let mut salvage = Salvage::examine(&disk).unwrap();
    assert!(heal(&mut salvage, &disk, &[&machine.disk]));
    let mut all = Vec::new();
    let mut rewrite = salvage.rewrite(&disk, salvage.checkpoint()).unwrap();
    while let Some(ops) = rewrite.next_ops().unwrap() {
        all.extend(ops);
    }
    let mut repaired_count = 0;
    for done in 0..=all.len() {
        let mut crashed = disk.clone();
        all[..done].iter().for_each(|op| crashed.execute(op));
        crashed.crash(&mut |_| 0);
        match Machine::open(crashed.clone(), small_config()) {
            Ok(_) => {
                repaired_count += 1;
                assert_same(crashed, &machine, &format!("after {done}"));
            }
            Err(_) => {
                let mut again = Salvage::examine(&crashed).unwrap();
                assert!(heal(&mut again, &crashed, &[&machine.disk]), "after {done}");
                assert_same(write(&again, &crashed), &machine, &format!("again after {done}"));
            }
        }
    }
    assert!(repaired_count > 1 && repaired_count < all.len(), "{repaired_count}");
}

#[test]
fn a_check_of_files_in_use_finds_each_flipped_bit_of_a_record() {
    use crate::scrub::check_file;
    let machine = settled();
    for (file, _) in machine.disk.list().unwrap() {
        assert_eq!(check_file(&machine.disk, &file), Ok(Vec::new()), "{file}");
    }
    for (file, at, header) in records(&machine.disk) {
        for byte in (at..at + header.disk_bytes() as usize).step_by(37) {
            let mut disk = machine.disk.clone();
            disk.flip(&file, byte * 8 + 3);
            let found = check_file(&disk, &file).unwrap();
            assert_eq!(found.len(), 1, "{file} byte {byte}: {found:?}");
        }
        let mut disk = machine.disk.clone();
        (at..at + header.disk_bytes() as usize).step_by(SECTOR_BYTES).for_each(|at| disk.zero_sector(&file, at));
        let is_followed = records(&disk).iter().any(|(other, of, _)| *other == file && *of > at);
        let is_first = at == 0;
        assert_eq!(!check_file(&disk, &file).unwrap().is_empty(), is_followed && !is_first, "{file} at {at}");
    }
    for slot in [0, 4096] {
        let mut disk = machine.disk.clone();
        disk.flip(VOTE_FILE, slot * 8 + 99);
        assert_eq!(check_file(&disk, VOTE_FILE).unwrap().len(), 1);
    }
}
