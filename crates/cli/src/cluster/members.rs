//! Changes of the members and of the leader.

use super::super::client::{Client, query};
use super::super::output::{print, print_only_copy};
use super::status::newest;
use crate::target::Target;
use config::address::PeerAddress;
use config::api_types::{DoneJson, OpenTokenJson, TokenJson};
use process::problem::{Exit, Problem};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Requests to a leader that must first transfer the leadership.
const TRIES_MAX: usize = 10;
/// Time between them.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) fn set_vote(node: u64, votes: bool, target: &Target) -> Result<(), Problem> {
    let (role, what) = if votes { ("a voter", "cannot promote node") } else { ("a learner", "cannot demote node") };
    let changed = change("PATCH", &format!("/v1/nodes?node={node}&votes={votes}"), target, &format!("{what} {node}"))?;
    print(&format!("node {node} {} {role}", if changed { "is now" } else { "was already" }))
}

pub(super) fn replace(node: u64, by: u64, target: &Target) -> Result<(), Problem> {
    let what = format!("cannot replace node {node}");
    change("PUT", &format!("/v1/nodes?node={node}&by={by}"), target, &what)?;
    print(&format!("node {by} now votes instead of node {node}; the directory of node {node} is no longer needed"))
}

pub(super) fn move_to(node: u64, address: &PeerAddress, force: bool, target: &Target) -> Result<(), Problem> {
    let force = if force { "&force=true" } else { "" };
    let path = format!("/v1/nodes/address?node={node}&address={address}{force}");
    let changed = change("PUT", &path, target, &format!("cannot move node {node}"))?;
    print(&format!(
        "other nodes {} to node {node} at {address}",
        if changed { "now connect" } else { "already connect" }
    ))
}

/// Prints a join token for one node.
pub(super) fn add(target: &Target, is_learner: bool) -> Result<(), Problem> {
    let path = if is_learner { "/v1/tokens?learner=true" } else { "/v1/tokens" };
    let answer = Client::find(target)?.change("POST", path, &[])?;
    let token: TokenJson = answer.json()?;
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
    if tokens.is_empty() { print("no unused tokens") } else { Ok(()) }
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
        let done: DoneJson = answer.json()?;
        print(&format!("token {id} {}", if done.changed { "revoked" } else { "was already used or revoked" }))?;
    }
    if ids.is_empty() { print("no unused tokens") } else { Ok(()) }
}

fn open_tokens(client: &Client) -> Result<Vec<OpenTokenJson>, Problem> {
    client.get_json("/v1/tokens?consistent=1")
}

pub(super) fn remove(node: u64, target: &Target) -> Result<(), Problem> {
    change("DELETE", &format!("/v1/nodes?node={node}"), target, &format!("cannot remove node {node}"))?;
    print(&format!("node {node} removed; its directory is no longer needed"))
}

pub(super) fn transfer_leader(node: Option<u64>, target: &Target) -> Result<(), Problem> {
    let path = node.map_or_else(|| "/v1/leader".to_owned(), |node| format!("/v1/leader?node={node}"));
    let client = Client::find(target)?;
    change_with(&client, "POST", &path, "cannot transfer the leadership")?;
    // A lagging node may still report the previous leader.
    let leader = node.or_else(|| newest(&client)?.leader);
    print(
        &leader
            .map_or_else(|| "another node is the leader".to_owned(), |leader| format!("node {leader} is the leader")),
    )
}

/// Makes a change, if necessary after a transfer of the leadership. Returns whether anything changed.
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
    let done: DoneJson = answer.json()?;
    Ok(done.changed)
}
