//! Linearizable reads: a read index that covers everything acknowledged before the request, confirmed by a majority.
//! API clients use them, and so does the replica before it refuses an update.

use crate::context::{Context, Outputs};
use crate::io::{NodeId, ReadIndexError, UpdateRequest};
use crate::limits::{FORWARD_AGAIN_MS, READ_WAIT_MS, READS_WAITING_MAX, REFUSALS_WAITING_MAX};
use crate::peer::Frame;
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
    /// The number of reads for refusals.
    refusals: usize,
}

#[derive(Clone, Copy, Debug)]
enum ReadOrigin {
    Own(u64),
    Peer(NodeId, u64),
}

/// A read of this member that is over.
pub(crate) struct FinishedRead {
    pub(crate) purpose: ReadPurpose,
    /// The applied index, which covers everything acknowledged before the request.
    pub(crate) result: Result<u64, ReadIndexError>,
}

/// The purpose of this member's read.
#[derive(Debug)]
pub(crate) enum ReadPurpose {
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

    /// Whether clients wait for updates that may be refused.
    pub(crate) const fn has_refusals(&self) -> bool {
        self.refusals > 0
    }

    /// Whether the shell may request another read.
    pub(crate) fn has_room(&self) -> bool {
        self.own.len() - self.refusals < READS_WAITING_MAX
    }

    /// Whether another update may wait for a read before it is refused.
    pub(crate) const fn has_room_for_refusal(&self) -> bool {
        self.refusals < REFUSALS_WAITING_MAX
    }

    /// Starts a read. Returns its context if raft must confirm it.
    pub(crate) fn begin(&mut self, context: &Context<'_>, outputs: &mut Outputs, purpose: ReadPurpose) -> Option<u64> {
        self.refusals += usize::from(matches!(purpose, ReadPurpose::Refusal(_)));
        let token = self.draw();
        let deadline_ms = context.now_ms() + READ_WAIT_MS;
        self.own.insert(token, OwnRead { purpose, deadline_ms, sent_ms: None, queried: Vec::new(), index: None });
        self.send(context, outputs, token)
    }

    const fn draw(&mut self) -> u64 {
        let context = self.next_context;
        self.next_context = context.wrapping_add(1);
        context
    }

    /// Asks the leader. Does nothing if there is none, or its first entry is not committed.
    fn send(&mut self, context: &Context<'_>, outputs: &mut Outputs, token: u64) -> Option<u64> {
        let mut to_confirm = None;
        let leader = context.driver.leader().filter(|_| !context.driver.is_leader());
        let is_sent = if context.driver.is_leader() {
            let can_confirm = self.can_confirm(context);
            if can_confirm {
                to_confirm = self.confirm(context, outputs, ReadOrigin::Own(token));
            }
            can_confirm
        } else if let Some(leader) = leader {
            outputs.send(leader, &Frame::ReadIndex { token });
            true
        } else {
            false
        };
        if let Some(read) = self.own.get_mut(&token) {
            read.sent_ms = is_sent.then_some(context.now_ms());
            read.queried.extend(leader.filter(|leader| !read.queried.contains(leader)));
        }
        to_confirm
    }

    /// A member asks this leader. Returns the context of the read if raft must confirm it.
    pub(crate) fn handle_peer(
        &mut self,
        context: &Context<'_>,
        outputs: &mut Outputs,
        from: NodeId,
        token: u64,
    ) -> Option<u64> {
        if self.can_confirm(context) { self.confirm(context, outputs, ReadOrigin::Peer(from, token)) } else { None }
    }

    /// Only on the leader, after its first entry: before that raft silently drops reads.
    fn can_confirm(&self, context: &Context<'_>) -> bool {
        self.in_raft.len() < READS_WAITING_MAX && context.driver.has_applied_own_term()
    }

