//! Stalled imports: the node that ran them is gone, and they would block their zones.

use crate::entry::StageId;
use crate::limits::IMPORT_IDLE_MS;
use crate::machine::Stages;
use std::collections::BTreeMap;

/// For each import, its last entry and the running time at which this replica saw it. Every replica tracks this, so a
/// new leader does not start over. A replica that saw the entry late considers the import younger than it is, never
/// older.
#[derive(Debug, Default)]
pub(super) struct StalledImports {
    seen: BTreeMap<StageId, (u64, u64)>,
}

impl StalledImports {
    pub(super) fn look(&mut self, stages: &Stages, running_ms: u64) {
        self.seen.retain(|&id, _| stages.get(id).is_some());
        for (id, touched) in stages.touched() {
            let seen = self.seen.entry(id).or_insert((touched, running_ms));
            if seen.0 != touched {
                *seen = (touched, running_ms);
            }
        }
    }

    /// Removes and returns the imports without an entry for too long, or since before `index`. Their age restarts,
    /// because the proposal to abandon them may be lost with this leader; then it is made again later.
    pub(super) fn take_idle(&mut self, index: u64, running_ms: u64) -> Vec<StageId> {
        let mut idle = Vec::new();
        for (&id, (touched, since_ms)) in &mut self.seen {
            if running_ms - *since_ms >= IMPORT_IDLE_MS || *touched < index {
                *since_ms = running_ms;
                idle.push(id);
            }
        }
        idle
    }
}
