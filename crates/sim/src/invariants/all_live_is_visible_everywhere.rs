//! Who is told that an update of a zone with `ack = all-live` was made finds it on every member that answers
//! (docs/internals/decisions/0018-all-live.md).
//!
//! Looked at in the moment in which a client is told: a member that would answer a query now, by its own clock, shows
//! the update. A process that is paused counts too: it may go on at any time, and answers by what its clock shows then.

use crate::oracle::{Fate, Update};
use crate::updates::main_zone;
use replica::Replica;
use replica::io::{NodeId, Now};

/// Whether the leases held.
#[derive(Debug, Default)]
pub(crate) struct AllLiveIsVisibleEverywhere;

impl AllLiveIsVisibleEverywhere {
    /// A client is told of an update; `members` are those whose processes live, and what their clocks show.
    pub(crate) fn on_response<'m>(
        &self,
        (number, update): (u64, &Update),
        members: impl Iterator<Item = (NodeId, &'m Replica, Now)>,
    ) -> Result<(), String> {
        if update.fate() != Fate::Done {
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
