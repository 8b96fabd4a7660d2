//! Common clients, unmodified: through each node, and across a kill -9 of the leader. Each exits with 0, and its
//! records are on every node. Then they are removed, and gone from every node.

// Clients from Debian alone: nsupdate, knsupdate. Also dnspython, from PyPI.
mod updaters;
// Leases that Kea's DHCP-DDNS publishes.
mod kea;
// A certificate by ACME's DNS challenge: certbot and Pebble.
mod acme;
// Names that external-dns publishes.
mod external_dns;

use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::nodes::Nodes;
use crate::support::tools::dig;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The answer of a node, sorted.
fn answer(cluster: &Cluster, id: u64, owner: &str, rtype: &str) -> Vec<String> {
    let mut lines: Vec<String> = dig(cluster.dns(id), &["+short", owner, rtype]).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Waits until each of these nodes has a record of this name and type.
fn wait_until_there(cluster: &Cluster, ids: impl IntoIterator<Item = u64>, owner: &str, rtype: &str) {
    for id in ids {
        wait_for(&format!("{owner} {rtype} on node {id}"), || is_there(cluster, id, owner, rtype).then_some(()));
    }
}

fn is_there(cluster: &Cluster, id: u64, owner: &str, rtype: &str) -> bool {
    let printed = answer(cluster, id, owner, rtype);
    // An error message of dig on standard output begins with `;`.
    !printed.is_empty() && !printed[0].starts_with(';')
}

/// Waits until one of these names is on all of these nodes. Returns its index.
fn wait_until_one_is_there(cluster: &Cluster, ids: &[u64], owners: &[String], rtype: &str) -> usize {
    wait_for(&format!("one of {owners:?}"), || {
        owners.iter().position(|owner| ids.iter().all(|&id| is_there(cluster, id, owner, rtype)))
    })
}

/// Waits until no node has such a record.
fn wait_until_gone(cluster: &Cluster, owner: &str, rtype: &str) {
    for id in cluster.ids() {
        wait_for(&format!("the end of {owner} {rtype} on node {id}"), || {
            let printed = dig(cluster.dns(id), &[owner, rtype]);
            let is_answered = ["status: NOERROR", "status: NXDOMAIN"].iter().any(|status| printed.contains(status));
            (is_answered && printed.contains("ANSWER: 0")).then_some(())
        });
    }
}

/// The nodes other than this one.
fn others(ids: RangeInclusive<u64>, one: u64) -> Vec<u64> {
    ids.filter(|&id| id != one).collect()
}

/// Kills the leader. Returns its id and the ids of the others.
fn kill_the_leader(cluster: &Cluster, nodes: &mut Nodes) -> (u64, Vec<u64>) {
    let leader = nodes.leader(cluster);
    nodes.kill(leader);
    (leader, others(cluster.ids(), leader))
}

/// A program that runs until this is dropped. Its output goes to a file.
struct Daemon {
    name: &'static str,
    child: Child,
    output: PathBuf,
}

impl Daemon {
    fn start(name: &'static str, command: &mut Command, folder: &Path) -> Self {
        let output = folder.join(format!("{name}.output"));
        let file = std::fs::File::create(&output).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { name, child: command.spawn().unwrap(), output }
    }

    fn printed(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    fn wait_for_output(&self, text: &str) {
        wait_for(&format!("`{text}` of {}", self.name), || self.printed().contains(text).then_some(()));
    }

    /// Asks the program to exit. Returns its exit code.
    fn end(mut self) -> Option<i32> {
        kill("TERM", self.child.id());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            kill("TERM", self.child.id());
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let printed = self.printed();
            let tail: Vec<&str> = printed.lines().rev().take(25).collect();
            eprintln!("--- the last lines that {} printed", self.name);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}
