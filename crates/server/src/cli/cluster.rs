//! `cluster`: upgrade.

use super::client::Client;
use super::{ClusterCommand, Target};
use crate::api::types::DoneJson;
use crate::problem::{Exit, Problem};
use std::io::Write;

pub(crate) fn run(command: &ClusterCommand) -> Result<(), Problem> {
    match command {
        ClusterCommand::Upgrade { target } => upgrade(target),
    }
}

fn upgrade(target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let done = client
        .change("POST", "/v1/feature-level", &[])
        .map_err(|problem| Problem { what: "the cluster was not upgraded".to_owned(), ..problem })?;
    let done: DoneJson = serde_json::from_slice(&done.body)
        .map_err(|error| Problem::new(Exit::Failed, "the answer cannot be read", error))?;
    let level = client.nodes().iter().find_map(|&node| client.status(node, false).ok()).map(|of| of.feature_level);
    let level = level.map_or_else(|| "the newest".to_owned(), |level| level.to_string());
    let said = if done.changed { "the cluster is now at feature level" } else { "the cluster was already at" };
    writeln!(std::io::stdout().lock(), "{said} {level}")
        .map_err(|error| Problem::new(Exit::Failed, "cannot print", error))
}
