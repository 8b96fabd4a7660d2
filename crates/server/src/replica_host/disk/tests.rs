//! The writer on a disk that works, on a full disk, and on a disk that fails.

use super::file::ZERO_BLOCK;
use super::wait_for_room::DISK_FULL_RETRY_MS;
use super::*;
use replica::disk::{DiskError, DiskQueue, DiskRead};

fn name(text: &str) -> String {
    text.to_owned()
}

#[test]
fn jobs_are_executed_in_order_and_read_back() {
    let dir = process::testing::test_dir("disk");
    let (send, receive) = std::sync::mpsc::channel();
    let ops = vec![
        DiskOp::Create { file: name("a"), zeroed_bytes: (ZERO_BLOCK + 5) as u64 },
        DiskOp::Write { file: name("a"), offset: 3, data: vec![1, 2, 3] },
        DiskOp::Zero { file: name("a"), offset: 4, bytes: 1 },
        DiskOp::Sync { file: name("a") },
        DiskOp::Rename { from: name("a"), to: name("b") },
        DiskOp::Write { file: name("b"), offset: (ZERO_BLOCK + 5) as u64, data: vec![9] },
        DiskOp::Remove { file: name("nothing") },
        DiskOp::SyncDir,
    ];
    send.send(DiskWork::Job(DiskJob { queue: DiskQueue::Log, ticket: 7, ops })).unwrap();
    send.send(DiskWork::Read(ReadFile { ticket: 8, file: name("b"), offset: 2, len: 5 })).unwrap();
    send.send(DiskWork::Read(ReadFile { ticket: 9, file: name("b"), offset: ZERO_BLOCK as u64 + 4, len: 99 })).unwrap();
    drop(send);
    let done = std::sync::Mutex::new(Vec::new());
    let times = Arc::new(DurationHistogram::default());
    Writer::new(dir.path(), times.clone()).run(&receive, |result| done.lock().unwrap().push(format!("{result:?}")));
    assert_eq!(*done.lock().unwrap(), ["Persisted(Log, 7)", "Read(8, [0, 1, 0, 3, 0])", "Read(9, [0, 9])"]);
    assert_eq!(times.count(), 1);
    let reads = StartReads::new(dir.path());
    assert_eq!(reads.list().unwrap(), [(name("b"), ZERO_BLOCK as u64 + 6)]);
    assert_eq!(reads.read("a", 0, 1), Err(DiskError::Missing { file: name("a") }));
    assert_eq!(reads.read("b", 1 << 40, 1 << 40).unwrap(), Vec::<u8>::new());
}

/// A job whose file has no room: its name is a link to `/dev/full`.
fn job_without_room(dir: &Path) -> DiskJob {
    std::os::unix::fs::symlink("/dev/full", dir.join("spare")).unwrap();
    let ops = vec![
        DiskOp::Create { file: name("spare"), zeroed_bytes: 4 },
        DiskOp::Write { file: name("spare"), offset: 1, data: vec![7] },
        DiskOp::Sync { file: name("spare") },
    ];
    DiskJob { queue: DiskQueue::Bulk, ticket: 3, ops }
}

#[test]
fn on_a_full_disk_a_job_waits_for_room_and_is_repeated() {
    let dir = process::testing::test_dir("disk-no-room");
    let (send, receive) = std::sync::mpsc::channel();
    let (report, reports) = std::sync::mpsc::channel();
    send.send(DiskWork::Job(job_without_room(dir.path()))).unwrap();
    let writer = Writer::new(dir.path(), Arc::default());
    let writer = std::thread::spawn(move || writer.run(&receive, |done| report.send(format!("{done:?}")).unwrap()));
    assert_eq!(reports.recv().unwrap(), "Full(Bulk)");
    send.send(DiskWork::Read(ReadFile { ticket: 4, file: name("spare"), offset: 0, len: 9 })).unwrap();
    let wait = Duration::from_millis(3 * DISK_FULL_RETRY_MS);
    assert!(reports.recv_timeout(wait).is_err(), "the report comes once, and later jobs wait");
    // A job that only removes files does not wait behind the job that needs their room; but it keeps its order.
    std::fs::write(dir.path().join("old"), "old").unwrap();
    let removal = |ticket, file: &str| {
        let ops = vec![DiskOp::Remove { file: name(file) }, DiskOp::SyncDir];
        DiskWork::Job(DiskJob { queue: DiskQueue::Bulk, ticket, ops })
    };
    send.send(removal(5, "old")).unwrap();
    assert!(reports.recv_timeout(wait).is_err() && dir.path().join("old").exists(), "it waits for the read");
    std::fs::remove_file(dir.path().join("spare")).unwrap();
    let rest: Vec<_> = (0..4).map(|_| reports.recv().unwrap()).collect();
    assert_eq!(rest, ["Room(Bulk)", "Persisted(Bulk, 3)", "Read(4, [0, 7, 0, 0])", "Persisted(Bulk, 5)"]);
    drop(send);
    writer.join().unwrap();
}

