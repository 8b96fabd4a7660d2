//! Changes of membership as raft keeps them in entries: protobuf, of which only what we write is read. The
//! general parser is not used on it (RUSTSEC-2024-0437: it recurses on unknown groups without bound).

use crate::limits::MEMBERS_MAX;
use ::raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};
use ::raft::{Changer, ProgressTracker};

/// One change of membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfChange {
    /// A member that gets the log and has no vote.
    AddLearner(u64),
    /// A learner that gets a vote.
    Promote(u64),
    /// A member that goes.
    Remove(u64),
}

impl ConfChange {
    /// For raft to propose; simple changes need no joint configuration.
    pub(crate) fn to_raft(self) -> ConfChangeV2 {
        let (kind, id) = match self {
            Self::AddLearner(id) => (ConfChangeType::AddLearnerNode, id),
            Self::Promote(id) => (ConfChangeType::AddNode, id),
            Self::Remove(id) => (ConfChangeType::RemoveNode, id),
        };
        let mut single = ConfChangeSingle::default();
        single.set_change_type(kind);
        single.set_node_id(id);
        let mut change = ConfChangeV2::default();
        change.set_transition(ConfChangeTransition::Auto);
        change.set_changes(vec![single].into());
        change
    }
}

/// Follows the configuration through entries that are applied before raft is started.
pub(crate) struct ConfTracker(ProgressTracker);

impl ConfTracker {
    /// Begins with a configuration that is not joint; ours never are, simple changes suffice.
    pub(crate) fn new(conf_state: &ConfState) -> Self {
        let mut tracker = Self(ProgressTracker::new(1));
        let voters = conf_state.get_voters().iter().map(|&id| ConfChange::Promote(id));
        let learners = conf_state.get_learners().iter().map(|&id| ConfChange::AddLearner(id));
        for change in voters.chain(learners) {
            tracker.apply(&change.to_raft());
        }
        tracker
    }

    /// Applies a change; one that does not fit changes nothing, as raft has it.
    pub(crate) fn apply(&mut self, change: &ConfChangeV2) {
        if let Ok((conf, changes)) = Changer::new(&self.0).simple(change.get_changes()) {
            self.0.apply_conf(conf, changes, 1);
        }
    }

    /// The configuration, sorted.
    pub(crate) fn conf_state(&self) -> ConfState {
        sorted(self.0.conf().to_conf_state())
    }
}

/// Raft's own order is that of a hash map.
pub(super) fn sorted(mut conf_state: ConfState) -> ConfState {
    conf_state.mut_voters().sort_unstable();
    conf_state.mut_learners().sort_unstable();
    conf_state.mut_voters_outgoing().sort_unstable();
    conf_state.mut_learners_next().sort_unstable();
    conf_state
}

/// Reads a `ConfChangeV2` from the data of a committed entry; `None` when it is not what raft writes. The empty
/// one leaves a joint configuration.
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
            // context = 3, length-delimited: ours is in the entry, not here.
            0x1a => {
                from.delimited()?;
            }
            _ => return None,
        }
    }
    change.set_changes(singles.into());
    Some(change)
}

fn single(octets: &[u8]) -> Option<ConfChangeSingle> {
    let mut from = Fields { rest: octets };
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
            let (&octet, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn delimited(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        let (octets, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(octets)
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
        for change in [ConfChange::AddLearner(4), ConfChange::Promote(large), ConfChange::Remove(3)] {
            let change = change.to_raft();
            let octets = change.write_to_bytes().unwrap();
            assert_eq!(decode_conf_change(&octets), Some(change));
        }
        assert_eq!(decode_conf_change(&[]), Some(ConfChangeV2::default()));
        assert_eq!(decode_conf_change(&[0x0b; 100]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode_conf_change(&octets);
        }
    }
}
