//! Clients that send the updates that they are given: `nsupdate`, `knsupdate`, and a dnspython script.

use super::{kill_the_leader, wait_until_gone, wait_until_there};
use crate::support::cluster::Cluster;
use crate::support::nodes::{Nodes, cluster_of_nodes};
use crate::support::tools::{TsigText, has, missing, outcome, update};
use skip::stalls::StallWatch;
use std::cell::Cell;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The tools with each way to pass the key, over UDP and over TCP.
const TOOLS: [&str; 7] = [
    "nsupdate -t 20 -k",
    "nsupdate -t 20 -v -k",
    "nsupdate -t 20 -y",
    "nsupdate -t 20 -v -y",
    "knsupdate -y",
    "knsupdate -v -y",
    "knsupdate -k",
];
/// The tools that also run while leaders die, over UDP and over TCP. With `--full` all do.
const ACROSS_KILLS: [&str; 4] = ["nsupdate -t 20 -k", "nsupdate -t 20 -v -k", "knsupdate -y", "knsupdate -v -y"];

#[derive(Clone, Copy)]
enum UpdateAction {
    Add,
    Remove,
}

/// Runs a client until it exits. `Ok` means exit code 0.
type Client<'c> = &'c dyn Fn(SocketAddr, UpdateAction, &str) -> Result<String, String>;

/// How often a client may be run again: for one update, and for a whole test. With `cargo xtask test --full`, never.
/// The limit for a whole test applies only if this machine did not stall.
const AGAIN_MAX: u32 = 3;
const AGAIN_MAX_OF_TEST: u32 = 5;
/// The pause of the user before the next run.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts clients that were run again.
struct Reruns {
    count: Cell<u32>,
    max: u32,
    pause: Duration,
    watch: Option<StallWatch>,
}

impl Reruns {
    fn new(pause: Duration) -> Self {
        let max = if skip::is_full_run() { 0 } else { AGAIN_MAX_OF_TEST };
        Self { count: Cell::new(0), max, pause, watch: None }
    }

    /// For clients of this cluster.
    fn of(cluster: &Cluster) -> Self {
        Self { watch: Some(StallWatch::start().and_disk(&cluster.dir)), ..Self::new(PAUSE) }
    }

    /// Whether clients were run again more often than they may be.
    fn is_over(&self) -> bool {
        let has_stalled = || self.watch.as_ref().is_some_and(|watch| watch.stall("how often clients run").is_some());
        self.count.get() > self.max && !has_stalled()
    }

    /// Runs a client until it exits with 0. On a busy machine an election may take long. A node then responds SERVFAIL,
    /// which means that the update was not executed (RFC 2136 3.4.2), or does not respond. The user tries again a few
    /// times. No other failure is allowed.
    fn run(&self, who: &str, client: impl Fn() -> Result<String, String>) {
        for again in 0..=AGAIN_MAX {
            match client() {
                Ok(_) => return,
                Err(printed) if ["SERVFAIL", "timed out", "timeout"].iter().any(|word| printed.contains(word)) => {
                    println!("{who} failed {} times: {printed}", again + 1);
                    self.count.set(self.count.get() + 1);
                    assert!(!self.is_over(), "clients were run again too often");
                    std::thread::sleep(self.pause);
                }
                Err(printed) => panic!("{who}: {printed}"),
            }
        }
        panic!("{who} did not end with exit code 0 in {} runs", AGAIN_MAX + 1);
    }

    /// Prints the number of reruns.
    fn tell(&self) {
        println!("clients that were run again: {}, of {} that may be", self.count.get(), self.max);
    }
}

