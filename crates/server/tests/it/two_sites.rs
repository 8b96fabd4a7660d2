//! Two sites, and a third voter at a third place that answers no queries: either site may fail.

use crate::all_live::set_all_live;
use crate::support::cluster::{CATAMARAN, Cluster, KillOnDrop, PATIENCE, kill, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::ports::free_ports;
use crate::updates::{add, assert_on_every_node, rcode};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The third voter, run by the test.
struct Witness {
    child: Child,
    peer: SocketAddr,
    api: SocketAddr,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Witness {
    fn join(cluster: &Cluster) -> Self {
        let token = cluster.run(&["cluster", "add"]);
        // The token as printed, in a file that only its owner can read.
        let file = cluster.dir.join("token");
        std::fs::write(&file, &token.stdout).unwrap();
        let port = free_ports(2);
        let [peer, api] = [0, 1].map(|offset| SocketAddr::from(([127, 0, 0, 1], port + offset)));
        let dir = cluster.dir.join("witness");
        let joined = Command::new(CATAMARAN)
            .args(["join", "--token-file", file.to_str().unwrap(), "--dir", dir.to_str().unwrap(), "--no-dns"])
            .args(["--peer", &peer.to_string(), "--api", &api.to_string()])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
        let child = Command::new(CATAMARAN)
            .args(["serve", "--config", dir.join("node-3/catamaran.toml").to_str().unwrap()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, peer, api }
    }

    fn status(&self) -> Option<serde_json::Value> {
        http::get(self.api, "/v1/status").ok()?.json()
    }

    /// Inodes of all its sockets.
    fn sockets(&self) -> BTreeSet<String> {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let inode = |link: std::path::PathBuf| {
            let text = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
            Some(text)
        };
        links.filter_map(inode).collect()
    }

    /// Local ports of its sockets in one of the kernel's tables. For TCP, only listening sockets.
    fn ports(&self, table: &str) -> BTreeSet<u16> {
        let sockets = self.sockets();
        let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let port = |line: &str| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let is_own = sockets.contains(*cells.get(9)?) && (table.starts_with("udp") || cells[3] == "0A");
            is_own.then(|| u16::from_str_radix(cells[1].rsplit(':').next()?, 16).ok())?
        };
        text.lines().skip(1).filter_map(port).collect()
    }
}

/// Sends an update, and repeats the same bytes, until a node reports that it is done.
fn update(cluster: &Cluster, through: u64, owner: &str) {
    let (message, start) = (add(&cluster.client_key(), owner), Instant::now());
    while start.elapsed() < PATIENCE {
        let response = exchange(Transport::Udp, cluster.dns(through), &message, Duration::from_secs(4));
        // SERVFAIL: nothing was done. A new leader may not be known yet.
        match response.map(|response| rcode(&message, &response)) {
            Some(0) => return,
            Some(2) | None => {}
            Some(other) => panic!("RCODE {other} to {owner}"),
        }
    }
    panic!("no node accepted the update of {owner}");
}

#[test]
fn a_third_voter_without_dns_keeps_two_sites_alive() {
    let cluster = Cluster::start("two-sites", 2, &[]);
    cluster.settle();
    let witness = Witness::join(&cluster);
    wait_for("the vote of the witness", || {
        let status = cluster.status(cluster.leader())?;
        let members = status["members"].as_array()?.clone();
        members.iter().find(|member| member["node"] == 3)?["voter"].as_bool()?.then_some(())
    });
    let status = wait_for("the witness", || witness.status().filter(|status| status["serving"] == "yes"));
    assert_eq!(status["dns"], false);
    let listening: BTreeSet<u16> = ["tcp", "tcp6"].iter().flat_map(|table| witness.ports(table)).collect();
    assert_eq!(listening, [witness.peer.port(), witness.api.port()].into());
    assert_eq!((witness.ports("udp"), witness.ports("udp6")), (BTreeSet::new(), BTreeSet::new()));
    // No update waits for the third voter.
    set_all_live(&cluster);
    wait_for("the two sites in the rotation", || {
        let table = String::from_utf8(cluster.run(&["cluster", "status"]).stdout).unwrap();
        table.contains("are answered by node 1, 2\n").then_some(())
    });
    assert!(cluster.run(&["zone", "set", "example.test", "--ack", "majority"]).status.success());

    // One site fails, the leader's if a site has the leader. Then the other site fails.
    let leader = witness.status().and_then(|status| status["leader"].as_u64());
    let first = leader.filter(|&leader| leader < 3).unwrap_or(1);
    let (mut names, mut back) = (Vec::new(), Vec::new());
    for gone in [first, 3 - first] {
        let rest = 3 - gone;
        kill("KILL", cluster.pid(gone).unwrap());
        for number in 0..5 {
            let owner = format!("without{gone}n{number}.example.test.");
            update(&cluster, rest, &owner);
            names.push(owner);
        }
        back.push(KillOnDrop(cluster.serve(gone)));
        cluster.settle();
        assert_on_every_node(&cluster, &names);
    }
    let serial = |status: serde_json::Value| status["zones"][0]["serial"].as_u64();
    let served = serial(cluster.status(1).unwrap());
    wait_for("the witness to have it all", || (witness.status().and_then(serial) == served).then_some(()));
}
