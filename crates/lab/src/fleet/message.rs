//! The messages between a controller and its agents, as JSON.

use serde::{Deserialize, Serialize};

/// Hexadecimal digits of the name of a run, and of an agent.
const ID_DIGITS: usize = 16;

/// An agent that can take part in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Random, chosen when the agent starts.
    pub id: String,
    /// The name that its user gave it.
    pub name: String,
    /// The name of its machine.
    pub host: String,
    /// The version of its program.
    pub version: String,
}

/// Which of the two plans there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Queries at a rate.
    Load,
    /// A trace.
    Replay,
}

/// What a file is to the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// The agent's partition of the trace.
    Trace,
    /// Queries.
    Queries,
    /// UPDATEs.
    Updates,
    /// Clients that ask each in its own way.
    Population,
    /// The key that messages are signed with: a secret.
    Key,
    /// Authorities of servers' certificates.
    Authorities,
}

impl Content {
    /// The option that names such a file; a trace is named without.
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

    /// Whether a plan has such a file.
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
    /// What it is to the plan.
    pub content: Content,
    /// How long it is.
    pub bytes: u64,
    /// The ending of its name, which may say how it is packed.
    pub extension: String,
}

/// The part of a run that an agent gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Which plan.
    pub kind: Kind,
    /// The options of the plan, each `--option` or `--option=value`.
    #[serde(rename = "words")]
    pub args: Vec<String>,
    /// Which of the agents it is, from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
    /// Of a trace: the time of it at which the run begins.
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
    /// Begin, at this time of your own clock.
    Start {
        /// Nanoseconds since 1970.
        at_ns: u64,
    },
    /// Send nothing more.
    Stop,
    /// Send the run folder.
    Collect,
    /// Release the run.
    Release,
}

/// A command, and in which run.
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
    /// It is done, or has begun.
    Accepted,
    /// Its time.
    Clock {
        /// Nanoseconds since 1970.
        now_ns: u64,
    },
    /// It is not.
    Refused {
        /// Why.
        reason: String,
    },
}

/// The phase of an agent in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It receives and reads its input.
    Spooling,
    /// It has all that it needs.
    Ready {
        /// Queries that it will send, where that is known.
        queries: Option<u64>,
    },
    /// It sends, or waits for the start.
    Running,
    /// It has ended.
    Finished {
        /// Bytes of its run folder.
        bytes: u64,
        /// Share of the run's time that its busiest worker worked.
        cpu_share: f64,
        /// How much later than agreed it began; microseconds.
        start_late_us: f64,
    },
    /// It could not go on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A heartbeat: an agent is alive, and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Of which agent.
    pub id: String,
    /// How far it is.
    pub phase: Phase,
    /// Queries that it has sent, by whole seconds.
    pub sent: u64,
}

/// Whether a text is the name of a run or an agent: it becomes part of subjects and paths.
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
