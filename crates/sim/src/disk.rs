//! The disk of one member. Each operation of a job takes time, and power may fail at any moment.

use crate::rng::Rng;
use replica::disk::{DiskError, DiskJob, DiskOp, DiskQueue, DiskRead, ReadFile};
use replica::testing::{Durable, MemoryDisk};
use std::cell::Cell;
use std::collections::VecDeque;

/// The speed of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Shortest and longest time of a sync, in microseconds.
    pub sync_us: (u64, u64),
    /// Share of slow syncs, in parts of a million.
    pub slow_ppm: u64,
    /// Longest time of a slow sync.
    pub slow_max_us: u64,
    /// Shortest and longest time of any other operation, and of a read.
    pub other_us: (u64, u64),
    /// Time between two attempts of an operation on a full disk.
    pub full_retry_us: u64,
}

impl Default for DiskConfig {
    /// A good disk: a sync takes 0.2 to 2 ms.
    fn default() -> Self {
        Self { sync_us: (200, 2_000), slow_ppm: 0, slow_max_us: 0, other_us: (1, 50), full_retry_us: 500_000 }
    }
}

impl DiskConfig {
    /// A disk with the random speed of a seed.
    pub fn random(rng: &mut Rng) -> Self {
        let fastest = rng.between(50, 500);
        Self {
            sync_us: (fastest, rng.between(fastest, 10_000)),
            slow_ppm: rng.below(20_000),
            slow_max_us: rng.between(10_000, 200_000),
            other_us: (1, rng.between(1, 500)),
            ..Self::default()
        }
    }

    /// A disk on which every operation ends at once. If the disk is full, the operation is retried after this time.
    #[must_use]
    pub const fn immediate(full_retry_us: u64) -> Self {
        Self { sync_us: (0, 0), slow_ppm: 0, slow_max_us: 0, other_us: (0, 0), full_retry_us }
    }
}

/// An operation in progress. The simulator schedules an event for its end and passes it to [`SimDisk::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// When it ends, in microseconds.
    pub at_us: u64,
    /// The queue, or the reads, that it belongs to.
    line: Line,
    /// The power count at its start. An operation from before a crash never ends.
    power: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Queue(DiskQueue),
    Read(u64),
}

/// The result of a [`Pending`] operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// A job is done: `Input::Persisted`.
    Job {
        /// Its queue.
        queue: DiskQueue,
        /// Its ticket.
        ticket: u64,
        /// Whether the job waited for room. If so, `Input::DiskRoom` comes first.
        waited: bool,
    },
    /// A read is done: `Input::FileRead`.
    Read {
        /// Its ticket.
        ticket: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The disk reported an error for a read, and the process exits.
    ReadFailed,
    /// One operation of a job is done, or an operation from before a crash was dropped.
    Step,
    /// A job starts to wait for room: `Input::DiskFull`.
    Full(DiskQueue),
}

/// The disk of one member.
#[derive(Debug)]
pub struct SimDisk {
    disk: MemoryDisk,
    config: DiskConfig,
    rng: Rng,
    /// Waiting jobs, one list per queue. The first job is in progress.
    log: Work,
    bulk: Work,
    reads: Vec<ReadFile>,
    /// No operation ends before this time.
    hung_until_us: u64,
    /// No file can grow before this time.
    full_until_us: u64,
    /// Number of power losses.
    power: u64,
    lost_crashes: u64,
    /// Number of the next reads that fail.
    failing_reads: Cell<u32>,
    /// The durable contents at the time of the last snapshot.
    snapshot: Option<MemoryDisk>,
}

#[derive(Debug, Default)]
struct Work {
    jobs: VecDeque<DiskJob>,
    /// Number of completed operations of the first job.
    done: usize,
    is_busy: bool,
    /// The first job is waiting for room, or has waited.
    waits_for_room: bool,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(config: DiskConfig, rng: Rng) -> Self {
        Self {
            disk: MemoryDisk::default(),
            config,
            rng,
            log: Work::default(),
            bulk: Work::default(),
            reads: Vec::new(),
            hung_until_us: 0,
            full_until_us: 0,
            power: 0,
            lost_crashes: 0,
            failing_reads: Cell::new(0),
            snapshot: None,
        }
    }

    /// The contents as a process sees them.
    #[must_use]
    pub const fn contents(&self) -> &MemoryDisk {
        &self.disk
    }

    /// The contents, for a start, and for faults that tests cause directly.
    pub const fn contents_mut(&mut self) -> &mut MemoryDisk {
        &mut self.disk
    }

