//! The leader's side: what was asked is evaluated on the head and goes into the log.
//!
//! ```text
//!   queue (shared by flows) --> evaluate (on the head) --> batch --> one proposal --> pending --> applied
//! ```
//!
//! The head is the applied state and this leader's own proposals. Zones are versions, so proposals pipeline: each
//! is evaluated on the outcome of the one before. A change of the settings is a barrier: nothing is evaluated
//! between its proposal and its application, so everything is evaluated under the settings it is applied under.
//!
//! When leadership is lost the head is thrown away. When raft drops a proposal, the zones are rewound; what was
//! proposed before still commits and is applied like a follower does, and only then evaluation goes on.

mod batch;
mod evaluate;
mod membership;
mod opened;
// What an UPDATE leads to.
mod outcome;
// What waits, and who is next.
mod queue;
mod settings;

#[cfg(test)]
pub(crate) use evaluate::PANIC_LABEL;
pub(crate) use opened::OpenedKeys;

use crate::command::{Answer, Command};
use crate::io::NodeId;
use crate::limits::{
    BATCH_COPIED_BYTES_MAX, EVALUATION_WORK_FREE, EVALUATION_WORK_MAX, PROPOSAL_BATCH_MAX,
    PROPOSALS_IN_FLIGHT_BYTES_MAX, PROPOSALS_IN_FLIGHT_MAX,
};
use crate::machine::{AccountId, Prepared, Stages};
use crate::state::Identity;
use outcome::Growth;
pub(crate) use outcome::growth_of;
use queue::EvaluationQueue;
use std::collections::{BTreeMap, VecDeque};

/// The member that sent a command, and the number of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// `None` is this replica.
    pub(crate) peer: Option<NodeId>,
    pub(crate) token: u64,
}

impl Origin {
    /// The context of an entry: the member and the number of its attempt. The member recognizes the entry by it if the
    /// leader's answer is lost.
    pub(super) fn beside_entry(self, own: NodeId) -> Vec<u8> {
        [self.peer.unwrap_or(own), self.token].map(u64::to_be_bytes).concat()
    }

    /// Reads what [`Origin::beside_entry`] wrote.
    pub(crate) fn of_entry(context: &[u8]) -> Option<Self> {
        let (peer, token) = context.split_first_chunk()?;
        let token = token.try_into().ok()?;
        Some(Self { peer: Some(u64::from_be_bytes(*peer)), token: u64::from_be_bytes(token) })
    }
}

/// An evaluated command that is not in the log yet.
#[derive(Debug)]
pub(super) struct Evaluated {
    /// `None` for an UPDATE: its origins are in flight.
    origin: Option<Origin>,
    identity: Option<Identity>,
    bytes: Vec<u8>,
    /// Their number, also after raft took them.
    size: usize,
    /// Bytes that applying it copied in the memory of zones.
    copied: u64,
    /// The growth of the zone.
    growth: Option<Growth>,
    /// `None` if it was evaluated against zones without the pending changes.
    prepared: Option<Prepared>,
    /// Later commands are not evaluated until it is applied.
    is_barrier: bool,
    joined: Option<NodeId>,
    feature_level: u32,
}

/// A proposed entry that is not applied yet.
#[derive(Debug)]
pub(super) struct Pending {
    index: u64,
    term: u64,
    identity: Option<Identity>,
    /// `None` after the zones were rewound.
    prepared: Option<Prepared>,
    is_barrier: bool,
    size: usize,
    /// See [`Evaluated::copied`].
    copied: u64,
    growth: Option<Growth>,
}

/// An UPDATE between its evaluation and its application.
#[derive(Debug)]
struct InFlight {
    source: [u8; 16],
    origins: Vec<Origin>,
    /// Its position in the log.
    position: Option<(u64, u64)>,
}

/// The head of a leader. A follower's is empty.
#[derive(Debug, Default)]
pub(crate) struct Head {
    queue: EvaluationQueue,
    batch: Vec<Evaluated>,
    pending: VecDeque<Pending>,
    /// Bytes of entries in the batch and pending.
    bytes: usize,
    /// Bytes that these copied in the memory of zones.
    copied: u64,
    /// Bytes that those in the batch copied.
    batch_copied: u64,
    /// By how much these make zones larger.
    growing: BTreeMap<AccountId, i64>,
    /// Work of evaluation since the last tick, see [`EVALUATION_WORK_MAX`].
    work: u64,
    in_flight: BTreeMap<Identity, InFlight>,
    stages: Stages,
    /// Who waits for members to apply an index, and until when.
    all_live_waiters: Vec<(Origin, u64, u64)>,
    /// A barrier is in the batch or pending.
    has_barrier: bool,
    /// The zones were rewound; nothing is evaluated before everything pending is applied.
    is_draining: bool,
    /// The stages and the time are those of the applied state.
    is_fresh: bool,
    time_ms: u64,
}

