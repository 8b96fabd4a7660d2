//! Once a week, slowly reads all of the node's log and checkpoints, and compares them with their checksums. If damage
//! is found while the other nodes are intact, a restart of this node repairs it.

use super::disk::StartReads;
use super::room::is_out_of_descriptors;
use crate::limits::{SCRUB_BYTES_PER_SECOND, SCRUBBED_BYTES_MAX};
use crate::sys::disk::forget_cached;
use crate::sys::priority::give_way_to_all;
use config::files::layout::scrubbed_of;
use config::files::{Readers, read_bounded, write_atomic};
use metrics_text::{Kind, Page};
use process::stop::Stop;
use replica::disk::{DiskError, DiskRead};
use replica::scrub::{Finding, check_file};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Divisor of the interval: the maximum random delay of a scrub, so that the nodes do not all read at the same time.
const SCRUB_JITTER_SHARE: u64 = 7;
/// Pause before damaged data is checked again, because the file may have been in use.
const SCRUB_AGAIN_MS: u64 = 2_000;
/// Interval between checks whether the next scrub is due.
const SCRUB_LOOK_MS: u64 = 1_000;

/// The results of the scrub.
#[derive(Default, Debug)]
pub(crate) struct ScrubCounters {
    last_success_s: AtomicU64,
    read_bytes: AtomicU64,
    damaged: AtomicU64,
}

impl ScrubCounters {
    pub(crate) fn write(&self, page: &mut Page) {
        let help = "Time of the last scrub that found no damage, in seconds since 1970; 0: never.";
        let last = self.last_success_s.load(Relaxed);
        page.single("catamaran_scrub_last_success_timestamp_seconds", Kind::Gauge, help, last);
        let help = "Bytes read by the current or the last scrub.";
        page.single("catamaran_scrub_read_bytes", Kind::Gauge, help, self.read_bytes.load(Relaxed));
        let help = "Damaged places found by the last scrub.";
        page.single("catamaran_scrub_damaged_places", Kind::Gauge, help, self.damaged.load(Relaxed));
    }
}

/// Reads the directory of a replica at intervals.
pub(crate) struct Scrub {
    pub(crate) dir: PathBuf,
    pub(crate) interval: Duration,
    /// Determines the delay of this node, so that the nodes of a cluster do not scrub at the same time.
    pub(crate) seed: u64,
    pub(crate) counters: Arc<ScrubCounters>,
    pub(crate) stop: Stop,
}

impl Scrub {
    /// Runs until it is stopped.
    pub(crate) fn run(self) {
        give_way_to_all();
        let last_s = self.read_last();
        self.counters.last_success_s.store(last_s, Relaxed);
        let jitter_s = self.seed % (self.interval.as_secs() / SCRUB_JITTER_SHARE).max(1);
        // A node without any scrub so far soon starts its first.
        let mut due_s = if last_s == 0 { now_s() } else { last_s + self.interval.as_secs() }.saturating_add(jitter_s);
        while !self.stop.is_ordered() {
            // A clock that was set back delays the scrub by at most the interval.
            due_s = due_s.min(now_s() + self.interval.as_secs() + jitter_s);
            if now_s() < due_s {
                self.stop.wait(Duration::from_millis(SCRUB_LOOK_MS));
                continue;
            }
            due_s = now_s() + self.interval.as_secs();
            if self.pass() {
                self.counters.last_success_s.store(now_s(), Relaxed);
                if let Err(error) =
                    write_atomic(&scrubbed_of(&self.dir), now_s().to_string().as_bytes(), Readers::Owner)
                {
                    tracing::warn!(%error, "cannot save the time of the scrub (data.scrubbed)");
                }
            }
        }
    }

    /// Reads everything once. Returns whether it read all files and found no damage.
    fn pass(&self) -> bool {
        self.counters.read_bytes.store(0, Relaxed);
        let mut damaged = 0;
        let disk = SlowReads { inner: StartReads::new(&self.dir), scrub: self };
        let Ok(mut files) = disk.list() else { return false };
        files.sort();
        for (file, _) in files {
            let found = self.look(&disk, &file);
            if self.stop.is_ordered() {
                return false;
            }
            for what in &found {
                tracing::error!(
                    what,
                    "the disk has damaged the node's data. Restart this node while the other nodes run: it fetches the \
                     part from them. Then check the disk"
                );
            }
            damaged += found.len() as u64;
            // The metric decreases only after a complete scrub.
            self.counters.damaged.fetch_max(damaged, Relaxed);
        }
        let read_bytes = self.counters.read_bytes.load(Relaxed);
        self.counters.damaged.store(damaged, Relaxed);
        tracing::info!(read_bytes, damaged, "read the log and checkpoints");
        damaged == 0
    }

    /// Damage that is found twice, with a pause between. The file may have been written or recycled meanwhile.
    fn look(&self, disk: &SlowReads<'_>, file: &str) -> Vec<String> {
        let first = found(check_file(disk, file));
        if first.is_empty() {
            return first;
        }
        self.stop.wait(Duration::from_millis(SCRUB_AGAIN_MS));
        let again = found(check_file(disk, file));
        first.into_iter().filter(|what| again.contains(what)).collect()
    }

    fn read_last(&self) -> u64 {
        let bytes = read_bounded(&scrubbed_of(&self.dir), SCRUBBED_BYTES_MAX).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().parse().unwrap_or(0)
    }
}

fn found(checked: Result<Vec<Finding>, DiskError>) -> Vec<String> {
    match checked {
        Ok(found) => found.iter().map(ToString::to_string).collect(),
        // This checkpoint or segment was removed because it is no longer needed.
        Err(DiskError::Missing { .. }) => Vec::new(),
        Err(error) => vec![error.to_string()],
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Reads from the disk and not from memory, at a limited rate.
struct SlowReads<'s> {
    inner: StartReads,
    scrub: &'s Scrub,
}

impl SlowReads<'_> {
    /// Opens a file. If too many files are open, this says nothing about the disk, so it waits.
    fn open(&self, file: &str) -> io::Result<File> {
        loop {
            match File::open(Path::new(&self.scrub.dir).join(file)) {
                Err(error) if is_out_of_descriptors(&error) && !self.scrub.stop.is_ordered() => {
                    self.scrub.stop.wait(Duration::from_millis(SCRUB_LOOK_MS));
                }
                opened => return opened,
            }
        }
    }
}

impl DiskRead for SlowReads<'_> {
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        self.inner.list()
    }

    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        if self.scrub.stop.is_ordered() {
            return Err(DiskError::Missing { file: file.to_owned() });
        }
        match self.open(file) {
            Ok(opened) => forget_cached(&opened, offset, len),
            Err(_) if self.scrub.stop.is_ordered() => return Err(DiskError::Missing { file: file.to_owned() }),
            // The read below reports it.
            Err(_) => {}
        }
        let bytes = self.inner.read(file, offset, len)?;
        self.scrub.counters.read_bytes.fetch_add(bytes.len() as u64, Relaxed);
        let pause_us = bytes.len() as u64 * 1_000_000 / SCRUB_BYTES_PER_SECOND;
        self.scrub.stop.wait(Duration::from_micros(pause_us));
        Ok(bytes)
    }
}
