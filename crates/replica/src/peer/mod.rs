//! The messages between members: raft messages and frames of this crate, in one bounded encoding.
//!
//! ```text
//!   version (1) kind (1) group (2) body
//! ```
//!
//! A new kind of frame is sent only when the feature level of the cluster guarantees that every member knows it.

mod message;

pub(crate) use message::is_sent;
#[cfg(test)]
use message::{decode_conf_state, encode_conf_state};

use crate::command::{Answer, Command};
use crate::io::{Channel, MemoryFigures, NodeId};
use crate::limits::{FOLLOWER_COMMIT_VOTERS_MAX, FRAME_BYTES_MAX};
use ::raft::eraftpb::{Message, MessageType};
use zone::codec::{DecodeError, Decoder, Encoder};

/// The version of frames that this software uses.
pub const FRAME_VERSION: u8 = 1;
/// The highest feature level that this software supports. `docs/internals/decisions/0013` lists what each level adds.
pub const FEATURE_LEVEL: u32 = 5;

const HELLO_MAGIC: [u8; 8] = *b"CATAMRN1";

/// The first message on a connection, in both directions. The shell compares cluster and certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The id of the cluster.
    pub cluster_id: [u8; 16],
    /// The id of the sender.
    pub id: NodeId,
    /// A random number, drawn when the process of the sender started.
    pub boot_id: u64,
    /// The highest feature level that the sender knows.
    pub feature_level: u32,
    /// The channel of the connection.
    pub channel: Channel,
}

impl Hello {
    /// Encodes the hello in [`Hello::BYTES`] bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.fixed(&HELLO_MAGIC);
        out.fixed(&self.cluster_id);
        out.u64(self.id);
        out.u64(self.boot_id);
        out.u32(self.feature_level);
        out.u8(match self.channel {
            Channel::Heartbeat => 1,
            Channel::Normal => 2,
            Channel::Bulk => 3,
        });
        out.finish()
    }

    /// Bytes of every hello.
    pub const BYTES: usize = 8 + 16 + 8 + 8 + 4 + 1;

    /// Reads what [`Hello::encode`] wrote.
    ///
    /// [`DecodeError`]: the bytes are not a hello.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(bytes);
        if from.array()? != HELLO_MAGIC {
            return Err(DecodeError::Unknown);
        }
        let hello = Self {
            cluster_id: from.array()?,
            id: from.u64()?,
            boot_id: from.u64()?,
            feature_level: from.u32()?,
            channel: match from.u8()? {
                1 => Channel::Heartbeat,
                2 => Channel::Normal,
                3 => Channel::Bulk,
                _ => return Err(DecodeError::Unknown),
            },
        };
        from.finish()?;
        Ok(hello)
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A raft message.
    Raft(Box<Message>),
    /// A command for the leader. If it names a term, only the leader of that term accepts it (feature level 2).
    Forward {
        /// The number of the sender's attempt.
        token: u64,
        /// The term of the only leader that may accept it.
        term: Option<u64>,
        /// The command.
        command: Command,
    },
    /// The answer of the leader to a forwarded command.
    Answer {
        /// From the [`Frame::Forward`].
        token: u64,
        /// The answer.
        answer: Answer,
    },
    /// A periodic report of the leader: the commit index, and the state hash at an index.
    Report(Report),
    /// The acknowledgement of a report.
    ReportAck(ReportAck),
    /// The state hash of the majority at an index. A member with another hash is wrong.
    HashVerdict {
        /// The index.
        index: u64,
        /// The hash of the majority.
        hash: u128,
    },
    /// Asks the leader for an index that covers all acknowledged updates.
    ReadIndex {
        /// The number of the request.
        token: u64,
    },
    /// The answer with that index.
    ReadIndexAnswer {
        /// From the [`Frame::ReadIndex`].
        token: u64,
        /// The index.
        index: u64,
    },
    /// The result of a checkpoint transfer that the leader announced.
    SnapshotResult {
        /// Whether the member has the checkpoint.
        ok: bool,
    },
    /// Part of a checkpoint's transfer, in the encoding of `checkpoint`.
    Checkpoint(Vec<u8>),
    /// Requests a lease, under which this member may answer for zones of `ack = all-live`.
    LeaseRequest(LeaseRequest),
    /// Grants the lease, which starts at the time of the request.
    LeaseGrant(LeaseGrant),
    /// The member has applied everything up to this index.
    Applied {
        /// The index.
        index: u64,
    },
    /// All counted members show everything up to this index; see [`crate::io::Output::AllLiveIndex`].
    AllLiveIndex {
        /// The index.
        index: u64,
        /// Whether the members of the rotation are counted. Otherwise those that the leader hears are.
        of_rotation: bool,
    },
    /// The last entry that is durable on the leader's disk.
    Durable(Durable),
    /// Memory use and limit of a member's zones. Needs feature level 3.
    Memory(MemoryFigures),
    /// The wall clock of a member, in milliseconds since 1970. Needs feature level 4.
    Clock {
        /// The clock's reading.
        wall_ms: u64,
    },
    /// Whether the log of a member is short of room on its disk. Needs feature level 5.
    Disk {
        /// Whether it is short of room.
        is_short: bool,
    },
}

