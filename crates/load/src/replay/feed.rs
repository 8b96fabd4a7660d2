//! A worker's queries of a trace: which one is next, and when.

use super::block::{Block, Entry};
use super::dependents::DependentQueries;
use super::{LatePolicy, Replay, ReplayMode};
use measure::Pacing;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

/// An idle worker checks for new queries after this time.
const RECHECK_NS: u64 = 100_000;

/// A worker's queries of a trace.
pub(super) struct Feed {
    mode: ReplayMode,
    blocks: Receiver<Block>,
    give_back: Sender<Block>,
    is_loaded: Arc<AtomicBool>,
    block: Option<Block>,
    next: usize,
    /// The reader has reached the end.
    is_over: bool,
    is_starved: bool,
    is_queue_full: bool,
    dependents: Option<DependentQueries>,
    /// The result of the last check.
    next_query: Option<DueQuery>,
    pacing: Pacing,
}

/// The next query.
#[derive(Clone, Copy)]
struct DueQuery {
    planned_ns: u64,
    client: u32,
    /// It had to wait for an earlier query.
    is_dependent: bool,
}

impl Feed {
    pub(super) fn new(
        replay: &Replay,
        client_count: usize,
        blocks: Receiver<Block>,
        give_back: Sender<Block>,
        is_loaded: Arc<AtomicBool>,
    ) -> Self {
        Self {
            mode: replay.mode,
            blocks,
            give_back,
            is_loaded,
            block: None,
            next: 0,
            is_over: false,
            is_starved: false,
            is_queue_full: false,
            dependents: replay.mode.is_dependent.then(|| DependentQueries::new(client_count)),
            next_query: None,
            pacing: Pacing::default(),
        }
    }

    /// Whether the read-ahead is full, or the trace has ended.
    pub(super) fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }

    /// Whether more queries will be sent.
    pub(super) fn has_more(&mut self) -> bool {
        self.find_next().is_some() || !self.is_over || self.head().is_some() || self.has_dependents()
    }

    /// Time and client of the next due query.
    pub(super) fn peek(&mut self, now: u64) -> Option<(u64, u32)> {
        let DueQuery { planned_ns, client, .. } = self.find_next()?;
        if self.mode.is_fast {
            return Some((now, client));
        }
        (planned_ns <= now).then_some((planned_ns, client))
    }

    /// The planned time of the next query. `None` if it depends on answers.
    pub(super) fn next_ns(&mut self, now: u64) -> Option<u64> {
        if let Some(next_query) = self.find_next() {
            return Some(if self.mode.is_fast { now } else { next_query.planned_ns });
        }
        let is_unread = self.head().is_none() && !self.is_over;
        is_unread.then_some(now + RECHECK_NS)
    }

    /// Writes the next query. Returns its length.
    pub(super) fn fill(&self, out: &mut [u8]) -> usize {
        let message = match (self.next_query, &self.dependents, &self.block) {
            (Some(DueQuery { is_dependent: true, .. }), Some(dependents), _) => dependents.message(),
            (Some(_), _, Some(block)) => block.entry(self.next).map_or(&[][..], |entry| block.message(entry)),
            _ => &[],
        };
        out[..message.len()].copy_from_slice(message);
        message.len()
    }

    /// The query was sent.
    pub(super) fn advance(&mut self, now: u64) {
        let Some(next_query) = self.next_query.take() else { return };
        match &mut self.dependents {
            Some(dependents) if next_query.is_dependent => dependents.advance(),
            Some(dependents) => {
                dependents.sent(next_query.client);
                self.next += 1;
            }
            None => self.next += 1,
        }
        self.pacing.sent((!self.mode.is_fast).then_some(next_query.planned_ns), now);
    }

    /// A query of a client was answered, or will not be.
    pub(super) fn query_done(&mut self, client: u32, at_ns: u64) {
        if let Some(dependents) = &mut self.dependents {
            dependents.query_done(client, at_ns);
        }
    }

    /// Whether a query is so late that the run must end. If so, it is recorded.
    pub(super) fn is_too_late(&mut self, planned_ns: u64, now: u64) -> bool {
        let LatePolicy::Stop(limit) = self.mode.late else { return false };
        let late = Duration::from_nanos(now.saturating_sub(planned_ns));
        let is_too_late = late > limit;
        if is_too_late {
            self.pacing.stopped.get_or_insert((Duration::from_nanos(planned_ns), late));
        }
        is_too_late
    }

    /// The deviations from the plan.
    pub(super) fn take_pacing(&mut self) -> Pacing {
        std::mem::take(&mut self.pacing)
    }

    fn has_dependents(&self) -> bool {
        self.dependents.as_ref().is_some_and(|dependents| !dependents.is_empty())
    }

    /// Finds the next query, due now or later.
    fn find_next(&mut self) -> Option<DueQuery> {
        self.refill();
        self.defer_dependents();
        let own = self.head().filter(|entry| !self.must_wait(entry.client));
        let own = own.map(|entry| DueQuery { planned_ns: entry.planned_ns, client: entry.client, is_dependent: false });
        let freed = self.dependents.as_ref().and_then(DependentQueries::next);
        let freed = freed.map(|(planned_ns, client)| DueQuery { planned_ns, client, is_dependent: true });
        self.next_query = match (own, freed) {
            (Some(own), Some(freed)) if own.planned_ns < freed.planned_ns => Some(own),
            (own, None) => own,
            (_, freed) => freed,
        };
        self.next_query
    }

    /// The next entry that has been read.
    fn head(&self) -> Option<Entry> {
        self.block.as_ref().and_then(|block| block.entry(self.next))
    }

    fn must_wait(&self, client: u32) -> bool {
        self.dependents.as_ref().is_some_and(|dependents| dependents.must_wait(client))
    }

    /// Gets the next block, if the reader has provided it.
    fn refill(&mut self) {
        while self.head().is_none() && !self.is_over {
            if let Some(block) = self.block.take() {
                // The reader may have ended.
                let _sent = self.give_back.send(block);
            }
            match self.blocks.try_recv() {
                Ok(block) => {
                    self.next = 0;
                    self.is_starved = false;
                    self.block = Some(block);
                }
                Err(TryRecvError::Disconnected) => self.is_over = true,
                Err(TryRecvError::Empty) => {
                    self.pacing.dry += u64::from(!std::mem::replace(&mut self.is_starved, true));
                    return;
                }
            }
        }
    }

    /// Queues entries of clients that wait for an answer, so that they do not block other clients.
    fn defer_dependents(&mut self) {
        let Some(mut dependents) = self.dependents.take() else { return };
        while let Some(entry) = self.head().filter(|entry| dependents.must_wait(entry.client)) {
            let is_queued = self.block.as_ref().is_some_and(|block| dependents.enqueue(entry, block.message(entry)));
            if !is_queued {
                self.pacing.crowded += u64::from(!std::mem::replace(&mut self.is_queue_full, true));
                break;
            }
            self.is_queue_full = false;
            self.next += 1;
            self.refill();
        }
        self.dependents = Some(dependents);
    }
}
