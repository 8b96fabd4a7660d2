//! Reading entries, dropping them from memory, and reusing segments.

use super::harness::{Machine, entries, entry, hard_state, small_config};
use crate::disk::DiskRead;
use crate::log::segment::spare_number;
use crate::log::{CheckpointRef, Fetch, LogConfig, ReadError};

fn filled(count: u64) -> Machine {
    let mut machine = Machine::create(small_config());
    machine.settle();
    for index in 1..=count {
        machine.log.append(vec![entry(index, 1 + index / 20, 100)], Some(&hard_state(1 + index / 20, 1, index)), index);
        machine.settle();
        machine.log.set_applied(index);
    }
    machine
}

#[test]
fn appended_entries_are_readable_before_they_are_durable() {
    let mut machine = Machine::create(small_config());
    machine.log.append(entries(1..=5, 2, 50), Some(&hard_state(2, 1, 0)), 1);
    assert_eq!(machine.log.durable_index(), 0);
    assert_eq!(machine.log.entries(1, 6, u64::MAX).unwrap(), entries(1..=5, 2, 50));
    assert_eq!(machine.log.entries(2, 6, 1).unwrap(), entries(2..=2, 2, 50));
    assert_eq!(machine.log.entries(0, 3, 1), Err(ReadError::Compacted));
    assert_eq!(machine.log.entries(3, 7, 1), Err(ReadError::Unavailable));
    assert_eq!((machine.log.term(0), machine.log.term(5)), (Ok(0), Ok(2)));
    assert_eq!(machine.log.term(6), Err(ReadError::Unavailable));
    machine.settle();
    assert_eq!((machine.log.durable_index(), machine.mark), (5, Some(1)));
}

