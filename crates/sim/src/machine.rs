//! One member: a disk and clocks that persist, and a process that starts and ends.

use crate::clock::MachineClock;
use crate::disk::SimDisk;
use crate::swarm::FaultKind;
use replica::Replica;
use replica::io::{Input, NodeId, Now, Serving, SuspectedLoss};
use replica::peer::FEATURE_LEVEL;
use std::collections::VecDeque;
use tsig::KeyTable;

/// A member's machine.
pub(crate) struct Machine {
    pub(crate) id: NodeId,
    pub(crate) disk: SimDisk,
    pub(crate) clock: MachineClock,
    /// The process, while it runs.
    pub(crate) replica: Option<Replica>,
    /// The entries that the log may lack. The member stores this next to its data.
    pub(crate) suspected_loss: Option<SuspectedLoss>,
    /// The feature level of the build in use.
    pub(crate) level: u32,
    /// The last data key that the member has.
    pub(crate) data_key: u32,
    /// The damage to its disk before the next start.
    pub(crate) damage: Option<FaultKind>,
    /// The suspected loss that was stored at the time of the disk's snapshot.
    pub(crate) snapshot_loss: Option<SuspectedLoss>,
    /// Number of starts of the process.
    pub(crate) boot: u64,
    /// The boot id of the process.
    pub(crate) boot_id: u64,
    /// Whether the machine has power. Killing the process leaves it on.
    pub(crate) has_power: bool,
    /// Keys that requests are verified with.
    pub(crate) keys: KeyTable,
    /// Whether the process will run soon.
    pub(crate) is_woken: bool,
    /// Whether the process is paused. Inputs wait.
    pub(crate) is_paused: bool,
    pub(crate) inbox: VecDeque<Input>,
    /// Whether power fails at the next unsynced write.
    pub(crate) is_doomed: bool,
    /// Whether the process was asked to stop.
    pub(crate) is_stopping: bool,
    /// Applied index at the last check.
    pub(crate) looked_at: u64,
    /// Whether it died for good or was removed. Its process never runs again.
    pub(crate) is_gone: bool,
}

impl Machine {
    pub(crate) fn new(id: NodeId, disk: SimDisk, clock: MachineClock) -> Self {
        Self {
            id,
            disk,
            clock,
            replica: None,
            suspected_loss: None,
            level: FEATURE_LEVEL,
            data_key: 1,
            damage: None,
            snapshot_loss: None,
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

    /// The readings of the machine's clocks.
    pub(crate) fn now(&self, true_us: u64) -> Now {
        let reading = self.clock.now(true_us);
        Now { monotonic_ms: reading.monotonic_ms, wall_ms: reading.wall_ms }
    }

    /// Whether this process is still alive.
    pub(crate) fn is_alive(&self, boot: u64) -> bool {
        self.replica.is_some() && self.boot == boot
    }

    /// Whether its process runs and listens to clients.
    pub(crate) fn serves(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.serving() != Serving::No)
    }

    /// Ends the process. The caller tells the disk how it ended.
    pub(crate) fn end(&mut self) {
        self.replica = None;
        self.keys = KeyTable::default();
        (self.is_woken, self.is_paused, self.is_doomed, self.is_stopping) = (false, false, false, false);
        self.inbox.clear();
    }
}

/// The member whose disk is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged {
    pub(crate) id: NodeId,
    /// The newest index applied on any member at the time of the damage. A member that reaches this index again has
    /// recovered.
    pub(crate) floor: u64,
}
