//! A state with a thread and a queue of jobs. Another thread may run a job itself if the state is idle (flat
//! combining).
//!
//! A single job in the queue would wake the state's thread with cold caches, perhaps on a sleeping core. So a thread
//! that submits a job while the queue is empty runs it inline. Under load the queue is never empty, and all jobs go
//! through it, where they are batched.

use crate::metrics::Gauge;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// How a job reaches the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dispatch {
    /// The submitting thread may run the job, because it has no other work.
    Inline,
    /// The job goes through the queue, because the submitting thread has other work.
    Queued,
}

impl Dispatch {
    pub(crate) const fn inline_if(is_alone: bool) -> Self {
        if is_alone { Self::Inline } else { Self::Queued }
    }
}

/// A state and its lock. A thread locks it to run jobs.
pub(crate) struct Combiner<T>(Mutex<Option<T>>);

impl<T> Default for Combiner<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Combiner<T> {
    /// Sets the state. From now on other threads can run jobs.
    pub(crate) fn open(&self, state: T) {
        *self.lock() = Some(state);
    }

    /// Locks the state for its own thread. It is `None` before [`Self::open`] and after it was taken out.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a job at once if none is `waiting` and no thread has the lock; otherwise returns the job. `waiting` must
    /// count each job from before it is queued until its thread has the lock.
    pub(crate) fn run_inline<J, R>(&self, job: J, waiting: &Gauge, run: impl FnOnce(&mut T, J) -> R) -> Result<R, J> {
        let mut state = match self.0.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(job),
        };
        match state.as_mut() {
            Some(state) if waiting.get() == 0 => Ok(run(state, job)),
            _ => Err(job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs job 7 while `waiting` jobs are queued.
    fn run(combiner: &Combiner<u32>, waiting: usize) -> Result<u32, u32> {
        let gauge = Gauge::default();
        gauge.put(waiting, usize::MAX);
        combiner.run_inline(7, &gauge, |state, job| *state + job)
    }

    #[test]
    fn a_job_runs_inline_only_when_the_queue_is_empty_and_the_lock_is_free() {
        let combiner = Combiner::default();
        assert_eq!(run(&combiner, 0), Err(7), "not opened");
        combiner.open(1);
        assert_eq!((run(&combiner, 0), run(&combiner, 1)), (Ok(8), Err(7)));
        let locked = combiner.lock();
        assert_eq!(run(&combiner, 0), Err(7), "another thread has the lock");
        drop(locked);
        assert_eq!((combiner.lock().take(), run(&combiner, 0)), (Some(1), Err(7)), "the state was taken out");
    }

    #[test]
    fn a_job_that_panics_releases_the_lock() {
        let combiner = Combiner::default();
        combiner.open(1);
        let job = || combiner.run_inline(7, &Gauge::default(), |_, _: u32| -> u32 { panic!("panic of the test") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err());
        assert_eq!(run(&combiner, 0), Ok(8));
    }
}
