//! All members that applied entry n hold the same state (ARCHITECTURE.md, Invariants): the state hash at an index is
//! always the same, also after a restart and from a checkpoint.

use replica::InvariantViolations;
use replica::io::NodeId;
use std::collections::BTreeMap;

/// The hash at each index, and the first member that reported it.
#[derive(Debug, Default)]
pub(crate) struct ReplicasHoldEqualState(BTreeMap<u64, (NodeId, u128)>);

impl ReplicasHoldEqualState {
    /// A member has applied everything up to an index.
    pub(crate) fn on_applied(&mut self, id: NodeId, index: u64, hash: u128) -> Result<(), String> {
        let &mut (first, known) = self.0.entry(index).or_insert((id, hash));
        if known != hash {
            return Err(format!("{id} has {hash:032x} at {index}, {first} had {known:032x}"));
        }
        Ok(())
    }

    /// Violations counted by the members themselves: entries that do not fit the state, and members with another
    /// state. Late raft messages are refused correctly and do not count.
    pub(crate) fn on_violations(
        &self,
        id: NodeId,
        invariant_violations: InvariantViolations,
        is_fenced: bool,
    ) -> Result<(), String> {
        let invariant_violations = InvariantViolations { refused_messages: 0, ..invariant_violations };
        if invariant_violations != InvariantViolations::default() || is_fenced {
            return Err(format!("{id}: {invariant_violations:?}, fenced: {is_fenced}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_hash_at_the_same_index_is_found() {
        let mut states = ReplicasHoldEqualState::default();
        assert!(states.on_applied(1, 5, 77).is_ok() && states.on_applied(2, 5, 77).is_ok());
        assert!(states.on_applied(2, 6, 78).is_ok());
        assert!(states.on_applied(3, 5, 78).is_err());
        assert!(
            states
                .on_violations(1, InvariantViolations { refused_messages: 3, ..InvariantViolations::default() }, false)
                .is_ok()
        );
        assert!(
            states
                .on_violations(1, InvariantViolations { entry_mismatches: 1, ..InvariantViolations::default() }, false)
                .is_err()
        );
        assert!(states.on_violations(1, InvariantViolations::default(), true).is_err());
    }
}
