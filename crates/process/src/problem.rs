//! Errors of the command line: what failed, where, why, and what to do.

use std::fmt;

/// Exit codes; shown in `--help`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// The operation failed.
    Failed = 1,
    /// The command line is wrong (clap's own number).
    Usage = 2,
    /// A configuration, key or zone file is wrong.
    Input = 3,
    /// No node answers, or the cluster has no leader.
    Unreachable = 4,
    /// The cluster refused: wrong token, existing zone, presigned zone.
    Refused = 5,
    /// An address or a directory is in use.
    InUse = 6,
    /// The node was removed from its cluster, or another cluster replaced its cluster.
    Removed = 7,
    /// This version cannot apply an entry that the cluster has committed. A restart would fail at the same entry.
    Unappliable = 8,
    /// The node's data is damaged, so it must not vote.
    Quarantined = 9,
    /// A leader reported repeatedly that the node's log lacks or contradicts committed entries. The node may be
    /// restarted.
    Contradicted = 10,
    /// A change may have been made, or may still be made: the node that received it did not answer in time.
    Unknown = 11,
}

impl Exit {
    /// Whether a node with this exit code would exit with it again after a restart.
    #[must_use]
    pub fn is_final(code: Option<i32>) -> bool {
        [Self::Removed, Self::Unappliable, Self::Quarantined].iter().any(|exit| code == Some(*exit as i32))
    }
}

/// The table of exit codes in `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the operation failed
  2  wrong command line
  3  wrong configuration, key or zone file
  4  no node answers, or there is no leader
  5  refused by the cluster
  6  an address or a directory is in use
  7  the node was removed from its cluster, or another cluster replaced its cluster
  8  this version cannot apply an entry that the cluster has committed
  9  the node's data is damaged, and no other node has the damaged part
 10  a leader reported that the node's log lacks or contradicts committed entries
 11  the outcome is unknown: the change may have been made, or may still be made";

/// An error for the user.
#[derive(Debug)]
pub struct Problem {
    /// The exit code.
    pub exit: Exit,
    /// What failed, as in `cannot read the token`.
    pub what: String,
    /// The file, line, address or node that the error is about.
    pub location: Option<String>,
    /// Why.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether the outcome is unknown: the change may have been made.
    pub is_unknown: bool,
}

/// Error text if no leader accepted a change.
pub const NO_LEADER: &str = "no leader accepted the change; nothing was done";
/// The same text as older nodes send it during an upgrade. It is compared literally, so it stays as it was.
const NO_LEADER_OLD: &str = "no leader took it; nothing was done";

/// Error text for a join token that admits no node.
pub const TOKEN_REFUSED: &str = "the token is unknown, used, revoked or expired";

/// Error text of the API, and of a node that admits another one, if the outcome of a change is unknown.
pub const OUTCOME_UNKNOWN_WIRE: &str = "the outcome of the change is unknown";
/// The same text as older nodes send it during an upgrade. It is compared literally, so it stays as it was.
const OUTCOME_UNKNOWN_OLD: &str = "nobody knows whether it was done";

/// Error text of the API while the data key is being replaced. Nothing was done. Commands match this text.
pub const DATA_KEY_CHANGES_WIRE: &str = "the data key is being replaced";

/// Error text of a command if the outcome of a change is unknown.
pub const OUTCOME_UNKNOWN: &str = "the outcome is unknown: the change may have been made, or may still be made";

/// Whether this error text of a node says that no leader accepted a change.
pub fn is_without_leader(text: &str) -> bool {
    [NO_LEADER, NO_LEADER_OLD].contains(&text)
}

/// Whether this error text of a node says that the outcome of a change is unknown.
pub fn is_outcome_unknown(text: &str) -> bool {
    [OUTCOME_UNKNOWN_WIRE, OUTCOME_UNKNOWN_OLD].contains(&text)
}

impl Problem {
    /// An error with this exit code: what failed, and why.
    pub fn new(exit: Exit, what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { exit, what: what.into(), location: None, why: why.to_string(), hint: None, is_unknown: false }
    }

    /// An error after which the change may have been made, or may still be made.
    pub fn unknown(why: impl fmt::Display) -> Self {
        Self { is_unknown: true, ..Self::new(Exit::Unknown, OUTCOME_UNKNOWN, why) }
    }

    /// Sets the text of the failed operation, unless the outcome is unknown.
    #[must_use]
    pub fn of(self, what: impl Into<String>) -> Self {
        if self.is_unknown { self } else { Self { what: what.into(), ..self } }
    }

    /// Sets the file, line, address or node that the error is about.
    #[must_use]
    pub fn at(mut self, location: impl fmt::Display) -> Self {
        self.location = Some(location.to_string());
        self
    }

    /// Sets what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        if let Some(location) = &self.location {
            write!(f, "\n  where: {location}")?;
        }
        write!(f, "\n  why:   {}", self.why)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  try:   {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
