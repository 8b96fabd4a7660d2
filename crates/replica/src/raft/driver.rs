//! Wraps `RawNode` and keeps its contract.

use super::conf_change::{ConfChange, sorted};
use super::guard::{Contradiction, Guard, Senders, guard, is_restoring};
use super::storage::{FetchWanted, LogStorage};
use crate::io::NodeId;
use crate::limits::{ELECTION_TICK_MAX, LEARNER_SILENCE_TICKS};
use crate::log::Log;
use ::raft::eraftpb::{ConfChangeV2, ConfState, Entry, EntryType, Message, MessageType, Snapshot};
use ::raft::{Config, RawNode, ReadOnlyOption, SnapshotStatus, StateRole};
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::hash::Hasher;

/// Ticks of 10 ms between heartbeats.
const HEARTBEAT_TICK: usize = 5;
/// Ticks without a leader's message after which a member may vote for another.
const ELECTION_TICK: usize = 25;
/// The shortest election timeout, in ticks. It is above `ELECTION_TICK`, because otherwise peers would still follow
/// the old leader.
const ELECTION_TICK_MIN: usize = 30;

/// Raft's settings, from docs/internals/consensus-rules.md, section 2.
pub(super) fn config(id: NodeId, applied: u64) -> Config {
    Config {
        id,
        election_tick: ELECTION_TICK,
        heartbeat_tick: HEARTBEAT_TICK,
        applied,
        max_size_per_msg: 1 << 20,
        max_inflight_msgs: 64,
        check_quorum: true,
        pre_vote: !planted!(ElectionWithoutPreVote),
        min_election_tick: ELECTION_TICK_MIN,
        max_election_tick: ELECTION_TICK_MAX,
        read_only_option: ReadOnlyOption::Safe,
        skip_bcast_commit: false,
        batch_append: true,
        priority: 0,
        max_uncommitted_size: 64 << 20,
        max_committed_size_per_ready: 4 << 20,
    }
}

/// Why a proposal was not added to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProposeError {
    /// This member does not lead.
    NotLeader,
    /// A transfer is in progress, or too much is uncommitted.
    Dropped,
    /// Another change of membership is not applied yet.
    MembershipBusy,
}

/// A `Ready` whose messages wait for the disk.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) number: u64,
    pub(super) is_written: bool,
    pub(super) vote_changed: bool,
    pub(super) messages: Vec<Message>,
}

/// One member's raft.
pub(crate) struct Driver {
    pub(super) node: RawNode<LogStorage>,
    seed: u64,
    pub(super) waiting: VecDeque<Waiting>,
    /// What this member knows about senders.
    pub(crate) senders: Senders,
    #[cfg(any(test, feature = "testing"))]
    drops_next: bool,
}

