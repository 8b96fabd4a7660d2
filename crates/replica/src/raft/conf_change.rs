//! Membership changes in raft's encoding: protobuf, and only the fields that raft writes are read. The general parser
//! is not used (RUSTSEC-2024-0437: it recurses on unknown groups without bound).

use crate::limits::MEMBERS_MAX;
use ::raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};
use ::raft::{Changer, ProgressTracker};
use core::slice;

/// One change of membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfChange {
    /// Adds a member that gets the log and has no vote.
    AddLearner(u64),
    /// Gives a learner a vote.
    Promote(u64),
    /// Makes a voter a learner.
    Demote(u64),
    /// Removes a member.
    Remove(u64),
    /// Removes a voter and gives its vote to a learner, in one step. Between the two, the votes of both
    /// configurations count (joint consensus).
    Swap {
        /// The removed voter.
        gone: u64,
        /// The learner that gets the vote.
        new: u64,
    },
}

impl ConfChange {
    /// The change for raft to propose. Simple changes need no joint configuration. A joint configuration is left by a
    /// separate proposal of the leader at that time.
    pub(crate) fn to_raft(self) -> ConfChangeV2 {
        use ConfChangeTransition::{Auto, Explicit};
        let (transition, changes) = match self {
            Self::AddLearner(id) | Self::Demote(id) => (Auto, vec![single_of(ConfChangeType::AddLearnerNode, id)]),
            Self::Promote(id) => (Auto, vec![single_of(ConfChangeType::AddNode, id)]),
            Self::Remove(id) => (Auto, vec![single_of(ConfChangeType::RemoveNode, id)]),
            Self::Swap { gone, new } => {
                let changes = [(ConfChangeType::RemoveNode, gone), (ConfChangeType::AddNode, new)];
                (Explicit, changes.map(|(kind, id)| single_of(kind, id)).into())
            }
        };
        let mut change = ConfChangeV2::default();
        change.set_transition(transition);
        change.set_changes(changes.into());
        change
    }

    /// Whether it removes a member's vote.
    pub(crate) const fn takes_vote_of(self, id: u64) -> bool {
        matches!(self, Self::Demote(gone) | Self::Remove(gone) | Self::Swap { gone, .. } if gone == id)
    }
}

fn single_of(kind: ConfChangeType, id: u64) -> ConfChangeSingle {
    let mut single = ConfChangeSingle::default();
    single.set_change_type(kind);
    single.set_node_id(id);
    single
}

/// Follows the configuration through entries that are applied before raft is started.
pub(crate) struct ConfTracker(ProgressTracker);

impl ConfTracker {
    /// Starts from a configuration, which may be joint.
    pub(crate) fn new(conf_state: &ConfState) -> Self {
        let all = |kind, ids: &[u64]| ids.iter().map(|&id| single_of(kind, id)).collect::<Vec<_>>();
        let outgoing = conf_state.get_voters_outgoing();
        let voters = all(ConfChangeType::AddNode, conf_state.get_voters());
        let learners = [conf_state.get_learners(), conf_state.get_learners_next()].concat();
        let incoming = [voters, all(ConfChangeType::AddLearnerNode, &learners)].concat();
        let mut tracker = Self(ProgressTracker::new(1));
        if outgoing.is_empty() {
            incoming.iter().for_each(|single| tracker.simple(slice::from_ref(single)));
        } else {
            // The previous configuration, and from there the change that entered this one.
            let before = all(ConfChangeType::AddNode, outgoing);
            before.iter().for_each(|single| tracker.simple(slice::from_ref(single)));
            let change = [all(ConfChangeType::RemoveNode, outgoing), incoming].concat();
            tracker.enter_joint(conf_state.get_auto_leave(), &change);
        }
        tracker
    }

    /// Applies a change. As in raft, a change that does not fit has no effect.
    pub(crate) fn apply(&mut self, change: &ConfChangeV2) {
        if change.leave_joint() {
            self.leave_joint();
        } else if let Some(auto_leave) = change.enter_joint() {
            self.enter_joint(auto_leave, change.get_changes());
        } else {
            self.simple(change.get_changes());
        }
    }

    fn simple(&mut self, singles: &[ConfChangeSingle]) {
        if let Ok((conf, changes)) = Changer::new(&self.0).simple(singles) {
            self.0.apply_conf(conf, changes, 1);
        }
    }

    fn enter_joint(&mut self, auto_leave: bool, singles: &[ConfChangeSingle]) {
        if let Ok((conf, changes)) = Changer::new(&self.0).enter_joint(auto_leave, singles) {
            self.0.apply_conf(conf, changes, 1);
        }
    }

    fn leave_joint(&mut self) {
        if let Ok((conf, changes)) = Changer::new(&self.0).leave_joint() {
            self.0.apply_conf(conf, changes, 1);
        }
    }

    /// The configuration, sorted.
    pub(crate) fn conf_state(&self) -> ConfState {
        sorted(self.0.conf().to_conf_state())
    }
}

/// Sorts a configuration, because raft's own order is that of a hash map.
pub(super) fn sorted(mut conf_state: ConfState) -> ConfState {
    if planted!(ConfigurationNotSorted) {
        return conf_state;
    }
    conf_state.mut_voters().sort_unstable();
    conf_state.mut_learners().sort_unstable();
    conf_state.mut_voters_outgoing().sort_unstable();
    conf_state.mut_learners_next().sort_unstable();
    conf_state
}

