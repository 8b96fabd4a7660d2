//! Reads begin, and their results go to the shell or decide about a refusal.

use super::Replica;
use crate::context::Context;
use crate::io::{NodeId, Output, ReadIndexError, UpdateRequest};
use crate::reads::{FinishedRead, ReadPurpose};
use raft::ReadState;

impl Replica {
    pub(super) fn handle_read_index(&mut self, request_id: u64) {
        let purpose = ReadPurpose::Shell(request_id);
        if !self.reads.has_room() {
            return self.read_done(FinishedRead { purpose, result: Err(ReadIndexError::Busy) });
        }
        self.read(purpose);
    }

    /// Starts a read before an update is refused, see [`Replica::refuse_or_forward`].
    pub(super) fn read_before_refusing(&mut self, request: UpdateRequest) {
        self.read(ReadPurpose::Refusal(Box::new(request)));
    }

    fn read(&mut self, purpose: ReadPurpose) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let to_confirm = self.reads.begin(&context, &mut self.outputs, purpose);
        self.confirm_reads(to_confirm);
        if planted!(ReadWithoutMajority) {
            self.answer_reads();
        }
    }

    /// Another member asks this leader.
    pub(super) fn handle_peer_read(&mut self, from: NodeId, token: u64) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let to_confirm = self.reads.handle_peer(&context, &mut self.outputs, from, token);
        self.confirm_reads(to_confirm);
    }

    /// Raft asks a majority to confirm these reads.
    fn confirm_reads(&mut self, reads: impl IntoIterator<Item = u64>) {
        for read in reads {
            let is_requested = self.driver.read_index(read);
            debug_assert!(is_requested, "a leader that has applied an entry of its term takes reads");
        }
    }

    /// Raft confirmed reads.
    pub(super) fn handle_read_states(&mut self, states: Vec<ReadState>) {
        for state in states {
            let commit = self.follower_commit.highest_possible_commit(&self.driver);
            self.reads.handle_state(&state, commit, &mut self.outputs);
            self.answer_reads();
        }
    }

    pub(super) fn handle_peer_read_answer(&mut self, from: NodeId, token: u64, index: u64) {
        self.reads.handle_peer_answer(from, token, index, &mut self.outputs);
        self.answer_reads();
    }

    /// Answers the reads whose index is applied.
    pub(crate) fn answer_reads(&mut self) {
        for read in self.reads.take_applied(self.machine.applied.0) {
            self.read_done(read);
        }
    }

    pub(super) fn tick_reads(&mut self) {
        let now_ms = self.local.now.monotonic_ms;
        for read in self.reads.take_expired(now_ms) {
            self.read_done(read);
        }
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let to_confirm = self.reads.repeat(&context, &mut self.outputs);
        self.confirm_reads(to_confirm);
    }

    fn read_done(&mut self, FinishedRead { purpose, result }: FinishedRead) {
        match purpose {
            ReadPurpose::Shell(request_id) => self.outputs.push(Output::ReadIndexDone { request_id, result }),
            ReadPurpose::Refusal(request) => self.refuse_or_forward(*request, result.is_ok()),
        }
    }
}
