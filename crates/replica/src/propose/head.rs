//! The head of a leader: evaluated and proposed commands that are not applied yet.

use super::origin::Origin;
use super::queue::EvaluationQueue;
use crate::command::Command;
use crate::io::NodeId;
use crate::limits::{
    BATCH_COPIED_BYTES_MAX, EVALUATION_WORK_FREE, EVALUATION_WORK_MAX, PROPOSAL_BATCH_MAX,
    PROPOSALS_IN_FLIGHT_BYTES_MAX, PROPOSALS_IN_FLIGHT_MAX,
};
use crate::machine::{AccountId, Prepared, Stages};
use crate::state::Identity;
use std::collections::{BTreeMap, VecDeque};

/// Growth of a zone by an update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    /// The key in the zone.
    pub(super) account: AccountId,
    /// Negative if the zone shrinks.
    pub(super) bytes: i64,
}

impl Growth {
    /// Whether the zone grows.
    pub(super) const fn is_more(self) -> bool {
        self.bytes > 0
    }
}

/// An evaluated command that is not in the log yet.
#[derive(Debug)]
pub(super) struct Evaluated {
    /// `None` for an UPDATE: its origins are in flight.
    pub(super) origin: Option<Origin>,
    pub(super) identity: Option<Identity>,
    pub(super) bytes: Vec<u8>,
    /// The entry's size, kept after raft took the entry.
    pub(super) size: usize,
    /// Bytes that applying it copied in the memory of zones.
    pub(super) copied: u64,
    /// The growth of the zone.
    pub(super) growth: Option<Growth>,
    /// `None` if it was evaluated against zones without the pending changes.
    pub(super) prepared: Option<Prepared>,
    /// Later commands are not evaluated until it is applied.
    pub(super) is_barrier: bool,
    pub(super) joined: Option<NodeId>,
    pub(super) feature_level: u32,
}

/// A proposed entry that is not applied yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) index: u64,
    pub(super) term: u64,
    pub(super) identity: Option<Identity>,
    /// `None` after the zones were rewound.
    pub(super) prepared: Option<Prepared>,
    pub(super) is_barrier: bool,
    pub(super) size: usize,
    /// See [`Evaluated::copied`].
    pub(super) copied: u64,
    pub(super) growth: Option<Growth>,
}

/// An UPDATE between its evaluation and its application.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) source: [u8; 16],
    pub(super) origins: Vec<Origin>,
    /// Its position in the log.
    pub(super) position: Option<(u64, u64)>,
}

/// The head of a leader. A follower's is empty.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(super) queue: EvaluationQueue,
    pub(super) batch: Vec<Evaluated>,
    pub(super) pending: VecDeque<Pending>,
    /// Bytes of the entries in the batch and pending.
    pub(super) bytes: usize,
    /// Bytes that these entries copied in the memory of zones.
    pub(super) copied: u64,
    /// Bytes that the entries in the batch copied.
    pub(super) batch_copied: u64,
    /// Growth of zones by these entries.
    pub(super) growing: BTreeMap<AccountId, i64>,
    /// Evaluation work since the last tick, see [`EVALUATION_WORK_MAX`].
    pub(super) work: u64,
    pub(super) in_flight: BTreeMap<Identity, InFlight>,
    pub(super) stages: Stages,
    /// Requests that wait until members have applied an index, with their deadlines.
    pub(super) all_live_waiters: Vec<(Origin, u64, u64)>,
    /// A barrier is in the batch or pending.
    pub(super) has_barrier: bool,
    /// The zones were rewound; nothing is evaluated before everything pending is applied.
    pub(super) is_draining: bool,
    /// The stages and the time are those of the applied state.
    pub(super) is_fresh: bool,
    pub(super) time_ms: u64,
}

impl Head {
    /// Takes a command for evaluation; `false` when there is no room.
    pub(crate) fn enqueue(&mut self, origin: Origin, command: Command) -> bool {
        self.queue.push(origin, command)
    }

    /// Drops all commands that wait for evaluation, except those that add nothing to the log.
    pub(crate) fn drain_for_log(&mut self) -> Vec<Origin> {
        let mut origins = Vec::new();
        let mut others = Vec::new();
        while let Some((origin, command)) = self.queue.pop() {
            match command {
                Command::TransferLeader { .. } | Command::WaitAllLive { .. } => others.push((origin, command)),
                _ => origins.push(origin),
            }
        }
        for (origin, command) in others {
            self.queue.push(origin, command);
        }
        origins
    }

