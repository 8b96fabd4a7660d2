//! An entry that a member applied may be acknowledged, so it must be on stable storage at a majority of the voters. It
//! survives even if all members lose power at that moment and lose all unsynced data.
//!
//! Voters change. The member that committed an entry had applied all configurations before it, except at most one. The
//! voters of the majority are therefore those that some member knows now, or that were known at the last check.
//!
//! Checked for a sample of the indexes, by opening the logs on copies of the disks.

use crate::disk::SimDisk;
use crate::rng::Rng;
use replica::io::NodeId;
use replica::log::{Log, LogConfig};
use std::collections::{BTreeMap, BTreeSet};

/// One in this many indexes is checked.
const ONE_IN: u64 = 120;

/// Voters. In a joint configuration there are two halves, and each needs its majority.
pub(crate) type Voters = [Vec<NodeId>; 2];

/// Draws the sample.
#[derive(Debug)]
pub(crate) struct DurableBeforeAcknowledged {
    rng: Rng,
    /// Voters known at the last check.
    known: BTreeSet<Voters>,
}

impl DurableBeforeAcknowledged {
    pub(crate) const fn new(rng: Rng) -> Self {
        Self { rng, known: BTreeSet::new() }
    }

    /// Whether it is time for a check.
    pub(crate) fn is_due(&mut self) -> bool {
        self.rng.below(ONE_IN) == 0
    }

    /// A member has applied everything up to an index. Members whose disks were damaged since then count as having it.
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
        for (tried, voter) in half.iter().enumerate() {
            if found >= needed || found + half.len() - tried < needed {
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
