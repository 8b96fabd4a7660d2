//! The allowed behavior of a node that starts with damaged, missing or old files. No other code defines this.

/// The damage to a node's files while it was not running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// A flipped bit in the log.
    Log,
    /// A flipped bit in a checkpoint.
    Checkpoint,
    /// A flipped bit in the file of votes.
    Vote,
    /// A flipped bit in an unused segment.
    Spare,
    /// A flipped bit in the audit log.
    Audit,
    /// A flipped bit in a key, a certificate or the configuration.
    Settings,
    /// All data is gone.
    Wiped,
    /// The data is older than what the node has acknowledged.
    RolledBack,
    /// A second node runs with a copy of all files.
    Cloned,
    /// The disk is full.
    Full,
}

/// The allowed behavior of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    /// The node may start, serve, and catch up with the others.
    pub(crate) may_serve: bool,
    /// The node may exit with these codes. Then it is replaced.
    pub(crate) exit_codes: &'static [i32],
}

/// Returns the allowed behavior for each kind of damage.
pub(crate) const fn expected(damage: Damage) -> Expected {
    let (may_serve, exit_codes): (bool, &'static [i32]) = match damage {
        // The node repairs its data from the other nodes, or does not need the file.
        Damage::Log | Damage::Checkpoint | Damage::Spare | Damage::Audit => (true, &[]),
        // 9: both copies of the vote are damaged.
        Damage::Vote => (true, &[9]),
        // 1, 3: a file is unusable. The test restores the file, and the node must serve.
        Damage::Settings => (true, &[1, 3, 9]),
        // 1: this node has had data and has voted.
        Damage::Wiped => (false, &[1]),
        // 10: a leader reports that the node's log lacks acknowledged entries.
        Damage::RolledBack => (true, &[9, 10]),
        Damage::Cloned => (true, &[9, 10]),
        // The node keeps answering queries, and accepts updates again once there is room.
        Damage::Full => (true, &[]),
    };
    Expected { may_serve, exit_codes }
}
