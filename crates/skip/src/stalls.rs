//! Stalls of this machine. A shared machine has them: for a while no thread runs, or its disk is busy.
//!
//! Tests that judge times or elections start a [`StallWatch`] first, and judge nothing after a stall.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between two looks at the clock.
const INTERVAL: Duration = Duration::from_millis(5);
/// The shortest stall that counts. If a leader does not run for this long, the others may elect another one. Readers
/// keep memory for as long.
const STALL_MIN: Duration = Duration::from_millis(150);
/// Interval between two writes to the disk.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);
/// The shortest stall of the disk that counts. A leader whose writes take longer hands over.
const DISK_STALL_MIN: Duration = Duration::from_millis(300);

/// Threads that look at the clock, and write to the disk, while a test runs. Dropping it ends them.
pub struct StallWatch {
    is_over: Arc<AtomicBool>,
    watched: Vec<Watched>,
}

struct Watched {
    what: &'static str,
    shortest: Duration,
    longest_us: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl StallWatch {
    /// Watches the cores. A stall counts from 150 ms on.
    pub fn start() -> Self {
        Self::with_shortest(STALL_MIN)
    }

    /// The same, but a stall of the cores counts from `shortest` on. This must be longer than a few milliseconds.
    pub fn with_shortest(shortest: Duration) -> Self {
        let mut watch = Self { is_over: Arc::default(), watched: Vec::new() };
        watch.add("this machine", shortest, |is_over, longest_us| {
            let mut last = Instant::now();
            while !is_over.load(Relaxed) {
                std::thread::sleep(INTERVAL);
                longest_us.fetch_max(last.elapsed().as_micros() as u64, Relaxed);
                last = Instant::now();
            }
        });
        watch
    }

    /// Also watches the disk with this folder: writes a small file again and again until it is on the disk.
    pub fn and_disk(mut self, folder: &Path) -> Self {
        let path = folder.join("stall-watch");
        self.add("the disk", DISK_STALL_MIN, move |is_over, longest_us| {
            // A test that removes the folder, or fills the disk, has no watch from then on.
            let Ok(mut file) = File::create(&path) else { return };
            while !is_over.load(Relaxed) {
                let begin = Instant::now();
                if file.rewind().and_then(|()| file.write_all(b"x")).and_then(|()| file.sync_data()).is_err() {
                    break;
                }
                longest_us.fetch_max(begin.elapsed().as_micros() as u64, Relaxed);
                std::thread::sleep(WRITE_INTERVAL);
            }
            let _removed = std::fs::remove_file(&path);
        });
        self
    }

    fn add(
        &mut self,
        what: &'static str,
        shortest: Duration,
        watch: impl FnOnce(&AtomicBool, &AtomicU64) + Send + 'static,
    ) {
        let (is_over, longest_us) = (Arc::clone(&self.is_over), Arc::<AtomicU64>::default());
        let thread = std::thread::spawn({
            let longest_us = Arc::clone(&longest_us);
            move || watch(&is_over, &longest_us)
        });
        self.watched.push(Watched { what, shortest, longest_us, thread: Some(thread) });
    }

    /// The longest stall so far, if it was so long that the program under test cannot be blamed. The test then reports
    /// that `what` was not checked.
    pub fn stall(&self, what: &str) -> Option<Duration> {
        let mut found = None;
        for watched in &self.watched {
            let longest = Duration::from_micros(watched.longest_us.load(Relaxed));
            println!("the longest stall of {}: {longest:?}", watched.what);
            if longest >= watched.shortest && found.is_none() {
                crate::platform(format_args!("{what}: {} stalled for {longest:?}", watched.what));
                found = Some(longest);
            }
        }
        found
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for watched in &mut self.watched {
            if let Some(thread) = watched.thread.take() {
                let _ended = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_from_the_shortest_on_is_reported() {
        let folder = std::env::temp_dir().join(format!("catamaran-stalls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // Every pause of the watch is longer than this.
        let short = StallWatch::with_shortest(Duration::from_millis(1));
        let long = StallWatch::with_shortest(Duration::from_secs(3_600)).and_disk(&folder);
        std::thread::sleep(Duration::from_millis(200));
        assert!(short.stall("a test").is_some_and(|stall| stall >= INTERVAL));
        assert!(long.watched.iter().all(|watched| watched.longest_us.load(Relaxed) > 0));
        drop(long);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
