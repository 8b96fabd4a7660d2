//! Why a run on agents failed.

use fleet::BusError;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a run on agents failed.
#[derive(Debug)]
pub(crate) enum FleetError {
    /// The NATS server.
    Bus(BusError),
    /// The connection was lost.
    Gone,
    /// Too few agents answered: the found and the wanted number, their names, and the waiting time.
    Agents(usize, usize, String, Duration),
    /// This agent has another version.
    Version(String, String),
    /// This agent refuses the run, for this reason.
    Refused(String, String),
    /// A secret would be sent unencrypted.
    KeyInClear,
    /// The user asked to stop.
    Stopped,
    /// No agent returned results.
    Nothing(String),
}

impl From<BusError> for FleetError {
    fn from(error: BusError) -> Self {
        Self::Bus(error)
    }
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bus(error) => error.fmt(f),
            Self::Gone => f.write_str("lost the connection to the NATS server"),
            Self::Agents(found, wanted, names, wait) => {
                let names = if names.is_empty() { String::new() } else { format!(" ({names})") };
                write!(
                    f,
                    "{found} of {wanted} agents answered within {} s{names}; start agents with `catlab agent --nats`",
                    wait.as_secs()
                )
            }
            Self::Version(name, version) => {
                write!(f, "agent {name} has version {version}, this is {}", env!("CARGO_PKG_VERSION"))
            }
            Self::Refused(name, reason) => write!(f, "agent {name}: {reason}"),
            Self::KeyInClear => f.write_str(
                "--tsig: the key would go to the NATS server in clear; name it with tls://, here and for the agents \
                 (docs/catlab/agents.md)",
            ),
            Self::Stopped => f.write_str("stopped before the start"),
            Self::Nothing(reasons) => write!(f, "no agent returned results: {reasons}"),
        }
    }
}

impl Error for FleetError {}
