//! The runbooks of docs/how-to/rotate-keys.md for stolen secrets. The test runs their commands as written, then tries
//! the stolen secrets again.

use crate::members::Joined;
use crate::support::cluster::{Cluster, key_of, wait_for};
use crate::support::dns::Transport;
use crate::support::hostile_peer::{BULK, DATA_KEY, HostilePeer, Identity};
use crate::support::http;
use crate::support::pipeline::outcome_of;
use crate::updates::{add, rcode};
use std::net::Ipv4Addr;
use tsig::client::ClientKey;

const NOERROR: u8 = 0;
const NOTAUTH: u8 = 9;

/// The commands of a runbook: the lines of its section that begin with a prompt.
fn runbook(title: &str) -> Vec<Vec<String>> {
    let text = include_str!("../../../../docs/how-to/rotate-keys.md");
    let section = text.split(&format!("### {title}\n")).nth(1).unwrap_or_else(|| panic!("no runbook `{title}`"));
    let section = section.split("\n## ").next().unwrap().split("\n### ").next().unwrap();
    let commands = section.lines().filter_map(|line| line.strip_prefix("$ catamaran "));
    commands.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// Runs a runbook, which must succeed, with the placeholders in capitals replaced by these words. Returns the output of
/// each command.
fn follow(cluster: &Cluster, title: &str, values: &[(&str, &str)]) -> Vec<String> {
    let commands = runbook(title);
    assert!(!commands.is_empty());
    let substitute = |word: &String| {
        values.iter().find(|(placeholder, _)| placeholder == word).map_or(word.clone(), |(_, by)| (*by).into())
    };
    let run = |words: &Vec<String>| {
        let words: Vec<String> = words.iter().map(substitute).collect();
        let output = cluster.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    commands.iter().map(run).collect()
}

/// The RCODE of an update with this key.
fn tried(cluster: &Cluster, key: &ClientKey, owner: &str) -> u8 {
    let message = add(key, owner);
    rcode(&message, &outcome_of(Transport::Tcp, cluster.dns(1), &message))
}

/// Whether a token gives access to the API of a node over TCP, which a thief would use.
fn opens_api(cluster: &Cluster, id: u64, token: &str) -> bool {
    http::request(cluster.api(id), "GET", "/v1/keys", Some(token), &[]).unwrap().status == 200
}

#[test]
fn after_a_node_was_stolen_none_of_its_secrets_is_accepted() {
    let cluster = Cluster::start("runbook-node", 3, &[]);
    cluster.settle();
    let joined = Joined::start(&cluster, 4, &cluster.done(&["cluster", "add"]));
    wait_for("node 4 to answer", || joined.answers().then_some(()));
    let folder = cluster.dir.join("joined-4");
    let identity = Identity::stolen(&folder.join("node-4"));
    let token = std::fs::read_to_string(folder.join("api.token")).unwrap().trim().to_owned();
    assert!(opens_api(&cluster, 1, &token), "it is the token of the cluster");
    // With the node's data key the thief decrypts the CA's key, and issues any certificate.
    let forged: Vec<_> =
        (1..=4).map(|id| Identity::issued(&cluster, &[&format!("node-{id}"), &format!("member-{id}-0")])).collect();

    follow(&cluster, "A node was stolen", &[("NODE", "4")]);
    drop(joined);
    for to in cluster.ids() {
        for identity in forged.iter().chain([&identity]) {
            for from in [1, 2, 3, 4, 1 << 32 | 4] {
                let source = Ipv4Addr::new(127, 0, 0, 70 + from as u8);
                let welcome = HostilePeer::connect(&cluster, to, source, Some(identity)).and_then(|mut peer| {
                    peer.greet(BULK, from, to)?;
                    peer.welcome()
                });
                assert!(!welcome.as_ref().is_ok_and(|id| *id == to), "as {from} at {to}: {welcome:?}");
                let keys = HostilePeer::connect(&cluster, to, source, Some(identity)).and_then(|mut peer| {
                    peer.greet(DATA_KEY, 0, 0)?;
                    peer.send(format!(r#"{{"from":{from},"number":2}}"#).as_bytes())?;
                    peer.answer()
                });
                assert!(!keys.as_ref().is_ok_and(|keys| keys.contains("Ok")), "as {from} at {to}: {keys:?}");
            }
        }
        assert!(!opens_api(&cluster, to, &token), "the token at {to}");
        assert!(opens_api(&cluster, to, &cluster.token()), "the new token at {to}");
    }
    cluster.settle();
}

#[test]
fn after_a_key_leaked_its_old_secret_signs_nothing() {
    let cluster = Cluster::start("runbook-key", 3, &[]);
    cluster.settle();
    let leaked = key_of(&cluster.done(&["key", "add", "leaked", "--update", "--zone", "example.test"]));
    assert_eq!(tried(&cluster, &leaked, "before.example.test."), NOERROR);
    let printed = follow(&cluster, "A key leaked", &[("KEY", "leaked")]);
    let new = key_of(&printed[0]);
    // The queried node may not show the last change yet.
    wait_for("the old secret to be void", || {
        (tried(&cluster, &leaked, "after.example.test.") == NOTAUTH).then_some(())
    });
    assert_eq!(tried(&cluster, &new, "after.example.test."), NOERROR);
}

#[test]
fn after_a_token_leaked_the_api_refuses_it() {
    let cluster = Cluster::start("runbook-token", 3, &[]);
    cluster.settle();
    let leaked = cluster.token();
    assert!(cluster.ids().all(|id| opens_api(&cluster, id, &leaked)));
    follow(&cluster, "A token leaked", &[]);
    assert!(cluster.ids().all(|id| !opens_api(&cluster, id, &leaked)), "no node takes it once more");
    assert!(cluster.ids().all(|id| opens_api(&cluster, id, &cluster.token())));
    cluster.done(&["key", "list"]);
}
