//! `cluster rotate`: replaces certificates between nodes, the CA, the data key or the API token, without a restart.

use super::super::client::Client;
use super::super::output::print;
use super::status::{newest, numbers};
use crate::target::Target;
use config::api_types::{CaStepJson, MemberJson, RenewalJson};
use config::files::layout::Layout;
use config::files::token::Token;
use process::problem::{DATA_KEY_CHANGES_WIRE, Exit, Problem};
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// Time between two polls.
const PAUSE: Duration = Duration::from_millis(200);

/// Gives every node a new certificate.
pub(super) fn certificates(timeout: Duration, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let RenewalJson { number } = change(&client, "/v1/certificates")?;
    let has_followed = |member: &MemberJson| member.certificate.as_ref().is_some_and(|of| of.renewal >= number);
    let mut behind = Vec::new();
    let is_done = poll_until(&client, timeout, || {
        let Some(status) = newest(&client) else { return Ok(false) };
        let nodes = |is_behind: &dyn Fn(&MemberJson) -> bool| -> Vec<u64> {
            status.members.iter().filter(|member| is_behind(member)).map(|member| member.node).collect()
        };
        // No node uses its next key before all nodes know it.
        let unaware = nodes(&|member| member.certificate.as_ref().is_none_or(|of| !of.knows_next_keys));
        behind = if unaware.is_empty() { nodes(&|member| !has_followed(member)) } else { unaware };
        Ok(behind.is_empty())
    })?;
    if is_done {
        return print("every node uses a new key; the old keys are no longer accepted");
    }
    Err(Problem::new(Exit::Unreachable, "not every node uses a new key yet", waiting(&behind)).hint(
        "every node must know the new keys before one is used. Start the node or remove it: the others then continue. \
         To check, run this command again",
    ))
}

/// Replaces the CA step by step. Continues an unfinished rotation.
pub(super) fn ca(timeout: Duration, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let mut has_begun = false;
    loop {
        let (mut step, mut without_leader) = (CaStepJson::default(), None);
        let moved = poll_until(&client, timeout, || {
            // Only the first request may begin a rotation; the next ones continue it.
            match change(&client, if has_begun { "/v1/ca" } else { "/v1/ca?begin=true" }) {
                // While the data key is being replaced, for example after the removal of a member, no rotation begins.
                Err(problem)
                    if problem.exit == Exit::Unreachable && (has_begun || problem.why == DATA_KEY_CHANGES_WIRE) =>
                {
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
                .hint("start the node or remove it, then run this command again: it continues with the next step"));
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

/// Replaces the data key, and waits until it seals every secret.
pub(super) fn data_key(timeout: Duration, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let RenewalJson { number } = change(&client, "/v1/data-key")?;
    let holds = |member: &MemberJson| member.certificate.as_ref().is_some_and(|of| of.data_key >= number);
    let mut behind = Vec::new();
    let is_done = poll_until(&client, timeout, || {
        let Some(status) = newest(&client) else { return Ok(false) };
        behind = status.members.iter().filter(|member| !holds(member)).map(|member| member.node).collect();
        Ok(status.data_key >= number && !status.data_key_changes)
    })?;
    if is_done {
        return print(&format!("data key {number} seals every secret; older backups need the previous key"));
    }
    let why =
        if behind.is_empty() { "some secrets are still sealed with the old key".to_owned() } else { waiting(&behind) };
    Err(Problem::new(Exit::Unreachable, "the data key is not replaced yet", why)
        .hint("start the node or remove it: the rotation then continues, as `catamaran cluster status --json` shows"))
}

/// Replaces the API token on this machine.
pub(super) fn api_token(target: &Target) -> Result<(), Problem> {
    let file = target.token_file.clone().unwrap_or_else(|| Layout::new(&target.dir).api_token());
    let failed = |error: std::io::Error| {
        Problem::new(Exit::Input, "cannot replace the API token", error)
            .at(file.display())
            .hint("run this on a machine with the token, as the user of the node, or give the file with --token-file")
    };
    // Without an old token, this is probably the wrong directory.
    Token::load(&file).map_err(failed)?;
    Token::replace(&file).map_err(failed)?;
    print(&format!(
        "a new token is in {}. The nodes that read this file accept only this token from now on. Copy the file to the \
         other machines, and to the clients of the API",
        file.display()
    ))
}

fn waiting(nodes: &[u64]) -> String {
    if nodes.is_empty() { "a node has just joined".to_owned() } else { format!("waiting for node {}", numbers(nodes)) }
}

fn change<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Problem> {
    let answer = client.change("POST", path, &[]).map_err(|problem| problem.of("cannot rotate"))?;
    answer.json()
}

/// Polls until it is done. Returns false after the time limit.
fn poll_until(
    client: &Client,
    timeout: Duration,
    mut is_done: impl FnMut() -> Result<bool, Problem>,
) -> Result<bool, Problem> {
    let (start, timeout) = (Instant::now(), client.at_most(timeout));
    loop {
        if is_done()? {
            return Ok(true);
        }
        if start.elapsed() >= timeout {
            return Ok(false);
        }
        client.pause(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::{FakeNode, FakeResponse};

    #[test]
    fn a_rotation_of_the_ca_waits_while_the_data_key_is_replaced() {
        let dir = process::testing::test_dir("rotate");
        let node = FakeNode::start(FakeResponse::Status(503, DATA_KEY_CHANGES_WIRE));
        let token_file = dir.path().join("api.token");
        Token::replace(&token_file).unwrap();
        let target =
            Target { dir: dir.path().to_owned(), api: Some(node.api), token_file: Some(token_file), timeout: None };
        let problem = ca(Duration::from_secs(1), &target).unwrap_err();
        assert_eq!((problem.exit, &*problem.why), (Exit::Unreachable, DATA_KEY_CHANGES_WIRE));
        let requests = node.requests();
        assert!(
            requests.len() > 1 && requests.iter().all(|request| request == "POST /v1/ca?begin=true"),
            "{requests:?}"
        );
    }
}
