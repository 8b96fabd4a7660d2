//! A possession that belongs to whichever thread has a turn: its own thread, which has a queue; or one that comes with
//! something to do while nothing waits.
//!
//! What comes alone would only wake the thread that it is for, which finds its caches cold, perhaps on a core that has
//! to wake up too. So who brings it carries it out at once. Under load there is always something in the queue, or a
//! turn under way, and everything goes through the queue: batches are made there, and work is shared out.

use crate::metrics::Gauge;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Whether there is other work beside a piece of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Company {
    /// None: who brings it may as well carry it out, since to wake another thread costs as much.
    Alone,
    /// Some: it is shared out.
    Others,
}

impl Company {
    pub(crate) const fn of(is_alone: bool) -> Self {
        if is_alone { Self::Alone } else { Self::Others }
    }
}

/// Who has the possession.
pub(crate) struct Turn<T>(Mutex<Option<T>>);

impl<T> Default for Turn<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Turn<T> {
    /// From now on other threads may have turns.
    pub(crate) fn open(&self, possession: T) {
        *self.take() = Some(possession);
    }

    /// The turn of its own thread; `None` inside before it is opened and once it is over.
    pub(crate) fn take(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries something out at once, if none `waiting` came before it and nobody has a turn; else gives it back.
    /// Whoever puts something into the queue counts it before, and its thread until it has its turn.
    pub(crate) fn bring<E, R>(&self, what: E, waiting: &Gauge, work: impl FnOnce(&mut T, E) -> R) -> Result<R, E> {
        let mut turn = match self.0.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(what),
        };
        match turn.as_mut() {
            Some(possession) if waiting.get() == 0 => Ok(work(possession, what)),
            _ => Err(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What became of 7, brought to a possession of 1 while so many waited.
    fn bring(turn: &Turn<u32>, waiting: usize) -> Result<u32, u32> {
        let gauge = Gauge::default();
        gauge.put(waiting, usize::MAX);
        turn.bring(7, &gauge, |possession, what| *possession + what)
    }

    #[test]
    fn what_comes_alone_is_carried_out_and_nothing_before_its_time() {
        let turn = Turn::default();
        assert_eq!(bring(&turn, 0), Err(7), "not opened");
        turn.open(1);
        assert_eq!((bring(&turn, 0), bring(&turn, 1)), (Ok(8), Err(7)));
        let held = turn.take();
        assert_eq!(bring(&turn, 0), Err(7), "somebody has a turn");
        drop(held);
        assert_eq!((turn.take().take(), bring(&turn, 0)), (Some(1), Err(7)), "it is over");
    }

    #[test]
    fn a_turn_that_panics_is_over() {
        let turn = Turn::default();
        turn.open(1);
        let brought = || turn.bring(7, &Gauge::default(), |_, _: u32| -> u32 { panic!("as the test wants") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(brought)).is_err());
        assert_eq!(bring(&turn, 0), Ok(8));
    }
}
