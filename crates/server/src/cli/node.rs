//! `node`: remove.

use super::client::Client;
use super::{NodeCommand, Target};
use crate::problem::{Exit, Problem};
use std::io::Write;
use std::time::Duration;

/// How often a leader that must hand over first is asked again.
const TRIES_MAX: usize = 10;
/// Time that it has in between.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn run(command: &NodeCommand) -> Result<(), Problem> {
    match command {
        NodeCommand::Remove { node, target } => remove(*node, target),
    }
}

fn remove(node: u64, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let mut result = Ok(());
    for _ in 0..TRIES_MAX {
        result = client.change("DELETE", &format!("/v1/nodes?node={node}"), &[]).map(|_| ());
        if !result.as_ref().is_err_and(|problem| problem.why.contains("is handing over")) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    result.map_err(|problem| Problem { what: format!("node {node} was not removed"), ..problem })?;
    writeln!(std::io::stdout().lock(), "node {node} removed; what is in its directory is of no more use")
        .map_err(|error| Problem::new(Exit::Failed, "cannot print", error))
}
