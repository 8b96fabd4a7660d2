//! What a member applied, and so may acknowledge, a majority holds on stable storage: it is there even if all members
//! lost their power at that moment and nothing arrived that was not synced.
//!
//! Looked at for a sample of the indexes, by opening the logs of copies of the disks.

use crate::disk::SimDisk;
use crate::rng::Rng;
use replica::io::NodeId;
use replica::log::{Log, LogConfig};

/// One in so many indexes is looked at.
const ONE_IN: u64 = 40;

/// Draws the sample.
#[derive(Debug)]
pub(crate) struct DurableBeforeAcknowledged(Rng);

impl DurableBeforeAcknowledged {
    pub(crate) fn new(rng: Rng) -> Self {
        Self(rng)
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&mut self) -> bool {
        self.0.below(ONE_IN) == 0
    }

    /// Somebody applied everything up to an index.
    pub(crate) fn on_applied(
        &self,
        index: u64,
        config: &LogConfig,
        disks: &[(NodeId, &SimDisk)],
    ) -> Result<(), String> {
        let mut held = Vec::new();
        for (id, disk) in disks {
            let (log, _repairs) = Log::open(&disk.without_unsynced(), config.clone())
                .map_err(|error| format!("the log of {id} would not open after a crash: {error}"))?;
            held.push((*id, log.last_index()));
        }
        let count = held.iter().filter(|(_, last)| *last >= index).count();
        if count <= disks.len() / 2 {
            return Err(format!("{index} is applied, and on stable storage only where these reach it: {held:?}"));
        }
        Ok(())
    }
}
