//! Frames are decoded as they were encoded, and arbitrary bytes are refused without a panic.

use super::*;
use crate::command::{Reception, UpdateCommand};
use crate::entry::{Body, SettingsChange, StageId};
use crate::io::{AckOption, AdminError, LimitsChange, OptionsChange, SerialPolicyOption, StaleOption, Transport};
use crate::secrets::Sealed;
use ::raft::eraftpb::{ConfState, Entry, EntryType, Snapshot};
use policy::text::parse_policy;
use policy::{DaemonAnswers, Policy, Question, SocketPath};
use proptest::prelude::*;
use std::sync::Arc;
use tsig::{KeyAlgorithm, SecretId};
use wire::number::{Rcode, Rtype};
use zone::ZoneId;

fn append() -> Message {
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgAppend);
    message.to = 1;
    message.from = 2;
    message.term = 3;
    message.index = 9;
    message.log_term = 2;
    message.commit = 8;
    let mut entry = Entry { term: 3, index: 10, ..Entry::default() };
    entry.data = vec![1, 2, 3].into();
    let mut change = Entry { term: 3, index: 11, ..Entry::default() };
    change.set_entry_type(EntryType::EntryConfChangeV2);
    change.context = vec![9].into();
    message.set_entries(vec![entry, change].into());
    message
}

fn snapshot() -> Message {
    let mut message = append();
    message.set_msg_type(MessageType::MsgSnapshot);
    message.set_entries(Vec::new().into());
    let mut conf_state = ConfState::default();
    conf_state.set_voters(vec![3, 1, 2]);
    conf_state.set_learners(vec![4]);
    let mut snapshot = Snapshot::default();
    snapshot.mut_metadata().index = 7;
    snapshot.mut_metadata().term = 2;
    snapshot.mut_metadata().set_conf_state(conf_state);
    snapshot.data = vec![5; 100].into();
    message.set_snapshot(snapshot);
    message
}

fn frames() -> Vec<Frame> {
    let update = UpdateCommand {
        external: Default::default(),
        reception: None,
        identity: [1; 16],
        key_name: "key.".parse().unwrap(),
        time_signed: 1_700_000_000,
        fudge: 300,
        source: [2; 16],
        message: vec![0; 40],
    };
    let mut external = DaemonAnswers::default();
    for (owner, is_granted) in [("a.example.test.", true), ("b.example.test.", false)] {
        let socket = SocketPath::new("/run/auth.sock").unwrap();
        external.insert(Question { socket, owner: owner.parse().unwrap(), rtype: Rtype::A }, is_granted);
    }
    let [over_udp, over_tcp] = [Transport::Udp, Transport::Tcp]
        .map(|transport| Reception { transport, secret: SecretId([7; 8]) })
        .map(|reception| UpdateCommand { reception: Some(reception), ..update.clone() });
    let commands = [
        Command::Update(update),
        Command::Update(over_udp),
        Command::Update(UpdateCommand { external, ..over_tcp.clone() }),
        Command::Update(over_tcp),
        Command::Propose(Body::ImportAbandon(StageId([3; 16]))),
        Command::Settings(SettingsChange::MemberRemove { id: 3 }),
        Command::NodeAdd { node: Some(4), address: "[::1]:7004".to_owned(), token: Some([8; 32]) },
        Command::NodeAdd { node: None, address: String::new(), token: None },
        Command::NodeRemove { id: 3 },
        Command::TransferLeader { to: None },
        Command::TransferLeader { to: Some(2) },
        Command::WaitAllLive { index: 7 },
    ];
    let answers = [
        Answer::Proposed { index: 5, term: 2 },
        Answer::Done { index: 5 },
        Answer::Joined { index: 5, term: 2, id: 4 },
        Answer::Repeat { rcode: Rcode::NXRRSET, index: 5 },
        Answer::BadTime,
        Answer::NotProposed,
        Answer::Refused(AdminError::Malformed),
        Answer::Refused(AdminError::LevelTooLow),
        Answer::Overloaded,
    ];
    let mut frames = vec![
        Frame::Raft(Box::new(append())),
        Frame::Report(Report { term: 1, sequence: 2, commit: 3, hash_index: 4, hash: 5 }),
        Frame::ReportAck(ReportAck {
            term: 1,
            sequence: 2,
            applied: 3,
            feature_level: 1,
            hash_index: 4,
            hash: Some(5),
        }),
        Frame::HashVerdict { index: 4, hash: 5 },
        Frame::ReadIndexAnswer { token: 1, index: 2 },
        Frame::Checkpoint(vec![1, 2, 3]),
        Frame::SnapshotResult { ok: true },
        Frame::LeaseRequest(LeaseRequest { boot_id: 1, at_ms: 2, answers: true }),
        Frame::Applied { index: 4 },
        Frame::AllLiveIndex { index: 5, of_rotation: true },
        Frame::ReadIndex { token: 1 },
    ];
    frames.extend([None, Some(4)].map(|shown| Frame::LeaseGrant(LeaseGrant { boot_id: 1, at_ms: 2, since: 3, shown })));
    frames.extend(commands.map(|command| Frame::Forward { token: 7, term: None, command }));
    frames.extend(decided().map(|command| Frame::Forward { token: 7, term: Some(3), command }));
    frames.extend(answers.map(|answer| Frame::Answer { token: 7, answer }));
    frames
}

