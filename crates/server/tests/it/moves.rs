//! Nodes whose peer addresses change: one node or all at once, with and without host names. Checks logs and status too.

use crate::support::cluster::{CATAMARAN, Cluster, Scratch, kill, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::nodes::{Nodes, cluster_of_nodes, log_of};
use crate::support::ports::free_ports;
use crate::support::tools::forbidden;
use crate::updates::{Stream, add, rcode};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The address of node `of` according to node `queried`.
fn address(cluster: &Cluster, queried: u64, of: u64) -> Option<String> {
    let status = cluster.status(queried)?;
    let member = status["members"].as_array()?.iter().find(|member| member["node"] == of)?.clone();
    Some(member["address"].as_str()?.to_owned())
}

/// Sets a key of the `[peer]` table in the configuration of a stopped node.
fn configure_peer(cluster: &Cluster, id: u64, key: &str, value: &str) {
    let file = cluster.dir.join(format!("node-{id}/catamaran.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, peer) = text.split_once("[peer]\n").unwrap();
    let mut lines: Vec<String> = peer.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with(&format!("{key} =")));
    std::fs::write(&file, format!("{before}[peer]\n{key} = \"{value}\"\n{}\n", lines.join("\n"))).unwrap();
}

fn everyone_knows(cluster: &Cluster, of: u64, new: &str) {
    for queried in cluster.ids() {
        wait_for("the new address", || (address(cluster, queried, of)? == new).then_some(()));
    }
}

fn takes_updates(cluster: &Cluster, through: u64, owner: &str) {
    let message = add(&cluster.client_key(), owner);
    wait_for("an update", || {
        let response = exchange(Transport::Tcp, cluster.dns(through), &message, Duration::from_secs(5))?;
        (rcode(&message, &response) == 0).then_some(())
    });
}

#[test]
fn a_node_that_starts_at_another_address_announces_it() {
    let (cluster, mut nodes) = cluster_of_nodes("moves-one");
    let leader = nodes.leader(&cluster);
    let moved = leader % 3 + 1;
    for id in [moved, leader] {
        nodes.stop(id);
        let new = format!("127.0.0.1:{}", free_ports(1));
        if id == moved {
            configure_peer(&cluster, id, "listen", &new);
        } else {
            // An operator may replace the old address everywhere in the file, also in the list of members.
            let old = address(&cluster, moved, id).unwrap();
            let file = cluster.dir.join(format!("node-{id}/catamaran.toml"));
            let text = std::fs::read_to_string(&file).unwrap();
            assert_eq!(text.matches(&old).count(), 2, "{text}");
            std::fs::write(&file, text.replace(&old, &new)).unwrap();
        }
        nodes.start(&cluster, id);
        everyone_knows(&cluster, id, &new);
        cluster.settle();
        takes_updates(&cluster, id, &format!("moved-{id}.example.test."));
    }
    assert!(log_of(&cluster, moved).contains("this node has moved"), "{}", log_of(&cluster, moved));
    let audit = std::fs::read_to_string(cluster.dir.join(format!("node-{leader}/data.audit"))).unwrap();
    assert!(audit.contains("cluster move"), "{audit}");
}

/// The runbook of docs/how-to/replace-a-node.md for a cluster whose IP addresses all changed.
#[test]
fn all_nodes_at_new_addresses_find_each_other_with_one_hint() {
    let (cluster, mut nodes) = cluster_of_nodes("moves-all");
    cluster.ids().for_each(|id| nodes.stop(id));
    let port = free_ports(4);
    let new = |id: u64| format!("127.0.0.1:{}", port + id as u16);
    for id in cluster.ids() {
        configure_peer(&cluster, id, "listen", &new(id));
    }
    nodes.start(&cluster, 2);
    nodes.start(&cluster, 3);
    let guide = include_str!("../../../../docs/how-to/replace-a-node.md");
    assert!(guide.contains("--peer-address 2=10.1.0.2:5380 --peer-address 3=10.1.0.3:5380"));
    let arguments = [2, 3].map(|id| ["--peer-address".to_owned(), format!("{id}={}", new(id))]).concat();
    nodes.start_with_arguments(&cluster, 1, &arguments);
    cluster.ids().for_each(|id| everyone_knows(&cluster, id, &new(id)));
    cluster.settle();
    // The state now has the new addresses.
    cluster.ids().for_each(|id| nodes.stop(id));
    cluster.ids().for_each(|id| nodes.start(&cluster, id));
    takes_updates(&cluster, 2, "after.example.test.");
}

#[test]
fn a_node_that_was_away_while_the_others_moved_is_found_by_them_and_finds_them() {
    let (cluster, mut nodes) = cluster_of_nodes("moves-away");
    cluster.ids().for_each(|id| nodes.stop(id));
    let port = free_ports(4);
    let new = |id: u64| format!("127.0.0.1:{}", port + id as u16);
    [1, 2].into_iter().for_each(|id| configure_peer(&cluster, id, "listen", &new(id)));
    nodes.start(&cluster, 2);
    nodes.start_with_arguments(&cluster, 1, &["--peer-address".to_owned(), format!("2={}", new(2))]);
    takes_updates(&cluster, 2, "without-three.example.test.");
    // The node has wrong addresses for the others. Its own address is unchanged.
    nodes.start(&cluster, 3);
    cluster.settle();
    [1, 2].into_iter().for_each(|id| everyone_knows(&cluster, id, &new(id)));
    takes_updates(&cluster, 3, "with-three.example.test.");
}

#[test]
fn nodes_find_each_other_by_name_after_their_addresses_change() {
    let is_allowed = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success());
    if !is_allowed {
        forbidden("making a mount namespace");
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("moves-names");
    cluster.ids().for_each(|id| nodes.stop(id));
    let (hosts, port) = (cluster.dir.join("hosts"), free_ports(4));
    let write_hosts = |net: u8| {
        let line = |id: u64| format!("{} ns{id}.catamaran.test\n", Ipv4Addr::new(127, 9, net, id as u8));
        // The file is rewritten in place, because it is bind-mounted.
        std::fs::write(&hosts, cluster.ids().map(line).collect::<String>()).unwrap();
    };
    let name = |id: u64| format!("ns{id}.catamaran.test:{}", port + id as u16);
    let assign_address = |cluster: &Cluster, id: u64, net: u8| {
        configure_peer(cluster, id, "listen", &format!("127.9.{net}.{id}:{}", port + id as u16));
        configure_peer(cluster, id, "advertise", &name(id));
    };
    write_hosts(1);
    // One by one, so that the cluster keeps running. The state starts with IP addresses and ends with names.
    cluster.ids().for_each(|id| nodes.start_with_hosts(&cluster, id, &hosts));
    cluster.settle();
    for id in cluster.ids() {
        nodes.stop(id);
        assign_address(&cluster, id, 1);
        nodes.start_with_hosts(&cluster, id, &hosts);
        everyone_knows(&cluster, id, &name(id));
    }
    cluster.settle();
    // All addresses change while all nodes are off, without --peer-address.
    cluster.ids().for_each(|id| nodes.stop(id));
    write_hosts(2);
    cluster.ids().for_each(|id| assign_address(&cluster, id, 2));
    cluster.ids().for_each(|id| nodes.start_with_hosts(&cluster, id, &hosts));
    cluster.settle();
    takes_updates(&cluster, 3, "named.example.test.");
    // The addresses change while the cluster runs: each node restarts at another address.
    for id in cluster.ids() {
        nodes.stop(id);
        let text = std::fs::read_to_string(&hosts).unwrap();
        std::fs::write(&hosts, text.replace(&format!("127.9.2.{id} "), &format!("127.9.3.{id} "))).unwrap();
        assign_address(&cluster, id, 3);
        nodes.start_with_hosts(&cluster, id, &hosts);
        takes_updates(&cluster, id, &format!("again-{id}.example.test."));
    }
    for id in cluster.ids() {
        assert_eq!(address(&cluster, 1, id), Some(name(id)), "the address of a name is never cached");
    }
}

fn member(cluster: &Cluster, queried: u64, of: u64) -> Option<Value> {
    cluster.status(queried)?["members"].as_array()?.iter().find(|member| member["node"] == of).cloned()
}

#[test]
fn a_peer_that_cannot_be_reached_is_named_in_log_status_and_metrics() {
    let (cluster, mut nodes) = cluster_of_nodes("moves-named");
    let leader = nodes.leader(&cluster);
    let (gone, queried) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    nodes.stop(queried);
    nodes.start(&cluster, queried);
    cluster.settle();
    let connected = |peer: u64| cluster.metric(queried, &format!("catamaran_peer_connected{{peer=\"{peer}\"}}"));
    wait_for("both peers", || (connected(gone) == 1 && connected(leader) == 1).then_some(()));
    let old = address(&cluster, queried, gone).unwrap();
    nodes.stop(gone);
    let lost = wait_for("the status to name it", || {
        // The first attempt may still meet the process while it ends.
        let lost = member(&cluster, queried, gone)?.get("unreachable").cloned()?;
        lost["why"].as_str()?.contains("refused").then_some(lost)
    });
    assert_eq!(lost["address"], old.as_str());
    assert!(connected(gone) == 0 && connected(leader) == 1);
    let line = wait_for("a line in the log", || {
        log_of(&cluster, queried).lines().find(|line| line.contains("cannot connect to a peer")).map(str::to_owned)
    });
    assert!(line.contains("WARN") && line.contains(&old), "{line}");
    let text = |cluster: &Cluster| String::from_utf8(cluster.run(&["cluster", "status"]).stdout).unwrap();
    assert!(text(&cluster).contains(&format!("cannot connect to node {gone} at {old}")), "{}", text(&cluster));
    nodes.start(&cluster, gone);
    wait_for("its end", || member(&cluster, queried, gone)?["unreachable"].is_null().then_some(()));
    wait_for("a line", || log_of(&cluster, queried).contains("can be reached again").then_some(()));
}

#[test]
fn an_administrator_moves_a_node_by_hand() {
    let cluster = Cluster::start("moves-by-hand", 3, &[]);
    cluster.settle();
    let old = address(&cluster, 1, 2).unwrap();
    let new = old.replace("127.0.0.1", "localhost");
    let run = |words: &[&str]| {
        let output = cluster.run(words);
        (output.status.code(), [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat())
    };
    let (code, text) = run(&["cluster", "move", "2", &new]);
    assert_eq!((code, &*text), (Some(0), &*format!("other nodes now connect to node 2 at {new}\n")));
    everyone_knows(&cluster, 2, &new);
    // The peers dial the name, and resolve it inside the sandbox.
    kill("KILL", cluster.pid(2).unwrap());
    let mut again = cluster.serve(2);
    cluster.settle();
    takes_updates(&cluster, 2, "by-hand.example.test.");
    assert_eq!(address(&cluster, 2, 2).as_ref(), Some(&new), "its configuration has not changed: it announces nothing");
    assert!(run(&["cluster", "move", "2", "0.0.0.0:1"]).1.contains("cannot connect to 0.0.0.0:1"));
    // No node answers at the address, or another node does.
    let nobody = format!("127.0.0.1:{}", free_ports(1));
    for wrong in [&nobody, &address(&cluster, 1, 3).unwrap()] {
        let (code, text) = run(&["cluster", "move", "2", wrong]);
        assert!(code != Some(0) && text.contains("node 2 does not answer at") && text.contains("--force"), "{text}");
    }
    let (code, text) = run(&["cluster", "move", "2", &nobody, "--force"]);
    assert_eq!(code, Some(0), "{text}");
    everyone_knows(&cluster, 2, &nobody);
    assert_eq!(run(&["cluster", "move", "2", &new]).0, Some(0));
    everyone_knows(&cluster, 2, &new);
    assert_eq!(run(&["cluster", "move", "9", "127.0.0.1:1"]).0, Some(5));
    assert!(run(&["cluster", "move", "2", "localhost"]).1.contains("not HOST:PORT"));
    kill("TERM", again.id());
    again.wait().unwrap();
}

/// A copy of a node may have written its own address into the state before it was stopped.
#[test]
fn a_node_is_found_at_its_configured_address_while_the_state_has_a_wrong_one() {
    let mut cluster = Cluster::start("moves-wrong", 3, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    cluster.configure_all("[log]\ncheckpoint_bytes = 65536\nkeep_entries = 50\nkeep_bytes = 65536\n");
    let mut nodes = Nodes::default();
    cluster.ids().for_each(|id| nodes.start(&cluster, id));
    cluster.settle();
    let leader = nodes.leader(&cluster);
    let (lost, queried) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let (old, nobody) = (address(&cluster, queried, lost).unwrap(), format!("127.0.0.1:{}", free_ports(1)));
    let moved = cluster.run(&["cluster", "move", &lost.to_string(), &nobody, "--force"]);
    assert!(moved.status.success(), "{moved:?}");
    everyone_knows(&cluster, lost, &nobody);
    // The log and the configuration of the node that restarts must not have the right address.
    let before = cluster.metric(queried, "catamaran_raft_applied_index");
    let stream = Stream::start(&cluster, queried, "moved");
    wait_for("a checkpoint", || {
        (cluster.metric(queried, "catamaran_raft_checkpoint_index") > before + 100).then_some(())
    });
    stream.finish();
    nodes.stop(queried);
    cluster.configure(queried, &old, &nobody);
    let found = |cluster: &Cluster| {
        cluster.settle();
        let series = format!("catamaran_peer_connected{{peer=\"{lost}\"}}");
        wait_for("a connection to the node", || (cluster.metric(queried, &series) == 1).then_some(()));
    };
    nodes.start(&cluster, queried);
    found(&cluster);
    [lost, queried].into_iter().for_each(|id| nodes.stop(id));
    [lost, queried].into_iter().for_each(|id| nodes.start(&cluster, id));
    found(&cluster);
    everyone_knows(&cluster, lost, &nobody);
    takes_updates(&cluster, lost, "found.example.test.");
}

/// Runs a command of the program; returns its exit code and output.
fn catamaran(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(CATAMARAN).args(arguments).output().unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), printed)
}

/// A node that is killed at the end of the test.
struct Node(Child);

impl Node {
    fn serve(config: &Path) -> Self {
        let config = config.to_str().unwrap();
        let command = Command::new(CATAMARAN).args(["serve", "--config", config]).stderr(Stdio::null()).spawn();
        Self(command.unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_cluster_is_made_and_joined_by_names() {
    let (scratch, port) = (Scratch::new("moves-join"), free_ports(8));
    let dir = |node: u64| scratch.path().join(format!("machine-{node}"));
    let [first, second] = [dir(1), dir(2)].map(|dir| dir.to_str().unwrap().to_owned());
    let at = |offset: u16| format!("127.0.0.1:{}", port + offset);
    let (name, other_name) = (format!("localhost:{}", port + 2), format!("localhost:{}", port + 5));
    let unreachable = catamaran(&["init", "--dir", &first, "--dns", &at(0), "--peer", "0.0.0.0:1"]);
    assert!(unreachable.0 == Some(2) && unreachable.1.contains("--advertise"), "{unreachable:?}");
    let init = ["init", "--dir", &first, "--dns", &at(0), "--api", &at(1), "--peer", &format!("0.0.0.0:{}", port + 2)];
    let (code, printed) = catamaran(&[&init[..], &["--advertise", &name]].concat());
    assert_eq!(code, Some(0), "{printed}");
    let _first = Node::serve(&dir(1).join("node-1/catamaran.toml"));
    let api: SocketAddr = at(1).parse().unwrap();
    let member = |node: u64| -> Option<Value> {
        let status = http::get(api, "/v1/status").ok()?.json()?;
        status["members"].as_array()?.iter().find(|member| member["node"] == node).cloned()
    };
    wait_for("the first node", || (member(1)?["address"] == name.as_str()).then_some(()));
    let token = wait_for("a token", || {
        let (code, printed) = catamaran(&["cluster", "add", "--dir", &first]);
        (code == Some(0)).then(|| printed.trim().to_owned())
    });
    let join = ["join", "--token", &token, "--dir", &second, "--dns", &at(3), "--api", &at(4), "--peer", &other_name];
    let (code, printed) = catamaran(&join);
    assert_eq!(code, Some(0), "{printed}");
    let config = std::fs::read_to_string(dir(2).join("node-2/catamaran.toml")).unwrap();
    assert!(config.contains(&format!("advertise = \"{other_name}\"")), "{config}");
    let _second = Node::serve(&dir(2).join("node-2/catamaran.toml"));
    wait_for("its vote", || (member(2)?["role"] == "voter").then_some(()));
    assert_eq!(member(2).unwrap()["address"], other_name.as_str());
}
