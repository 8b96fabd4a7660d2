//! Frames of peers in, frames to peers out.

use super::Replica;
use crate::command::{Answer, Command};
use crate::context::Context;
use crate::io::NodeId;
use crate::limits::MESSAGE_BYTES;
use crate::peer::{Frame, is_sent};
use crate::propose::Origin;
use crate::raft::Guard;
use raft::eraftpb::{Message, MessageType};

impl Replica {
    pub(super) fn handle_frame(&mut self, from: NodeId, bytes: &[u8]) {
        // Raft would trust a message of a non-member, even about the membership.
        if !self.admits(from) {
            self.outputs.counters.non_member_frames += 1;
            return;
        }
        // Nothing may be promised on a log that could still be lost.
        if !self.driver.log().is_durable() {
            return;
        }
        let frame = match Frame::decode(bytes) {
            Ok((group, frame)) if group == self.local.config.group => frame,
            _ => {
                self.outputs.invariant_violations.malformed_frames += 1;
                return;
            }
        };
        match frame {
            Frame::Raft(message) if message.get_msg_type() == MessageType::MsgSnapshot => {
                self.handle_snapshot_message(from, *message);
            }
            // A fenced member or one with a full log does not take over the leadership. The leader tries another member
            // or keeps leading.
            Frame::Raft(message)
                if (self.local.lifecycle.is_fenced() || self.full.is_log_full())
                    && message.get_msg_type() == MessageType::MsgTimeoutNow => {}
            Frame::Raft(message) => self.step(from, *message),
            Frame::Forward { token, term, command } => self.handle_forward(from, token, term, command),
            Frame::Answer { token, answer } => {
                let (requests, mut shared) = self.requests();
                requests.handle_peer_answer(&mut shared, from, token, answer);
            }
            Frame::Report(report) => self.handle_report(from, report),
            Frame::ReportAck(ack) => self.handle_report_ack(from, ack),
            Frame::HashVerdict { index, hash } => self.handle_hash_verdict(from, index, hash),
            Frame::ReadIndex { token } => self.handle_peer_read(from, token),
            Frame::ReadIndexAnswer { token, index } => self.handle_peer_read_answer(from, token, index),
            Frame::SnapshotResult { ok } => self.transfer_ended(from, ok),
            Frame::Checkpoint(bytes) => {
                let now_ms = self.local.now.monotonic_ms;
                self.transfers.handle_frame(from, &bytes, now_ms, &mut self.outputs);
            }
            frame => self.handle_report_frame(from, frame),
        }
    }

    /// Takes a command that a member forwarded to this leader.
    fn handle_forward(&mut self, from: NodeId, token: u64, term: Option<u64>, command: Command) {
        // A repeated frame was answered the first time.
        if !self.seen_forwards.is_first(from, token) && !planted!(ForwardTakenTwice) {
            self.outputs.counters.forwards_repeated += 1;
            return;
        }
        let origin = Origin { peer: Some(from), token };
        // A command for another term is in no log, so its sender may retry after that term.
        let is_of_term = term.is_none_or(|term| term == self.driver.term());
        // A removed node must not send commands.
        let is_asked = self.driver.is_leader() && self.machine.settings.is_member(from);
        let is_accepted = is_asked && is_of_term && !self.local.lifecycle.is_stopping();
        if !is_accepted {
            self.reply(origin, Answer::NotProposed);
        } else if !self.head.enqueue(origin, command) {
            // A peer of feature level 1 would count an answer that it cannot read as an invariant violation.
            let is_known = self.machine.settings.feature_level() >= 2;
            self.reply(origin, if is_known { Answer::Overloaded } else { Answer::NotProposed });
        }
    }