#[test]
fn a_client_that_is_never_served_fails_its_test() {
    let outcome = |fails: u32, of: u32| {
        let again = Reruns { max: AGAIN_MAX_OF_TEST, ..Reruns::new(Duration::ZERO) };
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

fn through_each_node(cluster: &Cluster, again: &Reruns, who: &str, client: Client<'_>) {
    let run = |to: SocketAddr, wish, owner: &str| again.run(who, || client(to, wish, owner));
    let label: String = who.chars().filter(char::is_ascii_alphabetic).collect();
    for id in cluster.ids() {
        let owner = format!("{label}-{id}.example.test.");
        run(cluster.dns(id), UpdateAction::Add, &owner);
        wait_until_there(cluster, cluster.ids(), &owner, "A");
        // The record is removed through another node.
        run(cluster.dns(id % cluster.nodes + 1), UpdateAction::Remove, &owner);
        wait_until_gone(cluster, &owner, "A");
    }
}

fn across_kills(cluster: &Cluster, nodes: &mut Nodes, again: &Reruns, who: &str, client: Client<'_>) {
    let run = |to: SocketAddr, wish, owner: &str| again.run(who, || client(to, wish, owner));
    let label: String = who.chars().filter(char::is_ascii_alphabetic).collect();
    // The update goes at once to a node that knows no new leader yet.
    let owner = format!("{label}-kill.example.test.");
    let (leader, survivors) = kill_the_leader(cluster, nodes);
    run(cluster.dns(survivors[0]), UpdateAction::Add, &owner);
    wait_until_there(cluster, survivors, &owner, "A");
    nodes.start(cluster, leader);
    wait_until_there(cluster, [leader], &owner, "A");
    cluster.settle();
    // The other way round: the record is removed while the next leader dies.
    let (leader, survivors) = kill_the_leader(cluster, nodes);
    run(cluster.dns(survivors[1]), UpdateAction::Remove, &owner);
    nodes.start(cluster, leader);
    wait_until_gone(cluster, &owner, "A");
    cluster.settle();
}

#[test]
fn nsupdate_and_knsupdate_succeed_through_each_node_and_across_kills_of_the_leader() {
    if !has("dig") || !has("nsupdate") || !has("knsupdate") {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("updaters");
    let again = Reruns::of(&cluster);
    for tool in TOOLS {
        let client = |to: SocketAddr, wish, owner: &str| {
            let lines = match wish {
                UpdateAction::Add => format!("update add {owner} 60 A 192.0.2.1"),
                UpdateAction::Remove => format!("update delete {owner} A"),
            };
            update(tool, to, &cluster.update_key(), &format!("zone example.test.\n{lines}"))
        };
        through_each_node(&cluster, &again, tool, &client);
        // The way in which a client gets its key does not matter when a node dies.
        if skip::is_full_run() || ACROSS_KILLS.contains(&tool) {
            across_kills(&cluster, &mut nodes, &again, tool, &client);
        }
    }
    again.tell();
    cluster.settle();
    assert_eq!(cluster.ids().map(|id| cluster.metric(id, "catamaran_panics_total")).sum::<u64>(), 0);
}

#[test]
fn dnspython_succeeds_through_each_node_and_across_kills_of_the_leader() {
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
    let again = Reruns::of(&cluster);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/dnspython_client.py");
    let key = TsigText::of(&cluster.update_key()).joined();
    for transport in ["udp", "tcp"] {
        let client = |to: SocketAddr, wish, owner: &str| {
            let what = if matches!(wish, UpdateAction::Add) { "add" } else { "delete" };
            let (address, port) = (to.ip().to_string(), to.port().to_string());
            let output = Command::new(&python)
                .args([script, &address, &port, transport, &key, what, owner])
                .stdin(Stdio::null())
                .output()
                .unwrap();
            // The exit code of the script is the RCODE: 2 is SERVFAIL.
            let is_not_taken = output.status.code() == Some(2);
            outcome(output).map_err(|printed| if is_not_taken { format!("SERVFAIL {printed}") } else { printed })
        };
        let who = format!("dnspython {transport}");
        through_each_node(&cluster, &again, &who, &client);
        across_kills(&cluster, &mut nodes, &again, &who, &client);
    }
    again.tell();
}
