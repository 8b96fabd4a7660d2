//! Encoding of raft's messages. It is not protobuf: it is bounded, and contains only what raft needs.

use crate::limits::{
    ENTRY_BYTES_MAX, ENTRY_CONTEXT_BYTES_MAX, MEMBERS_MAX, MESSAGE_CONTEXT_BYTES_MAX, MESSAGE_ENTRIES_MAX,
    SNAPSHOT_DATA_BYTES_MAX,
};
use ::raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType, Snapshot};
use zone::codec::{DecodeError, Decoder, Encoder};

/// Smallest encoded entry: type, term, index, two counts.
const ENTRY_BYTES_MIN: usize = 1 + 8 + 8 + 4 + 4;

/// The messages that members send each other, with their numbers in the encoding. All others are refused on receipt:
/// proposals, transfers and reads are forwarded in frames of their own, and raft's local messages never come from
/// another member.
const KINDS: [(MessageType, u8); 10] = [
    (MessageType::MsgAppend, 1),
    (MessageType::MsgAppendResponse, 2),
    (MessageType::MsgRequestVote, 3),
    (MessageType::MsgRequestVoteResponse, 4),
    (MessageType::MsgSnapshot, 5),
    (MessageType::MsgHeartbeat, 6),
    (MessageType::MsgHeartbeatResponse, 7),
    (MessageType::MsgTimeoutNow, 8),
    (MessageType::MsgRequestPreVote, 9),
    (MessageType::MsgRequestPreVoteResponse, 10),
];

/// Whether members send each other messages of this type.
pub(crate) fn is_sent(message_type: MessageType) -> bool {
    KINDS.iter().any(|&(kind, _)| kind == message_type)
}

pub(super) fn encode_message(message: &Message, out: &mut Encoder) {
    let kind = KINDS.iter().find(|&&(kind, _)| kind == message.get_msg_type());
    out.u8(kind.expect("only messages of these types leave a member").1);
    for number in [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.request_snapshot,
        message.reject_hint,
    ] {
        out.u64(number);
    }
    out.bool(message.reject);
    out.u64(message.priority.cast_unsigned());
    out.bytes(&message.context);
    out.count(message.entries.len());
    for entry in &message.entries {
        encode_entry(entry, out);
    }
    let snapshot = message.get_snapshot();
    out.bool(snapshot.get_metadata().index != 0);
    if snapshot.get_metadata().index != 0 {
        out.u64(snapshot.get_metadata().index);
        out.u64(snapshot.get_metadata().term);
        encode_conf_state(snapshot.get_metadata().get_conf_state(), out);
        out.bytes(&snapshot.data);
    }
}

pub(super) fn decode_message(from: &mut Decoder<'_>) -> Result<Message, DecodeError> {
    let kind = from.u8()?;
    let known = KINDS.iter().find(|&&(_, number)| number == kind || planted!(UnknownMessageTaken) && kind > 10);
    let &(message_type, _) = known.ok_or(DecodeError::Unknown)?;
    let mut message = Message::default();
    message.set_msg_type(message_type);
    message.to = from.u64()?;
    message.from = from.u64()?;
    message.term = from.u64()?;
    message.log_term = from.u64()?;
    message.index = from.u64()?;
    message.commit = from.u64()?;
    message.commit_term = from.u64()?;
    message.request_snapshot = from.u64()?;
    message.reject_hint = from.u64()?;
    message.reject = from.bool()?;
    message.priority = from.u64()?.cast_signed();
    message.context = from.bytes(MESSAGE_CONTEXT_BYTES_MAX)?.to_vec().into();
    let entry_count = from.count(MESSAGE_ENTRIES_MAX, ENTRY_BYTES_MIN)?;
    let mut entries = Vec::with_capacity(entry_count);
    for _ in 0..entry_count {
        entries.push(decode_entry(from)?);
    }
    message.set_entries(entries.into());
    if from.bool()? {
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = from.u64()?;
        metadata.term = from.u64()?;
        if metadata.index == 0 {
            return Err(DecodeError::Unknown);
        }
        metadata.set_conf_state(decode_conf_state(from)?);
        snapshot.data = from.bytes(SNAPSHOT_DATA_BYTES_MAX)?.to_vec().into();
        message.set_snapshot(snapshot);
    }
    Ok(message)
}

fn encode_entry(entry: &Entry, out: &mut Encoder) {
    out.u8(match entry.get_entry_type() {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange => 1,
        EntryType::EntryConfChangeV2 => 2,
    });
    out.u64(entry.term);
    out.u64(entry.index);
    out.bytes(&entry.data);
    out.bytes(&entry.context);
}

fn decode_entry(from: &mut Decoder<'_>) -> Result<Entry, DecodeError> {
    let mut entry = Entry::default();
    entry.set_entry_type(match from.u8()? {
        0 => EntryType::EntryNormal,
        1 => EntryType::EntryConfChange,
        2 => EntryType::EntryConfChangeV2,
        _ => return Err(DecodeError::Unknown),
    });
    entry.term = from.u64()?;
    entry.index = from.u64()?;
    entry.data = from.bytes(ENTRY_BYTES_MAX)?.to_vec().into();
    entry.context = from.bytes(ENTRY_CONTEXT_BYTES_MAX)?.to_vec().into();
    Ok(entry)
}

/// Sorted, because raft's own order is that of a hash map.
pub(super) fn encode_conf_state(conf_state: &ConfState, out: &mut Encoder) {
    for list in [
        conf_state.get_voters(),
        conf_state.get_learners(),
        conf_state.get_voters_outgoing(),
        conf_state.get_learners_next(),
    ] {
        let mut ids = list.to_vec();
        if !planted!(ConfigurationNotSorted) {
            ids.sort_unstable();
        }
        out.count(ids.len());
        for id in ids {
            out.u64(id);
        }
    }
    out.bool(conf_state.auto_leave);
}

/// Decodes the output of [`encode_conf_state`]. Unsorted, repeated or inconsistent ids are refused, because raft
/// panics on them.
pub(super) fn decode_conf_state(from: &mut Decoder<'_>) -> Result<ConfState, DecodeError> {
    let mut lists: [Vec<u64>; 4] = Default::default();
    for list in &mut lists {
        for _ in 0..from.count(MEMBERS_MAX, 8)? {
            let id = from.u64()?;
            if id == 0 || list.last().is_some_and(|&last| last >= id) {
                return Err(DecodeError::Unknown);
            }
            list.push(id);
        }
    }
    let [voters, learners, voters_outgoing, learners_next] = lists;
    let auto_leave = from.bool()?;
    let learner_votes = learners.iter().any(|id| voters.contains(id) || voters_outgoing.contains(id));
    // A learner of the next configuration is a voter of the outgoing one; otherwise it would be a learner already.
    let next_is_sane = learners_next.iter().all(|id| voters_outgoing.contains(id) && !voters.contains(id));
    let joint_is_sane = !voters_outgoing.is_empty() || (learners_next.is_empty() && !auto_leave);
    if voters.is_empty() || learner_votes || !next_is_sane || !joint_is_sane {
        return Err(DecodeError::Unknown);
    }
    let mut conf_state = ConfState::default();
    conf_state.set_voters(voters);
    conf_state.set_learners(learners);
    conf_state.set_voters_outgoing(voters_outgoing);
    conf_state.set_learners_next(learners_next);
    conf_state.set_auto_leave(auto_leave);
    Ok(conf_state)
}
