//! The messages between a controller and its agents, as JSON.

use serde::{Deserialize, Serialize};

/// Number of hexadecimal digits in the ID of a run or an agent.
const ID_DIGITS: usize = 16;

/// An agent that can take part in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Random, chosen when the agent starts.
    pub id: String,
    /// The name given by its user.
    pub name: String,
    /// The name of its machine.
    pub host: String,
    /// The version of its program.
    pub version: String,
}

/// The kind of plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A load.
    Load,
    /// A replay.
    Replay,
}

/// The content of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// The agent's partition of the trace.
    Trace,
    /// Queries.
    Queries,
    /// UPDATEs.
    Updates,
    /// A population.
    Population,
    /// A TSIG key, which is secret.
    Key,
    /// CAs for the certificates of servers.
    Authorities,
}

impl Content {
    /// The option for such a file. The trace is an argument without an option.
    #[must_use]
    pub const fn option(self) -> Option<&'static str> {
        match self {
            Self::Trace => None,
            Self::Queries => Some("queries"),
            Self::Updates => Some("updates"),
            Self::Population => Some("population"),
            Self::Key => Some("tsig"),
            Self::Authorities => Some("ca"),
        }
    }

    /// Whether this kind of plan can have such a file.
    #[must_use]
    pub const fn is_of(self, kind: Kind) -> bool {
        match self {
            Self::Trace => matches!(kind, Kind::Replay),
            Self::Authorities => true,
            Self::Queries | Self::Updates | Self::Population | Self::Key => matches!(kind, Kind::Load),
        }
    }
}

/// A file that is sent in chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its content.
    pub content: Content,
    /// Its size.
    pub bytes: u64,
    /// The extension of its name, which may show its compression.
    pub extension: String,
}

/// The part of a run for one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The kind of plan.
    pub kind: Kind,
    /// The options of the plan, each `--option` or `--option=value`.
    #[serde(rename = "words")]
    pub args: Vec<String>,
    /// The index of the agent, from 0.
    pub index: usize,
    /// The number of agents.
    pub count: usize,
    /// For a replay: the time in the trace at which the run begins.
    pub origin_ns: u64,
    /// Files that it needs, each with different content, in the order of sending.
    #[serde(rename = "parcels")]
    pub files: Vec<InputFile>,
    /// The agent releases the run after this time without a heartbeat from the controller.
    pub silence_ms: u64,
}

/// A command from a controller to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Take part in a run.
    #[serde(rename = "enlist")]
    Assign(Box<Assignment>),
    /// The controller is alive.
    #[serde(rename = "pulse")]
    Heartbeat,
    /// Report the time.
    Clock,
    /// Start at this time of the agent's clock.
    Start {
        /// Nanoseconds since 1970.
        at_ns: u64,
    },
    /// Stop sending queries.
    Stop,
    /// Send the run folder.
    Collect,
    /// Release the run.
    Release,
}

/// A command and its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The name of the run.
    pub run: String,
    /// The command.
    pub command: Command,
}

/// The reply of an agent to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The command was accepted.
    Accepted,
    /// The time of the agent's clock.
    Clock {
        /// Nanoseconds since 1970.
        now_ns: u64,
    },
    /// The command was refused.
    Refused {
        /// The reason.
        reason: String,
    },
}

/// The phase of an agent in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It receives and reads its input.
    Spooling,
    /// It has read its input.
    Ready {
        /// Number of queries that it will send, if known.
        queries: Option<u64>,
    },
    /// It sends queries, or waits for the start.
    Running,
    /// It has ended.
    Finished {
        /// Bytes of its run folder.
        bytes: u64,
        /// Busy share of its busiest worker.
        cpu_share: f64,
        /// How much later than agreed it started, in microseconds.
        start_late_us: f64,
    },
    /// It failed.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// A heartbeat of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The ID of the agent.
    pub id: String,
    /// Its phase.
    pub phase: Phase,
    /// Queries that it has sent in completed seconds.
    pub sent: u64,
}

/// Whether a text is a valid ID of a run or an agent, which is used in subjects and paths.
#[must_use]
pub fn is_run(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_names_are_16_hex_digits() {
        assert!(is_run("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789ABCDEF", "0123456789abcd.>", "../../../etc/pass"] {
            assert!(!is_run(wrong), "{wrong}");
        }
    }

    #[test]
    fn commands_survive_json() {
        let assignment = Assignment {
            kind: Kind::Replay,
            args: vec!["--fast".into()],
            index: 1,
            count: 4,
            origin_ns: 0,
            files: vec![InputFile { content: Content::Trace, bytes: 7, extension: "catrace".into() }],
            silence_ms: 10_000,
        };
        for command in [Command::Assign(Box::new(assignment)), Command::Heartbeat, Command::Start { at_ns: u64::MAX }] {
            let envelope = Envelope { run: "0123456789abcdef".into(), command };
            let text = serde_json::to_vec(&envelope).unwrap();
            assert_eq!(serde_json::from_slice::<Envelope>(&text).unwrap(), envelope);
        }
    }
}
