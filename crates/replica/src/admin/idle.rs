//! Stalled imports: their node is gone, and they would block their zones.

use crate::entry::StageId;
use crate::limits::{IMPORT_IDLE_MS, IMPORT_STAGE_ENTRIES_MAX};
use crate::machine::Stages;
use crate::replica::Replica;
use std::collections::BTreeMap;

/// Since when each import stands still, as this replica saw it: the index of its latest entry, and the time lived
/// through by then. Every replica looks, so that a new leader need not begin anew; who saw an entry late takes the
/// import for younger than it is, never for older.
#[derive(Debug, Default)]
pub(super) struct StalledImports {
    seen: BTreeMap<StageId, (u64, u64)>,
}

impl StalledImports {
    fn look(&mut self, stages: &Stages, running_ms: u64) {
        self.seen.retain(|&id, _| stages.get(id).is_some());
        for (id, touched) in stages.touched() {
            let seen = self.seen.entry(id).or_insert((touched, running_ms));
            if seen.0 != touched {
                *seen = (touched, running_ms);
            }
        }
    }

    /// Those that no entry touched for too long, or since before `index`. They are young again by this: what gives them
    /// up may be lost with this leader, and is tried again later.
    fn take_idle(&mut self, index: u64, running_ms: u64) -> Vec<StageId> {
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

impl Replica {
    /// An import that nobody goes on with is given up by an entry, which a leader proposes. It has applied all that was
    /// committed before its term, so no chunk is overlooked.
    pub(crate) fn abandon_idle_stages(&mut self) {
        let (stages, running_ms) = (&self.machine.stages, self.running_ms);
        self.admin.idle.look(stages, running_ms);
        if !self.driver.has_applied_own_term() {
            return;
        }
        let index = self.machine.applied.0.saturating_sub(IMPORT_STAGE_ENTRIES_MAX);
        for stage in self.admin.idle.take_idle(index, running_ms) {
            self.abandon_stage(stage);
        }
    }
}
