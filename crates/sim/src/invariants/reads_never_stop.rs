//! Reads never stop: a member that answers queries continues until its process ends or exits by itself, with or
//! without a leader or a majority.

use replica::io::{NodeId, Serving};
use std::collections::BTreeSet;

/// Processes that answer, by member and boot.
#[derive(Debug, Default)]
pub(crate) struct ReadsNeverStop(BTreeSet<(NodeId, u64)>);

impl ReadsNeverStop {
    /// A process reports whether it answers. `gives_up` is set if it is about to exit.
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
