//! The ways from the reader of a trace to its workers.
//!
//! What a program writes slowly, or in bursts with long pauses, waits neither for a block to be full nor for the next
//! query: a thread of its own hands over what there is ([`gather`]).

use super::block::Block;
use super::picker::Query;
use crate::engine::lower_this_thread;
use crate::limits::{LIVE_GATHER_MAX, LIVE_LOAD_MAX};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// All of them. When this goes, workers have what there is and wait for no more.
pub(super) struct Outlets {
    /// Of each client its worker, and its number there.
    places: Vec<(usize, u32)>,
    ways: Vec<Outlet>,
    /// Workers wait until this says that as much has been read ahead as may be; at the end it does.
    is_loaded: Arc<AtomicBool>,
}

/// The way to one worker.
pub(super) struct Outlet {
    pub(super) emptied: Receiver<Block>,
    pub(super) full: Sender<Block>,
    /// What is being filled.
    pub(super) block: Option<Block>,
}

/// How long queries are gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Before the run begins, from the first of them on.
    pub(super) load: Duration,
    /// Then.
    pub(super) gather: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { load: LIVE_LOAD_MAX, gather: LIVE_GATHER_MAX }
    }
}

impl Outlets {
    pub(super) fn new(places: Vec<(usize, u32)>, ways: Vec<Outlet>, is_loaded: Arc<AtomicBool>) -> Self {
        Self { places, ways, is_loaded }
    }

    /// Gives a query to its worker; `false` when that takes no more.
    pub(super) fn put(&mut self, number: u32, query: &Query<'_>) -> bool {
        let (worker, client) = self.places[number as usize];
        if self.ways[worker].block.is_none() {
            let emptied = match self.ways[worker].emptied.try_recv() {
                Err(TryRecvError::Empty) => {
                    // Here it may wait long: the others get what there is for them.
                    self.hand_over();
                    self.ways[worker].emptied.recv().ok()
                }
                other => other.ok(),
            };
            let Some(mut block) = emptied else { return false };
            block.clear();
            self.ways[worker].block = Some(block);
        }
        let way = &mut self.ways[worker];
        let Some(block) = &mut way.block else { return false };
        block.push(client, query);
        if block.is_full() { way.hand_over() } else { true }
    }

    /// Workers have what there is, and may begin.
    fn hand_over(&mut self) {
        for way in &mut self.ways {
            way.hand_over();
        }
        self.is_loaded.store(true, Ordering::Release);
    }

    /// There is no more.
    pub(super) fn close(&mut self) {
        self.hand_over();
        self.ways.clear();
    }
}

impl Drop for Outlets {
    fn drop(&mut self) {
        self.close();
    }
}

impl Outlet {
    /// Gives what there is to the worker; `false` when that takes no more.
    fn hand_over(&mut self) -> bool {
        self.block.take().is_none_or(|block| self.full.send(block).is_ok())
    }
}

/// Nobody panics with it in hand but to end the reading.
pub(super) fn locked(outlets: &Mutex<Outlets>) -> MutexGuard<'_, Outlets> {
    outlets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands over what there is, again and again, from the first query on, which it is told of, until nobody is there to
/// tell it more.
pub(super) fn gather(outlets: &Mutex<Outlets>, first: &Receiver<()>, patience: Patience) {
    lower_this_thread();
    if first.recv().is_err() {
        return;
    }
    let mut wait = patience.load;
    while first.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        locked(outlets).hand_over();
        wait = patience.gather;
    }
}
