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
use std::collections::{BTreeMap, BTreeSet};

/// One in so many indexes is looked at.
const ONE_IN: u64 = 120;

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

    /// A member has applied everything up to an index. Members whose disks were damaged since then may have held it.
    pub(crate) fn on_applied(
        &mut self,
        index: u64,
        config: &LogConfig,
        disks: &[(NodeId, &SimDisk)],
        known: BTreeSet<Voters>,
        unreadable: &BTreeSet<NodeId>,
    ) -> Result<(), String> {
        let mut log_ends = LogEnds { config, disks, unreadable, last: BTreeMap::new(), broken: None };
        let mut is_majority =
            |[new, old]: &Voters| log_ends.by_half(new, index) && (old.is_empty() || log_ends.by_half(old, index));
        let is_durable = known.iter().chain(&self.known).any(&mut is_majority);
        if let Some(broken) = log_ends.broken {
            return Err(broken);
        }
        let log_ends = log_ends.last;
        if !is_durable {
            return Err(format!(
                "{index} is applied, and on stable storage only where these reach it: {log_ends:?}; voters {known:?}, \
                 before {:?}",
                self.known
            ));
        }
        self.known = known;
        Ok(())
    }
}

/// The ends of the logs, which are opened only when needed.
struct LogEnds<'d> {
    config: &'d LogConfig,
    disks: &'d [(NodeId, &'d SimDisk)],
    unreadable: &'d BTreeSet<NodeId>,
    last: BTreeMap<NodeId, u64>,
    broken: Option<String>,
}

impl LogEnds<'_> {
    /// Whether a majority of these members holds an index.
    fn by_half(&mut self, half: &[NodeId], index: u64) -> bool {
        let needed = half.len() / 2 + 1;
        let mut found = 0;
        for (place, voter) in half.iter().enumerate() {
            if found >= needed || found + half.len() - place < needed {
                break;
            }
            found += usize::from(self.holds(*voter, index));
        }
        !half.is_empty() && found >= needed
    }

    fn holds(&mut self, voter: NodeId, index: u64) -> bool {
        if let Some(last) = self.last.get(&voter) {
            return *last >= index;
        }
        let Some((_, disk)) = self.disks.iter().find(|(id, _)| *id == voter) else {
            return self.unreadable.contains(&voter);
        };
        match Log::open(&disk.without_unsynced(), self.config.clone()) {
            Ok((log, _repairs)) => {
                self.last.insert(voter, log.last_index());
                log.last_index() >= index
            }
            Err(error) => {
                self.broken = Some(format!("the log of {voter} does not open after a crash: {error}"));
                false
            }
        }
    }
}
