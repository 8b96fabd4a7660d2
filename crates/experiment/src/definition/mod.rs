//! The definition of an experiment, as in its TOML file.

// Reads and checks a definition.
mod backends;
mod check_names;
mod check_values;
mod problem;
mod read;
// Sizes, parameters and variables.
pub mod command;
mod event;
mod links;
mod matrix;
mod sizes;
pub mod variables;

#[cfg(test)]
mod tests;

pub(crate) use backends::addresses;
pub(crate) use check_values::ECHO;
pub use event::{Action, Event, Node, Resolved};
pub use problem::DefinitionError;
pub(crate) use problem::hint;
pub use read::{built_in, built_in_names, built_in_text};
pub use sizes::Size;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The horizontal axis of a picture with the seconds of the runs. No parameter has this name.
pub const TIME: &str = "time";

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
    /// The loads of each cell. They start together, except for those at the end.
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
    /// A folder of `catlab zones`, relative to the folder of the experiment. All of its zones are served too.
    pub hierarchy: Option<String>,
    /// The apex of a catalog zone that lists its zones. Its secondaries take their zones from there. For `bind` and
    /// `knot`.
    pub catalog: Option<String>,
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
    /// How many of its nodes start with an event `join`. The others start before the loads.
    pub joining: Option<Value>,
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

impl Server {
    /// The settings that are not empty, with their keys, but for the kind, the zones and the TSIG key.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let values = [
            ("nodes", &self.nodes),
            ("joining", &self.joining),
            ("threads", &self.threads),
            ("cpu", &self.cpu),
            ("core", &self.core),
            ("connections", &self.connections),
        ];
        let texts = [
            ("memory", &self.memory),
            ("transport", &self.transport),
            ("idle", &self.idle),
            ("primary", &self.primary),
            ("hierarchy", &self.hierarchy),
            ("catalog", &self.catalog),
        ];
        let values = values.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?.0.as_str())));
        let texts = texts.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?)));
        let others = [("backends", self.backends.as_str()), ("lines", &self.lines)];
        values.chain(texts).chain(others.into_iter().filter(|(_, text)| !text.is_empty()))
    }

    /// All texts that may contain variables, with their keys.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let zones = self.zones.iter().flat_map(|(apex, file)| [("zones", apex.as_str()), ("zones", file.as_str())]);
        std::iter::once(("kind", self.kind.as_str())).chain(self.settings()).chain(zones)
    }
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
    /// Whether it starts when all other loads have ended, for example to look for what they wrote.
    #[serde(default)]
    pub at_end: bool,
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
    /// Why the value of the source cannot be compared with the value here.
    pub not_comparable: Option<String>,
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
    /// The parameter on the horizontal axis, or [`TIME`].
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
