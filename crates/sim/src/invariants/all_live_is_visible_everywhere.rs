//! An acknowledged update of a zone with `ack = all-live` is visible on every member that answers
//! (docs/internals/decisions/0018-all-live.md).
//!
//! Checked when a client gets its response: every member that would answer a query now, by its own clock, shows the
//! update. A paused process counts too, because it may resume at any time and then answers by its clock.

use crate::oracle::{KnownOutcome, Update};
use crate::updates::main_zone;
use replica::Replica;
use replica::io::{NodeId, Now};

/// Checks leases at each response.
#[derive(Debug, Default)]
pub(crate) struct AllLiveIsVisibleEverywhere;

impl AllLiveIsVisibleEverywhere {
    /// A client gets a response to an update. `members` are the live processes with the readings of their clocks.
    pub(crate) fn on_response<'m>(
        &self,
        (number, update): (u64, &Update),
        members: impl Iterator<Item = (NodeId, &'m Replica, Now)>,
    ) -> Result<(), String> {
        if update.known_outcome() != KnownOutcome::Done {
            return Ok(());
        }
        for (id, replica, now) in members {
            let published = replica.zones().published();
            let shows = update.is_in(&published);
            if replica.may_answer(&main_zone(), now.monotonic_ms) && !shows {
                let applied = replica.state_hash().0;
                return Err(format!("{id} at {applied} answers and lacks update {number}: {update:?}"));
            }
        }
        Ok(())
    }
}
