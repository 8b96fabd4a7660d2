//! Stalls of this machine, during which no thread of a test or a node runs. A shared machine has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between two looks at the clock.
const INTERVAL: Duration = Duration::from_millis(5);
/// If a leader does not run for this long, the others may elect another one. Readers keep memory for as long.
const STALL_MIN: Duration = Duration::from_millis(150);

/// A thread that looks at the clock while a test runs.
pub(crate) struct StallWatch {
    is_over: Arc<AtomicBool>,
    longest_us: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl StallWatch {
    pub(crate) fn start() -> Self {
        let (is_over, longest_us) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let thread = std::thread::spawn({
            let (is_over, longest_us) = (Arc::clone(&is_over), Arc::clone(&longest_us));
            move || {
                let mut last = Instant::now();
                while !is_over.load(Relaxed) {
                    std::thread::sleep(INTERVAL);
                    longest_us.fetch_max(last.elapsed().as_micros() as u64, Relaxed);
                    last = Instant::now();
                }
            }
        });
        Self { is_over, longest_us, thread: Some(thread) }
    }

    /// The longest stall, if it was so long that the nodes cannot be blamed. The test then reports that `what` was not
    /// checked.
    pub(crate) fn stall(&self, what: &str) -> Option<Duration> {
        let longest = Duration::from_micros(self.longest_us.load(Relaxed));
        println!("the longest stall of this machine: {longest:?}");
        let stall = (longest >= STALL_MIN).then_some(longest);
        if stall.is_some() {
            skip::platform(format_args!("{what}: this machine stalled for {longest:?}"));
        }
        stall
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
