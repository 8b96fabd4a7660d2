//! Forged frames of every kind, with numbers that fit the receiver or are impossible.

use super::Choose;
use crate::checkpoint::{CheckpointHeader, Manifest, Part, Section, Table, TransferFrame};
use crate::command::{Answer, Command};
use crate::entry::{Body, Entry as LogEntry, SettingsChange, SettingsEntry};
use crate::io::{MemoryFigures, NodeId, Right};
use crate::peer::{Durable, Frame, LeaseGrant, LeaseRequest, Report, ReportAck};
use crate::replica::Replica;
use raft::eraftpb::{ConfState, Entry, Message, MessageType, Snapshot};
use wire::name::Name;

/// The claimed kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgedKind {
    /// A raft message; the index into `RAFT_KINDS`.
    Raft(u8),
    /// A frame of this crate, by its number in `forge_own`.
    Own(u8),
    /// Random bytes.
    Bytes,
}

/// The kinds of raft messages that members send each other.
pub const RAFT_KINDS: [MessageType; 10] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTimeoutNow,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];
const OWN_KINDS: u8 = 17;
/// The commit index with which one forged heartbeat once ended a cluster.
const FAR_INDEX: u64 = 1_000_000_000;

/// Sender and receiver of a forged frame, and what the attacker knows about the receiver.
#[derive(Clone, Copy, Debug)]
pub struct ForgeTarget {
    /// The claimed sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// Its term.
    pub term: u64,
    /// Its commit index.
    pub commit: u64,
    /// The term of its last entry, or a term near it.
    pub last_term: u64,
    /// The last entry of its log.
    pub last_index: u64,
    /// The cluster.
    pub cluster: [u8; 16],
    /// The epoch of its settings; an entry with another epoch changes nothing.
    pub epoch: u64,
}

/// Whether a frame grants the sender's vote in an election.
#[must_use]
pub fn grants_vote(frame: &[u8]) -> bool {
    let Ok((_, Frame::Raft(message))) = Frame::decode(frame) else { return false };
    message.get_msg_type() == MessageType::MsgRequestVoteResponse && !message.reject
}

impl ForgeTarget {
    /// The knowledge of an attacker that has read a replica's log and settings.
    #[must_use]
    pub fn at(replica: &Replica, from: NodeId) -> Self {
        let (driver, settings) = (&replica.driver, &replica.machine.settings);
        let last_index = driver.last_index();
        Self {
            from,
            to: driver.id(),
            term: driver.term(),
            commit: driver.commit(),
            last_term: driver.log().term(last_index).unwrap_or(0),
            last_index,
            cluster: settings.cluster_id(),
            epoch: settings.epoch(),
        }
    }
}

impl ForgedKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        let raft = (0..RAFT_KINDS.len() as u8).map(Self::Raft);
        raft.chain((0..OWN_KINDS).map(Self::Own)).chain([Self::Bytes])
    }
}

/// Forges a frame. If every choice is the first, the frame is the most harmful of its kind: it fits the receiver's
/// log, and has its next term.
///
/// # Panics
/// Never: the encoded values are within their limits.
pub fn forge(kind: ForgedKind, target: &ForgeTarget, choose: Choose<'_>) -> Vec<u8> {
    match kind {
        ForgedKind::Raft(number) => {
            let message = forge_message(RAFT_KINDS[usize::from(number)], target, choose);
            Frame::Raft(Box::new(message)).encode(0)
        }
        ForgedKind::Own(number) => forge_own(number, target, choose).encode(0),
        ForgedKind::Bytes => {
            let len = choose(80);
            (0..len).map(|_| choose(256) as u8).collect()
        }
    }
}

/// One of these values; the first if zero is drawn.
fn one_of<const N: usize>(of: [u64; N], choose: Choose<'_>) -> u64 {
    of[choose(N as u64) as usize]
}

fn any_term(target: &ForgeTarget, choose: Choose<'_>) -> u64 {
    let any = 1 + choose(1 << 20);
    one_of([target.term + 1, target.term.max(1), target.term + 1_000, any], choose)
}

fn any_index(target: &ForgeTarget, choose: Choose<'_>) -> u64 {
    let any = choose(target.last_index + 10);
    one_of([target.last_index, target.commit, any, FAR_INDEX], choose)
}