#[test]
fn a_removal_does_not_wait_behind_a_job_that_needs_its_room() {
    let dir = process::testing::test_dir("disk-removal");
    let (send, receive) = std::sync::mpsc::channel();
    let (report, reports) = std::sync::mpsc::channel();
    send.send(DiskWork::Job(job_without_room(dir.path()))).unwrap();
    for (ticket, file) in [(4, "old"), (5, "spare")] {
        let ops = vec![DiskOp::Remove { file: name(file) }, DiskOp::SyncDir];
        send.send(DiskWork::Job(DiskJob { queue: DiskQueue::Bulk, ticket, ops })).unwrap();
    }
    std::fs::write(dir.path().join("old"), "old").unwrap();
    let writer = Writer::new(dir.path(), Arc::default());
    let writer = std::thread::spawn(move || writer.run(&receive, |done| report.send(format!("{done:?}")).unwrap()));
    assert_eq!([reports.recv().unwrap(), reports.recv().unwrap()], ["Full(Bulk)", "Persisted(Bulk, 4)"]);
    assert!(!dir.path().join("old").exists());
    let wait = Duration::from_millis(2 * DISK_FULL_RETRY_MS);
    assert!(reports.recv_timeout(wait).is_err(), "the file of the waiting job is not removed before it");
    std::fs::remove_file(dir.path().join("spare")).unwrap();
    let rest: Vec<_> = (0..3).map(|_| reports.recv().unwrap()).collect();
    assert_eq!(rest, ["Room(Bulk)", "Persisted(Bulk, 3)", "Persisted(Bulk, 5)"]);
    drop(send);
    writer.join().unwrap();
}

#[test]
fn a_stop_does_not_wait_for_room() {
    let dir = process::testing::test_dir("disk-no-room-stop");
    let (send, receive) = std::sync::mpsc::channel();
    send.send(DiskWork::Job(job_without_room(dir.path()))).unwrap();
    drop(send);
    let reported = std::sync::Mutex::new(Vec::new());
    Writer::new(dir.path(), Arc::default()).run(&receive, |done| reported.lock().unwrap().push(format!("{done:?}")));
    assert_eq!(*reported.lock().unwrap(), ["Full(Bulk)"], "the job is never reported as done");
}

fn record(offset: u64, bytes: Vec<u8>) -> [DiskOp; 2] {
    [DiskOp::Write { file: name("log"), offset, data: bytes }, DiskOp::Sync { file: name("log") }]
}

#[test]
fn records_of_the_log_are_synced_as_they_are_written_and_readers_see_them() {
    let dir = process::testing::test_dir("disk-direct");
    let times = Arc::new(DurationHistogram::default());
    let mut writer = Writer::of_log(dir.path(), times.clone());
    writer.execute_all(&[DiskOp::Create { file: name("spare"), zeroed_bytes: 1 << 16 }]).unwrap();
    writer.execute_all(&[DiskOp::Rename { from: name("spare"), to: name("log") }]).unwrap();
    let is_unsynced = |writer: &Writer| writer.files["log"].is_unsynced;
    writer.execute_all(&record(512, vec![1; 512])).unwrap();
    assert_eq!(times.count(), 2, "the record, and the zeroes that were written before it");
    assert!(writer.files["log"].direct.is_some() && !is_unsynced(&writer));
    writer.execute_all(&record(1_024, vec![2; 1_024])).unwrap();
    assert_eq!(times.count(), 3, "nothing was left to sync");
    // A record of less than a block is written through the page cache, and then synced.
    writer.execute_all(&record(2_048, vec![3; 5])).unwrap();
    assert_eq!(times.count(), 4);
    writer.execute_all(&[DiskOp::Zero { file: name("log"), offset: 512, bytes: 1 }]).unwrap();
    assert!(is_unsynced(&writer));
    let bytes = StartReads::new(dir.path()).read("log", 0, 1 << 20).unwrap();
    let wanted = [vec![0; 513], vec![1; 511], vec![2; 1_024], vec![3; 5], vec![0; (1 << 16) - 2_053]].concat();
    assert!(bytes == wanted);
}

