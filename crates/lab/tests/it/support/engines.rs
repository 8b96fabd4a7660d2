//! Limits the number of load engines that run at the same time.

use skip::stalls::StallWatch;
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// With more engines, queries leave late on two cores, and runs become invalid.
const ENGINES_MAX: usize = 3;

/// `catlab` counts a query in the second in which it was sent. A stall as short as this moves queries to the next one.
const MOVING_STALL: Duration = Duration::from_millis(50);

/// Number of running engines.
static RUNNING: Mutex<usize> = Mutex::new(0);
/// Signals that an engine has ended.
static ENDED: Condvar = Condvar::new();
/// Locked exclusively by a test that must run alone, and shared by all other engines.
static ALONE: RwLock<()> = RwLock::new(());

/// Permission to run a load engine, until it is dropped.
pub(crate) struct EnginePermit(
    #[expect(dead_code, reason = "its drop releases the lock")] RwLockReadGuard<'static, ()>,
);

/// Permission to run load engines while no other test runs one, until it is dropped.
pub(crate) struct AloneGuard(#[expect(dead_code, reason = "its drop releases the lock")] RwLockWriteGuard<'static, ()>);

/// Waits until fewer than `ENGINES_MAX` engines are running.
#[must_use]
pub(crate) fn engine_permit() -> EnginePermit {
    let shared = ALONE.read().unwrap_or_else(PoisonError::into_inner);
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = ENDED.wait_while(running, |running| *running == ENGINES_MAX);
    *ended.unwrap_or_else(PoisonError::into_inner) += 1;
    EnginePermit(shared)
}

/// Waits until no other engine is running. For tests that check times or rates.
#[must_use]
pub(crate) fn engine_alone() -> AloneGuard {
    AloneGuard(ALONE.write().unwrap_or_else(PoisonError::into_inner))
}

/// Watches a run whose counts per second are judged.
#[must_use]
pub(crate) fn watch_seconds() -> StallWatch {
    StallWatch::with_shortest(MOVING_STALL)
}

impl Drop for EnginePermit {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}
