//! Errors of the command line: what failed, where, why, and what to do.

use std::fmt;

/// Exit codes; shown in `--help`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
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
    pub(crate) fn is_final(code: Option<i32>) -> bool {
        [Self::Removed, Self::Unappliable, Self::Quarantined].iter().any(|exit| code == Some(*exit as i32))
    }
}

/// The table of exit codes in `--help`.
pub(crate) const EXIT_CODES: &str = "\
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
pub(crate) struct Problem {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What failed, as in `cannot read the token`.
    pub(crate) what: String,
    /// The file, line, address or node that the error is about.
    pub(crate) place: Option<String>,
    /// Why.
    pub(crate) why: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// Whether the change may have been made all the same.
    pub(crate) is_unknown: bool,
}

/// Error text if no leader accepted a change. Older nodes match this text.
pub(crate) const NO_LEADER: &str = "no leader took it; nothing was done";

/// Error text for a join token that admits no node.
pub(crate) const TOKEN_REFUSED: &str = "the token is unknown, used, revoked or expired";

/// Error text of the API, and of a node that admits another one, if the outcome of a change is unknown. Older commands
/// and nodes match this text, so it never changes.
pub(crate) const OUTCOME_UNKNOWN_WIRE: &str = "nobody knows whether it was done";

/// Error text of a command if the outcome of a change is unknown.
pub(crate) const OUTCOME_UNKNOWN: &str = "the outcome is unknown: the change may have been made, or may still be made";

impl Problem {
    pub(crate) fn new(exit: Exit, what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { exit, what: what.into(), place: None, why: why.to_string(), hint: None, is_unknown: false }
    }

    /// A change may have been made, or may still be made.
    pub(crate) fn unknown(why: impl fmt::Display) -> Self {
        Self { is_unknown: true, ..Self::new(Exit::Unknown, OUTCOME_UNKNOWN, why) }
    }

    /// Sets the text of the failed operation, unless the outcome is unknown.
    pub(crate) fn of(self, what: impl Into<String>) -> Self {
        if self.is_unknown { self } else { Self { what: what.into(), ..self } }
    }

    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        self.place = Some(place.to_string());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        if let Some(place) = &self.place {
            write!(f, "\n  where: {place}")?;
        }
        write!(f, "\n  why:   {}", self.why)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  try:   {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