impl Driver {
    /// Starts from the state on disk; `applied` is the index of the state.
    ///
    /// # Panics
    /// If the log contradicts itself; the log checks that when it is opened.
    pub(crate) fn new(id: NodeId, seed: u64, storage: LogStorage, applied: u64) -> Self {
        let config = config(id, applied);
        assert_eq!(config.read_only_option, ReadOnlyOption::Safe, "leases rest on clocks; reads must not");
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, storage, &logger).expect("the settings are valid and the storage answers");
        let mut driver = Self {
            node,
            seed,
            waiting: VecDeque::new(),
            senders: Senders::default(),
            #[cfg(any(test, feature = "testing"))]
            drops_next: false,
        };
        driver.draw();
        driver
    }

    /// Draws the election timeout. Raft draws one with its own random source inside many calls (R/raft.rs:2810), so
    /// this runs after each of them.
    pub(super) fn draw(&mut self) {
        if planted!(ElectionTimeoutNotDrawn) {
            return;
        }
        let timeout = self.drawn();
        self.node.raft.set_randomized_election_timeout(timeout);
    }

    /// The election timeout in ticks, a function of seed, member, term and role.
    pub(super) fn drawn(&self) -> usize {
        let raft = &self.node.raft;
        let mut hasher = SipHasher13::new_with_keys(self.seed, raft.id);
        hasher.write_u64(raft.term);
        hasher.write_u8(raft.state as u8);
        let span = (ELECTION_TICK_MAX - ELECTION_TICK_MIN) as u64;
        ELECTION_TICK_MIN + (hasher.finish() % span) as usize
    }

    pub(crate) fn id(&self) -> NodeId {
        self.node.raft.id
    }

    pub(crate) fn term(&self) -> u64 {
        self.node.raft.term
    }

    pub(crate) fn role(&self) -> StateRole {
        self.node.raft.state
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    pub(crate) fn leader(&self) -> Option<NodeId> {
        Some(self.node.raft.leader_id).filter(|&id| id != raft::INVALID_ID)
    }

    pub(crate) fn commit(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    pub(crate) fn last_index(&self) -> u64 {
        self.node.raft.raft_log.last_index()
    }

    /// Whether this leader has applied an entry of its own term. From then on, its state includes everything
    /// acknowledged before.
    pub(crate) fn has_applied_own_term(&self) -> bool {
        self.is_leader() && self.node.raft.apply_to_current_term()
    }

    pub(crate) fn log(&self) -> &Log {
        &self.node.store().log
    }

    pub(crate) fn log_mut(&mut self) -> &mut Log {
        &mut self.node.mut_store().log
    }

    /// Offers a checkpoint to members that lag.
    pub(crate) fn set_offer(&mut self, offer: Option<Snapshot>) {
        self.node.mut_store().set_offer(offer);
    }

    /// The index from which a member needs a checkpoint that does not exist yet.
    pub(crate) fn take_checkpoint_wanted(&self) -> Option<u64> {
        self.node.store().take_checkpoint_wanted()
    }

    /// Older entries that raft needs from disk.
    pub(crate) fn take_fetches_wanted(&self) -> Vec<FetchWanted> {
        self.node.store().take_fetches_wanted()
    }

    /// Entries that raft needed are in memory.
    pub(crate) fn fetched(&mut self, wanted: FetchWanted) {
        self.node.on_entries_fetched(wanted.context);
        self.draw();
    }

    /// Voters, sorted.
    pub(crate) fn voters(&self) -> Vec<NodeId> {
        let mut ids: Vec<_> = self.node.raft.prs().conf().voters().ids().iter().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Sorted voters of the incoming configuration, without those of the outgoing one.
    pub(crate) fn incoming_voters(&self) -> Vec<NodeId> {
        self.conf_state().take_voters()
    }

    /// Sorted voters, if their majority alone commits all entries of this log up to the durable end. `None` in a
    /// joint configuration, or while this leader has an unapplied change of voters.
    pub(crate) fn settled_voters(&self) -> Option<Vec<NodeId>> {
        let is_pending = self.is_leader() && self.has_pending_conf();
        (!is_pending && !self.is_joint()).then(|| self.voters())
    }

    /// The last index of this member's log that is on stable storage.
    pub(crate) fn persisted_index(&self) -> u64 {
        self.node.raft.raft_log.persisted
    }

    /// Commits up to an entry that a majority holds, on a follower that knows so without its leader's commit index.
    /// The entry must be of its leader's term; older ones commit with it (raft paper 5.4.2).
    pub(crate) fn commit_as_follower(&mut self, term: u64, index: u64) {
        let is_restoring = self.is_restoring();
        let log = &mut self.node.raft.raft_log;
        assert!(index <= log.persisted, "a member counts only entries that it holds");
        if !is_restoring && index > log.committed && (planted!(EarlyCommitOfAnyTerm) || log.term(index) == Ok(term)) {
            log.commit_to(index);
        }
    }

    /// Whether these are a majority, in both halves of a joint configuration.
    pub(crate) fn is_majority(&self, ids: &[NodeId]) -> bool {
        let ids = ids.iter().copied().collect();
        self.node.raft.prs().has_quorum(&ids)
    }

    pub(crate) fn is_voter(&self) -> bool {
        self.node.raft.promotable()
    }

    /// Whether an id is in raft's configuration: as a voter of either half, or as a learner.
    pub(crate) fn counts(&self, id: NodeId) -> bool {
        self.node.raft.prs().get(id).is_some()
    }

    /// The configuration, sorted.
    pub(crate) fn conf_state(&self) -> ConfState {
        sorted(self.node.raft.prs().conf().to_conf_state())
    }

    /// The index up to which a member's log is known to match this leader's.
    pub(crate) fn matched(&self, id: NodeId) -> Option<u64> {
        self.node.raft.prs().get(id).map(|progress| progress.matched)
    }

    /// All members but this one, sorted.
    pub(crate) fn others(&self) -> Vec<NodeId> {
        let own = self.id();
        let mut ids: Vec<_> = self.node.raft.prs().iter().map(|(&id, _)| id).filter(|&id| id != own).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn is_transferring(&self) -> bool {
        self.node.raft.lead_transferee.is_some()
    }

    pub(crate) fn has_pending_conf(&self) -> bool {
        self.node.raft.has_pending_conf()
    }

    pub(crate) fn is_joint(&self) -> bool {
        !self.conf_state().get_voters_outgoing().is_empty()
    }

    pub(crate) fn tick(&mut self) {
        // A single voter leads as soon as it campaigns, which must not happen before its log is on disk.
        let unwritten = self.waiting.iter().any(|waiting| waiting.is_written);
        if self.node.raft.prs().is_singleton() && !self.is_leader() {
            if unwritten {
                return;
            }
            // No other member can lead, so there is nothing to wait for.
            self.campaign();
        }
        if self.is_restoring() {
            self.node.raft.election_elapsed = 0;
        }
        self.node.tick();
        self.draw();
        // A learner never campaigns, so nothing else makes it forget a silent leader. A leader that stepped down
        // without a majority has no successor that could tell the learner.
        let raft = &mut self.node.raft;
        if !raft.promotable() && raft.election_elapsed > LEARNER_SILENCE_TICKS {
            raft.leader_id = raft::INVALID_ID;
        }
    }

    /// Advances time for a member that must not campaign. Its contact with the leader ages as usual, but no further
    /// than needed for it to vote for another member (raft ignores votes within the lease, R/raft.rs:1333).
    pub(crate) fn tick_without_campaign(&mut self) {
        const { assert!(ELECTION_TICK < ELECTION_TICK_MIN, "the lease ends before a member would campaign") };
        let raft = &mut self.node.raft;
        raft.election_elapsed = (raft.election_elapsed + 1).min(ELECTION_TICK);
    }

    /// Whether the log begins after a checkpoint whose state is not in use yet. A campaign in this state would read
    /// entries that are gone, and raft would panic (R/raft.rs:1543). The state follows as soon as the log's record is
    /// on disk.
    pub(crate) fn is_restoring(&self) -> bool {
        is_restoring(&self.node)
    }

    /// Judges a message from `from`, without any effect.
    pub(crate) fn judge(&self, from: NodeId, message: &Message) -> Guard {
        guard(&self.node, &self.senders, from, message)
    }

    /// Steps a message from `from`, unless it is refused.
    pub(crate) fn step(&mut self, from: NodeId, mut message: Message) -> Guard {
        let guard = self.judge(from, &message);
        match guard {
            Guard::Step => {}
            // The contact with the leader counts, but its claim about this log is not used.
            Guard::Contradicts(Contradiction::Lost { .. }) => message.commit = self.commit(),
            Guard::Ignore | Guard::Drop | Guard::Contradicts(Contradiction::Diverged { .. }) => return guard,
        }
        // A message that raft refuses here needs no answer.
        let _ = self.node.step(message);
        self.draw();
        guard
    }

    /// Proposes entries without an origin.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn propose(&mut self, batch: Vec<Vec<u8>>) -> Result<u64, ProposeError> {
        self.propose_entries(batch.into_iter().map(|data| Entry { data: data.into(), ..Entry::default() }).collect())
    }

    /// Proposes a batch; `Ok` is the index of its first entry.
    pub(crate) fn propose_entries(&mut self, batch: Vec<Entry>) -> Result<u64, ProposeError> {
        // On a follower raft would forward and say Ok (R/raft.rs:2321).
        if !self.is_leader() && !planted!(FollowerProposes) {
            return Err(ProposeError::NotLeader);
        }
        assert!(!batch.is_empty(), "raft panics on an empty proposal");
        let first = self.last_index() + 1;
        let count = batch.len() as u64;
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.id();
        message.set_entries(batch.into());
        #[cfg(any(test, feature = "testing"))]
        if core::mem::take(&mut self.drops_next) {
            return Err(ProposeError::Dropped);
        }
        let result = self.node.step(message);
        self.draw();
        if result.is_err() {
            return Err(ProposeError::Dropped);
        }
        assert_eq!(self.last_index() + 1, first + count, "what raft accepted is in the log");
        Ok(first)
    }

    /// Proposes a change of membership; `Ok` is the index of its entry.
    pub(crate) fn propose_conf_change(&mut self, change: ConfChange, context: Vec<u8>) -> Result<u64, ProposeError> {
        if !self.is_leader() {
            return Err(ProposeError::NotLeader);
        }
        // Raft would turn a second change into an empty entry and return Ok (R/raft.rs:2088).
        if self.has_pending_conf() || self.is_joint() {
            return Err(ProposeError::MembershipBusy);
        }
        // A leader that applies its own removal with proposals in flight panics (R/raft.rs:943).
        let is_own = change.takes_vote_of(self.id()) && !planted!(LeaderRemovesItself);
        assert!(!is_own, "a leader hands over before it goes");
        let result = self.node.propose_conf_change(context, change.to_raft());
        self.draw();
        result.map(|()| self.last_index()).map_err(|_| ProposeError::Dropped)
    }

    /// Proposes to leave a joint configuration. A new leader that finds one must do so (R/raft.rs:962).
    pub(crate) fn leave_joint(&mut self) {
        if self.is_leader() && self.is_joint() && !self.has_pending_conf() && !planted!(JointConfigurationKept) {
            assert!(self.incoming_voters().contains(&self.id()), "a leader hands over before it goes");
            let _ = self.node.propose_conf_change(Vec::new(), ConfChangeV2::default());
            self.draw();
        }
    }

    /// Applies a committed change of membership; `false` if it does not fit the configuration. A leader that loses
    /// its vote steps down.
    pub(crate) fn apply_conf_change(&mut self, change: &ConfChangeV2) -> bool {
        let applied = self.node.apply_conf_change(change).is_ok();
        // Another leader proposed it, and this one committed it with its first entry. Raft would continue to lead,
        // and panic on its missing progress (R/raft.rs:943, 1055).
        if self.is_leader() && !self.is_voter() && !planted!(RemovedLeaderLeads) {
            let term = self.term();
            self.node.raft.become_follower(term, raft::INVALID_ID);
        }
        self.draw();
        applied
    }

    /// Enters a newer term, without a vote and without a leader.
    pub(crate) fn enter_term(&mut self, term: u64) {
        if term > self.term() && !self.is_leader() {
            self.node.raft.become_follower(term, raft::INVALID_ID);
            self.draw();
        }
    }

    /// Asks a majority to confirm that this member leads; `context` must never repeat.
    pub(crate) fn read_index(&mut self, context: u64) -> bool {
        // Before the first commit of its term, a leader silently drops reads.
        if !self.is_leader() || !self.node.raft.commit_to_current_term() && !planted!(ReadBeforeOwnTerm) {
            return false;
        }
        self.node.read_index(context.to_be_bytes().to_vec());
        self.draw();
        true
    }

    pub(crate) fn transfer_leader(&mut self, to: NodeId) {
        if self.is_leader() {
            self.node.transfer_leader(to);
            self.draw();
        }
    }

    /// Campaigns, with a pre-vote.
    pub(crate) fn campaign(&mut self) {
        if self.is_voter() && !self.is_leader() && !self.is_restoring() {
            let _ = self.node.campaign();
            self.draw();
        }
    }

    /// Forgets the leader, on evidence that its process is gone. This is safe, because only reads by lease would
    /// depend on the leader.
    pub(crate) fn forget_leader(&mut self) {
        self.node.raft.leader_id = raft::INVALID_ID;
    }

    pub(crate) fn report_unreachable(&mut self, id: NodeId) {
        self.node.report_unreachable(id);
        self.draw();
    }

    pub(crate) fn report_snapshot(&mut self, id: NodeId, ok: bool) {
        let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.node.report_snapshot(id, status);
        self.draw();
    }
}

/// Whether an entry is a change of membership.
pub(crate) fn is_conf_change(entry: &Entry) -> bool {
    entry.get_entry_type() != EntryType::EntryNormal
}

#[cfg(any(test, feature = "testing"))]
impl Driver {
    /// Makes the next proposal fail, as raft does when too much is uncommitted.
    pub(crate) fn drop_next_proposal(&mut self) {
        self.drops_next = true;
    }

    #[cfg(test)]
    pub(crate) fn node(&mut self) -> &mut RawNode<LogStorage> {
        &mut self.node
    }
}
