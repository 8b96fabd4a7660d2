//! Linearizable reads: a read index that covers everything acknowledged before the request, confirmed by a majority.
//! API clients use them, and the replica itself does before it refuses an update.

use crate::io::{NodeId, Output, ReadIndexError, UpdateRequest};
use crate::limits::{FORWARD_AGAIN_MS, READ_WAIT_MS, READS_WAITING_MAX, REFUSALS_WAITING_MAX};
use crate::peer::Frame;
use crate::replica::Replica;
use raft::ReadState;
use std::collections::BTreeMap;

/// Pending reads.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// The next context for raft. Contexts must never repeat.
    next_context: u64,
    /// Reads that raft is confirming, by context: the origin and the deadline.
    in_raft: BTreeMap<u64, (ReadOrigin, u64)>,
    /// Reads of this member, by token.
    own: BTreeMap<u64, OwnRead>,
    /// The number of those that are for refusals.
    refusals: usize,
}

#[derive(Clone, Copy, Debug)]
enum ReadOrigin {
    Own(u64),
    Peer(NodeId, u64),
}

/// What a read of this member is for.
#[derive(Debug)]
enum ReadPurpose {
    /// A request of the shell.
    Shell(u64),
    /// An update that this member refuses unless its state is out of date.
    Refusal(Box<UpdateRequest>),
}

#[derive(Debug)]
struct OwnRead {
    purpose: ReadPurpose,
    deadline_ms: u64,
    /// When the leader was last asked; `None` if it was not, or if raft dropped the read.
    sent_ms: Option<u64>,
    /// The leaders that were asked. Only their answers count.
    queried: Vec<NodeId>,
    index: Option<u64>,
}

impl OwnRead {
    /// Whether to send or repeat the request. It may be lost, and a leader does not answer before it applied its first
    /// entry or while its queue is full.
    fn is_due(&self, now_ms: u64) -> bool {
        self.index.is_none() && self.sent_ms.is_none_or(|at_ms| now_ms >= at_ms + FORWARD_AGAIN_MS)
    }
}

impl Reads {
    pub(crate) fn new(first_context: u64) -> Self {
        Self { next_context: first_context, ..Self::default() }
    }

    /// Whether clients wait for updates that are to be refused.
    pub(crate) const fn has_refusals(&self) -> bool {
        self.refusals > 0
    }
}

impl Replica {
    pub(crate) fn handle_read_index(&mut self, request_id: u64) {
        if self.reads.own.len() - self.reads.refusals >= READS_WAITING_MAX {
            return self.read_done(ReadPurpose::Shell(request_id), Err(ReadIndexError::Busy));
        }
        self.read(ReadPurpose::Shell(request_id));
    }

    /// Reads before an update is refused, see [`Replica::refuse_or_forward`]; `false` when too many wait for that.
    pub(crate) fn read_before_refusing(&mut self, request: &UpdateRequest) -> bool {
        if self.reads.refusals >= REFUSALS_WAITING_MAX {
            return false;
        }
        self.reads.refusals += 1;
        self.read(ReadPurpose::Refusal(Box::new(request.clone())));
        true
    }

    fn read(&mut self, purpose: ReadPurpose) {
        let token = self.reads.next_context;
        self.reads.next_context = token.wrapping_add(1);
        let deadline_ms = self.now.monotonic_ms + READ_WAIT_MS;
        self.reads.own.insert(token, OwnRead { purpose, deadline_ms, sent_ms: None, queried: Vec::new(), index: None });
        self.send_read(token);
    }

    /// Asks the leader. Does nothing if there is none, or its first entry is not committed.
    fn send_read(&mut self, token: u64) {
        let leader = self.driver.leader().filter(|_| !self.driver.is_leader());
        let is_sent = if self.driver.is_leader() {
            self.confirm_read(ReadOrigin::Own(token))
        } else if let Some(leader) = leader {
            self.send(leader, &Frame::ReadIndex { token });
            true
        } else {
            false
        };
        if let Some(read) = self.reads.own.get_mut(&token) {
            read.sent_ms = is_sent.then_some(self.now.monotonic_ms);
            read.queried.extend(leader.filter(|leader| !read.queried.contains(leader)));
        }
    }