    /// Whether the next command may be evaluated.
    pub(super) fn has_room(&self, copied_max: u64) -> bool {
        let is_full = self.uncommitted_count() >= PROPOSALS_IN_FLIGHT_MAX
            || self.bytes >= PROPOSALS_IN_FLIGHT_BYTES_MAX
            || self.copied >= copied_max;
        let is_batch_full = self.batch.len() >= PROPOSAL_BATCH_MAX || self.batch_copied >= BATCH_COPIED_BYTES_MAX;
        let has_time = self.work < EVALUATION_WORK_MAX || planted!(EvaluationUnlimited);
        !self.has_barrier && !self.is_draining && !is_full && !is_batch_full && has_time
    }

    /// The newest entry of the batch changes the size of a zone.
    pub(super) fn grows(&mut self, growth: Option<Growth>) {
        if let (Some(growth), Some(newest)) = (growth, self.batch.last_mut()) {
            newest.growth = Some(growth);
            *self.growing.entry(growth.account).or_default() += growth.bytes;
        }
    }

    /// An entry was applied or dropped, so its growth is no longer pending.
    fn grown(&mut self, growth: Option<Growth>) {
        let Some(Growth { account, bytes }) = growth else { return };
        let Some(growing) = self.growing.get_mut(&account) else { return };
        *growing -= bytes;
        if *growing == 0 {
            self.growing.remove(&account);
        }
    }

    /// Counts the work of one evaluation.
    pub(super) fn worked(&mut self, work: u64) {
        self.work += work.saturating_sub(EVALUATION_WORK_FREE);
    }

    /// Resets the work counter at a tick.
    pub(crate) const fn tick(&mut self) {
        self.work = 0;
    }

    /// Removes and returns the requests whose index is applied everywhere, by `has_reached_all`, or whose deadline
    /// has passed.
    pub(crate) fn take_all_live_waiters(&mut self, now_ms: u64, has_reached_all: impl Fn(u64) -> bool) -> Vec<Origin> {
        let is_over = |&mut (_, index, until_ms): &mut (Origin, u64, u64)| now_ms >= until_ms || has_reached_all(index);
        self.all_live_waiters.extract_if(.., is_over).map(|(origin, ..)| origin).collect()
    }

    /// Whether a request waits for members to apply an index.
    pub(crate) const fn has_all_live_waiters(&self) -> bool {
        !self.all_live_waiters.is_empty()
    }

    /// Number of entries that are evaluated or proposed, and not applied.
    pub(crate) fn uncommitted_count(&self) -> usize {
        self.pending.len() + self.batch.len()
    }

    /// Drops everything when leadership is lost. Returns the origins of commands that were certainly not proposed.
    pub(crate) fn clear(&mut self) -> Vec<Origin> {
        let mut origins = self.queue.drain();
        origins.extend(self.all_live_waiters.drain(..).map(|(origin, ..)| origin));
        origins.extend(self.drop_batch());
        *self = Self::default();
        origins
    }

    /// Drops evaluated commands that are not in the log. Returns their origins.
    pub(crate) fn drop_batch(&mut self) -> Vec<Origin> {
        let mut origins = Vec::new();
        self.batch_copied = 0;
        for evaluated in core::mem::take(&mut self.batch) {
            self.bytes -= evaluated.size;
            self.copied -= evaluated.copied;
            self.grown(evaluated.growth);
            origins.extend(evaluated.origin);
            let in_flight = evaluated.identity.and_then(|identity| self.in_flight.remove(&identity));
            origins.extend(in_flight.into_iter().flat_map(|in_flight| in_flight.origins));
        }
        origins
    }

    /// An entry was applied. Returns this leader's work on it, if this leader proposed it.
    pub(crate) fn take_applied(&mut self, index: u64, term: u64) -> Option<Prepared> {
        let front = self.pending.front()?;
        if front.index != index {
            return None;
        }
        assert_eq!(front.term, term, "an entry keeps its index and term while its leader leads");
        let pending = self.pending.pop_front()?;
        self.bytes -= pending.size;
        self.copied -= pending.copied;
        self.grown(pending.growth);
        if let Some(identity) = pending.identity {
            self.in_flight.remove(&identity);
        }
        if pending.is_barrier {
            self.has_barrier = false;
            // An import may have another driver by now, and the time may be ahead.
            self.is_fresh = false;
        }
        if self.pending.is_empty() && self.is_draining {
            self.is_draining = false;
            self.is_fresh = false;
        }
        pending.prepared
    }

    /// The zones were rewound: pending entries are applied as on a follower.
    pub(crate) fn rewound(&mut self) {
        for pending in &mut self.pending {
            pending.prepared = None;
        }
        self.is_draining = !self.pending.is_empty();
        self.is_fresh = false;
        self.has_barrier = self.pending.iter().any(|pending| pending.is_barrier);
    }
}