impl Head {
    /// Takes a command for evaluation; `false` when there is no room.
    pub(crate) fn enqueue(&mut self, origin: Origin, command: Command) -> bool {
        self.queue.push(origin, command)
    }

    /// Drops everything that waits for evaluation, except commands that put nothing into the log.
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
    fn has_room(&self, copied_max: u64) -> bool {
        let is_full = self.uncommitted_count() >= PROPOSALS_IN_FLIGHT_MAX
            || self.bytes >= PROPOSALS_IN_FLIGHT_BYTES_MAX
            || self.copied >= copied_max;
        let is_batch_full = self.batch.len() >= PROPOSAL_BATCH_MAX || self.batch_copied >= BATCH_COPIED_BYTES_MAX;
        !self.has_barrier && !self.is_draining && !is_full && !is_batch_full && self.work < EVALUATION_WORK_MAX
    }

    /// The newest of the batch makes a zone larger, or smaller.
    fn grows(&mut self, growth: Option<Growth>) {
        if let (Some(growth), Some(newest)) = (growth, self.batch.last_mut()) {
            newest.growth = Some(growth);
            *self.growing.entry(growth.account).or_default() += growth.bytes;
        }
    }

    /// It does no longer: it is applied, or given up.
    fn grown(&mut self, growth: Option<Growth>) {
        let Some(Growth { account, bytes }) = growth else { return };
        let Some(growing) = self.growing.get_mut(&account) else { return };
        *growing -= bytes;
        if *growing == 0 {
            self.growing.remove(&account);
        }
    }

    /// Counts the work of one evaluation.
    fn worked(&mut self, work: u64) {
        self.work += work.saturating_sub(EVALUATION_WORK_FREE);
    }

    /// Time has passed: as much may be evaluated as between any two ticks.
    pub(crate) const fn tick(&mut self) {
        self.work = 0;
    }

    /// Those who need not wait any more for members to apply an index, as `has_reached_all` says of it.
    pub(crate) fn take_all_live_waiters(&mut self, now_ms: u64, has_reached_all: impl Fn(u64) -> bool) -> Vec<Origin> {
        let is_over = |&mut (_, index, until_ms): &mut (Origin, u64, u64)| now_ms >= until_ms || has_reached_all(index);
        self.all_live_waiters.extract_if(.., is_over).map(|(origin, ..)| origin).collect()
    }

    /// Whether somebody waits for members to apply an index.
    pub(crate) const fn has_all_live_waiters(&self) -> bool {
        !self.all_live_waiters.is_empty()
    }

    /// Entries that are evaluated or proposed, and not applied.
    pub(crate) fn uncommitted_count(&self) -> usize {
        self.pending.len() + self.batch.len()
    }

    /// Throws everything away: leadership is lost. Gives those whose commands were certainly not proposed.
    pub(crate) fn clear(&mut self) -> Vec<Origin> {
        let mut origins = self.queue.drain();
        origins.extend(self.all_live_waiters.drain(..).map(|(origin, ..)| origin));
        origins.extend(self.drop_batch());
        *self = Self::default();
        origins
    }

    /// Gives up what is evaluated and not in the log. Gives those whose commands that were.
    fn drop_batch(&mut self) -> Vec<Origin> {
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

    /// An entry was applied; what this leader had carried out for it, if this leader proposed it.
    pub(crate) fn take_applied(&mut self, index: u64, term: u64) -> Option<Prepared> {
        let front = self.pending.front()?;
        if front.index != index {
            return None;
        }
        assert_eq!(front.term, term, "what a leader has proposed in its term stays where it is");
        let pending = self.pending.pop_front()?;
        self.bytes -= pending.size;
        self.copied -= pending.copied;
        self.grown(pending.growth);
        if let Some(identity) = pending.identity {
            self.in_flight.remove(&identity);
        }
        if pending.is_barrier {
            self.has_barrier = false;
            // The stages may have changed hands, and the time may be ahead.
            self.is_fresh = false;
        }
        if self.pending.is_empty() && self.is_draining {
            self.is_draining = false;
            self.is_fresh = false;
        }
        pending.prepared
    }

    /// The zones were rewound: what is pending is applied as on a follower.
    fn rewound(&mut self) {
        for pending in &mut self.pending {
            pending.prepared = None;
        }
        self.is_draining = !self.pending.is_empty();
        self.is_fresh = false;
        self.has_barrier = self.pending.iter().any(|pending| pending.is_barrier);
    }
}

/// An answer and who gets it.
pub(crate) type Reply = (Origin, Answer);