    pub(crate) fn handle_peer_read(&mut self, from: NodeId, token: u64) {
        self.confirm_read(ReadOrigin::Peer(from, token));
    }

    /// Only on the leader, after its first entry: before that raft silently drops reads.
    fn confirm_read(&mut self, origin: ReadOrigin) -> bool {
        if self.reads.in_raft.len() >= READS_WAITING_MAX || !self.driver.has_applied_own_term() {
            return false;
        }
        let context = self.reads.next_context;
        self.reads.next_context = context.wrapping_add(1);
        if planted!(ReadWithoutMajority) {
            let index = self.highest_possible_commit();
            match origin {
                ReadOrigin::Own(token) => self.handle_read_answer(token, index),
                ReadOrigin::Peer(id, token) => self.send(id, &Frame::ReadIndexAnswer { token, index }),
            }
            return true;
        }
        if !self.driver.read_index(context) {
            return false;
        }
        self.reads.in_raft.insert(context, (origin, self.now.monotonic_ms + READ_WAIT_MS));
        true
    }

    /// Raft confirmed reads.
    pub(crate) fn handle_read_states(&mut self, states: Vec<ReadState>) {
        for state in states {
            let index = state.index.max(self.highest_possible_commit());
            let Ok(context) = <[u8; 8]>::try_from(state.request_ctx.as_slice()) else { continue };
            match self.reads.in_raft.remove(&u64::from_be_bytes(context)) {
                Some((ReadOrigin::Own(token), _)) => self.handle_read_answer(token, index),
                Some((ReadOrigin::Peer(id, token), _)) => {
                    self.send(id, &Frame::ReadIndexAnswer { token, index });
                }
                None => {}
            }
        }
    }

    /// The answer of a peer: it counts when that was asked.
    pub(crate) fn handle_peer_read_answer(&mut self, from: NodeId, token: u64, index: u64) {
        match self.reads.own.get(&token) {
            Some(read) if read.queried.contains(&from) => self.handle_read_answer(token, index),
            Some(_) => self.refuse(),
            // It came late.
            None => {}
        }
    }

    fn handle_read_answer(&mut self, token: u64, index: u64) {
        if let Some(read) = self.reads.own.get_mut(&token) {
            // Every request was sent after the read began, so the first answer is enough.
            read.index.get_or_insert(index);
        }
        self.answer_reads();
    }

    /// Answers those whose index is applied.
    pub(crate) fn answer_reads(&mut self) {
        if self.reads.own.is_empty() {
            return;
        }
        let applied = self.machine.applied.0;
        let done = self.reads.own.extract_if(.., |_, read| read.index.is_some_and(|index| index <= applied));
        for (_, read) in done.collect::<Vec<_>>() {
            self.read_done(read.purpose, Ok(applied));
        }
    }

    pub(crate) fn tick_reads(&mut self) {
        let now = self.now.monotonic_ms;
        self.reads.in_raft.retain(|_, &mut (_, deadline_ms)| now < deadline_ms);
        let expired = self.reads.own.extract_if(.., |_, read| now >= read.deadline_ms);
        for (_, read) in expired.collect::<Vec<_>>() {
            self.read_done(read.purpose, Err(ReadIndexError::TimedOut));
        }
        let to_ask = self.reads.own.iter().filter(|(_, read)| read.is_due(now)).map(|(&token, _)| token);
        for token in to_ask.collect::<Vec<_>>() {
            self.send_read(token);
        }
    }

    /// The leader or the term changed, so raft dropped its reads.
    pub(crate) fn reset_reads(&mut self) {
        self.reads.in_raft.clear();
        for read in self.reads.own.values_mut() {
            read.sent_ms = None;
        }
    }

    fn read_done(&mut self, purpose: ReadPurpose, result: Result<u64, ReadIndexError>) {
        match purpose {
            ReadPurpose::Shell(request_id) => self.out.push_back(Output::ReadIndexDone { request_id, result }),
            ReadPurpose::Refusal(request) => {
                self.reads.refusals -= 1;
                self.refuse_or_forward(*request, result.is_ok());
            }
        }
    }
}
