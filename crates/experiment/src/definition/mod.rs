//! The definition of an experiment, as in its TOML file.

// Reads and checks a definition.
mod backends;
mod check_names;
mod check_values;
mod problem;
mod read;
// Sizes, parameters and variables.
pub mod command;
mod links;
mod matrix;
mod sizes;
pub mod variables;

#[cfg(test)]
mod tests;

pub(crate) use backends::addresses;
pub(crate) use check_values::{ECHO, KINDS};
pub use problem::DefinitionError;
pub(crate) use problem::hint;
pub use read::{built_in, built_in_names, built_in_text};
pub use sizes::Size;

use crate::limits::CELL_SECONDS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A value of a variable or parameter: text, or a number in its shortest form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Scalar", into = "String")]
pub struct Value(pub String);

/// What TOML may hold for a [`Value`].
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Self {
        Self(match scalar {
            Scalar::Bool(value) => value.to_string(),
            Scalar::Integer(value) => value.to_string(),
            Scalar::Float(value) => value.to_string(),
            Scalar::Text(text) => text,
        })
    }
}

impl From<Value> for String {
    fn from(value: Value) -> Self {
        value.0
    }
}

/// An experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// One line: what the experiment measures.
    pub title: String,
    /// The document that measured it first, with its tables or figures.
    pub source: String,
    /// The question that the experiment answers.
    pub question: String,
    /// What the experiment does not show.
    #[serde(default)]
    pub limits: Vec<String>,
    /// How often each combination of parameters is measured.
    #[serde(default = "three")]
    pub repeats: u32,
    /// Variables of command lines. `--set` replaces them.
    #[serde(default)]
    pub variables: BTreeMap<String, Value>,
    /// Variables whose value depends on a parameter: by parameter, variable and value of the parameter, for example
    /// `[by.server] nodes = { catamaran = 5, bind = 3 }`.
    #[serde(default)]
    pub by: BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>,
    /// Parameters: each combination of values is a cell. A parameter is a variable too.
    #[serde(default)]
    pub matrix: BTreeMap<String, Vec<Value>>,
    /// Commands that make input files in the folder of the experiment, once, before the first cell.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// The links between loads and servers. With links, each node of a server is a machine of its own, with the usual
    /// ports. Otherwise all run on loopback.
    pub links: Option<Links>,
    /// The servers of each cell, in the order in which they start.
    #[serde(default, rename = "server")]
    pub servers: Vec<Server>,
    /// The loads of each cell. They start together.
    #[serde(default, rename = "load")]
    pub loads: Vec<Load>,
    /// Faults and other events, by time.
    #[serde(default, rename = "at")]
    pub events: Vec<Event>,
    /// The claims that the results are compared with.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// The pictures of the page.
    #[serde(default, rename = "picture")]
    pub pictures: Vec<Picture>,
    /// Changes for `--quick`.
    #[serde(default)]
    pub quick: Override,
    /// Changes for `--paper`: the size in the source.
    #[serde(default)]
    pub paper: Override,
}

const fn three() -> u32 {
    3
}

/// Changes for another size of an experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// How often each combination is measured.
    pub repeats: Option<u32>,
    /// Variables that get other values.
    #[serde(default)]
    pub variables: BTreeMap<String, Value>,
    /// Parameters that get other values.
    #[serde(default)]
    pub matrix: BTreeMap<String, Vec<Value>>,
}

/// Links between loads and servers. Servers reach each other without delay. Texts may contain `{variables}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Round-trip time, for example `20ms` or `lognormal:80ms:0.5`.
    pub rtt: String,
    /// Largest addition to a round trip.
    pub jitter: Option<String>,
    /// Share of packets that are lost in each direction.
    pub loss: Option<String>,
}

/// A server. Texts may contain `{variables}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name in command lines: see [`variables::SERVER_VARIABLES`].
    pub name: String,
    /// The program: `catamaran`, `bind`, `knot`, `nsd`, `powerdns`, `unbound`, `coredns`, `knot-resolver`, `dnsdist`,
    /// `haproxy` or `echo`.
    pub kind: String,
    /// Zones: apex and file. The file is relative to the folder of the experiment.
    #[serde(default)]
    pub zones: BTreeMap<String, String>,
    /// The servers that answer its queries: addresses with ports, separated by commas. For `dnsdist`, `haproxy`,
    /// `knot-resolver` and `unbound`.
    #[serde(default)]
    pub backends: String,
    /// Number of threads. Defaults to 1 with `core`, otherwise to the number of cores of the machine.
    pub threads: Option<Value>,
    /// CPU time that it may use, in cores, for example 0.5. Needs control groups of version 1.
    pub cpu: Option<Value>,
    /// Memory limit, for example `512M`. Needs control groups of version 1.
    pub memory: Option<String>,
    /// The core that it is pinned to, from 0. If missing, it may use all cores.
    pub core: Option<Value>,
    /// Number of nodes, a process each: of a cluster of `catamaran`, or a primary of `bind`, `knot` or `nsd` and its
    /// secondaries. Node 1 is the primary.
    pub nodes: Option<Value>,
    /// The transport of `{NAME.address}`: `udp`, `tcp`, `dot`, `doh` or `doq`. UDP and TCP are always served too.
    pub transport: Option<String>,
    /// How long an idle connection stays open, for example `20s`.
    pub idle: Option<String>,
    /// Maximum number of connections.
    pub connections: Option<Value>,
    /// Whether it has a TSIG key that may update and transfer its zones. `{NAME.key}` is its file.
    #[serde(default)]
    pub key: bool,
    /// The address of the server that it transfers its zones from. Without it, it is a primary.
    pub primary: Option<String>,
    /// More lines for its configuration.
    #[serde(default)]
    pub lines: String,
}