    /// Whether no change waits for a sync.
    pub fn is_synced(&self) -> bool {
        self.disk.is_synced()
    }

    /// Number of crashes that lost unsynced data, so that a process sees other bytes or names than before.
    pub fn lost_crashes(&self) -> u64 {
        self.lost_crashes
    }

    /// The contents after the worst crash: only synced data.
    pub const fn without_unsynced(&self) -> Durable<'_> {
        self.disk.durable()
    }

    /// Makes the next reads fail, at a start and while the process runs.
    pub fn fail_reads(&mut self, count: u32) {
        self.failing_reads.set(count);
    }

    /// Keeps the current durable contents, for [`SimDisk::roll_back`].
    pub fn take_snapshot(&mut self) {
        let mut snapshot = self.disk.clone();
        snapshot.crash(&mut |_| 0);
        self.snapshot = Some(snapshot);
    }

    /// Returns the kept contents, if any.
    pub const fn snapshot(&self) -> Option<&MemoryDisk> {
        self.snapshot.as_ref()
    }

    /// Restores the kept contents, if any. No process may be running.
    pub fn roll_back(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.disk = snapshot;
        }
    }

    /// Adds a job.
    pub fn submit(&mut self, job: DiskJob) {
        self.work(job.queue).jobs.push_back(job);
    }

    /// Adds a read, and returns the pending operation.
    pub fn read_later(&mut self, now_us: u64, read: ReadFile) -> Pending {
        let ticket = read.ticket;
        self.reads.push(read);
        let (low, high) = self.config.other_us;
        let at_us = self.hung_until_us.max(now_us) + self.rng.between(low, high);
        Pending { at_us, line: Line::Read(ticket), power: self.power }
    }

    /// Starts the next operation of a queue without one in progress. Called until it returns `None`, after each
    /// [`SimDisk::submit`] and [`SimDisk::finish`].
    pub fn begin(&mut self, now_us: u64) -> Option<Pending> {
        let queue = [DiskQueue::Log, DiskQueue::Bulk].into_iter().find(|queue| {
            let work = self.work(*queue);
            !work.is_busy && !work.jobs.is_empty()
        })?;
        let work = self.work(queue);
        work.is_busy = true;
        let is_sync = matches!(work.jobs[0].ops.get(work.done), Some(DiskOp::Sync { .. } | DiskOp::SyncDir));
        let (low, high) = if is_sync { self.config.sync_us } else { self.config.other_us };
        let mut takes_us = self.rng.between(low, high);
        if is_sync && self.rng.happens(self.config.slow_ppm) {
            takes_us = self.rng.between(takes_us, self.config.slow_max_us.max(takes_us));
        }
        if self.work(queue).waits_for_room && self.full_until_us > now_us {
            takes_us = takes_us.max(self.config.full_retry_us);
        }
        let at_us = self.hung_until_us.max(now_us) + takes_us;
        Some(Pending { at_us, line: Line::Queue(queue), power: self.power })
    }

    /// Ends a [`Pending`] operation, at its time.
    ///
    /// # Panics
    /// If a read names a file that does not exist. The replica keeps files until it has read them.
    pub fn finish(&mut self, pending: Pending) -> Finished {
        if pending.power != self.power {
            return Finished::Step;
        }
        match pending.line {
            Line::Read(ticket) => {
                let position = self.reads.iter().position(|read| read.ticket == ticket).expect("it was taken");
                let read = self.reads.swap_remove(position);
                if self.read_fails() {
                    return Finished::ReadFailed;
                }
                let bytes = self.disk.read(&read.file, read.offset, read.len).unwrap_or_else(|error| panic!("{error}"));
                Finished::Read { ticket, bytes }
            }
            Line::Queue(queue) => self.finish_op(queue, pending.at_us),
        }
    }

    /// Makes the disk hang: operations that start now do not end within this many microseconds. Operations in progress
    /// are not delayed.
    pub fn hang(&mut self, now_us: u64, for_us: u64) {
        self.hung_until_us = self.hung_until_us.max(now_us.saturating_add(for_us));
    }

    /// Makes the disk full: no file can grow for this many microseconds.
    pub fn fill(&mut self, now_us: u64, for_us: u64) {
        self.full_until_us = self.full_until_us.max(now_us.saturating_add(for_us));
    }

    /// Makes room again.
    pub fn make_room(&mut self) {
        self.full_until_us = 0;
    }

    /// Whether it hangs now.
    pub fn hangs(&self, now_us: u64) -> bool {
        self.hung_until_us > now_us
    }

    /// Cuts the power: jobs, reads and part of the unsynced data are lost.
    pub fn crash(&mut self) {
        let rng = &mut self.rng;
        let is_changed = self.disk.crash(&mut |bound| rng.below(bound));
        self.lost_crashes += u64::from(is_changed);
        self.stop();
    }

    /// Kills the process: jobs and reads are lost. Written data remains, synced or not.
    pub fn kill(&mut self) {
        self.stop();
    }

    /// The process dies because syncs of some files failed. Their unsynced data can be read as before, but later syncs
    /// do not write it.
    pub fn fail_syncs(&mut self) {
        for file in self.disk.unsynced() {
            if self.rng.happens(500_000) {
                let rng = &mut self.rng;
                self.disk.fail_sync(&file, &mut |bound| rng.below(bound));
            }
        }
        self.stop();
    }

    fn stop(&mut self) {
        self.power += 1;
        (self.log, self.bulk) = (Work::default(), Work::default());
        self.reads.clear();
        self.hung_until_us = 0;
    }

    fn finish_op(&mut self, queue: DiskQueue, now_us: u64) -> Finished {
        let work = self.work(queue);
        work.is_busy = false;
        let job = work.jobs.front().expect("it was begun");
        let (op, is_last) = (job.ops.get(work.done).cloned(), work.done + 1 >= job.ops.len());
        if op.as_ref().is_some_and(|op| !self.has_room(op, now_us)) {
            let waits = std::mem::replace(&mut self.work(queue).waits_for_room, true);
            return if waits { Finished::Step } else { Finished::Full(queue) };
        }
        let work = self.work(queue);
        work.done += 1;
        let mut finished = Finished::Step;
        if is_last {
            work.done = 0;
            let waited = std::mem::take(&mut work.waits_for_room);
            let job = work.jobs.pop_front().expect("it was begun");
            finished = Finished::Job { queue, ticket: job.ticket, waited };
        }
        op.iter().for_each(|op| self.disk.execute(op));
        finished
    }

    fn has_room(&mut self, op: &DiskOp, now_us: u64) -> bool {
        self.disk.set_capacity((self.full_until_us > now_us).then_some(0));
        let has_room = self.disk.has_room(op);
        self.disk.set_capacity(None);
        has_room
    }

    fn read_fails(&self) -> bool {
        let failing = self.failing_reads.get();
        self.failing_reads.set(failing.saturating_sub(1));
        failing > 0
    }

    fn work(&mut self, queue: DiskQueue) -> &mut Work {
        match queue {
            DiskQueue::Log => &mut self.log,
            DiskQueue::Bulk => &mut self.bulk,
        }
    }
}

