//! The thread that gives way to all others, and tells another one when it runs.
//!
//! It does nothing else. Whoever waits for it waits until nobody else wants to run, which on busy cores can be seconds:
//! so it holds nothing that others wait for. It takes no lock, sends into no queue, and comes to no memory first: the
//! kernel keeps a lock on that part of the address space until a page that is touched for the first time is zeroed, and
//! who changes something about that part waits for it.

use super::system::give_way_to_all;
use super::threads::spawn;
use crate::problem::Problem;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

const AT_REST: u8 = 0;
const ASKED: u8 = 1;
const HAS_RUN: u8 = 2;
const OVER: u8 = 3;

/// The thread, from the side of the one that asks it.
pub(super) struct IdleThread {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    state: AtomicU8,
    /// Who asks.
    asks: OnceLock<Thread>,
}

impl IdleThread {
    pub(super) fn start() -> Result<Self, Problem> {
        let shared = Arc::<Shared>::default();
        let own = shared.clone();
        let thread = spawn("idle".into(), move || own.work())?.thread().clone();
        Ok(Self { shared, thread })
    }

    /// Has this thread unparked when that one runs; then [`Self::has_run`] says so. Always asked by the same thread.
    pub(super) fn ask(&self) {
        self.shared.asks.get_or_init(thread::current);
        self.shared.state.store(ASKED, Ordering::Release);
        self.thread.unpark();
    }

    /// Whether it has run since it was asked; says so once.
    pub(super) fn has_run(&self) -> bool {
        self.shared.state.compare_exchange(HAS_RUN, AT_REST, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// The thread is not waited for: it ends when it runs.
impl Drop for IdleThread {
    fn drop(&mut self) {
        self.shared.state.store(OVER, Ordering::Release);
        self.thread.unpark();
    }
}

impl Shared {
    fn work(&self) {
        give_way_to_all();
        loop {
            match self.state.compare_exchange(ASKED, HAS_RUN, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if let Some(asks) = self.asks.get() {
                        asks.unpark();
                    }
                }
                Err(OVER) => return,
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
    fn it_says_each_time_that_it_has_run_and_ends_with_who_asks() {
        let idle = IdleThread::start().unwrap();
        assert!(!idle.has_run());
        for _ in 0..3 {
            idle.ask();
            let begin = Instant::now();
            while !idle.has_run() {
                assert!(begin.elapsed() < Duration::from_secs(60), "it gets no core");
                thread::park_timeout(Duration::from_millis(10));
            }
            assert!(!idle.has_run(), "it was asked once");
        }
        let shared = Arc::downgrade(&idle.shared);
        drop(idle);
        let begin = Instant::now();
        while shared.strong_count() > 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "it does not end");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
