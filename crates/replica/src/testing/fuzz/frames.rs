//! Frames of peers: each has one encoding, and no frame stops a member.

use super::chunks::{join, split};
use super::limits::OUTPUTS_MAX;
use super::world::{config, members};
use crate::Replica;
use crate::disk::DiskRead;
use crate::io::{FatalReason, Input, Now, Output};
use crate::peer::Frame;
use crate::testing::MemoryDisk;
use raft::eraftpb::{Entry, Message, MessageType};

struct Member {
    disk: MemoryDisk,
    replica: Replica,
    now: Now,
    /// Frames that the member sent.
    sent_frames: Vec<Vec<u8>>,
}

impl Member {
    fn new(id: u64) -> Self {
        let mut disk = MemoryDisk::default();
        for op in Replica::init(&config(id), &members()).expect("a founder") {
            disk.execute(&op);
        }
        let now = Now { monotonic_ms: 1_000, wall_ms: super::world::TIME_MS };
        let replica = Replica::open(&disk, config(id), now).expect("a founded member");
        let mut member = Self { disk, replica, now, sent_frames: Vec::new() };
        member.work();
        member
    }

    fn handle(&mut self, input: Input) {
        self.replica.handle(input, self.now);
        self.work();
    }

    /// Executes the member's outputs until there are none.
    fn work(&mut self) {
        for _ in 0..OUTPUTS_MAX {
            let Some(output) = self.replica.poll() else { return };
            let input = match output {
                Output::Disk(job) => {
                    job.ops.iter().for_each(|op| self.disk.execute(op));
                    Input::Persisted { queue: job.queue, ticket: job.ticket }
                }
                Output::ReadFile(read) => {
                    let bytes = self.disk.read(&read.file, read.offset, read.len).expect("a file of its own");
                    Input::FileRead { ticket: read.ticket, bytes }
                }
                Output::Send { frame, .. } => {
                    self.sent_frames.push(frame);
                    continue;
                }
                Output::Fatal { reason } => {
                    // A frame may claim that this member lost entries, but it must never lead to a panic or a
                    // mismatch.
                    let is_reported = matches!(
                        reason,
                        FatalReason::LogLost(_) | FatalReason::LogDiverged(_) | FatalReason::EntryUnknown
                    );
                    assert!(is_reported, "{reason:?}");
                    continue;
                }
                _ => continue,
            };
            self.replica.handle(input, self.now);
        }
        panic!("the outputs never end");
    }

    fn tick(&mut self, count: u8) {
        for _ in 0..count {
            self.now.monotonic_ms += 10;
            self.now.wall_ms += 10;
            self.handle(Input::Tick);
        }
    }
}

/// Each chunk is a frame to member 1. Its tag gives the sender, and the time that passes after it.
///
/// # Panics
/// If a frame is not encoded as it was decoded, or a member stops without reason.
pub fn frames(bytes: &[u8]) {
    let chunks = split(bytes);
    let mut is_any = false;
    for (_, chunk) in &chunks {
        if let Ok((group, frame)) = Frame::decode(chunk) {
            is_any = true;
            assert_eq!(Frame::decode(&frame.encode(group)), Ok((group, frame)));
        }
    }
    // The start of a member is slow, so it is skipped if not needed.
    if !is_any {
        return;
    }
    let mut member = Member::new(1);
    for (tag, chunk) in chunks {
        member.handle(Input::Peer { from: u64::from(tag & 3) + 1, frame: chunk.to_vec() });
        member.tick(tag >> 4);
    }
    member.tick(100);
}

/// Frames of members that hear nothing, or get a vote each; and a new leader's first frames.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut sent_frames = Vec::new();
    for id in [2, 3] {
        let mut member = Member::new(id);
        member.tick(200);
        for kind in [MessageType::MsgRequestPreVoteResponse, MessageType::MsgRequestVoteResponse] {
            let term = 2;
            let message = Message { to: id, from: 1, term, msg_type: kind, ..Message::default() };
            member.handle(Input::Peer { from: 1, frame: Frame::Raft(Box::new(message)).encode(0) });
        }
        member.tick(100);
        sent_frames.extend(member.sent_frames.into_iter().map(|frame| (id as u8 - 1, frame)));
    }
    let mut append = Message { to: 1, from: 2, term: 2, log_term: 1, index: 1, ..Message::default() };
    append.set_msg_type(MessageType::MsgAppend);
    let entries: Vec<Entry> = super::entries::seeds()
        .iter()
        .zip(2..)
        .take(4)
        .map(|(seed, index)| Entry { term: 2, index, data: seed[3..].to_vec().into(), ..Entry::default() })
        .collect();
    append.commit = 1 + entries.len() as u64;
    append.set_entries(entries.into());
    sent_frames.push((1, Frame::Raft(Box::new(append)).encode(0)));
    sent_frames.extend(others().into_iter().map(|frame| (1 | 1 << 4, frame.encode(0))));
    sent_frames.sort();
    sent_frames.dedup();
    let mut seeds: Vec<Vec<u8>> = sent_frames.iter().map(|(tag, frame)| join([(*tag, &frame[..])])).collect();
    seeds.extend(sent_frames.chunks(12).map(|few| join(few.iter().map(|(tag, frame)| (*tag | 1 << 4, &frame[..])))));
    seeds
}

/// Frames of this crate's own kinds.
fn others() -> Vec<Frame> {
    use crate::command::{Answer, Command, Reception, UpdateCommand};
    use crate::peer::{Durable, LeaseGrant, LeaseRequest, Report, ReportAck};
    let update = UpdateCommand {
        external: Default::default(),
        identity: [3; 16],
        key_name: super::world::name("all."),
        time_signed: super::world::TIME_MS / 1_000,
        fudge: 300,
        source: [0; 16],
        reception: Some(Reception { transport: crate::io::Transport::Tcp, secret: tsig::SecretId([4; 8]) }),
        message: super::update::messages().remove(0),
    };
    vec![
        Frame::Forward { token: 7, term: None, command: Command::Update(update) },
        Frame::Forward { token: 8, term: None, command: Command::NodeRemove { id: 3 } },
        Frame::Forward { token: 8, term: Some(2), command: Command::NodeRemove { id: 3 } },
        Frame::Forward { token: 9, term: None, command: Command::TransferLeader { to: Some(2) } },
        Frame::Answer { token: 7, answer: Answer::Proposed { index: 5, term: 2 } },
        Frame::Report(Report { term: 2, sequence: 1, commit: 1, hash_index: 1, hash: 5 }),
        Frame::ReportAck(ReportAck {
            term: 2,
            sequence: 1,
            applied: 1,
            feature_level: 2,
            hash_index: 1,
            hash: Some(5),
        }),
        Frame::HashVerdict { index: 1, hash: 5 },
        Frame::ReadIndex { token: 1 },
        Frame::ReadIndexAnswer { token: 1, index: 2 },
        Frame::SnapshotResult { ok: false },
        Frame::Checkpoint(super::transfer::seeds().remove(0)),
        Frame::LeaseRequest(LeaseRequest { boot_id: 1, at_ms: 1, answers: true }),
        Frame::LeaseGrant(LeaseGrant { boot_id: 1, at_ms: 1, since: 1, shown: None }),
        Frame::LeaseGrant(LeaseGrant { boot_id: 1, at_ms: 1, since: 1, shown: Some(1) }),
        Frame::Applied { index: 2 },
        Frame::AllLiveIndex { index: 1, of_rotation: true },
        Frame::Durable(Durable { term: 2, index: 2, voters: vec![1, 2, 3] }),
    ]
}