impl DiskRead for SimDisk {
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        self.disk.list()
    }

    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        if self.read_fails() {
            return Err(DiskError::Failed { file: file.into(), reason: "Input/output error (os error 5)".into() });
        }
        self.disk.read(file, offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Events;

    fn job(queue: DiskQueue, ticket: u64, file: &str) -> DiskJob {
        let file = file.to_string();
        let ops = vec![
            DiskOp::Create { file: file.clone(), zeroed_bytes: 0 },
            DiskOp::Write { file: file.clone(), offset: 0, data: vec![ticket as u8; 1024] },
            DiskOp::Sync { file },
            DiskOp::SyncDir,
        ];
        DiskJob { queue, ticket, ops }
    }

    /// Runs a disk until nothing is pending or until `until_us`. Returns the results with their times.
    fn run(disk: &mut SimDisk, events: &mut Events<Pending>, until_us: u64) -> Vec<(u64, Finished)> {
        let mut finished = Vec::new();
        loop {
            while let Some(pending) = disk.begin(events.now_us()) {
                events.at(pending.at_us, pending);
            }
            if events.next_us().is_none_or(|next| next > until_us) {
                return finished;
            }
            let pending = events.next_event().unwrap();
            match disk.finish(pending) {
                Finished::Step => {}
                done => finished.push((events.now_us(), done)),
            }
        }
    }

    #[test]
    fn jobs_of_a_queue_end_in_order_and_queues_run_side_by_side() {
        let mut disk = SimDisk::new(DiskConfig::default(), Rng::new(1));
        for ticket in 1..=6 {
            let queue = if ticket % 2 == 0 { DiskQueue::Bulk } else { DiskQueue::Log };
            disk.submit(job(queue, ticket, &format!("f{ticket}")));
        }
        let mut events = Events::default();
        let finished = run(&mut disk, &mut events, u64::MAX);
        let of = |wanted: DiskQueue| -> Vec<u64> {
            let tickets = finished.iter().filter_map(|(_, done)| match done {
                Finished::Job { queue, ticket, .. } if *queue == wanted => Some(*ticket),
                _ => None,
            });
            tickets.collect()
        };
        assert_eq!((of(DiskQueue::Log), of(DiskQueue::Bulk)), (vec![1, 3, 5], vec![2, 4, 6]));
        assert!(finished[0].0 >= 400, "two syncs take at least 0.4 ms");
        let pending = disk.read_later(events.now_us(), ReadFile { ticket: 9, file: "f3".into(), offset: 1020, len: 9 });
        assert_eq!(disk.finish(pending), Finished::Read { ticket: 9, bytes: vec![3; 4] });
    }

    #[test]
    fn a_job_that_finds_no_room_waits_and_is_done_once_there_is_room() {
        let mut disk = SimDisk::new(DiskConfig::default(), Rng::new(1));
        disk.fill(0, 3_000_000);
        disk.submit(job(DiskQueue::Log, 1, "a"));
        let finished = run(&mut disk, &mut Events::default(), u64::MAX);
        let done = Finished::Job { queue: DiskQueue::Log, ticket: 1, waited: true };
        assert_eq!(
            finished.iter().map(|(_, what)| what.clone()).collect::<Vec<_>>(),
            [Finished::Full(DiskQueue::Log), done]
        );
        assert!(finished[0].0 < 10_000 && (3_000_000..3_600_000).contains(&finished[1].0), "{finished:?}");
        assert_eq!(disk.read("a", 0, 4096).unwrap(), vec![1; 1024]);
    }

    #[test]
    fn a_hung_disk_answers_late() {
        let mut disk = SimDisk::new(DiskConfig::default(), Rng::new(1));
        disk.hang(0, 5_000_000);
        disk.submit(job(DiskQueue::Log, 1, "a"));
        let finished = run(&mut disk, &mut Events::default(), u64::MAX);
        assert!(finished[0].0 >= 5_000_000);
    }

    #[test]
    fn completed_jobs_survive_power_loss() {
        let (mut whole, mut gone) = (0, 0);
        for seed in 0..200 {
            let mut disk = SimDisk::new(DiskConfig::default(), Rng::new(seed));
            let mut events = Events::default();
            disk.submit(job(DiskQueue::Log, 1, "a"));
            let answered = !run(&mut disk, &mut events, seed * 25).is_empty();
            disk.crash();
            assert_eq!(run(&mut disk, &mut events, u64::MAX), [], "nothing begun before ends after");
            let bytes = disk.read("a", 0, 4096).unwrap_or_default();
            assert!(!answered || bytes == vec![1; 1024], "seed {seed}");
            whole += usize::from(bytes.len() == 1024);
            gone += usize::from(bytes.is_empty());
            assert!(disk.lost_crashes() <= 1);
        }
        assert!(whole > 20 && gone > 20, "{whole} {gone}");
    }

    #[test]
    fn a_disk_that_is_rolled_back_holds_what_was_durable_then() {
        let mut disk = SimDisk::new(DiskConfig::default(), Rng::new(1));
        let mut events = Events::default();
        disk.submit(job(DiskQueue::Log, 1, "a"));
        run(&mut disk, &mut events, u64::MAX);
        disk.submit(job(DiskQueue::Log, 2, "b"));
        disk.begin(events.now_us());
        disk.take_snapshot();
        disk.submit(job(DiskQueue::Log, 3, "a"));
        disk.kill();
        disk.roll_back();
        assert_eq!(disk.list().unwrap(), [("a".to_owned(), 1024)]);
        assert_eq!(disk.read("a", 0, 1).unwrap(), [1]);
        disk.fail_reads(1);
        assert!(matches!(disk.read("a", 0, 1), Err(DiskError::Failed { .. })));
        assert_eq!(disk.read("a", 0, 1).unwrap(), [1]);
    }

    #[test]
    fn a_kill_keeps_what_was_written() {
        let mut disk = SimDisk::new(DiskConfig::default(), Rng::new(1));
        let mut events = Events::default();
        disk.submit(job(DiskQueue::Log, 1, "a"));
        run(&mut disk, &mut events, 110);
        disk.kill();
        assert_eq!(disk.read("a", 0, 4096).unwrap(), vec![1; 1024]);
        assert_eq!((disk.lost_crashes(), disk.contents().is_synced()), (0, false));
    }
}