/// See [`Frame::Durable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    /// The term of the leader.
    pub term: u64,
    /// The last durable entry. It is of this term.
    pub index: u64,
    /// The voters whose majority commits it, sorted. No change of voters up to that entry is unapplied.
    pub voters: Vec<NodeId>,
}

/// See [`Frame::LeaseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The requesting process. Only it can use the grant.
    pub boot_id: u64,
    /// The time on its clock.
    pub at_ms: u64,
    /// Whether the member answers queries.
    pub answers: bool,
}

/// See [`Frame::LeaseGrant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// From the [`LeaseRequest`].
    pub boot_id: u64,
    /// From the [`LeaseRequest`].
    pub at_ms: u64,
    /// Index of the entry that added the member to the rotation. The member must have applied all earlier entries.
    pub since: u64,
    /// The lease is valid only if the member has applied everything up to this index, which covers all acknowledged
    /// updates. A member with an older copy of its data has not. Needs feature level 5.
    pub shown: Option<u64>,
}

/// See [`Frame::Report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub(crate) term: u64,
    pub(crate) sequence: u64,
    pub(crate) commit: u64,
    pub(crate) hash_index: u64,
    pub(crate) hash: u128,
}

/// See [`Frame::ReportAck`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportAck {
    pub(crate) term: u64,
    pub(crate) sequence: u64,
    pub(crate) applied: u64,
    /// The highest feature level that the member knows.
    pub(crate) feature_level: u32,
    /// The index of the report, and the state hash of the member there if it still has it.
    pub(crate) hash_index: u64,
    pub(crate) hash: Option<u128>,
}

impl Frame {
    /// The channel that carries the frame.
    pub(crate) fn channel(&self) -> Channel {
        match self {
            Self::Raft(message) => match message.get_msg_type() {
                MessageType::MsgHeartbeat
                | MessageType::MsgHeartbeatResponse
                | MessageType::MsgRequestVote
                | MessageType::MsgRequestVoteResponse
                | MessageType::MsgRequestPreVote
                | MessageType::MsgRequestPreVoteResponse => Channel::Heartbeat,
                _ => Channel::Normal,
            },
            Self::Report(_)
            | Self::ReportAck(_)
            | Self::HashVerdict { .. }
            | Self::LeaseRequest(_)
            | Self::LeaseGrant(_)
            | Self::Memory(_)
            | Self::Clock { .. }
            | Self::Disk { .. } => Channel::Heartbeat,
            Self::Forward { .. }
            | Self::Answer { .. }
            | Self::ReadIndex { .. }
            | Self::ReadIndexAnswer { .. }
            | Self::SnapshotResult { .. }
            | Self::Applied { .. }
            | Self::AllLiveIndex { .. }
            | Self::Durable(_) => Channel::Normal,
            Self::Checkpoint(_) => Channel::Bulk,
        }
    }

