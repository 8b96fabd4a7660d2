//! Changes of membership, and of who leads.

use super::super::Target;
use super::super::client::Client;
use crate::api::types::{DoneJson, TokenJson};
use crate::config::address::PeerAddress;
use crate::problem::{Exit, Problem};
use std::io::Write;
use std::time::Duration;

/// How often a leader that must hand over first is asked again.
const TRIES_MAX: usize = 10;
/// Time that it has in between.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) fn set_vote(node: u64, votes: bool, target: &Target) -> Result<(), Problem> {
    let (role, what) = if votes { ("a voter", "did not get a vote") } else { ("a learner", "kept its vote") };
    let changed =
        change("PATCH", &format!("/v1/nodes?node={node}&votes={votes}"), target, &format!("node {node} {what}"))?;
    say(&format!("node {node} {} {role}", if changed { "is now" } else { "was already" }))
}

pub(super) fn replace(node: u64, by: u64, target: &Target) -> Result<(), Problem> {
    let what = format!("node {node} was not replaced");
    change("PUT", &format!("/v1/nodes?node={node}&by={by}"), target, &what)?;
    say(&format!("node {by} votes in the place of node {node}; what is in the directory of that is of no more use"))
}

pub(super) fn move_to(node: u64, address: &PeerAddress, target: &Target) -> Result<(), Problem> {
    let path = format!("/v1/nodes/address?node={node}&address={address}");
    let changed = change("PUT", &path, target, &format!("node {node} was not moved"))?;
    say(&format!("other nodes {} node {node} at {address}", if changed { "now look for" } else { "already look for" }))
}

/// Prints a token with which one node may join.
pub(super) fn add(target: &Target, is_learner: bool) -> Result<(), Problem> {
    let path = if is_learner { "/v1/tokens?learner=true" } else { "/v1/tokens" };
    let answer = Client::find(target)?.change("POST", path, &[])?;
    let token: TokenJson = serde_json::from_slice(&answer.body)
        .map_err(|error| Problem::new(Exit::Failed, "the node's answer is not understood", error))?;
    println!("{}", token.token);
    Ok(())
}

pub(super) fn remove(node: u64, target: &Target) -> Result<(), Problem> {
    change("DELETE", &format!("/v1/nodes?node={node}"), target, &format!("node {node} was not removed"))?;
    say(&format!("node {node} removed; what is in its directory is of no more use"))
}

pub(super) fn transfer_leader(node: Option<u64>, target: &Target) -> Result<(), Problem> {
    let path = node.map_or_else(|| "/v1/leader".to_owned(), |node| format!("/v1/leader?node={node}"));
    change("POST", &path, target, "the leadership was not handed over")?;
    let client = Client::find(target)?;
    let leader = client.nodes().iter().find_map(|&node| client.status(node, false).ok()?.leader);
    say(&leader.map_or_else(|| "handed over".to_owned(), |leader| format!("node {leader} leads")))
}

/// Has the cluster make a change, once its leader has handed over where it must; whether anything changed.
fn change(method: &str, path: &str, target: &Target, what: &str) -> Result<bool, Problem> {
    let client = Client::find(target)?;
    let mut answer = client.change(method, path, &[]);
    for _ in 1..TRIES_MAX {
        if !answer.as_ref().is_err_and(|problem| problem.why.contains("is handing over")) {
            break;
        }
        std::thread::sleep(PAUSE);
        answer = client.change(method, path, &[]);
    }
    let answer = answer.map_err(|problem| problem.of(what))?;
    let done: DoneJson = serde_json::from_slice(&answer.body)
        .map_err(|error| Problem::new(Exit::Failed, "the node's answer is not understood", error))?;
    Ok(done.changed)
}

fn say(text: &str) -> Result<(), Problem> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| Problem::new(Exit::Failed, "cannot print", error))
}
