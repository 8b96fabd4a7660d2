//! Frames that a correct member never sends. They may fence a member or stop it from voting, but never end its process.

use super::cluster::*;
use proptest::collection::vec;
use proptest::prelude::*;
use raft::eraftpb::{ConfState, Entry, EntryType, Message, Snapshot};
use replica::io::{FatalReason, Input, NodeId};
use replica::peer::Frame;
use replica::testing::forge::RAFT_KINDS;

/// The highest number of a kind of frame. Kinds are numbered from one.
const FRAME_KINDS: usize = 22;

/// Whether a member may stop for this reason because of claims of other members.
const fn is_expected(fatal: Option<FatalReason>) -> bool {
    matches!(fatal, None | Some(FatalReason::LogLost(_) | FatalReason::LogDiverged(_) | FatalReason::EntryUnknown))
}

/// Numbers near the correct ones, and far from them.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..12, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1)]
}

prop_compose! {
    fn entry()(
        kind in 0usize..3,
        term in number(),
        index in number(),
        data in vec(any::<u8>(), 0..20),
    ) -> Entry {
        let mut entry = Entry { term, index, ..Entry::default() };
        let kinds = [EntryType::EntryNormal, EntryType::EntryConfChange, EntryType::EntryConfChangeV2];
        entry.set_entry_type(kinds[kind]);
        entry.data = data.into();
        entry
    }
}

prop_compose! {
    fn message()(
        kind in 0usize..10,
        from in 1u64..5,
        numbers in vec(number(), 8),
        reject in any::<bool>(),
        entries in vec(entry(), 0..3),
        contiguous in any::<bool>(),
        transfer in any::<bool>(),
    ) -> (u64, Message) {
        let mut message = Message::default();
        message.set_msg_type(RAFT_KINDS[kind]);
        message.from = from;
        message.to = 2;
        message.term = numbers[0];
        message.log_term = numbers[1];
        message.index = numbers[2];
        message.commit = numbers[3];
        message.commit_term = numbers[4];
        message.reject = reject;
        message.reject_hint = numbers[5];
        message.request_snapshot = if transfer { 0 } else { numbers[6] };
        if transfer {
            message.context = b"CampaignTransfer".to_vec().into();
        }
        let mut entries = entries;
        if contiguous {
            for (index, entry) in entries.iter_mut().enumerate() {
                entry.index = message.index.wrapping_add(1 + index as u64);
                entry.term = message.term;
            }
        }
        message.set_entries(entries.into());
        if kind == 4 {
            let mut snapshot = Snapshot::default();
            snapshot.mut_metadata().index = numbers[7].max(1);
            snapshot.mut_metadata().term = numbers[1];
            let mut conf_state = ConfState::default();
            conf_state.set_voters(vec![1, 2]);
            snapshot.mut_metadata().set_conf_state(conf_state);
            message.set_snapshot(snapshot);
        }
        (from, message)
    }
}

/// Makes a message continue after the last entry of a member, so that raft reads its entries.
fn make_follow(message: &mut Message, cluster: &Cluster, id: NodeId) {
    let status = cluster.replica(id).brief_status();
    let moved = status.last_index.wrapping_sub(message.index);
    (message.index, message.log_term) = (status.last_index, status.term.min(message.term));
    message.mut_entries().iter_mut().for_each(|entry| entry.index = entry.index.wrapping_add(moved));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_message_of_raft_panics_a_member(
        messages in vec(message(), 1..12),
        lead in any::<bool>(),
        follows in vec(any::<bool>(), 12),
    ) {
        let mut cluster = Cluster::new(3);
        cluster.elect();
        if lead && cluster.leader() != Some(2) {
            cluster.admin(2, replica::io::AdminCommand::TransferLeader { to: Some(2) });
            cluster.run(50);
        }
        // Later frames of member 2 do not matter.
        cluster.cut_off(2);
        for ((from, mut message), follows) in messages.into_iter().zip(follows) {
            if follows {
                make_follow(&mut message, &cluster, 2);
            }
            let frame = Frame::Raft(Box::new(message)).encode(0);
            cluster.input(2, Input::Peer { from, frame });
            cluster.settle();
        }
        cluster.run(1_000);
        let fatal = cluster.machines[&2].fatal;
        prop_assert!(is_expected(fatal), "{:?}", fatal);
    }

    #[test]
    fn no_bytes_panic_a_member(frames in vec((0..FRAME_KINDS, vec(any::<u8>(), 0..80)), 1..40)) {
        let mut cluster = Cluster::new(3);
        cluster.elect();
        cluster.cut_off(2);
        for (kind, mut frame) in frames {
            if frame.len() > 4 {
                frame[0] = 1;
                frame[1] = 1 + kind as u8;
                frame[2..4].fill(0);
            }
            cluster.input(2, Input::Peer { from: 3, frame });
            cluster.settle();
        }
        cluster.run(100);
        prop_assert_eq!(cluster.replica(2).status().counters.non_member_frames, 0);
        let fatal = cluster.machines[&2].fatal;
        prop_assert!(is_expected(fatal), "{:?}", fatal);
    }
}
