//! Programs that send what they are told: `nsupdate`, `knsupdate`, and a script of dnspython's.

use super::{kill_the_leader, wait_until_gone, wait_until_there};
use crate::support::cluster::Cluster;
use crate::support::nodes::{Nodes, cluster_of_nodes};
use crate::support::tools::{TsigWords, has, is_full_run, missing, outcome, update};
use std::cell::Cell;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Each with its own way to be given the key, over UDP and over TCP.
const TOOLS: [&str; 7] = [
    "nsupdate -t 20 -k",
    "nsupdate -t 20 -v -k",
    "nsupdate -t 20 -y",
    "nsupdate -t 20 -v -y",
    "knsupdate -y",
    "knsupdate -v -y",
    "knsupdate -k",
];

#[derive(Clone, Copy)]
enum Wish {
    Add,
    Remove,
}

/// Runs a client to its end: `Ok` is its exit code 0.
type Client<'c> = &'c dyn Fn(SocketAddr, Wish, &str) -> Result<String, String>;

/// So often a client may be run again: one update, and all of a test. Of `cargo xtask test --full` none may.
const AGAIN_MAX: u32 = 3;
const AGAIN_MAX_OF_TEST: u32 = 5;
/// How long its user waits before that.
const PAUSE: Duration = Duration::from_secs(1);

/// Clients that were run again.
struct Again {
    count: Cell<u32>,
    max: u32,
    pause: Duration,
}

impl Again {
    fn new(pause: Duration) -> Self {
        Self { count: Cell::new(0), max: if is_full_run() { 0 } else { AGAIN_MAX_OF_TEST }, pause }
    }

    /// Runs a client until it ends with exit code 0. When there is no leader for long, on a machine that has no time
    /// for an election, a node says SERVFAIL, that the update was not taken (RFC 2136 3.4.2), or nothing: its user
    /// tries again, a few times. Nothing else is borne.
    fn run(&self, who: &str, client: impl Fn() -> Result<String, String>) {
        for again in 0..=AGAIN_MAX {
            match client() {
                Ok(_) => return,
                Err(said) if ["SERVFAIL", "timed out", "timeout"].iter().any(|word| said.contains(word)) => {
                    println!("{who} failed {} times: {said}", again + 1);
                    self.count.set(self.count.get() + 1);
                    assert!(self.count.get() <= self.max, "clients were run again too often");
                    std::thread::sleep(self.pause);
                }
                Err(said) => panic!("{who}: {said}"),
            }
        }
        panic!("{who} did not end with exit code 0 in {} runs", AGAIN_MAX + 1);
    }

    /// Says how many there were.
    fn tell(&self) {
        println!("clients that were run again: {}, of {} that may be", self.count.get(), self.max);
    }
}

#[test]
fn a_client_that_is_never_served_fails_its_test() {
    let outcome = |fails: u32, of: u32| {
        let again = Again { max: AGAIN_MAX_OF_TEST, ..Again::new(Duration::ZERO) };
        let clients = || {
            for _ in 0..of {
                let left = Cell::new(fails);
                again.run("one", || {
                    let is_served = left.get() == 0;
                    left.set(left.get().saturating_sub(1));
                    if is_served { Ok(String::new()) } else { Err("SERVFAIL".to_owned()) }
                });
            }
        };
        let is_borne = std::panic::catch_unwind(std::panic::AssertUnwindSafe(clients)).is_ok();
        is_borne.then_some(again.count.get())
    };
    assert_eq!(outcome(0, 20), Some(0));
    assert_eq!(outcome(AGAIN_MAX, 1), Some(3));
    assert_eq!(outcome(AGAIN_MAX + 1, 1), None);
    assert_eq!(outcome(1, AGAIN_MAX_OF_TEST), Some(5));
    assert_eq!(outcome(1, AGAIN_MAX_OF_TEST + 1), None);
}

