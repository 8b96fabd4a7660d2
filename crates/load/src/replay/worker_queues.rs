//! The queues from the reader of a trace to its workers.
//!
//! Slow or bursty output of a filter command must not wait until a block is full, so a thread flushes the queues
//! ([`flush_periodically`]).

use super::block::Block;
use super::picker::Query;
use crate::limits::{LIVE_GATHER_MAX, LIVE_LOAD_MAX};
use sockets::system::lower_this_thread;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One queue for each worker. Dropping it ends the input of the workers.
pub(super) struct WorkerQueues {
    /// The worker of each client, and its number there.
    assignments: Vec<(usize, u32)>,
    queues: Vec<WorkerQueue>,
    /// Set when the read-ahead is full or the trace has ended. Workers wait for it.
    is_loaded: Arc<AtomicBool>,
}

/// The queue of one worker.
pub(super) struct WorkerQueue {
    pub(super) free_blocks: Receiver<Block>,
    pub(super) full: Sender<Block>,
    /// The block being filled.
    pub(super) block: Option<Block>,
}

/// How long queries are collected before a flush.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushDelay {
    /// Delay before the run begins, from the first query on.
    pub(super) load: Duration,
    /// Delay afterwards.
    pub(super) flush_periodically: Duration,
}

impl Default for FlushDelay {
    fn default() -> Self {
        Self { load: LIVE_LOAD_MAX, flush_periodically: LIVE_GATHER_MAX }
    }
}

impl WorkerQueues {
    pub(super) fn new(assignments: Vec<(usize, u32)>, queues: Vec<WorkerQueue>, is_loaded: Arc<AtomicBool>) -> Self {
        Self { assignments, queues, is_loaded }
    }

    /// Queues a query for its worker. Returns `false` if the worker has stopped.
    pub(super) fn put(&mut self, number: u32, query: &Query<'_>) -> bool {
        let (worker, client) = self.assignments[number as usize];
        if self.queues[worker].block.is_none() {
            let free_block = match self.queues[worker].free_blocks.try_recv() {
                Err(TryRecvError::Empty) => {
                    // This may wait long, so the other workers get their queries first.
                    self.flush();
                    self.queues[worker].free_blocks.recv().ok()
                }
                other => other.ok(),
            };
            let Some(mut block) = free_block else { return false };
            block.clear();
            self.queues[worker].block = Some(block);
        }
        let queue = &mut self.queues[worker];
        let Some(block) = &mut queue.block else { return false };
        block.push(client, query);
        if block.is_full() { queue.flush() } else { true }
    }

    /// Passes all queries to the workers, and lets them start.
    fn flush(&mut self) {
        for queue in &mut self.queues {
            queue.flush();
        }
        self.is_loaded.store(true, Ordering::Release);
    }

    /// The trace has ended.
    pub(super) fn close(&mut self) {
        self.flush();
        self.queues.clear();
    }
}

impl Drop for WorkerQueues {
    fn drop(&mut self) {
        self.close();
    }
}

impl WorkerQueue {
    /// Passes all queries to the worker. Returns `false` if it has stopped.
    fn flush(&mut self) -> bool {
        self.block.take().is_none_or(|block| self.full.send(block).is_ok())
    }
}

/// A panic with this lock held also ends the reading.
pub(super) fn locked(queues: &Mutex<WorkerQueues>) -> MutexGuard<'_, WorkerQueues> {
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Flushes the queues periodically, from the first query until the sender of `first` is dropped.
pub(super) fn flush_periodically(queues: &Mutex<WorkerQueues>, first: &Receiver<()>, delay: FlushDelay) {
    lower_this_thread();
    if first.recv().is_err() {
        return;
    }
    let mut wait = delay.load;
    while first.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        locked(queues).flush();
        wait = delay.flush_periodically;
    }
}
