//! One member: a disk and clocks that stay, and a process that comes and goes.

use crate::clock::MachineClock;
use crate::disk::SimDisk;
use crate::swarm::FaultKind;
use replica::Replica;
use replica::io::{Doubt, Input, NodeId, Now, Serving};
use replica::peer::FEATURE_LEVEL;
use std::collections::VecDeque;
use tsig::KeyTable;

/// A member's machine.
pub(crate) struct Machine {
    pub(crate) id: NodeId,
    pub(crate) disk: SimDisk,
    pub(crate) clock: MachineClock,
    /// The process, while it lives.
    pub(crate) replica: Option<Replica>,
    /// The entries that the log may lack, as the member stores them beside its data.
    pub(crate) doubt: Option<Doubt>,
    /// The feature level of the build in use.
    pub(crate) level: u32,
    /// The last data key that the member has.
    pub(crate) data_key: u32,
    /// The damage to its disk before the next start.
    pub(crate) damage: Option<FaultKind>,
    /// The doubt that was stored at the time of the disk's snapshot.
    pub(crate) snapshot_doubt: Option<Doubt>,
    /// How often the process was started.
    pub(crate) boot: u64,
    /// What the process calls itself.
    pub(crate) boot_id: u64,
    /// Whether the machine has power; a process that was killed leaves it on.
    pub(crate) has_power: bool,
    /// Keys that requests are verified with.
    pub(crate) keys: KeyTable,
    /// Whether a round of work is set.
    pub(crate) is_woken: bool,
    /// The process does not run: what comes in waits.
    pub(crate) is_paused: bool,
    pub(crate) inbox: VecDeque<Input>,
    /// Power goes when something is written and not synced.
    pub(crate) is_doomed: bool,
    /// The process was asked to stop.
    pub(crate) is_stopping: bool,
    /// Applied index at the last look.
    pub(crate) looked_at: u64,
    /// It died for good, or was removed: no process of it ever runs again.
    pub(crate) is_gone: bool,
}

impl Machine {
    pub(crate) fn new(id: NodeId, disk: SimDisk, clock: MachineClock) -> Self {
        Self {
            id,
            disk,
            clock,
            replica: None,
            doubt: None,
            level: FEATURE_LEVEL,
            data_key: 1,
            damage: None,
            snapshot_doubt: None,
            boot: 0,
            boot_id: 0,
            has_power: true,
            keys: KeyTable::default(),
            is_woken: false,
            is_paused: false,
            inbox: VecDeque::new(),
            is_doomed: false,
            is_stopping: false,
            looked_at: 0,
            is_gone: false,
        }
    }

    /// What the clocks of the machine show.
    pub(crate) fn now(&self, true_us: u64) -> Now {
        let reading = self.clock.now(true_us);
        Now { monotonic_ms: reading.monotonic_ms, wall_ms: reading.wall_ms }
    }

    /// Whether this very process still lives.
    pub(crate) fn is_alive(&self, boot: u64) -> bool {
        self.replica.is_some() && self.boot == boot
    }

    /// Whether its process runs and listens to clients.
    pub(crate) fn serves(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.serving() != Serving::No)
    }

    /// The process ends; the disk is told by the caller how.
    pub(crate) fn end(&mut self) {
        self.replica = None;
        self.keys = KeyTable::default();
        (self.is_woken, self.is_paused, self.is_doomed, self.is_stopping) = (false, false, false, false);
        self.inbox.clear();
    }
}
