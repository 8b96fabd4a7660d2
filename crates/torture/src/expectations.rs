//! What a node may do when it starts with damaged, missing or old files. This is the only place that says so.

/// What happened to a node's files while it did not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Harm {
    /// A flipped bit in the log.
    Log,
    /// A flipped bit in a checkpoint.
    Checkpoint,
    /// A flipped bit in the file of votes.
    Vote,
    /// A flipped bit in a segment that is not used yet.
    Spare,
    /// A flipped bit in the audit log.
    Audit,
    /// A flipped bit in a key, a certificate or the configuration.
    Settings,
    /// All data is gone.
    Wiped,
    /// The data is older than what the node confirmed.
    RolledBack,
    /// A second node runs with a copy of everything.
    Cloned,
    /// The disk has no room.
    Full,
}

/// What a node may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    /// It may start, serve and become like the others.
    pub(crate) may_serve: bool,
    /// It may end with these exit codes; then it is replaced.
    pub(crate) exit_codes: &'static [i32],
}

/// The table.
pub(crate) const fn expected(harm: Harm) -> Expected {
    let (may_serve, exit_codes): (bool, &'static [i32]) = match harm {
        // The node repairs itself from the other nodes, or does without the file.
        Harm::Log | Harm::Checkpoint | Harm::Spare | Harm::Audit => (true, &[]),
        // 9: both copies of the vote are damaged.
        Harm::Vote => (true, &[9]),
        // 1, 3: a file cannot be used. The file is put back, and the node must serve.
        Harm::Settings => (true, &[1, 3, 9]),
        // 1: this node has had data and has voted.
        Harm::Wiped => (false, &[1]),
        // 10: a leader says that the node's log lacks what it confirmed.
        Harm::RolledBack => (true, &[9, 10]),
        Harm::Cloned => (true, &[9, 10]),
        // The node keeps answering queries, and takes updates again once there is room.
        Harm::Full => (true, &[]),
    };
    Expected { may_serve, exit_codes }
}
