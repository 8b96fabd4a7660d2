//! The work in a `Ready`, and messages that wait for the disk.

use super::driver::{Driver, Waiting};
use crate::log::CheckpointRef;
use ::raft::ReadState;
use ::raft::eraftpb::{Entry, Message, MessageType, Snapshot};

/// The work in one `Ready`.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Messages to send now.
    pub(crate) messages: Vec<Message>,
    /// Entries that are committed and durable here, to be applied in order.
    pub(crate) committed: Vec<Entry>,
    /// A checkpoint that replaces log and state.
    pub(crate) snapshot: Option<Snapshot>,
    /// Confirmed reads.
    pub(crate) reads: Vec<ReadState>,
}

impl Driver {
    /// Takes the next work. Entries can be read from the log before raft learns that they are stored. `installed`
    /// returns the durable checkpoint that a snapshot message announced.
    pub(crate) fn ready(&mut self, installed: impl FnOnce(&Snapshot) -> CheckpointRef) -> Option<Work> {
        if !self.node.has_ready() {
            return None;
        }
        let mut ready = self.node.ready();
        let number = ready.number();
        let mut work = Work { reads: ready.take_read_states(), ..Work::default() };
        let is_written = ready.must_sync();
        let vote_changed = self.store(&mut ready, installed);
        work.snapshot = Some(ready.snapshot()).filter(|snapshot| !snapshot.is_empty()).cloned();
        work.committed = ready.take_committed_entries();
        if let Some(last) = work.committed.last() {
            assert!(last.index <= self.log().durable_index(), "a member shows nothing that its own disk may lack");
        }
        self.sort_messages(&mut ready, is_written, vote_changed, &mut work);
        self.node.advance_append_async(ready);
        if !is_written && self.waiting.is_empty() || planted!(PersistedBeforeDisk) {
            self.node.on_persist_ready(number);
            self.draw();
        }
        Some(work)
    }

    /// Adds the contents of a `Ready` to the log; returns whether term or vote changed.
    fn store(&mut self, ready: &mut raft::Ready, installed: impl FnOnce(&Snapshot) -> CheckpointRef) -> bool {
        let number = ready.number();
        let entries = ready.take_entries();
        let is_written = ready.must_sync();
        let log = &mut self.node.mut_store().log;
        let old = log.hard_state();
        let changed = ready.hs().is_some_and(|new| (new.term, new.vote) != (old.term, old.vote));
        if !ready.snapshot().is_empty() {
            log.install(installed(ready.snapshot()), ready.hs(), number);
        }
        if is_written {
            log.append(entries, ready.hs(), number);
        } else if let Some(hard_state) = ready.hs() {
            log.set_commit(hard_state.commit);
        }
        changed
    }

    /// Delays messages that promise something until the disk has it. A leader whose own vote is not written delays
    /// all of its messages: a single voter leads before that, and a learner must not hear of a term that may be used
    /// again after a crash.
    fn sort_messages(&mut self, ready: &mut raft::Ready, is_written: bool, vote_changed: bool, work: &mut Work) {
        let number = ready.number();
        let mut later = ready.take_persisted_messages();
        let now = ready.take_messages();
        let vote_is_written = !vote_changed && self.waiting.iter().all(|waiting| !waiting.vote_changed);
        if vote_is_written {
            work.messages = now;
        } else {
            later.extend(now);
        }
        if planted!(MessagesBeforeDisk) {
            work.messages.append(&mut later);
        }
        if planted!(VotesBeforeDisk) {
            // Only votes and answers to them are sent early.
            let (votes, rest): (Vec<_>, Vec<_>) = later.into_iter().partition(|m| {
                matches!(m.get_msg_type(), MessageType::MsgRequestVote | MessageType::MsgRequestVoteResponse)
            });
            work.messages.extend(votes);
            later = rest;
        }
        if is_written || !self.waiting.is_empty() {
            self.waiting.push_back(Waiting { number, is_written, vote_changed, messages: later });
        } else {
            work.messages.append(&mut later);
        }
    }

    /// Everything up to the `Ready` with this number is durable. Returns the messages that waited for it.
    pub(crate) fn persisted(&mut self, number: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut done = None;
        while let Some(front) = self.waiting.front() {
            if front.is_written && front.number > number {
                break;
            }
            done = Some(front.number);
            if let Some(front) = self.waiting.pop_front() {
                messages.extend(front.messages);
            }
        }
        if let Some(number) = done {
            self.node.on_persist_ready(number);
            self.draw();
        }
        messages
    }

    /// Whether every installed checkpoint is durable.
    pub(crate) fn is_snapshot_persisted(&self) -> bool {
        let log = &self.node.raft.raft_log;
        log.unstable_snapshot().is_none() && log.persisted >= log.store().log.checkpoint().index
    }

    /// The state includes everything up to this index.
    pub(crate) fn applied(&mut self, index: u64) {
        self.node.advance_apply_to(index);
        self.draw();
    }
}
