//! The queues from the reader of a trace to its workers.
//!
//! What a program writes slowly, or in bursts with long pauses, waits neither for a block to be full nor for the next
//! query: a thread of its own hands over what there is ([`flush_periodically`]).

use super::block::Block;
use super::picker::Query;
use crate::engine::lower_this_thread;
use crate::limits::{LIVE_GATHER_MAX, LIVE_LOAD_MAX};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One queue for each worker. Dropping it ends the input of the workers.
pub(super) struct WorkerQueues {
    /// The worker of each client, and its number there.
    assignments: Vec<(usize, u32)>,
    queues: Vec<WorkerQueue>,
    /// Workers wait until this says that as much has been read ahead as may be; at the end it does.
    is_loaded: Arc<AtomicBool>,
}

/// The queue of one worker.
pub(super) struct WorkerQueue {
    pub(super) emptied: Receiver<Block>,
    pub(super) full: Sender<Block>,
    /// What is being filled.
    pub(super) block: Option<Block>,
}

/// How long queries are collected before a flush.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushDelay {
    /// Before the run begins, from the first of them on.
    pub(super) load: Duration,
    /// Then.
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

    /// Gives a query to its worker; `false` when that takes no more.
    pub(super) fn put(&mut self, number: u32, query: &Query<'_>) -> bool {
        let (worker, client) = self.assignments[number as usize];
        if self.queues[worker].block.is_none() {
            let emptied = match self.queues[worker].emptied.try_recv() {
                Err(TryRecvError::Empty) => {
                    // Here it may wait long: the others get what there is for them.
                    self.flush();
                    self.queues[worker].emptied.recv().ok()
                }
                other => other.ok(),
            };
            let Some(mut block) = emptied else { return false };
            block.clear();
            self.queues[worker].block = Some(block);
        }
        let queue = &mut self.queues[worker];
        let Some(block) = &mut queue.block else { return false };
        block.push(client, query);
        if block.is_full() { queue.flush() } else { true }
    }

    /// Workers have what there is, and may begin.
    fn flush(&mut self) {
        for queue in &mut self.queues {
            queue.flush();
        }
        self.is_loaded.store(true, Ordering::Release);
    }

    /// There is no more.
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
    /// Gives what there is to the worker; `false` when that takes no more.
    fn flush(&mut self) -> bool {
        self.block.take().is_none_or(|block| self.full.send(block).is_ok())
    }
}

/// Nobody panics with it in hand but to end the reading.
pub(super) fn locked(queues: &Mutex<WorkerQueues>) -> MutexGuard<'_, WorkerQueues> {
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands over what there is, again and again, from the first query on, which it is told of, until nobody is there to
/// tell it more.
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
