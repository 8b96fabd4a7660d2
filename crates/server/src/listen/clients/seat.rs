//! How idle one connection is, and whether its place was given to another.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

/// Of one connection. Only its own task writes when it was active, so that no memory is shared between threads that
/// answer, until all places are taken.
pub(in crate::listen) struct Seat {
    since: Instant,
    /// Where it is in the list of its client. Read and written under the lock of all of them.
    index: AtomicUsize,
    /// When its client last asked for something, took something or connected, in milliseconds.
    active_ms: AtomicU64,
    is_evicted: AtomicBool,
    /// What is woken when it is evicted.
    task: Mutex<Option<Waker>>,
}

impl Seat {
    /// Of a connection that begins now; times count from `since`.
    pub(super) fn new(since: Instant, index: usize) -> Self {
        let seat = Self {
            since,
            index: AtomicUsize::new(index),
            active_ms: AtomicU64::new(0),
            is_evicted: AtomicBool::new(false),
            task: Mutex::default(),
        };
        seat.active(Instant::now());
        seat
    }

    /// Takes note that the client asks for something, or takes it.
    pub(in crate::listen) fn active(&self, now: Instant) {
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

    /// Ends the connection, whatever it does now.
    pub(super) fn evict(&self) {
        self.is_evicted.store(true, Ordering::Release);
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.wake();
        }
    }

    /// Runs `work` in the task that it is first polled in; `None` once it was evicted.
    pub(super) async fn unless_evicted<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut is_known = false;
        poll_fn(|context| {
            if !std::mem::replace(&mut is_known, true) {
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