    /// Returns the context of a read that raft must confirm.
    fn confirm(&mut self, context: &Context<'_>, outputs: &mut Outputs, origin: ReadOrigin) -> Option<u64> {
        let drawn = self.draw();
        if planted!(ReadWithoutMajority) {
            self.confirmed(origin, context.driver.commit(), outputs);
            return None;
        }
        self.in_raft.insert(drawn, (origin, context.now_ms() + READ_WAIT_MS));
        Some(drawn)
    }

    /// Raft confirmed a read. `commit` is the highest index that any member may have committed.
    pub(crate) fn handle_state(&mut self, state: &ReadState, commit: u64, outputs: &mut Outputs) {
        let Ok(context) = <[u8; 8]>::try_from(state.request_ctx.as_slice()) else { return };
        if let Some((origin, _)) = self.in_raft.remove(&u64::from_be_bytes(context)) {
            self.confirmed(origin, state.index.max(commit), outputs);
        }
    }

    fn confirmed(&mut self, origin: ReadOrigin, index: u64, outputs: &mut Outputs) {
        match origin {
            ReadOrigin::Own(token) => self.answered(token, index),
            ReadOrigin::Peer(id, token) => outputs.send(id, &Frame::ReadIndexAnswer { token, index }),
        }
    }

    /// A peer's answer counts only if that peer was asked.
    pub(crate) fn handle_peer_answer(&mut self, from: NodeId, token: u64, index: u64, outputs: &mut Outputs) {
        match self.own.get(&token) {
            Some(read) if read.queried.contains(&from) || planted!(UnaskedAnswerTaken) => self.answered(token, index),
            Some(_) => outputs.refuse(),
            // The answer is late.
            None => {}
        }
    }

    fn answered(&mut self, token: u64, index: u64) {
        if let Some(read) = self.own.get_mut(&token) {
            // Every request was sent after the read began, so the first answer is enough.
            read.index.get_or_insert(index);
        }
    }

    /// Removes and returns the reads whose index is applied.
    pub(crate) fn take_applied(&mut self, applied: u64) -> Vec<FinishedRead> {
        if self.own.is_empty() {
            return Vec::new();
        }
        let done = self.own.extract_if(.., |_, read| read.index.is_some_and(|index| index <= applied));
        let done: Vec<_> = done.map(|(_, read)| FinishedRead { purpose: read.purpose, result: Ok(applied) }).collect();
        self.forget_refusals(&done);
        done
    }

    /// Removes and returns the reads past their deadline.
    pub(crate) fn take_expired(&mut self, now_ms: u64) -> Vec<FinishedRead> {
        self.in_raft.retain(|_, &mut (_, deadline_ms)| now_ms < deadline_ms);
        let expired = self.own.extract_if(.., |_, read| now_ms >= read.deadline_ms);
        let timed_out =
            |(_, read): (u64, OwnRead)| FinishedRead { purpose: read.purpose, result: Err(ReadIndexError::TimedOut) };
        let expired: Vec<_> = expired.map(timed_out).collect();
        self.forget_refusals(&expired);
        expired
    }

    fn forget_refusals(&mut self, finished: &[FinishedRead]) {
        self.refusals -= finished.iter().filter(|read| matches!(read.purpose, ReadPurpose::Refusal(_))).count();
    }

    /// Repeats requests that may be lost. Returns the contexts of the reads that raft must confirm.
    pub(crate) fn repeat(&mut self, context: &Context<'_>, outputs: &mut Outputs) -> Vec<u64> {
        let now_ms = context.now_ms();
        let to_ask = self.own.iter().filter(|(_, read)| read.is_due(now_ms)).map(|(&token, _)| token);
        let to_ask: Vec<_> = to_ask.collect();
        to_ask.into_iter().filter_map(|token| self.send(context, outputs, token)).collect()
    }

    /// The leader or the term changed, so raft dropped its reads.
    pub(crate) fn reset(&mut self) {
        self.in_raft.clear();
        for read in self.own.values_mut() {
            read.sent_ms = None;
        }
    }
}
