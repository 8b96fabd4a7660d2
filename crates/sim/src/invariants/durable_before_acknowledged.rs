//! What a member applied, and so may acknowledge, a majority of the voters holds on stable storage: it is there even if
//! all members lost their power at that moment and nothing arrived that was not synced.
//!
//! Who votes changes. Whoever committed an entry had applied all configurations up to it but for one at most, so the
//! majority is one of the voters that some member knows now, or of those that were known at the last look.
//!
//! Looked at for a sample of the indexes, by opening the logs of copies of the disks.

use crate::disk::SimDisk;
use crate::rng::Rng;
use replica::io::NodeId;
use replica::log::{Log, LogConfig};
use std::collections::BTreeSet;

/// One in so many indexes is looked at.
const ONE_IN: u64 = 40;

/// Voters, of both halves where a configuration is being left: each needs its majority.
pub(crate) type Voters = [Vec<NodeId>; 2];

/// Draws the sample.
#[derive(Debug)]
pub(crate) struct DurableBeforeAcknowledged {
    rng: Rng,
    /// Those that were known at the last look.
    known: BTreeSet<Voters>,
}

impl DurableBeforeAcknowledged {
    pub(crate) const fn new(rng: Rng) -> Self {
        Self { rng, known: BTreeSet::new() }
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&mut self) -> bool {
        self.rng.below(ONE_IN) == 0
    }

    /// Somebody applied everything up to an index. Members whose disks are damaged since then may have held it.
    pub(crate) fn on_applied(
        &mut self,
        index: u64,
        config: &LogConfig,
        disks: &[(NodeId, &SimDisk)],
        known: BTreeSet<Voters>,
        unreadable: &BTreeSet<NodeId>,
    ) -> Result<(), String> {
        let mut held = Vec::new();
        for (id, disk) in disks {
            let (log, _repairs) = Log::open(&disk.without_unsynced(), config.clone())
                .map_err(|error| format!("the log of {id} would not open after a crash: {error}"))?;
            held.push((*id, log.last_index()));
        }
        let holds = |voter: &&NodeId| unreadable.contains(voter) || held.iter().any(|(id, last)| id == *voter && *last >= index);
        let is_half = |half: &Vec<NodeId>| half.iter().filter(holds).count() > half.len() / 2;
        let is_majority = |[new, old]: &Voters| !new.is_empty() && is_half(new) && (old.is_empty() || is_half(old));
        if !known.iter().chain(&self.known).any(is_majority) {
            return Err(format!(
                "{index} is applied, and on stable storage only where these reach it: {held:?}; voters {known:?}, \
                 before {:?}",
                self.known
            ));
        }
        self.known = known;
        Ok(())
    }
}