fn through_each_node_and_across_a_kill(
    cluster: &Cluster,
    nodes: &mut Nodes,
    again: &Again,
    who: &str,
    client: Client<'_>,
) {
    let run = |to: SocketAddr, wish, owner: &str| again.run(who, || client(to, wish, owner));
    let label: String = who.chars().filter(char::is_ascii_alphabetic).collect();
    let node_count = cluster.nodes;
    for id in cluster.ids() {
        let owner = format!("{label}-{id}.example.test.");
        run(cluster.dns(id), Wish::Add, &owner);
        wait_until_there(cluster, cluster.ids(), &owner, "A");
        // Removed through another one.
        run(cluster.dns(id % node_count + 1), Wish::Remove, &owner);
        wait_until_gone(cluster, &owner, "A");
    }
    // At once through one that knows of no other leader yet.
    let owner = format!("{label}-kill.example.test.");
    let (leader, survivors) = kill_the_leader(cluster, nodes);
    run(cluster.dns(survivors[0]), Wish::Add, &owner);
    wait_until_there(cluster, survivors, &owner, "A");
    nodes.start(cluster, leader);
    wait_until_there(cluster, [leader], &owner, "A");
    cluster.settle();
    // And the other way round: removed while the next one dies.
    let (leader, survivors) = kill_the_leader(cluster, nodes);
    run(cluster.dns(survivors[1]), Wish::Remove, &owner);
    nodes.start(cluster, leader);
    wait_until_gone(cluster, &owner, "A");
    cluster.settle();
}

#[test]
fn nsupdate_and_knsupdate_end_well_through_each_node_and_across_kills_of_the_leader() {
    if !has("dig") || !has("nsupdate") || !has("knsupdate") {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("updaters");
    let again = Again::new(PAUSE);
    for tool in TOOLS {
        let client = |to: SocketAddr, wish, owner: &str| {
            let lines = match wish {
                Wish::Add => format!("update add {owner} 60 A 192.0.2.1"),
                Wish::Remove => format!("update delete {owner} A"),
            };
            update(tool, to, &cluster.update_key(), &format!("zone example.test.\n{lines}"))
        };
        through_each_node_and_across_a_kill(&cluster, &mut nodes, &again, tool, &client);
    }
    again.tell();
    cluster.settle();
    assert_eq!(cluster.ids().map(|id| cluster.metric(id, "catamaran_panics_total")).sum::<u64>(), 0);
}

#[test]
fn dnspython_ends_well_through_each_node_and_across_kills_of_the_leader() {
    let python = std::env::var("CATAMARAN_DNSPYTHON").unwrap_or_else(|_| "python3".to_owned());
    let check = Command::new(&python).args(["-c", "import dns.update"]).stderr(Stdio::null()).status();
    if !check.is_ok_and(|status| status.success()) {
        missing("dnspython", "python3 -m venv DIR; DIR/bin/pip install dnspython; CATAMARAN_DNSPYTHON=DIR/bin/python3");
        return;
    }
    if !has("dig") {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("dnspython");
    let again = Again::new(PAUSE);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/dnspython_client.py");
    let key = TsigWords::of(&cluster.update_key()).joined();
    for transport in ["udp", "tcp"] {
        let client = |to: SocketAddr, wish, owner: &str| {
            let what = if matches!(wish, Wish::Add) { "add" } else { "delete" };
            let (address, port) = (to.ip().to_string(), to.port().to_string());
            let output = Command::new(&python)
                .args([script, &address, &port, transport, &key, what, owner])
                .stdin(Stdio::null())
                .output()
                .unwrap();
            // Its exit code is the RCODE, of which 2 is SERVFAIL.
            let is_not_taken = output.status.code() == Some(2);
            outcome(output).map_err(|said| if is_not_taken { format!("SERVFAIL {said}") } else { said })
        };
        through_each_node_and_across_a_kill(&cluster, &mut nodes, &again, &format!("dnspython {transport}"), &client);
    }
    again.tell();
}
