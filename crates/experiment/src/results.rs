//! The results of cells, as `cell.json` holds them.

use crate::definition::Action;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// One combination of parameters, and its repeat.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// The value of each parameter.
    pub parameters: BTreeMap<String, String>,
    /// The repeat, from 0.
    pub repeat: u32,
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "reasons", rename_all = "kebab-case")]
pub enum Outcome {
    /// All loads ran, and their verdicts are valid.
    Measured,
    /// A load ran, but its verdict is INVALID: the reasons.
    Invalid(Vec<String>),
    /// Another failure, for example a server that did not start: the reasons.
    Failed(Vec<String>),
    /// A program is missing, or this machine does not support a setting: the reasons.
    NotMeasured(Vec<String>),
}

/// The results of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellResult {
    /// The cell.
    pub cell: Cell,
    /// How it ended.
    pub outcome: Outcome,
    /// The figures by name. Figures of servers and of loads with a name start with `NAME.`.
    ///
    /// Of loads: `rate` (right answers per second), `sent`, `answered`, `lost`, `mean_us`, `p50_us`, `p95_us`,
    /// `p99_us`, `p99_9_us`, and every other number of `summary.json` by its path, for example `service_us.p99`.
    ///
    /// Of loads in a cell with events: the figures of its phases, for example `phase1.share`.
    ///
    /// Of servers that the run started: `cpu_seconds` (user and system time while the loads ran), `cpu_us` (per answer
    /// of all loads), and `memory_bytes` (peak resident).
    pub figures: BTreeMap<String, f64>,
    /// The command lines that ran, to paste into a shell in the folder of the experiment.
    pub commands: Vec<String>,
    /// The servers that ran.
    pub servers: Vec<ServerResult>,
    /// The run folder of each load, by name, relative to the folder of the cell.
    pub runs: BTreeMap<String, String>,
    /// The events of the cell.
    pub events: Vec<EventResult>,
}

/// The kind of a running server of the user.
const EXTERNAL: &str = "external";

/// A server that ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerResult {
    /// Its name.
    pub name: String,
    /// Its kind. `external` if it is a running server of the user.
    pub kind: String,
    /// The version that its program prints.
    pub version: String,
    /// Its configuration.
    pub configuration: String,
}

/// An event, and whether it succeeded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventResult {
    /// Seconds after the loads began.
    pub seconds: f64,
    /// The server.
    pub server: String,
    /// Its node, from 1, if the event was aimed at one.
    #[serde(default)]
    pub node: Option<usize>,
    /// The action.
    pub action: Action,
    /// Whether its effect was observed.
    pub happened: bool,
    /// Why it did not happen, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ServerResult {
    /// A running server of the user.
    pub(crate) fn external(name: &str, address: SocketAddr) -> Self {
        let text = format!("a server at {address}, not started by this run");
        Self { name: name.to_owned(), kind: EXTERNAL.to_owned(), version: text.clone(), configuration: text }
    }
}

impl CellResult {
    /// Why it has no figure of this name.
    pub(crate) fn why_absent(&self, figure: &str) -> String {
        let is_of = |server: &&ServerResult| {
            let rest = figure.strip_prefix(&server.name).and_then(|rest| rest.strip_prefix('.'));
            server.kind == EXTERNAL && rest.is_some()
        };
        match self.servers.iter().find(is_of) {
            Some(server) => format!("has no figure `{figure}`, because {} is {}", server.name, server.version),
            None => format!("has no figure `{figure}`"),
        }
    }
}
