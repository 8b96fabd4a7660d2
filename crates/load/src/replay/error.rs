//! Why a trace cannot be replayed.

use super::prefix::Prefix;
use ::trace::TraceError;
use ::trace::mutate::PlanError;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why a trace cannot be replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// The input is a stream, which cannot be read twice.
    Stream(io::Error),
    /// The trace cannot be read.
    Trace(PathBuf, TraceError),
    /// The rules are invalid.
    Rules(PlanError),
    /// A filter command failed: the command, and how it exited or what is wrong with its output.
    Program(String),
    /// The trace is damaged before its first query.
    Unreadable(PathBuf, String),
    /// The selection has no query.
    NoQuery(PathBuf),
    /// Too many sources.
    Sources,
    /// A partition cannot be written.
    Spool(PathBuf, io::Error),
    /// Longer than the maximum run.
    Long(Duration),
    /// No server has the address family of this source.
    Family(IpAddr),
    /// A source that is not a local address.
    ForeignSource(IpAddr),
    /// A network that is not local.
    PrefixNotLocal(Prefix),
    /// Too many sockets for this process.
    OpenFiles {
        /// The needed number.
        needed: u64,
        /// The allowed number.
        open_files_max: u64,
    },
}

impl ReplayError {
    /// The same error for the output of `--filter-command`, without the path of the temporary file.
    #[must_use]
    pub fn of_program(self, command: &str) -> Self {
        let problem = match self {
            Self::NoQuery(_) => "it wrote no query, or none in the selected part".to_owned(),
            Self::Unreadable(_, reason) => format!("it wrote no query before {reason}"),
            Self::Trace(_, error) => error.to_string(),
            other => return other,
        };
        Self::Program(format!("--filter-command {command}: {problem}"))
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Trace(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Unreadable(path, reason) => write!(f, "{}: no query before the damage: {reason}", path.display()),
            Self::Spool(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Rules(error) => write!(f, "--rules: {error}"),
            Self::Program(outcome) => write!(f, "{outcome}; nothing was sent"),
            Self::NoQuery(path) => write!(f, "{}: no query in it, or none in the selected part", path.display()),
            Self::Sources => {
                write!(
                    f,
                    "more than {} sources; select a part with --limit or --until",
                    crate::limits::REPLAY_SOURCES_MAX
                )
            }
            Self::Long(duration) => write!(
                f,
                "the trace has {:.1} hours from the first query to the last, and a run may have 24: select a part with \
                 --until, shorten it with --speed, or ignore its times with --fast",
                duration.as_secs_f64() / 3_600.0
            ),
            Self::Family(address) => {
                write!(f, "{address} has no --server of its address family; name one, or use --sources sockets")
            }
            Self::ForeignSource(address) => write!(
                f,
                "{address} is a source of the trace, but not an address of this machine, so answers would not arrive. \
                 Use --sources prefix or --sources sockets. In a network namespace, \
                 `ip route add local 0.0.0.0/0 dev lo` makes every address local"
            ),
            Self::PrefixNotLocal(prefix) => {
                write!(f, "{prefix} is not local; `ip route add local {prefix} dev lo` makes it local")
            }
            Self::OpenFiles { needed, open_files_max } => write!(
                f,
                "a socket for each source would be {needed} open files, and this process may have {open_files_max} \
                 (ulimit -Hn). --sources addresses and --sources prefix need one socket for all sources. For \
                 --sources addresses, each source must be an address of this machine, and each address family needs a \
                 --server. `catlab net run` makes all addresses local, or with several groups those of `networks` \
                 (--network)"
            ),
        }
    }
}

impl std::error::Error for ReplayError {}