/// Reads a `ConfChangeV2` from a committed entry; `None` if raft did not write it. The empty change leaves a joint
/// configuration.
pub(crate) fn decode_conf_change(data: &[u8]) -> Option<ConfChangeV2> {
    let mut from = Fields { rest: data };
    let mut change = ConfChangeV2::default();
    let mut singles = Vec::new();
    while !from.rest.is_empty() {
        match from.varint()? {
            // transition = 1, varint
            0x08 => change.set_transition(match from.varint()? {
                0 => ConfChangeTransition::Auto,
                1 => ConfChangeTransition::Implicit,
                2 => ConfChangeTransition::Explicit,
                _ => return None,
            }),
            // changes = 2, length-delimited
            0x12 => {
                if singles.len() == MEMBERS_MAX {
                    return None;
                }
                singles.push(single(from.delimited()?)?);
            }
            // context = 3, length-delimited. It is empty: this crate's context is in the entry.
            0x1a => {
                from.delimited()?;
            }
            _ if planted!(UnknownConfChangeFieldSkipped) => {}
            _ => return None,
        }
    }
    change.set_changes(singles.into());
    Some(change)
}

fn single(bytes: &[u8]) -> Option<ConfChangeSingle> {
    let mut from = Fields { rest: bytes };
    let mut single = ConfChangeSingle::default();
    while !from.rest.is_empty() {
        match from.varint()? {
            0x08 => single.set_change_type(match from.varint()? {
                0 => ConfChangeType::AddNode,
                1 => ConfChangeType::RemoveNode,
                2 => ConfChangeType::AddLearnerNode,
                _ => return None,
            }),
            0x10 => single.set_node_id(from.varint()?),
            _ => return None,
        }
    }
    (single.get_node_id() != 0).then_some(single)
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn delimited(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protobuf::Message;

    #[test]
    fn follows_the_configuration_as_raft_does() {
        let mut start = ConfState::default();
        start.set_voters(vec![1, 2, 3]);
        start.set_learners(vec![4]);
        let mut tracker = ConfTracker::new(&start);
        assert_eq!(tracker.conf_state(), start);
        for change in [ConfChange::Promote(4), ConfChange::Remove(2), ConfChange::AddLearner(5)] {
            tracker.apply(&change.to_raft());
        }
        let end = tracker.conf_state();
        assert_eq!((end.get_voters(), end.get_learners()), (&[1, 3, 4][..], &[5][..]));
        assert_eq!(ConfTracker::new(&ConfState::default()).conf_state(), ConfState::default());
    }

    #[test]
    fn reads_what_raft_writes() {
        let large = u64::from(u32::MAX) << 32 | 7;
        let swap = ConfChange::Swap { gone: 1, new: large };
        for change in [ConfChange::AddLearner(4), ConfChange::Promote(large), ConfChange::Remove(3), swap] {
            let change = change.to_raft();
            let bytes = change.write_to_bytes().unwrap();
            assert_eq!(decode_conf_change(&bytes), Some(change));
        }
        assert_eq!(decode_conf_change(&[]), Some(ConfChangeV2::default()));
        assert_eq!(decode_conf_change(&[0x0b; 100]), None);
    }

    fn any_single() -> impl Strategy<Value = ConfChangeSingle> {
        use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode};
        let kind = prop_oneof![Just(AddNode), Just(RemoveNode), Just(AddLearnerNode)];
        (kind, 1..=5u64).prop_map(|(kind, id)| single_of(kind, id))
    }

    fn any_change() -> impl Strategy<Value = ConfChangeV2> {
        use ConfChangeTransition::{Auto, Explicit, Implicit};
        let transition = prop_oneof![Just(Auto), Just(Implicit), Just(Explicit)];
        (transition, proptest::collection::vec(any_single(), 0..3)).prop_map(|(transition, singles)| {
            let mut change = ConfChangeV2::default();
            change.set_transition(transition);
            change.set_changes(singles.into());
            change
        })
    }

    proptest! {
        /// Compares with raft itself. At each step, a restart begins with the configuration reached.
        #[test]
        fn follows_every_change_as_raft_does(changes in proptest::collection::vec(any_change(), 0..30)) {
            let mut start = ConfState::default();
            start.set_voters(vec![1, 2, 3]);
            let storage = ::raft::storage::MemStorage::new_with_conf_state((vec![1, 2, 3], vec![]));
            let config = ::raft::Config::new(1);
            let logger = slog::Logger::root(slog::Discard, slog::o!());
            let mut node = ::raft::RawNode::new(&config, storage, &logger).unwrap();
            let mut tracker = ConfTracker::new(&start);
            for change in &changes {
                let _refused = node.apply_conf_change(change);
                tracker.apply(change);
                let expected = sorted(node.raft.prs().conf().to_conf_state());
                prop_assert_eq!(tracker.conf_state(), expected.clone());
                tracker = ConfTracker::new(&expected);
                prop_assert_eq!(tracker.conf_state(), expected);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode_conf_change(&bytes);
        }
    }
}
