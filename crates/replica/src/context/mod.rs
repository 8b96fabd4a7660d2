//! What the components of a replica share: [`Context`], which all may read, and [`Outputs`], which all may write.
//!
//! A component is a struct with state of its own. Its methods take `(&Context, &mut Outputs)`, so they change only that
//! state. If Raft or the applied state must change, the component returns its decision, and the replica executes it.

mod lifecycle;
mod outputs;

#[cfg(test)]
mod tests;

pub(crate) use lifecycle::{Lifecycle, Removal, Stop};
pub use outputs::Counters;
pub(crate) use outputs::{NO_REQUEST, Outputs};

use crate::config::ReplicaConfig;
use crate::io::{NodeId, Now};
use crate::machine::Machine;
use crate::raft::Driver;
use crate::state::Settings;

/// What every component may read.
#[derive(Clone, Copy)]
pub(crate) struct Context<'r> {
    pub(crate) local: &'r Local,
    pub(crate) driver: &'r Driver,
    pub(crate) machine: &'r Machine,
}

/// This member itself: its configuration, its clocks, and whether it answers, leads and continues.
pub(crate) struct Local {
    pub(crate) config: ReplicaConfig,
    pub(crate) now: Now,
    /// Running time of this process: the sum of bounded steps from tick to tick. Pauses do not count.
    pub(crate) running_ms: u64,
    /// When this process opened the replica.
    pub(crate) started_ms: u64,
    /// Everything published before the start is at or below this index.
    pub(crate) started_last_index: u64,
    /// The last known leader.
    pub(crate) last_leader: Option<NodeId>,
    /// When a leader was last heard, in running time.
    pub(crate) led_ms: u64,
    pub(crate) lifecycle: Lifecycle,
}

impl Local {
    pub(crate) fn new(config: ReplicaConfig, now: Now, started_last_index: u64) -> Self {
        Self {
            config,
            now,
            running_ms: 0,
            started_ms: now.monotonic_ms,
            started_last_index,
            last_leader: None,
            led_ms: 0,
            lifecycle: Lifecycle::default(),
        }
    }
}

impl<'r> Context<'r> {
    pub(crate) const fn new(local: &'r Local, driver: &'r Driver, machine: &'r Machine) -> Self {
        Self { local, driver, machine }
    }

    /// The id of this member.
    pub(crate) fn own(&self) -> NodeId {
        self.driver.id()
    }

    /// Monotonic time of the last input.
    pub(crate) const fn now_ms(&self) -> u64 {
        self.local.now.monotonic_ms
    }

    /// Running time of this process.
    pub(crate) const fn running_ms(&self) -> u64 {
        self.local.running_ms
    }

    /// The applied settings.
    pub(crate) const fn settings(&self) -> &'r Settings {
        &self.machine.settings
    }

    /// The index of the last applied entry.
    pub(crate) const fn applied(&self) -> u64 {
        self.machine.applied.0
    }
}
