//! At most one leader in a term (Raft paper, figure 3: "Election Safety").

use replica::io::NodeId;
use std::collections::BTreeMap;

/// The leader of each term.
#[derive(Debug, Default)]
pub(crate) struct ElectionSafety(BTreeMap<u64, NodeId>);

impl ElectionSafety {
    /// A member reports that it leads in a term. Returns whether that is new.
    pub(crate) fn on_leader(&mut self, id: NodeId, term: u64) -> Result<bool, String> {
        match self.0.insert(term, id) {
            Some(other) if other != id => Err(format!("{other} and {id} both lead in term {term}")),
            known => Ok(known.is_none()),
        }
    }

    /// Terms that had a leader.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_leader_in_a_term_is_found() {
        let mut safety = ElectionSafety::default();
        assert_eq!(safety.on_leader(1, 2), Ok(true));
        assert_eq!(safety.on_leader(1, 2), Ok(false));
        assert_eq!(safety.on_leader(2, 3), Ok(true));
        assert!(safety.on_leader(3, 2).is_err());
        assert_eq!(safety.count(), 2);
    }
}
