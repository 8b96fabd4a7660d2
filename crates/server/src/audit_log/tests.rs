//! The audit log over restarts, crashes, rotation, and a queue that is full.

use super::file::{AuditFile, begin, last_index, read_last};
use super::refused::{ClientKind, RefusedLog};
use super::{Attempt, AuditCounters, AuditQueue, AuditWork, run};
use crate::limits::AUDIT_WAITING_MAX;
use config::files::audit_log::{files_of, verify};
use config::limits::AUDIT_FILES_MAX;
use replica::io::{ActionRecord, AuditNames, AuditRecord, UpdateRecord};
use std::io::Write;
use std::sync::Arc;
use wire::number::{Rtype, Serial};
use zone::record::ZoneId;

const BYTES_MAX: u64 = 8 << 20;

fn record(index: u64) -> AuditRecord {
    AuditRecord::Update(UpdateRecord {
        index,
        time_ms: 1_700_000_000_123,
        key: "dhcp.".parse().unwrap(),
        source: "::ffff:192.0.2.7".parse().unwrap(),
        zone: ZoneId { view: 0, apex: "example.org.".parse().unwrap() },
        serial_from: Some(Serial(index as u32)),
        serial_to: Serial(index as u32 + 1),
        deleted_count: 1,
        added_count: 2,
        names: AuditNames { names: vec![("a.example.org.".parse().unwrap(), Rtype::A)], has_more: false },
    })
}

/// The lines of the file without the digests.
fn unbound(text: &str) -> String {
    let line = |line: &str| format!("{}}}\n", line.split(",\"prev\":").next().unwrap());
    text.lines().map(line).collect()
}

fn open(path: &std::path::Path, bytes_max: u64) -> AuditFile {
    let counters = Arc::<AuditCounters>::default();
    counters.set_bytes_max(bytes_max);
    AuditFile::open(path, counters)
}

#[test]
fn each_index_is_written_once_over_restarts_and_crashes() {
    let dir = process::testing::test_dir("audit");
    let path = dir.path().join("audit.log");
    let mut file = open(&path, BYTES_MAX);
    for index in [5, 6, 9] {
        file.record(&record(index));
    }
    file.sync();
    // A crash leaves part of a line.
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"index\":10,\"ti").unwrap();
    assert_eq!(last_index(&path), 9);
    let mut file = open(&path, BYTES_MAX);
    // The first two are applied again after the start. The third is new.
    for index in [6, 9, 10] {
        file.record(&record(index));
    }
    file.gap(10, 20);
    file.gap(15, 18);
    file.record(&record(21));
    file.sync();
    let bound = std::fs::read_to_string(&path).unwrap();
    let text = unbound(&bound);
    let indexes: Vec<_> = text.lines().map(|line| line.split([':', ',', '}']).nth(1).unwrap()).collect();
    assert_eq!(indexes, ["5", "6", "9", "10", "10", "21"]);
    assert_eq!(text.lines().nth(4), Some("{\"gap_after\":10,\"gap_to\":20}"));
    assert_eq!(
        text.lines().next(),
        Some(
            "{\"index\":5,\"time_ms\":1700000000123,\"key\":\"dhcp.\",\"source\":\"192.0.2.7\",\
             \"zone\":\"example.org.\",\"serial_from\":5,\"serial_to\":6,\"deleted\":1,\"added\":2,\
             \"names\":[\"a.example.org. A\"]}"
        )
    );
    assert_eq!(read_last(&path, 2).unwrap().lines().count(), 2);
    assert!(read_last(&path, 100).unwrap() == bound);
    assert_eq!(last_index(&dir.path().join("none")), 0);
}