fn forge_message(kind: MessageType, target: &ForgeTarget, choose: Choose<'_>) -> Message {
    let term = any_term(target, choose);
    let mut message = Message { from: target.from, to: target.to, term, ..Message::default() };
    message.set_msg_type(kind);
    message.index = any_index(target, choose);
    message.log_term = one_of([target.last_term, 0, target.term, term - 1], choose);
    message.commit = match kind {
        MessageType::MsgHeartbeat => one_of([FAR_INDEX, target.last_index, target.commit + 1, 0], choose),
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => {
            one_of([0, target.commit, message.index], choose)
        }
        _ => one_of([message.index + 1, target.commit, 0, FAR_INDEX], choose),
    };
    message.commit_term = one_of([0, target.last_term], choose);
    message.reject_hint = one_of([0, target.last_index], choose);
    match kind {
        MessageType::MsgAppend => {
            let count = 1 + choose(3);
            let data = granting_everything(target.epoch);
            let entry =
                |offset| Entry { index: message.index + offset, term, data: data.clone().into(), ..Entry::default() };
            message.set_entries((1..=count).map(entry).collect::<Vec<_>>().into());
        }
        MessageType::MsgSnapshot => message.set_snapshot(forge_snapshot(target, choose)),
        MessageType::MsgRequestVote if choose(2) == 0 => message.context = b"CampaignTransfer".to_vec().into(),
        MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse => {
            message.term = one_of([target.term.max(1), target.term + 1, term], choose);
            message.reject = choose(2) == 1;
        }
        MessageType::MsgAppendResponse => message.reject = choose(2) == 1,
        MessageType::MsgTimeoutNow => message.term = one_of([target.term.max(1), term], choose),
        _ => {}
    }
    message
}

/// An entry that lets a key write to all zones.
fn granting_everything(epoch: u64) -> Vec<u8> {
    let key: Name = "key.".parse().expect("a name");
    let change = SettingsChange::Grant { key, zone: None, right: Right::UpdateApex };
    LogEntry { group: 0, time_ms: 1, body: Body::Settings(SettingsEntry { epoch, change }) }.encode()
}

fn forge_snapshot(target: &ForgeTarget, choose: Choose<'_>) -> Snapshot {
    let members = ConfState { voters: vec![target.from, target.to], ..ConfState::default() };
    let index = one_of([target.last_index + 10, target.commit.max(1), FAR_INDEX], choose);
    let header = CheckpointHeader {
        cluster: target.cluster,
        group: 0,
        index,
        term: target.term.max(1),
        feature_level: 2,
        members: members.clone(),
    };
    let mut table = Table::new();
    table.push(Section(1), b"a block");
    let mut snapshot = Snapshot { data: Manifest::new(header, &table).encode().into(), ..Snapshot::default() };
    let metadata = snapshot.mut_metadata();
    (metadata.index, metadata.term) = (index, target.term.max(1));
    metadata.set_conf_state(members);
    snapshot
}

fn forge_own(number: u8, target: &ForgeTarget, choose: Choose<'_>) -> Frame {
    let (term, index) = (one_of([target.term, target.term + 1], choose), any_index(target, choose));
    let (token, hash) = (choose(1 << 40), u128::from(choose(u64::MAX)));
    // Attempts and tokens of requests count up from a boot id.
    match number {
        0 => Frame::Forward { token, term: None, command: Command::NodeRemove { id: target.to } },
        1 => Frame::Forward { token, term: Some(term), command: Command::TransferLeader { to: Some(target.from) } },
        2 => Frame::Answer { token, answer: Answer::Proposed { index, term } },
        3 => Frame::Report(Report { term, sequence: u64::MAX >> 1, commit: index, hash_index: index, hash }),
        4 => Frame::ReportAck(ReportAck {
            term,
            sequence: 1 + choose(20),
            applied: FAR_INDEX,
            feature_level: 99,
            hash_index: target.commit,
            hash: Some(hash),
        }),
        5 => Frame::HashVerdict { index: target.commit, hash },
        6 => Frame::ReadIndex { token },
        7 => Frame::ReadIndexAnswer { token, index: 0 },
        8 => Frame::SnapshotResult { ok: choose(2) == 0 },
        9 => {
            let checkpoint = [choose(256) as u8; 32];
            let frame = match choose(3) {
                0 => TransferFrame::Get { checkpoint, part: Part::Data, from: 0, count: 8 },
                1 => TransferFrame::Block { checkpoint, part: Part::Table, number: 0, bytes: vec![5; 40] },
                _ => TransferFrame::Gone { checkpoint },
            };
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            Frame::Checkpoint(bytes)
        }
        10 => Frame::LeaseRequest(LeaseRequest { boot_id: token, at_ms: choose(1 << 20), answers: true }),
        11 => Frame::LeaseGrant(LeaseGrant { boot_id: token, at_ms: choose(1 << 20), since: index, shown: None }),
        12 => Frame::Applied { index: FAR_INDEX },
        13 => Frame::AllLiveIndex { index: FAR_INDEX, of_rotation: choose(2) == 0 },
        15 => Frame::Clock { wall_ms: choose(u64::MAX) },
        16 => Frame::Disk { is_short: choose(2) == 0 },
        14 => Frame::Memory(MemoryFigures { used_bytes: u64::MAX, limit_bytes: 1 }),
        _ => Frame::Durable(Durable {
            term,
            index,
            voters: vec![target.from.min(target.to), target.from.max(target.to)],
        }),
    }
}
