//! Changes of membership, and of who leads.

use super::super::Target;
use super::super::client::{Client, query};
use super::super::output::{print, print_only_copy};
use super::status::newest;
use crate::api::types::{DoneJson, OpenTokenJson, TokenJson};
use crate::config::address::PeerAddress;
use crate::problem::{Exit, Problem};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often a leader that must hand over first is asked again.
const TRIES_MAX: usize = 10;
/// Time that it has in between.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) fn set_vote(node: u64, votes: bool, target: &Target) -> Result<(), Problem> {
    let (role, what) = if votes { ("a voter", "did not get a vote") } else { ("a learner", "kept its vote") };
    let changed =
        change("PATCH", &format!("/v1/nodes?node={node}&votes={votes}"), target, &format!("node {node} {what}"))?;
    print(&format!("node {node} {} {role}", if changed { "is now" } else { "was already" }))
}

pub(super) fn replace(node: u64, by: u64, target: &Target) -> Result<(), Problem> {
    let what = format!("node {node} was not replaced");
    change("PUT", &format!("/v1/nodes?node={node}&by={by}"), target, &what)?;
    print(&format!("node {by} now votes instead of node {node}; the directory of node {node} is no longer needed"))
}

pub(super) fn move_to(node: u64, address: &PeerAddress, force: bool, target: &Target) -> Result<(), Problem> {
    let force = if force { "&force=true" } else { "" };
    let path = format!("/v1/nodes/address?node={node}&address={address}{force}");
    let changed = change("PUT", &path, target, &format!("node {node} was not moved"))?;
    print(&format!(
        "other nodes {} node {node} at {address}",
        if changed { "now look for" } else { "already look for" }
    ))
}

/// Prints a token with which one node may join.
pub(super) fn add(target: &Target, is_learner: bool) -> Result<(), Problem> {
    let path = if is_learner { "/v1/tokens?learner=true" } else { "/v1/tokens" };
    let answer = Client::find(target)?.change("POST", path, &[])?;
    let token: TokenJson = serde_json::from_slice(&answer.body)
        .map_err(|error| Problem::new(Exit::Failed, "the node's answer is not understood", error))?;
    print_only_copy(&token.token)
}

/// Lists the join tokens that are neither used nor revoked.
pub(super) fn tokens(json: bool, target: &Target) -> Result<(), Problem> {
    let tokens = open_tokens(&Client::find(target)?)?;
    if json {
        let text = serde_json::to_string_pretty(&tokens);
        return print(&text.map_err(|error| Problem::new(Exit::Failed, "cannot print the tokens", error))?);
    }
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for token in &tokens {
        let kind = if token.learner { "learner" } else { "voter" };
        let end = match token.expires_s.checked_sub(now_s) {
            Some(left_s) => format!("expires in {} min", left_s.div_ceil(60)),
            None => "expired".to_owned(),
        };
        print(&format!("{}  {kind:<7}  {end}", token.id))?;
    }
    if tokens.is_empty() { print("no tokens are open") } else { Ok(()) }
}

/// Revokes one token, or all.
pub(super) fn revoke_tokens(id: Option<&str>, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let ids = match id {
        Some(id) => vec![id.to_owned()],
        None => open_tokens(&client)?.into_iter().map(|token| token.id).collect(),
    };
    for id in &ids {
        let answer = client.change("DELETE", &format!("/v1/tokens?{}", query("id", id)), &[]);
        let answer = answer.map_err(|problem| problem.of(format!("cannot revoke token {id}")))?;
        let done: DoneJson = serde_json::from_slice(&answer.body)
            .map_err(|error| Problem::new(Exit::Failed, "cannot read the node's answer", error))?;
        print(&format!("token {id} {}", if done.changed { "revoked" } else { "was used or revoked already" }))?;
    }
    if ids.is_empty() { print("no tokens are open") } else { Ok(()) }
}

fn open_tokens(client: &Client) -> Result<Vec<OpenTokenJson>, Problem> {
    client.get_json("/v1/tokens?consistent=1")
}

pub(super) fn remove(node: u64, target: &Target) -> Result<(), Problem> {
    change("DELETE", &format!("/v1/nodes?node={node}"), target, &format!("node {node} was not removed"))?;
    print(&format!("node {node} removed; its directory is no longer needed"))
}

pub(super) fn transfer_leader(node: Option<u64>, target: &Target) -> Result<(), Problem> {
    let path = node.map_or_else(|| "/v1/leader".to_owned(), |node| format!("/v1/leader?node={node}"));
    let client = Client::find(target)?;
    change_with(&client, "POST", &path, "the leadership was not handed over")?;
    // A lagging node may still report the previous leader.
    let leader = node.or_else(|| newest(&client)?.leader);
    print(&leader.map_or_else(|| "another node leads".to_owned(), |leader| format!("node {leader} leads")))
}

/// Has the cluster make a change, once its leader has handed over where it must; whether anything changed.
fn change(method: &str, path: &str, target: &Target, what: &str) -> Result<bool, Problem> {
    change_with(&Client::find(target)?, method, path, what)
}

fn change_with(client: &Client, method: &str, path: &str, what: &str) -> Result<bool, Problem> {
    let mut answer = client.change(method, path, &[]);
    for _ in 1..TRIES_MAX {
        if !answer.as_ref().is_err_and(|problem| problem.why.contains("is handing over")) {
            break;
        }
        client.pause(PAUSE);
        answer = client.change(method, path, &[]);
    }
    let answer = answer.map_err(|problem| problem.of(what))?;
    let done: DoneJson = serde_json::from_slice(&answer.body)
        .map_err(|error| Problem::new(Exit::Failed, "the node's answer is not understood", error))?;
    Ok(done.changed)
}