#[test]
fn actions_at_one_node_are_written_between_the_records_and_hide_no_index() {
    let dir = process::testing::test_dir("audit-local");
    let path = dir.path().join("audit.log");
    let mut file = open(&path, BYTES_MAX);
    file.record(&record(5));
    assert!(file.local(7, "key show", "dhcp.") && file.local(8, "key show", "acme."));
    file.sync();
    assert_eq!(last_index(&path), 5);
    let mut file = open(&path, BYTES_MAX);
    file.record(&record(5));
    file.record(&record(6));
    file.sync();
    let text = unbound(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(text.lines().count(), 4, "{text}");
    assert_eq!(text.lines().nth(1).unwrap(), r#"{"after":5,"time_ms":7,"action":"key show","subject":"dhcp."}"#);
}

#[test]
fn files_are_rotated_and_the_oldest_is_removed() {
    let dir = process::testing::test_dir("audit-rotated");
    let path = dir.path().join("audit.log");
    let line = "x".repeat(100) + "\n";
    for round in 0..AUDIT_FILES_MAX as u64 + 3 {
        // As if the file had been filled.
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.set_len(BYTES_MAX / AUDIT_FILES_MAX as u64 - line.len() as u64).unwrap();
        file.write_all(line.as_bytes()).unwrap();
        let mut file = open(&path, BYTES_MAX);
        file.record(&record(round + 1));
        file.sync();
        assert_eq!(last_index(&path), round + 1);
    }
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, AUDIT_FILES_MAX);
}

#[test]
fn records_beyond_the_queue_limit_become_a_gap() {
    let dir = process::testing::test_dir("audit-full");
    let path = dir.path().join("audit.log");
    let counters = Arc::<AuditCounters>::default();
    let (mut queue, work) = AuditQueue::new(0, counters.clone());
    queue.put((1..=AUDIT_WAITING_MAX as u64).map(record).collect());
    let full = AUDIT_WAITING_MAX as u64;
    queue.put(vec![record(full + 1), record(full + 3)]);
    queue.put(vec![record(full + 4)]);
    assert_eq!(counters.lost.get(), 3);
    // There is room again.
    let Ok(AuditWork::Records(records)) = work.recv() else { panic!() };
    counters.waiting.take(records.len());
    queue.put(vec![record(full + 5)]);
    queue.put_gap(full + 5, full + 9);
    queue.through(full + 12);
    drop(queue);
    run(&path, BYTES_MAX, &work, &counters);
    let text = unbound(&std::fs::read_to_string(&path).unwrap());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[3], format!("{{\"through\":{}}}", full + 12));
    assert_eq!(lines[0], format!("{{\"gap_after\":{full},\"gap_to\":{}}}", full + 4));
    assert!(lines[1].starts_with(&format!("{{\"index\":{},", full + 5)));
    assert_eq!(lines[2], format!("{{\"gap_after\":{},\"gap_to\":{}}}", full + 5, full + 9));
    assert_eq!(counters.waiting.get(), 0);
}

#[test]
fn the_log_is_not_called_complete_before_its_gap_is_written() {
    let dir = process::testing::test_dir("audit-through");
    let path = dir.path().join("audit.log");
    let counters = Arc::<AuditCounters>::default();
    let (mut queue, work) = AuditQueue::new(0, counters.clone());
    assert!(counters.waiting.put(AUDIT_WAITING_MAX, AUDIT_WAITING_MAX));
    queue.put(vec![record(1)]);
    queue.through(1);
    assert_eq!(counters.through.load(std::sync::atomic::Ordering::Relaxed), 0);
    counters.waiting.take(AUDIT_WAITING_MAX);
    queue.through(2);
    drop(queue);
    run(&path, BYTES_MAX, &work, &counters);
    assert_eq!(unbound(&std::fs::read_to_string(&path).unwrap()), "{\"gap_after\":0,\"gap_to\":1}\n{\"through\":2}\n");
    assert_eq!(last_index(&path), 2);
}

#[test]
fn records_that_could_not_be_written_become_a_gap() {
    let dir = process::testing::test_dir("audit-broken");
    let path = dir.path().join("missing").join("audit.log");
    let mut file = open(&path, BYTES_MAX);
    file.record(&record(1));
    std::fs::create_dir(dir.path().join("missing")).unwrap();
    file.record(&record(2));
    file.sync();
    let text = unbound(&read_last(&path, 10).unwrap());
    assert!(text.starts_with("{\"gap_after\":0,\"gap_to\":1}\n{\"index\":2,"), "{text}");
}

#[test]
fn the_log_of_a_restored_cluster_begins_with_the_recovery() {
    let dir = process::testing::test_dir("audit-begin");
    let path = dir.path().join("data.audit");
    let made = |index| ActionRecord { index, time_ms: 7, action: "cluster recover", subject: "old=1 new=2".into() };
    begin(&path, made(41)).unwrap();
    assert_eq!(last_index(&path), 41, "the first line has the index of the recovery");
    // The next records of the founder follow. The gap that the file already has is not written again.
    let mut file = open(&path, BYTES_MAX);
    file.gap(0, 41);
    file.record(&record(42));
    file.sync();
    let text = unbound(&std::fs::read_to_string(&path).unwrap());
    let lines: Vec<_> = text.lines().collect();
    let wanted = [
        "{\"gap_after\":0,\"gap_to\":40}",
        "{\"index\":41,\"time_ms\":7,\"action\":\"cluster recover\",\"subject\":\"old=1 new=2\"}",
    ];
    assert_eq!((lines.len(), &lines[..2]), (3, &wanted[..]));
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions()) & 0o777, 0o600);
    assert_eq!(begin(&path, made(50)).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert!(unbound(&std::fs::read_to_string(&path).unwrap()) == text, "the file was replaced");
}

