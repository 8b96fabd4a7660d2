//! The replica belongs to whichever thread has a turn: its own, which has ticks and a queue; or one that comes with a
//! single event while nothing waits.
//!
//! A frame of a peer, or word of the disk, that comes alone would only wake the replica's thread, which finds its
//! caches cold, perhaps on a core that has to wake up too. So who brings it carries it out at once. Under load there is
//! always something in the queue, or a turn under way, and everything goes through the queue: batches are made there.

use super::handle::Event;
use super::replica_thread::ReplicaThread;
use crate::metrics::Gauge;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Who has the replica.
#[derive(Default)]
pub(crate) struct Turn(Mutex<Option<ReplicaThread>>);

/// What became of an event that a thread came with.
pub(crate) enum Brought {
    /// It is carried out.
    Done,
    /// So it is, and the replica's own thread has to go on with what follows from it.
    GoOn,
    /// It goes into the queue.
    NotNow(Event),
}

impl Turn {
    /// From now on other threads may have turns.
    pub(super) fn open(&self, thread: ReplicaThread) {
        *self.take() = Some(thread);
    }

    /// The turn of the replica's own thread; `None` inside once it is over.
    pub(super) fn take(&self) -> MutexGuard<'_, Option<ReplicaThread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out one event, if none `waiting` came before it and nobody has a turn.
    pub(super) fn bring(&self, event: Event, waiting: &Gauge) -> Brought {
        let mut turn = match self.0.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Brought::NotNow(event),
        };
        // An event is counted before it is in the queue, and until it is taken in a turn.
        let (Some(thread), 0) = (turn.as_mut(), waiting.get()) else { return Brought::NotNow(event) };
        match catch_unwind(AssertUnwindSafe(|| thread.work_off(event))) {
            Ok(true) => Brought::GoOn,
            Ok(false) => Brought::Done,
            Err(_) => super::threads::replica_panicked(),
        }
    }
}