    /// Encodes the frame for a group.
    #[must_use]
    pub fn encode(&self, group: u16) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(FRAME_VERSION);
        out.u8(self.kind());
        out.u16(group);
        match self {
            Self::Raft(message) => message::encode_message(message, &mut out),
            Self::Forward { token, term, command } => {
                out.u64(*token);
                if let Some(term) = term {
                    out.u64(*term);
                }
                command.encode(&mut out);
            }
            Self::Answer { token, answer } => {
                out.u64(*token);
                answer.encode(&mut out);
            }
            Self::Report(report) => {
                out.u64(report.term);
                out.u64(report.sequence);
                out.u64(report.commit);
                out.u64(report.hash_index);
                out.u128(report.hash);
            }
            Self::ReportAck(ack) => {
                out.u64(ack.term);
                out.u64(ack.sequence);
                out.u64(ack.applied);
                out.u32(ack.feature_level);
                out.u64(ack.hash_index);
                out.bool(ack.hash.is_some());
                out.u128(ack.hash.unwrap_or(0));
            }
            Self::HashVerdict { index, hash } => {
                out.u64(*index);
                out.u128(*hash);
            }
            Self::ReadIndex { token } => out.u64(*token),
            Self::ReadIndexAnswer { token, index } => {
                out.u64(*token);
                out.u64(*index);
            }
            Self::SnapshotResult { ok: flag } | Self::Disk { is_short: flag } => out.bool(*flag),
            Self::Checkpoint(bytes) => out.fixed(bytes),
            Self::LeaseRequest(request) => {
                out.u64(request.boot_id);
                out.u64(request.at_ms);
                out.bool(request.answers);
            }
            Self::LeaseGrant(grant) => encode_grant(grant, &mut out),
            Self::Applied { index: number } | Self::Clock { wall_ms: number } => out.u64(*number),
            Self::AllLiveIndex { index, of_rotation } => {
                out.u64(*index);
                out.bool(*of_rotation);
            }
            Self::Durable(durable) => {
                out.u64(durable.term);
                out.u64(durable.index);
                out.count(durable.voters.len());
                durable.voters.iter().for_each(|&id| out.u64(id));
            }
            Self::Memory(figures) => [figures.used_bytes, figures.limit_bytes].iter().for_each(|&bytes| out.u64(bytes)),
        }
        out.finish()
    }

    /// Reads a frame and the group it is for.
    ///
    /// [`DecodeError`]: the bytes are not a frame.
    pub fn decode(bytes: &[u8]) -> Result<(u16, Self), DecodeError> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(DecodeError::TooLarge);
        }
        let mut from = Decoder::new(bytes);
        match from.u8()? {
            FRAME_VERSION => {}
            version => return Err(DecodeError::Version(version)),
        }
        let kind = from.u8()?;
        let group = from.u16()?;
        let frame = match kind {
            1 => Self::Raft(Box::new(message::decode_message(&mut from)?)),
            2 => Self::Forward { token: from.u64()?, term: None, command: Command::decode(&mut from)? },
            15 => Self::Forward { token: from.u64()?, term: Some(from.u64()?), command: Command::decode(&mut from)? },
            3 => Self::Answer { token: from.u64()?, answer: Answer::decode(&mut from)? },
            4 => Self::Report(Report {
                term: from.u64()?,
                sequence: from.u64()?,
                commit: from.u64()?,
                hash_index: from.u64()?,
                hash: from.u128()?,
            }),
            5 => Self::ReportAck(decode_ack(&mut from)?),
            6 => Self::HashVerdict { index: from.u64()?, hash: from.u128()? },
            7 => Self::ReadIndex { token: from.u64()? },
            8 => Self::ReadIndexAnswer { token: from.u64()?, index: from.u64()? },
            10 => Self::SnapshotResult { ok: from.bool()? },
            11 => Self::LeaseRequest(LeaseRequest { boot_id: from.u64()?, at_ms: from.u64()?, answers: from.bool()? }),
            12 | 22 => Self::LeaseGrant(decode_grant(&mut from, kind == 22)?),
            13 => Self::Applied { index: from.u64()? },
            14 => Self::AllLiveIndex { index: from.u64()?, of_rotation: from.bool()? },
            16 => Self::Durable(decode_durable(&mut from)?),
            17 => Self::Memory(MemoryFigures { used_bytes: from.u64()?, limit_bytes: from.u64()? }),
            21 => Self::Disk { is_short: from.bool()? },
            20 => Self::Clock { wall_ms: from.u64()? },
            9 => return Ok((group, Self::Checkpoint(from.rest().to_vec()))),
            _ => return Err(DecodeError::Unknown),
        };
        from.finish()?;
        Ok((group, frame))
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Raft(_) => 1,
            Self::Forward { term: None, .. } => 2,
            Self::Forward { term: Some(_), .. } => 15,
            Self::Answer { .. } => 3,
            Self::Report(_) => 4,
            Self::ReportAck(_) => 5,
            Self::HashVerdict { .. } => 6,
            Self::ReadIndex { .. } => 7,
            Self::ReadIndexAnswer { .. } => 8,
            Self::Checkpoint(_) => 9,
            Self::SnapshotResult { .. } => 10,
            Self::LeaseRequest(_) => 11,
            Self::LeaseGrant(LeaseGrant { shown: None, .. }) => 12,
            Self::LeaseGrant(LeaseGrant { shown: Some(_), .. }) => 22,
            Self::Applied { .. } => 13,
            Self::AllLiveIndex { .. } => 14,
            Self::Durable(_) => 16,
            Self::Memory(_) => 17,
            Self::Clock { .. } => 20,
            Self::Disk { .. } => 21,
        }
    }
}

fn encode_grant(grant: &LeaseGrant, out: &mut Encoder) {
    [grant.boot_id, grant.at_ms, grant.since].into_iter().chain(grant.shown).for_each(|number| out.u64(number));
}

fn decode_grant(from: &mut Decoder<'_>, has_shown: bool) -> Result<LeaseGrant, DecodeError> {
    let (boot_id, at_ms, since) = (from.u64()?, from.u64()?, from.u64()?);
    Ok(LeaseGrant { boot_id, at_ms, since, shown: if has_shown { Some(from.u64()?) } else { None } })
}

fn decode_ack(from: &mut Decoder<'_>) -> Result<ReportAck, DecodeError> {
    let (term, sequence, applied) = (from.u64()?, from.u64()?, from.u64()?);
    let (feature_level, hash_index) = (from.u32()?, from.u64()?);
    let (known, hash) = (from.bool()?, from.u128()?);
    if !known && hash != 0 {
        return Err(DecodeError::Unknown);
    }
    Ok(ReportAck { term, sequence, applied, feature_level, hash_index, hash: known.then_some(hash) })
}

fn decode_durable(from: &mut Decoder<'_>) -> Result<Durable, DecodeError> {
    let (term, index) = (from.u64()?, from.u64()?);
    let count = from.count(FOLLOWER_COMMIT_VOTERS_MAX, 8)?;
    let voters: Vec<_> = (0..count).map(|_| from.u64()).collect::<Result<_, _>>()?;
    Ok(Durable { term, index, voters })
}

#[cfg(test)]
mod tests;
