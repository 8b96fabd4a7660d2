//! The events of a cell: faults, reloads, nodes that join, changes and transfers of zones.

use super::Value;
use super::problem::hint;
use super::variables::substitute;
use crate::limits::CELL_SECONDS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An event at a time after the loads began. Texts may contain `{variables}`.
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
    /// The number of zones that are added, removed or transferred. With 0, nothing happens.
    pub zones: Option<Value>,
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
    /// Makes the process read its configuration again, as SIGHUP does.
    Reload,
    /// Starts the next node of those that join later.
    Join,
    /// Drops all packets from and to its machine. Needs links.
    Cut,
    /// Drops packets to its machine.
    CutIn,
    /// Drops packets from its machine.
    CutOut,
    /// Ends a cut.
    Heal,
    /// Removes the last zones of its hierarchy.
    RemoveZones,
    /// Adds zones that were removed.
    AddZones,
    /// Transfers the last zones of its hierarchy from its last node, one after the other.
    TransferZones,
}

impl std::str::FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::label);
        let found = Self::ALL.into_iter().find(|action| action.label() == text);
        found.ok_or_else(|| format!("there is no action `{text}`; {}", hint(text, known)))
    }
}

impl Event {
    /// The event in a cell.
    ///
    /// # Errors
    /// A text has an undefined variable, or is no time, action, node or number of zones: the key and the reason.
    pub fn resolved(&self, values: &BTreeMap<String, String>) -> Result<Resolved, (&'static str, String)> {
        let text = |key, text: &str| substitute(text, values).map_err(|reason| (key, reason));
        let seconds = text("seconds", &self.seconds.0)?;
        let in_cell = seconds.parse().ok().filter(|number| (0.0..=CELL_SECONDS_MAX as f64).contains(number));
        let wrong = format!("`{seconds}` is not a time within a cell; write 0 to {CELL_SECONDS_MAX} seconds");
        let seconds = in_cell.ok_or(("seconds", wrong))?;
        let action = text("action", &self.action)?.parse().map_err(|reason| ("action", reason))?;
        let node = self.node.as_ref().map(|node| text("node", &node.0)?.parse().map_err(|reason| ("node", reason)));
        let zones = self.zones.as_ref().map(|zones| text("zones", &zones.0)).transpose()?;
        // An empty value is a missing one. The action may depend on a parameter.
        let zones = zones.filter(|zones| !zones.is_empty()).map(|zones| {
            zones.parse().map_err(|_| ("zones", format!("`{zones}` is not a number of zones; write 0 or more")))
        });
        Ok(Resolved { seconds, action, node: node.transpose()?, zones: zones.transpose()? })
    }
}

/// An event in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolved {
    /// Seconds after the loads began.
    pub seconds: f64,
    /// What happens.
    pub action: Action,
    /// The node; all nodes if `None`.
    pub node: Option<Node>,
    /// The number of zones that change or are transferred.
    pub zones: Option<usize>,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 13] = [
        Self::Kill,
        Self::Pause,
        Self::Resume,
        Self::Restart,
        Self::Reload,
        Self::Join,
        Self::Cut,
        Self::CutIn,
        Self::CutOut,
        Self::Heal,
        Self::RemoveZones,
        Self::AddZones,
        Self::TransferZones,
    ];

    /// Whether it changes or transfers zones of a server.
    #[must_use]
    pub const fn is_of_zones(self) -> bool {
        matches!(self, Self::RemoveZones | Self::AddZones | Self::TransferZones)
    }

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
            Self::Reload => "reload",
            Self::Join => "join",
            Self::Cut => "cut",
            Self::CutIn => "cut-in",
            Self::CutOut => "cut-out",
            Self::Heal => "heal",
            Self::RemoveZones => "remove-zones",
            Self::AddZones => "add-zones",
            Self::TransferZones => "transfer-zones",
        }
    }
}
