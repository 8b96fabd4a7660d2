//! Reads never stop: a member that answers queries goes on doing so, whatever becomes of leaders and majorities, until
//! its process ends or gives itself up.

use replica::io::{NodeId, Serving};
use std::collections::BTreeSet;

/// Processes that answer, by member and boot.
#[derive(Debug, Default)]
pub(crate) struct ReadsNeverStop(BTreeSet<(NodeId, u64)>);

impl ReadsNeverStop {
    /// A process says whether it answers; `gives_up` when it is about to end.
    pub(crate) fn on_serving(
        &mut self,
        (id, boot): (NodeId, u64),
        serving: Serving,
        gives_up: bool,
    ) -> Result<(), String> {
        if serving != Serving::No {
            self.0.insert((id, boot));
        } else if self.0.contains(&(id, boot)) && !gives_up {
            return Err(format!("{id} stops answering queries"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_stops_answering_is_found() {
        let mut reads = ReadsNeverStop::default();
        assert!(reads.on_serving((1, 1), Serving::No, false).is_ok());
        assert!(reads.on_serving((1, 1), Serving::Stale, false).is_ok());
        assert!(reads.on_serving((1, 1), Serving::Yes, false).is_ok());
        assert!(reads.on_serving((1, 2), Serving::No, false).is_ok());
        assert!(reads.on_serving((1, 1), Serving::No, true).is_ok());
        assert!(reads.on_serving((1, 1), Serving::No, false).is_err());
    }
}
