//! A thread with the lowest priority (`SCHED_IDLE`) that notifies another thread when it runs, that is, when the
//! machine is idle.
//!
//! It does nothing else. On busy cores it may not run for seconds, so it must hold nothing that others wait for: it
//! takes no lock, sends into no queue, and touches no memory first. The kernel locks that part of the address space
//! while it zeroes a page on first touch, and other threads would wait for that lock.

use crate::sys::priority::give_way_to_all;
use crate::threads::spawn;
use process::problem::Problem;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

const PARKED: u8 = 0;
const REQUESTED: u8 = 1;
const HAS_RUN: u8 = 2;
const STOPPED: u8 = 3;

/// A handle to the thread.
pub(crate) struct IdleThread {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    state: AtomicU8,
    /// The thread to notify.
    requester: OnceLock<Thread>,
}

impl IdleThread {
    pub(crate) fn start() -> Result<Self, Problem> {
        let shared = Arc::<Shared>::default();
        let own = shared.clone();
        let thread = spawn("idle".into(), move || own.work())?.thread().clone();
        Ok(Self { shared, thread })
    }

    /// Requests a notification: the calling thread is unparked when the idle thread runs, and [`Self::has_run`] then
    /// returns true. Only one thread may call this.
    pub(crate) fn request(&self) {
        self.shared.requester.get_or_init(thread::current);
        self.shared.state.store(REQUESTED, Ordering::Release);
        self.thread.unpark();
    }

    /// Whether the idle thread has run since the request. Returns true once per request.
    pub(super) fn has_run(&self) -> bool {
        self.shared.state.compare_exchange(HAS_RUN, PARKED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Does not wait for the thread: it exits the next time it runs.
impl Drop for IdleThread {
    fn drop(&mut self) {
        self.shared.state.store(STOPPED, Ordering::Release);
        self.thread.unpark();
    }
}

impl Shared {
    fn work(&self) {
        give_way_to_all();
        loop {
            match self.state.compare_exchange(REQUESTED, HAS_RUN, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if let Some(requester) = self.requester.get() {
                        requester.unpark();
                    }
                }
                Err(STOPPED) => return,
                Err(_) => thread::park(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn each_request_is_notified_once_and_the_thread_ends_with_its_handle() {
        let idle = IdleThread::start().unwrap();
        assert!(!idle.has_run());
        for _ in 0..3 {
            idle.request();
            let begin = Instant::now();
            while !idle.has_run() {
                assert!(begin.elapsed() < Duration::from_secs(60), "the idle thread did not run");
                thread::park_timeout(Duration::from_millis(10));
            }
            assert!(!idle.has_run(), "requested once");
        }
        let shared = Arc::downgrade(&idle.shared);
        drop(idle);
        let begin = Instant::now();
        while shared.strong_count() > 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "the thread did not exit");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