    /// Handles a frame that concerns one component.
    fn handle_report_frame(&mut self, from: NodeId, frame: Frame) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        match frame {
            Frame::LeaseRequest(request) => {
                self.rotation.handle_lease_request(&context, &self.progress, &mut self.outputs, from, request);
            }
            Frame::LeaseGrant(grant) => self.rotation.handle_lease_grant(&context, &mut self.outputs, from, grant),
            Frame::Applied { index } => {
                self.rotation.handle_applied_at(&context, &self.progress, &mut self.outputs, from, index);
            }
            Frame::AllLiveIndex { index, of_rotation } => {
                // Counts only from the leader, or from the last leader while none is known, as its message may be late.
                if self.driver.leader().or(self.local.last_leader) == Some(from) {
                    self.rotation.handle_all_live_index(&mut self.outputs, index, of_rotation);
                }
            }
            Frame::Durable(durable) => {
                if let Some((term, index)) = self.follower_commit.handle_durable(&context, from, durable) {
                    self.driver.commit_as_follower(term, index);
                }
            }
            Frame::Memory(figures) => self.memory.handle_report(&context, from, figures),
            Frame::Disk { is_short } => self.full.handle_report(&context, from, is_short),
            Frame::Clock { wall_ms } => self.clocks.handle_report(&context, from, wall_ms),
            // The caller handles these frames, which concern several components.
            Frame::Raft(_)
            | Frame::Forward { .. }
            | Frame::Answer { .. }
            | Frame::Report(_)
            | Frame::ReportAck(_)
            | Frame::HashVerdict { .. }
            | Frame::ReadIndex { .. }
            | Frame::ReadIndexAnswer { .. }
            | Frame::SnapshotResult { .. }
            | Frame::Checkpoint(_) => {}
        }
    }

    /// Passes a message to raft, if its checks succeed.
    pub(crate) fn step(&mut self, from: NodeId, message: Message) {
        self.log_loss.note_position(&self.driver, from, &message);
        if self.log_loss.withholds_vote(&self.driver, &message) {
            self.outputs.counters.votes_withheld += 1;
            return;
        }
        let (term, is_of_leader) = (message.term, is_of_leader(&message));
        let guard = self.driver.step(from, message);
        if is_of_leader && matches!(guard, Guard::Step | Guard::Contradicts(_)) {
            self.note_led(from);
        }
        self.note_guard(from, term, guard);
    }

    /// Counts messages that a correct member does not send.
    pub(crate) fn note_guard(&mut self, from: NodeId, term: u64, guard: Guard) {
        match guard {
            Guard::Step => {}
            Guard::Ignore => self.outputs.counters.messages_ignored += 1,
            Guard::Drop => self.outputs.refuse(),
            Guard::Contradicts(what) => {
                self.outputs.refuse();
                let context = Context::new(&self.local, &self.driver, &self.machine);
                if let Some(reason) = self.log_loss.note_contradiction(&context, from, term, what) {
                    self.local.lifecycle.end(reason, &mut self.outputs);
                }
            }
        }
    }

    /// Answers the origin of a command.
    pub(crate) fn reply(&mut self, origin: Origin, answer: Answer) {
        match origin.peer {
            Some(peer) => self.outputs.send(peer, &Frame::Answer { token: origin.token, answer }),
            None => {
                let (requests, mut shared) = self.requests();
                requests.handle_answer(&mut shared, origin.token, answer);
            }
        }
    }

    pub(super) fn send_messages(&mut self, messages: Vec<Message>) {
        // After a start, nothing is sent before the log that was read is known to be durable. Raft repeats its
        // messages.
        if !self.driver.log().is_durable() {
            return;
        }
        for message in messages {
            if !is_sent(message.get_msg_type()) {
                continue;
            }
            let to = message.to;
            if message.get_msg_type() == MessageType::MsgSnapshot {
                self.transfers.note_sent(to, self.local.now.monotonic_ms);
            }
            for message in split_append(message) {
                self.outputs.send(to, &Frame::Raft(Box::new(message)));
            }
        }
    }
}

/// Whether only a leader sends messages of this type.
fn is_of_leader(message: &Message) -> bool {
    matches!(message.get_msg_type(), MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot)
}

/// Splits an append message by size, because raft puts everything that waits for a member into one message.
fn split_append(mut message: Message) -> Vec<Message> {
    let bytes = |message: &Message| message.entries.iter().map(|entry| entry.data.len() + 64).sum::<usize>();
    if message.get_msg_type() != MessageType::MsgAppend || bytes(&message) <= MESSAGE_BYTES {
        return vec![message];
    }
    let entries = message.take_entries().into_vec();
    let mut messages = Vec::new();
    let mut part = message.clone();
    let mut part_entries = Vec::new();
    let mut part_bytes = 0;
    for entry in entries {
        let more = entry.data.len() + 64;
        if part_bytes + more > MESSAGE_BYTES && !part_entries.is_empty() {
            let (index, term) = (entry.index - 1, last_term(&part_entries));
            part.set_entries(core::mem::take(&mut part_entries).into());
            messages.push(part);
            part = message.clone();
            part.index = index;
            part.log_term = term;
            part_bytes = 0;
        }
        part_bytes += more;
        part_entries.push(entry);
    }
    part.set_entries(part_entries.into());
    messages.push(part);
    messages
}

fn last_term(entries: &[raft::eraftpb::Entry]) -> u64 {
    entries.last().map_or(0, |entry| entry.term)
}