/// Commands that the leader decides by its own state.
fn decided() -> impl Iterator<Item = Command> {
    let (zone, nothing) = (ZoneId { view: 0, apex: "example.test.".parse().unwrap() }, OptionsChange::default());
    let secret = Sealed { data_key_number: 1, nonce: [2; 12], bytes: vec![3; 48] };
    let roll = Command::KeyRoll { name: "key.".parse().unwrap(), algorithm: KeyAlgorithm::HmacSha384, secret };
    let policy = Arc::new(parse_policy("grant key. zonesub A;").unwrap());
    let set = |zone| Command::PolicySet { zone, policy: policy.clone(), expected: Policy::default().revision() };
    let others = [roll, set(None), set(Some(zone.clone()))];
    let options = [
        OptionsChange { stale: Some(StaleOption::Expire), ..nothing },
        OptionsChange { serial_policy: Some(SerialPolicyOption::Date), ..nothing },
        OptionsChange { limits: LimitsChange { ttl_max_s: Some(86_400), ..LimitsChange::NONE }, ..nothing },
        // A change that removes a limit also names it.
        OptionsChange { limits: LimitsChange { records_max: Some(0), ..LimitsChange::NONE }, ..nothing },
        OptionsChange { serial_policy: Some(SerialPolicyOption::Increment), ack: Some(AckOption::AllLive), ..nothing },
    ]
    .map(|change| Command::ZoneSet { zone: zone.clone(), change });
    options.into_iter().chain(others)
}

#[test]
fn every_frame_survives_encoding() {
    let durable = Frame::Durable(Durable { term: 4, index: 9, voters: vec![1, 2, 3] });
    let memory = Frame::Memory(MemoryFigures { used_bytes: 1, limit_bytes: 2 });
    let clock = Frame::Clock { wall_ms: 5 };
    let disk = Frame::Disk { is_short: true };
    for frame in frames().into_iter().chain([durable, memory, clock, disk]) {
        let bytes = frame.encode(3);
        assert_eq!(Frame::decode(&bytes), Ok((3, frame.clone())));
        if !matches!(frame, Frame::Checkpoint(_)) {
            for cut in 0..bytes.len() {
                assert!(Frame::decode(&bytes[..cut]).is_err(), "{frame:?} cut at {cut}");
            }
        }
    }
}

#[test]
fn members_of_a_configuration_are_sorted_on_the_wire() {
    let bytes = Frame::Raft(Box::new(snapshot())).encode(0);
    let (_, Frame::Raft(message)) = Frame::decode(&bytes).unwrap() else { panic!("no message of raft") };
    assert_eq!(message.get_snapshot().get_metadata().get_conf_state().get_voters(), [1, 2, 3]);
    assert_eq!(message.get_snapshot().data.len(), 100);
}

/// Raft would forward proposals, transfers and reads itself. This crate never sends such messages, and accepts none.
#[test]
fn messages_that_members_do_not_send_are_refused() {
    let bytes = Frame::Raft(Box::new(append())).encode(0);
    for number in (0..=u8::MAX).filter(|number| !(1..=10).contains(number)) {
        let mut altered = bytes.clone();
        altered[4] = number;
        assert!(Frame::decode(&altered).is_err());
    }
    for refused in [MessageType::MsgPropose, MessageType::MsgReadIndex, MessageType::MsgTransferLeader] {
        assert!(!is_sent(refused));
    }
}

#[test]
fn inconsistent_configurations_are_refused() {
    let lists = |voters: &[u64], learners: &[u64], outgoing: &[u64], next: &[u64]| {
        let mut conf_state = ConfState::default();
        conf_state.set_voters(voters.to_vec());
        conf_state.set_learners(learners.to_vec());
        conf_state.set_voters_outgoing(outgoing.to_vec());
        conf_state.set_learners_next(next.to_vec());
        let mut out = Encoder::new();
        encode_conf_state(&conf_state, &mut out);
        decode_conf_state(&mut Decoder::new(&out.finish()))
    };
    assert!(lists(&[1, 2, 3], &[4], &[], &[]).is_ok());
    assert!(lists(&[1, 2], &[], &[1, 2, 3], &[3]).is_ok());
    for bad in [
        lists(&[], &[], &[], &[]),
        lists(&[1, 1], &[], &[], &[]),
        lists(&[0], &[], &[], &[]),
        lists(&[1], &[1], &[], &[]),
        lists(&[1], &[], &[], &[2]),
        lists(&[1], &[2], &[2], &[]),
    ] {
        assert!(bad.is_err());
    }
}

#[test]
fn hello_survives_encoding() {
    let hello = Hello { cluster_id: [1; 16], id: 2, boot_id: 3, feature_level: FEATURE_LEVEL, channel: Channel::Bulk };
    assert_eq!(hello.encode().len(), Hello::BYTES);
    assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    assert!(Hello::decode(&[0; Hello::BYTES]).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0u8..11) {
        let mut framed = vec![FRAME_VERSION, kind, 0, 0];
        framed.extend_from_slice(&bytes);
        let _ = Frame::decode(&framed);
        let _ = Frame::decode(&bytes);
        let _ = Hello::decode(&bytes);
    }

    #[test]
    fn altered_frames_never_panic(
        sample in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = sample.get(&frames()).encode(0);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok((group, frame)) = Frame::decode(&bytes) {
            prop_assert_eq!(frame.encode(group), bytes);
        }
    }
}
