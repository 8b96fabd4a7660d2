//! `cluster rotate`: other certificates between nodes, another CA, another data key, without a restart.

use super::super::Target;
use super::super::client::Client;
use super::super::output::print;
use super::status::{newest, numbers};
use crate::api::types::{CaStepJson, MemberJson, RenewalJson};
use crate::files::layout::Layout;
use crate::files::token::Token;
use crate::problem::{Exit, Problem};
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Every node gets itself a new certificate.
pub(super) fn certificates(patience: Duration, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let RenewalJson { number } = change(&client, "/v1/certificates")?;
    let has_followed = |member: &MemberJson| member.certificate.as_ref().is_some_and(|of| of.renewal >= number);
    let mut behind = Vec::new();
    let is_done = within(&client, patience, || {
        let Some(status) = newest(&client) else { return Ok(false) };
        let nodes = |is_behind: &dyn Fn(&MemberJson) -> bool| -> Vec<u64> {
            status.members.iter().filter(|member| is_behind(member)).map(|member| member.node).collect()
        };
        // All wait for those that have not learned the next keys.
        let unaware = nodes(&|member| member.certificate.as_ref().is_none_or(|of| !of.knows_next_keys));
        behind = if unaware.is_empty() { nodes(&|member| !has_followed(member)) } else { unaware };
        Ok(behind.is_empty())
    })?;
    if is_done {
        return print("every node shows another key, and no older one is accepted");
    }
    Err(Problem::new(Exit::Unreachable, "not every node shows another key yet", waiting(&behind)).hint(
        "every node must learn the new keys before one is used: start the node or remove it, and the others go on by \
         themselves; run this again to see that",
    ))
}

/// Another CA, step by step; goes on where it was left.
pub(super) fn ca(patience: Duration, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let mut has_begun = false;
    loop {
        let (mut step, mut without_leader) = (CaStepJson::default(), None);
        let moved = within(&client, patience, || {
            // What was begun is gone on with; another one is not begun behind it.
            match change(&client, if has_begun { "/v1/ca" } else { "/v1/ca?begin=true" }) {
                Err(problem) if has_begun && problem.exit == Exit::Unreachable => {
                    without_leader = Some(problem.why);
                    return Ok(false);
                }
                answer => (step, without_leader) = (answer?, None),
            }
            Ok(step.did.is_some() || step.done)
        })?;
        if !moved {
            let why = without_leader.unwrap_or_else(|| waiting(&step.waits_for));
            return Err(Problem::new(Exit::Unreachable, "the rotation is not finished", why)
                .hint("start the node or remove it, then run this again: it goes on with the next step"));
        }
        if let Some(did) = &step.did {
            print(did)?;
        }
        if step.done {
            return Ok(());
        }
        has_begun = true;
    }
}

/// Another data key; every secret of the cluster is sealed by it in the end.
pub(super) fn data_key(patience: Duration, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let RenewalJson { number } = change(&client, "/v1/data-key")?;
    let holds = |member: &MemberJson| member.certificate.as_ref().is_some_and(|of| of.data_key >= number);
    let mut behind = Vec::new();
    let is_done = within(&client, patience, || {
        let Some(status) = newest(&client) else { return Ok(false) };
        behind = status.members.iter().filter(|member| !holds(member)).map(|member| member.node).collect();
        Ok(status.data_key >= number && !status.data_key_changes)
    })?;
    if is_done {
        return print(&format!("data key {number} seals every secret; backups made before need the one before it"));
    }
    let why = if behind.is_empty() { "secrets are still being sealed anew".to_owned() } else { waiting(&behind) };
    Err(Problem::new(Exit::Unreachable, "the data key is not replaced yet", why)
        .hint("start the node or remove it: it goes on by itself, as `catamaran cluster status --json` shows"))
}

/// Another API token, on this machine.
pub(super) fn api_token(target: &Target) -> Result<(), Problem> {
    let file = target.token_file.clone().unwrap_or_else(|| Layout::new(&target.dir).api_token());
    let failed = |error: std::io::Error| {
        Problem::new(Exit::Input, "cannot replace the API token", error)
            .at(file.display())
            .hint("run this where the token is, as the user that the node runs as; or name the file with --token-file")
    };
    // A token is replaced, never put where none is: that would be the wrong directory.
    Token::load(&file).map_err(failed)?;
    Token::replace(&file).map_err(failed)?;
    print(&format!(
        "another token is in {}: the nodes that read this file accept no other from now on. Copy it over the file of \
         each other machine, and to those that use the API",
        file.display()
    ))
}

fn waiting(nodes: &[u64]) -> String {
    if nodes.is_empty() { "a node has just joined".to_owned() } else { format!("it waits for node {}", numbers(nodes)) }
}

fn change<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Problem> {
    let answer = client.change("POST", path, &[]).map_err(|problem| problem.of("nothing was rotated"))?;
    serde_json::from_slice(&answer.body)
        .map_err(|error| Problem::new(Exit::Failed, "the node's answer is not understood", error))
}

/// Looks again and again; false when that took too long.
fn within(
    client: &Client,
    patience: Duration,
    mut is_done: impl FnMut() -> Result<bool, Problem>,
) -> Result<bool, Problem> {
    let (start, patience) = (Instant::now(), client.at_most(patience));
    loop {
        if is_done()? {
            return Ok(true);
        }
        if start.elapsed() >= patience {
            return Ok(false);
        }
        client.pause(PAUSE);
    }
}