#[test]
fn edits_and_removals_are_found_in_all_files() {
    let dir = process::testing::test_dir("audit-chain");
    let path = dir.path().join("data.audit");
    // A line of older software, which wrote no digests.
    std::fs::write(&path, "{\"through\":1}\n").unwrap();
    // The files are small, so that there are several, and each round is a restart.
    for first in [2, 30, 60] {
        let mut file = open(&path, 8 * 4_000);
        (first..first + 28).for_each(|index| file.record(&record(index)));
        file.sync();
    }
    let files = files_of(&path);
    assert!(files.len() > 3 && files.last() == Some(&path), "{files:?}");
    let whole = verify(&files, None).unwrap();
    assert_eq!((whole.lines, whole.unbound, whole.has_begin, whole.is_cut), (84, 1, false, false));
    assert!(verify(&files, whole.last).unwrap().has_noted && !verify(&files, Some([7; 32])).unwrap().has_noted);
    // The oldest file may be missing.
    assert_eq!(verify(&files[1..], None).unwrap().unbound, 0);
    let middle = &files[1];
    let text = std::fs::read_to_string(middle).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let changed = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let edited = text.replacen("192.0.2.7", "192.0.2.8", 1);
    let removed = changed(&[&lines[..1], &lines[2..]].concat());
    let swapped = changed(&[&[lines[1], lines[0]][..], &lines[2..]].concat());
    let added = changed(&[&lines[..1], &lines[..1], &lines[1..]].concat());
    let unbound_line = text.replacen(&format!("{}\n", lines[1]), "{\"through\":9}\n", 1);
    let short = changed(&lines[..lines.len() - 1]);
    for (what, other) in [
        ("edited", edited),
        ("removed", removed),
        ("swapped", swapped),
        ("added", added),
        ("unbound", unbound_line),
        ("short", short),
        ("part of a line", text[..text.len() - 3].to_owned()),
        ("no line", format!("hello\n{text}")),
    ] {
        std::fs::write(middle, other).unwrap();
        assert!(verify(&files, None).is_err(), "{what}");
    }
    std::fs::write(middle, &text).unwrap();
    assert!(verify(&files, None).is_ok());
    std::fs::remove_file(middle).unwrap();
    assert!(verify(&files_of(&path), None).is_err(), "a missing file");
    // A removed end is found only because a digest was noted before.
    let last = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &last[..last.trim_end().rfind('\n').unwrap() + 1]).unwrap();
    assert!(!verify(&files[2..], whole.last).unwrap().has_noted);
}

#[test]
fn refused_requests_have_a_line() {
    let dir = process::testing::test_dir("audit-refused");
    let path = dir.path().join("data.audit");
    let counters = Arc::<AuditCounters>::default();
    let (queue, work) = AuditQueue::new(0, counters.clone());
    let refusals = RefusedLog::default();
    let attempt = || Attempt {
        time_ms: 7,
        reason: "not_granted",
        what: "update",
        key: Some("dhcp.".parse().unwrap()),
        source: "192.0.2.7".parse().unwrap(),
        zone: Some("example.org.".parse().unwrap()),
        names: AuditNames { names: vec![("www.example.org.".parse().unwrap(), Rtype(65_280))], has_more: true },
    };
    refusals.note(ClientKind::Verified, attempt);
    refusals.connect(queue.refusals());
    (0..500).for_each(|_| refusals.note(ClientKind::Unverified, attempt));
    refusals.note(ClientKind::Verified, attempt);
    refusals.disconnect();
    refusals.note(ClientKind::Verified, attempt);
    drop(queue);
    // It ends, because all senders are dropped.
    run(&path, BYTES_MAX, &work, &counters);
    let text = unbound(&std::fs::read_to_string(&path).unwrap());
    let lines: Vec<_> = text.lines().collect();
    assert!((20..30).contains(&(lines.len() - 1)), "{} lines of unverified clients", lines.len() - 1);
    let wanted = "{\"after\":0,\"time_ms\":7,\"refused\":\"not_granted\",\"attempt\":\"update\",\"key\":\"dhcp.\",\
                  \"source\":\"192.0.2.7\",\"zone\":\"example.org.\",\
                  \"names\":[\"www.example.org. TYPE65280\"],\"more\":true}";
    assert_eq!(*lines.last().unwrap(), wanted);
    assert_eq!(verify(&files_of(&path), None).unwrap().lines, lines.len() as u64);
    assert_eq!((last_index(&path), counters.waiting.get()), (0, 0));
}