/// A load: a command line of `catlab` with `{variables}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name in claims; empty if there is only one load.
    #[serde(default)]
    pub name: String,
    /// The command line, without `catlab` and without `--out`, for example `load --server {dns.address} --rate 1000`.
    pub run: String,
    /// The core that it is pinned to, from 0. If missing, it may use all cores.
    pub core: Option<Value>,
}

/// A fault at a time after the loads began. Texts may contain `{variables}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Seconds after the loads began.
    pub seconds: Value,
    /// The name of a server.
    pub server: String,
    /// The node: `leader`, `follower`, `same`, or a number from 1. Without it, all nodes.
    pub node: Option<Value>,
    /// What happens to it, as in [`Action::ALL`].
    pub action: String,
}

/// A node of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// The leader at the time of the event.
    Leader,
    /// The first node that runs and does not lead.
    Follower,
    /// The node that the last event with `leader` or `follower` was aimed at.
    Same,
    /// This one, from 1.
    Number(u32),
}

impl std::str::FromStr for Node {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "leader" => Ok(Self::Leader),
            "follower" => Ok(Self::Follower),
            "same" => Ok(Self::Same),
            _ => match text.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!("`{text}` is not a node; write leader, follower, same, or a number from 1")),
            },
        }
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Leader => f.write_str("leader"),
            Self::Follower => f.write_str("follower"),
            Self::Same => f.write_str("same"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Kills the process.
    Kill,
    /// Pauses the process, as SIGSTOP does.
    Pause,
    /// Resumes a paused process, as SIGCONT does.
    Resume,
    /// Restarts a killed process.
    Restart,
    /// Drops all packets from and to its machine. Needs links.
    Cut,
    /// Drops packets to its machine.
    CutIn,
    /// Drops packets from its machine.
    CutOut,
    /// Ends a cut.
    Heal,
}

impl std::str::FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::label);
        let found = Self::ALL.into_iter().find(|action| action.label() == text);
        found.ok_or_else(|| format!("there is no action `{text}`; {}", problem::hint(text, known)))
    }
}

impl Event {
    /// The time in seconds, the action and the node in a cell.
    ///
    /// # Errors
    /// A text has an undefined variable, or is no time, action or node: the key and the reason.
    pub fn resolved(
        &self,
        values: &BTreeMap<String, String>,
    ) -> Result<(f64, Action, Option<Node>), (&'static str, String)> {
        let text = |key, text: &str| variables::substitute(text, values).map_err(|reason| (key, reason));
        let seconds = text("seconds", &self.seconds.0)?;
        let in_cell = seconds.parse().ok().filter(|number| (0.0..=CELL_SECONDS_MAX as f64).contains(number));
        let wrong = format!("`{seconds}` is not a time within a cell; write 0 to {CELL_SECONDS_MAX} seconds");
        let seconds = in_cell.ok_or(("seconds", wrong))?;
        let action = text("action", &self.action)?.parse().map_err(|reason| ("action", reason))?;
        let node = self.node.as_ref().map(|node| text("node", &node.0)?.parse().map_err(|reason| ("node", reason)));
        Ok((seconds, action, node.transpose()?))
    }
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 8] =
        [Self::Kill, Self::Pause, Self::Resume, Self::Restart, Self::Cut, Self::CutIn, Self::CutOut, Self::Heal];

    /// Whether it concerns the links of a machine.
    #[must_use]
    pub const fn is_of_links(self) -> bool {
        matches!(self, Self::Cut | Self::CutIn | Self::CutOut | Self::Heal)
    }

    /// Its name in definitions.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Cut => "cut",
            Self::CutIn => "cut-in",
            Self::CutOut => "cut-out",
            Self::Heal => "heal",
        }
    }
}

/// A claim about the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What the value is, in one line.
    pub text: String,
    /// An expression over figures of cells, for example `rate[cpu=1] / rate[cpu=0.25]`.
    pub value: String,
    /// The value of the source, if it has one.
    pub paper: Option<f64>,
    /// The wanted range, for example `>= 0.95` or `0.9..1.1`.
    pub want: String,
    /// The unit of the value.
    #[serde(default)]
    pub unit: String,
}

/// A picture.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// Its title.
    pub title: String,
    /// The figure on the vertical axis, for example `rate`.
    pub figure: String,
    /// The parameter on the horizontal axis.
    pub by: String,
    /// The parameter with one line for each value; one line if missing.
    pub lines: Option<String>,
    /// Only combinations with these values of parameters are drawn.
    #[serde(default)]
    pub only: BTreeMap<String, Value>,
    /// Unit of the vertical axis.
    #[serde(default)]
    pub unit: String,
    /// Values of the source, by value of `by`: drawn as a grey line.
    #[serde(default)]
    pub paper: BTreeMap<String, f64>,
}
