//! Frames of peers in, frames to peers out.

use super::Replica;
use crate::command::Answer;
use crate::io::{NodeId, Output};
use crate::limits::MESSAGE_BYTES;
use crate::peer::{Frame, is_sent};
use crate::propose::Origin;
use crate::raft::Guard;
use raft::eraftpb::{Message, MessageType};

impl Replica {
    pub(super) fn handle_frame(&mut self, from: NodeId, bytes: &[u8]) {
        // Whatever somebody says that is no member, and be it about the membership: raft would believe it.
        if !self.admits(from) {
            self.counters.non_member_frames += 1;
            return;
        }
        // Nothing is promised on a log that may be lost again.
        if !self.driver.log().is_durable() {
            return;
        }
        let frame = match Frame::decode(bytes) {
            Ok((group, frame)) if group == self.config.group => frame,
            _ => {
                self.machine.invariant_violations.malformed_frames += 1;
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
                if (self.is_fenced() || self.is_log_full()) && message.get_msg_type() == MessageType::MsgTimeoutNow => {
            }
            Frame::Raft(message) => self.step(from, *message),
            Frame::Forward { token, term, command } => {
                // A repeated frame was answered the first time.
                if !self.seen_forwards.is_first(from, token) && !planted!(ForwardTakenTwice) {
                    self.counters.forwards_repeated += 1;
                    return;
                }
                let origin = Origin { peer: Some(from), token };
                // A command for another term is in no log, so its sender may retry after that term.
                let is_of_term = term.is_none_or(|term| term == self.driver.term());
                // A removed node must not send commands.
                let is_asked = self.driver.is_leader() && self.machine.settings.is_member(from);
                let is_accepted = is_asked && is_of_term && !self.is_stopping();
                if !is_accepted {
                    self.reply(origin, Answer::NotProposed);
                } else if !self.head.enqueue(origin, command) {
                    // A peer of feature level 1 would count an answer that it cannot read as an invariant violation.
                    let is_known = self.machine.settings.feature_level() >= 2;
                    self.reply(origin, if is_known { Answer::Overloaded } else { Answer::NotProposed });
                }
            }
            Frame::Answer { token, answer } => self.handle_peer_answer(from, token, answer),
            Frame::Report(report) => self.handle_report(from, report),
            Frame::ReportAck(ack) => self.handle_report_ack(from, ack),
            Frame::HashVerdict { index, hash } => self.handle_hash_verdict(from, index, hash),
            Frame::ReadIndex { token } => self.handle_peer_read(from, token),
            Frame::ReadIndexAnswer { token, index } => self.handle_peer_read_answer(from, token, index),
            Frame::SnapshotResult { ok } => self.handle_snapshot_result(from, ok),
            Frame::Checkpoint(bytes) => self.handle_checkpoint_frame(from, &bytes),
            Frame::LeaseRequest(ask) => self.handle_lease_request(from, ask),
            Frame::LeaseGrant(grant) => self.handle_lease_grant(from, grant),
            Frame::Applied { index } => self.handle_applied_at(from, index),
            Frame::AllLiveIndex { index, of_rotation } => self.handle_peer_all_live_index(from, index, of_rotation),
            Frame::Durable(durable) => self.handle_durable(from, durable),
            Frame::Memory(figures) => self.handle_memory_of(from, figures),
            Frame::Disk { is_short } => self.handle_disk_of(from, is_short),
            Frame::Clock { wall_ms } => self.handle_clock(from, wall_ms),
        }
    }

    /// Gives raft a message, if it may see it.
    pub(crate) fn step(&mut self, from: NodeId, message: Message) {
        self.note_position(from, &message);
        if self.withholds_vote(&message) {
            return;
        }
        let (term, is_of_leader) = (message.term, is_of_leader(&message));
        let guard = self.driver.step(from, message);
        if is_of_leader && matches!(guard, Guard::Step | Guard::Contradicts(_)) {
            self.note_led(from);
        }
        self.note_guard(from, term, guard);
    }

    /// Counts what a correct member does not send.
    pub(crate) fn note_guard(&mut self, from: NodeId, term: u64, guard: Guard) {
        match guard {
            Guard::Step => {}
            Guard::Ignore => self.counters.messages_ignored += 1,
            Guard::Drop => self.refuse(),
            Guard::Contradicts(what) => {
                self.refuse();
                self.note_contradiction(from, term, what);
            }
        }
    }

    /// Counts a frame that its sender, a member, has no business to send.
    pub(crate) const fn refuse(&mut self) {
        self.machine.invariant_violations.refused_messages += 1;
    }

    /// Tells an origin what became of its command.
    pub(crate) fn reply(&mut self, origin: Origin, answer: Answer) {
        match origin.peer {
            Some(peer) => self.send(peer, &Frame::Answer { token: origin.token, answer }),
            None => self.handle_answer(origin.token, answer),
        }
    }

    pub(crate) fn send(&mut self, to: NodeId, frame: &Frame) {
        let (channel, frame) = (frame.channel(), frame.encode(self.config.group));
        self.out.push_back(Output::Send { to, channel, frame });
    }

    pub(super) fn send_messages(&mut self, messages: Vec<Message>) {
        // After a start nothing is said before what was read is known to be durable; raft repeats itself.
        if !self.driver.log().is_durable() {
            return;
        }
        for message in messages {
            if !is_sent(message.get_msg_type()) {
                continue;
            }
            let to = message.to;
            if message.get_msg_type() == MessageType::MsgSnapshot {
                self.note_snapshot_sent(to);
            }
            for message in split_append(message) {
                self.send(to, &Frame::Raft(Box::new(message)));
            }
        }
    }
}

/// Whether only a leader sends such a message.
fn is_of_leader(message: &Message) -> bool {
    matches!(message.get_msg_type(), MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot)
}

/// Cuts an append message to size: raft batches what waits for one member into one message.
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