#[test]
fn without_o_direct_the_log_is_written_through_the_page_cache() {
    // /proc refuses O_DIRECT. It also refuses writes at an offset: this error shows that the writer tried one.
    let dir = PathBuf::from("/proc/thread-self");
    let mut writer = Writer::of_log(&dir, Arc::default());
    let write = DiskOp::Write { file: name("comm"), offset: 0, data: vec![b'a'; 512] };
    let error = writer.execute_all(&[write, DiskOp::Sync { file: name("comm") }]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotSeekable);
    assert!(writer.direct.is_none());
}

#[test]
fn a_checkpoint_is_renamed_after_the_audit_log_is_on_disk() {
    use crate::audit_log::{AuditQueue, AuditWork};
    let dir = process::testing::test_dir("disk-barrier");
    let (queue, work) = AuditQueue::new(0, Arc::default());
    let (send, receive) = std::sync::mpsc::channel();
    let create = DiskOp::Create { file: name("writing"), zeroed_bytes: 1 };
    let ops = vec![create, DiskOp::Rename { from: name("writing"), to: name("checkpoint") }];
    send.send(DiskWork::Job(DiskJob { queue: DiskQueue::Bulk, ticket: 1, ops })).unwrap();
    drop(send);
    let writer = Writer::of_checkpoints(dir.path(), Arc::default(), queue.barrier());
    let writer = std::thread::spawn(move || writer.run(&receive, |_| {}));
    let Ok(AuditWork::Sync(synced)) = work.recv() else { panic!("it does not ask") };
    std::thread::sleep(std::time::Duration::from_millis(50));
    let is_there = || dir.path().join("checkpoint").exists();
    assert!(!is_there() && !writer.is_finished());
    drop(synced);
    writer.join().unwrap();
    assert!(is_there());
    // Without its writer the audit log delays nothing.
    let barrier = queue.barrier();
    drop(work);
    barrier.wait();
}

/// Lets a writer execute one operation in a child process, which must abort. The test runs itself.
fn assert_aborts(test: &str, op: impl Fn(&Path) -> DiskOp) {
    const CHILD: &str = "CATAMARAN_TEST_FAILING_DISK";
    if let Some(dir) = std::env::var_os(CHILD) {
        let dir = PathBuf::from(dir);
        let (send, receive) = std::sync::mpsc::channel();
        send.send(DiskWork::Job(DiskJob { queue: DiskQueue::Log, ticket: 1, ops: vec![op(&dir)] })).unwrap();
        // A writer that does not fail ends here.
        drop(send);
        return Writer::new(&dir, Arc::default()).run(&receive, |_| println!("answered"));
    }
    let dir = process::testing::test_dir(test);
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("replica_host::disk::tests::{test}"), "--nocapture"])
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGABRT));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("answered"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the disk failed"));
}

#[test]
fn a_failed_write_aborts_the_process_without_an_answer() {
    assert_aborts("a_failed_write_aborts_the_process_without_an_answer", |_| DiskOp::Write {
        file: name("missing"),
        offset: 0,
        data: vec![1],
    });
}

#[test]
fn a_failed_sync_aborts_the_process_without_an_answer() {
    assert_aborts("a_failed_sync_aborts_the_process_without_an_answer", |dir| {
        // The kernel cannot sync a pipe: EINVAL is as good as EIO.
        assert!(std::process::Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap().success());
        DiskOp::Sync { file: name("pipe") }
    });
}

/// `O_DIRECT` passes the page cache only. `O_DSYNC` makes the disk write its own cache too.
#[test]
fn records_of_the_log_are_written_with_o_direct_and_o_dsync() {
    use std::os::fd::AsRawFd;
    let dir = process::testing::test_dir("disk-dsync");
    let mut writer = Writer::of_log(dir.path(), Arc::default());
    writer.execute_all(&[DiskOp::Create { file: name("log"), zeroed_bytes: 1 << 16 }]).unwrap();
    writer.execute_all(&record(4_096, vec![1; 4_096])).unwrap();
    let Some(direct) = &writer.files["log"].direct else {
        return skip::permission(format!("O_DIRECT in {}", dir.path().display()));
    };
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", direct.as_raw_fd())).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
    let flags = i32::from_str_radix(flags, 8).unwrap();
    let wanted = libc::O_DIRECT | libc::O_DSYNC;
    assert_eq!(flags & wanted, wanted, "{flags:o}");
}

/// The kernel cannot sync a directory of /proc. So the error shows that the writer tried to.
#[test]
fn a_directory_that_cannot_be_synced_is_an_error() {
    let error = Writer::new(Path::new("/proc/self"), Arc::default()).execute_all(&[DiskOp::SyncDir]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn names_stay_in_the_directory() {
    let dir = process::testing::test_dir("disk-names");
    for bad in ["", ".", "..", "../x", "a/b", "/etc/passwd"] {
        assert!(path(dir.path(), bad).is_err(), "{bad}");
    }
}