#[test]
fn applied_entries_leave_memory_and_are_read_back() {
    let mut machine = filled(60);
    assert_eq!(machine.log.entries(1, 61, u64::MAX), Err(ReadError::NotInMemory));
    let mut next = 1;
    let mut reads = 0;
    while next <= 60 {
        match machine.log.entries(next, 61, u64::MAX) {
            Ok(found) => {
                for found in found {
                    assert_eq!(found, entry(next, 1 + next / 20, 100));
                    next += 1;
                }
            }
            Err(ReadError::NotInMemory) => {
                let Fetch::Read(read) = machine.log.fetch(next, 61, &mut machine.tickets).unwrap() else {
                    panic!("not a read")
                };
                assert_eq!(machine.log.fetch(next, 61, &mut machine.tickets), Ok(Fetch::UnderWay(read.ticket)));
                let bytes = machine.disk.read(&read.file, read.offset, read.len).unwrap();
                let fetched = machine.log.fetched(read.ticket, &bytes).unwrap().unwrap();
                assert!(fetched.first == next && fetched.count > 1);
                reads += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!((3..30).contains(&reads), "{reads}");
    assert_eq!(machine.log.fetched(9999, &[]), Ok(None));
}

#[test]
fn fewer_large_entries_stay_in_memory() {
    let kept = |bytes: usize, count: u64| {
        let mut machine = Machine::create(LogConfig { tail_bytes: 1 << 20, ..small_config() });
        machine.settle();
        for index in 1..=count {
            machine.log.append(vec![entry(index, 2, bytes)], Some(&hard_state(2, 1, index)), index);
            machine.settle();
            machine.log.set_applied(index);
        }
        (1..=count).filter(|&first| machine.log.entries(first, count + 1, u64::MAX).is_ok()).count()
    };
    // A mebibyte of small entries, and an eighth of a mebibyte of large ones.
    assert!((240..=256).contains(&kept(4 << 10, 300)), "{}", kept(4 << 10, 300));
    assert_eq!(kept(60 << 10, 30), 17);
    assert_eq!(kept(64 << 10, 30), 1);
}

#[test]
fn entries_in_a_checkpoint_leave_memory() {
    let mut machine = Machine::create(LogConfig { tail_bytes: 1 << 20, ..small_config() });
    machine.settle();
    for index in 1..=60 {
        machine.log.append(vec![entry(index, 2, 100)], Some(&hard_state(2, 1, index)), index);
        machine.settle();
        machine.log.set_applied(index.min(50));
    }
    assert_eq!(machine.log.entries(1, 61, u64::MAX).unwrap(), entries(1..=60, 2, 100));
    machine.log.checkpointed(CheckpointRef { index: 40, term: 2, id: [1; 32] });
    assert_eq!(machine.log.entries(40, 61, u64::MAX), Err(ReadError::NotInMemory));
    assert_eq!(machine.log.entries(41, 61, u64::MAX).unwrap(), entries(41..=60, 2, 100));
    // They are still in the log.
    assert_eq!((machine.log.first_index(), machine.log.term(1)), (1, Ok(2)));
    machine.settle();
    assert_eq!(machine.contents().entries, entries(1..=60, 2, 100));
}

#[test]
fn uncommitted_empty_entries_do_not_raise_the_known_index() {
    let mut machine = filled(5);
    machine.log.append(entries(6..=7, 9, 0), Some(&hard_state(9, 1, 5)), 6);
    machine.settle();
    let read = |machine: Machine| {
        let (opened, _) = Machine::open(machine.disk, small_config()).unwrap();
        (opened.log.last_index(), opened.log.last_known_index(), opened)
    };
    let (last, last_known, mut machine) = read(machine);
    assert_eq!((last, last_known), (7, 5));
    machine.settle();
    machine.log.append(vec![entry(8, 9, 10)], Some(&hard_state(9, 1, 5)), 7);
    machine.settle();
    let (last, last_known, _) = read(machine);
    assert_eq!((last, last_known), (8, 8));
}

#[test]
fn read_during_an_install_returns_no_entries() {
    let mut machine = filled(40);
    let Ok(Fetch::Read(read)) = machine.log.fetch(2, 9, &mut machine.tickets) else { panic!("not a read") };
    machine.log.install(CheckpointRef { index: 100, term: 4, id: [1; 32] }, None, 41);
    machine.settle();
    // A segment is not reused while it is being read.
    let bytes = machine.disk.read(&read.file, read.offset, read.len).unwrap();
    assert_eq!(machine.log.fetched(read.ticket, &bytes).unwrap().unwrap().count, 0);
    assert_eq!((machine.log.first_index(), machine.log.last_index(), machine.log.term(100)), (101, 100, Ok(4)));
    machine.settle();
    assert!(machine.disk.read(&read.file, 0, 1).is_err(), "now it is");
    let (opened, _) = Machine::open(machine.disk, small_config()).unwrap();
    assert_eq!((opened.log.first_index(), opened.log.last_index()), (101, 100));
    assert_eq!(opened.log.checkpoint(), CheckpointRef { index: 100, term: 4, id: [1; 32] });
    assert_eq!(opened.log.hard_state().commit, 100);
}

#[test]
fn compaction_uses_segments_again_and_disk_space_stays_bounded() {
    let mut machine = filled(0);
    let mut most = 0;
    for index in 1..=600 {
        machine.log.append(vec![entry(index, 1, 200)], Some(&hard_state(1, 1, index)), index);
        machine.settle();
        machine.log.set_applied(index);
        if machine.log.is_checkpoint_due(0) {
            machine.log.checkpointed(CheckpointRef { index, term: 1, id: [2; 32] });
            let target = machine.log.compact_target(None);
            assert_eq!(target, index - 3);
            machine.log.compact(target);
            machine.settle();
            assert_eq!(machine.log.first_index(), index - 2);
        }
        let bytes: u64 = machine.disk.list().unwrap().iter().map(|(_, bytes)| bytes).sum();
        most = most.max(bytes);
    }
    assert!(most < 64 << 10, "{most}");
    assert!(machine.recycled_count > 30, "{}", machine.recycled_count);
    let spares = machine.disk.list().unwrap().into_iter().filter(|(file, _)| spare_number(file).is_some());
    for (file, bytes) in spares {
        let contents = machine.disk.read(&file, 0, bytes as usize).unwrap();
        assert!(contents.iter().all(|&byte| byte == 0), "{file} has old bytes");
    }
    let (opened, repairs) = Machine::open(machine.disk.clone(), small_config()).unwrap();
    assert_eq!(repairs, []);
    assert_eq!(opened.contents(), machine.contents());
}

#[test]
fn few_bytes_may_stay_behind_a_checkpoint_even_if_few_entries_do() {
    let mut machine = Machine::create(crate::log::LogConfig { entries_behind_checkpoint: 1000, ..small_config() });
    for index in 1..=100 {
        machine.log.append(vec![entry(index, 1, 400)], Some(&hard_state(1, 1, index)), index);
        machine.settle();
    }
    machine.log.set_applied(100);
    machine.log.checkpointed(CheckpointRef { index: 100, term: 1, id: [2; 32] });
    // 8,192 bytes hold eight records of 1,024.
    assert!((85..=93).contains(&machine.log.compact_target(None)), "{}", machine.log.compact_target(None));
    // A transfer keeps more, but at most 16,384.
    assert!(machine.log.compact_target(Some(99)) == machine.log.compact_target(None));
    let pinned = machine.log.compact_target(Some(5));
    assert!((77..=85).contains(&pinned) && pinned < machine.log.compact_target(None), "{pinned}");
    assert_eq!(machine.log.compact_target(Some(pinned + 1)), pinned + 1);
}

#[test]
fn an_entry_larger_than_a_segment_has_one_of_its_own() {
    let mut machine = filled(3);
    machine.log.append(vec![entry(4, 1, 20_000)], None, 4);
    machine.log.append(vec![entry(5, 1, 10)], None, 5);
    machine.settle();
    assert_eq!(machine.mark, Some(5));
    let (opened, _) = Machine::open(machine.disk.clone(), small_config()).unwrap();
    assert_eq!(opened.contents(), machine.contents());
    assert_eq!(opened.contents().entries.len(), 5);
}

#[test]
fn the_commit_index_and_the_leader_contact_are_on_disk_after_a_touch() {
    let mut machine = filled(3);
    machine.log.append(entries(4..=6, 1, 10), None, 4);
    machine.settle();
    machine.log.set_commit(5);
    machine.log.set_contact_wall_ms(1234);
    machine.log.touch();
    machine.settle();
    let (opened, _) = Machine::open(machine.disk, small_config()).unwrap();
    assert_eq!((opened.log.hard_state().commit, opened.log.contact_wall_ms()), (5, 1234));
    assert!(!opened.log.is_durable());
}

#[test]
fn what_is_appended_during_a_write_shares_the_next_record() {
    let mut machine = filled(1);
    machine.log.append(vec![entry(2, 1, 10)], None, 2);
    let first = machine.log.poll_job(&mut machine.tickets).unwrap();
    for index in 3..=9 {
        machine.log.append(vec![entry(index, 1, 10)], None, index);
        assert_eq!(machine.log.poll_job(&mut machine.tickets), None);
    }
    assert_eq!(machine.log.persisted(first.ticket), crate::log::Persisted::Record(Some(2)));
    let second = machine.log.poll_job(&mut machine.tickets).unwrap();
    assert_eq!(machine.log.persisted(second.ticket), crate::log::Persisted::Record(Some(9)));
    assert_eq!(machine.log.poll_job(&mut machine.tickets), None);
}
