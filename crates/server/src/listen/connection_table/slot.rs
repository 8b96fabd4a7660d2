//! How idle one connection is, and whether it was evicted.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

/// The slot of one connection. Only its own task writes the activity time, and other threads read it only when all
/// slots are in use.
pub(in crate::listen) struct ConnectionSlot {
    since: Instant,
    /// Its index in the list of its client. Read and written under the lock of the table.
    index: AtomicUsize,
    /// When its client last sent, read or connected, in milliseconds.
    active_ms: AtomicU64,
    is_evicted: AtomicBool,
    /// Woken when the connection is evicted.
    task: Mutex<Option<Waker>>,
}

impl ConnectionSlot {
    /// The slot of a new connection; times count from `since`.
    pub(super) fn new(since: Instant, index: usize) -> Self {
        let slot = Self {
            since,
            index: AtomicUsize::new(index),
            active_ms: AtomicU64::new(0),
            is_evicted: AtomicBool::new(false),
            task: Mutex::default(),
        };
        slot.record_activity(Instant::now());
        slot
    }

    /// Records that the client sent or read something.
    pub(in crate::listen) fn record_activity(&self, now: Instant) {
        self.active_ms.store(now.saturating_duration_since(self.since).as_millis() as u64, Ordering::Relaxed);
    }

    pub(super) fn active_ms(&self) -> u64 {
        self.active_ms.load(Ordering::Relaxed)
    }

    pub(super) fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed)
    }

    pub(super) fn set_index(&self, index: usize) {
        self.index.store(index, Ordering::Relaxed);
    }

    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::Acquire)
    }

    /// Ends the connection at its next poll.
    pub(super) fn evict(&self) {
        self.is_evicted.store(true, Ordering::Release);
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.wake();
        }
    }

    /// Runs `work` in the current task; `None` once the connection is evicted.
    pub(super) async fn unless_evicted<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut is_registered = false;
        poll_fn(|context| {
            if !std::mem::replace(&mut is_registered, true) {
                *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
            }
            if self.is_evicted() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
        .await
    }
}
