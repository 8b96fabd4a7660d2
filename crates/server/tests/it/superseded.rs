//! The old majority comes back after `cluster recover`: its nodes exit, and acknowledge nothing under the same keys.

use crate::support::cluster::{CATAMARAN, Cluster, Scratch, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::nodes::{Nodes, config, serve_in_vain};
use crate::support::ports::free_ports;
use crate::updates::{add, rcode};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const REMOVED: i32 = 7;

/// The node of the new cluster.
struct Recovered {
    dir: String,
    api: SocketAddr,
    child: Option<Child>,
}

impl Recovered {
    /// Makes a new cluster from a node that is not running.
    fn make(scratch: &Scratch, name: &str, from: &str, words: &[&str]) -> (Self, Output) {
        let port = free_ports(3);
        let [dns, peer, api] = [0, 1, 2].map(|offset| SocketAddr::from(([127, 0, 0, 1], port + offset)));
        let dir = scratch.path().join(name).to_str().unwrap().to_owned();
        let output = Command::new(CATAMARAN)
            .args(["cluster", "recover", from, "--accept-loss", "--dir", &dir, "--dns", &dns.to_string()])
            .args(["--peer", &peer.to_string(), "--api", &api.to_string()])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (Self { dir, api, child: None }, output)
    }

    fn start(&mut self) {
        let config = format!("{}/node-1/catamaran.toml", self.dir);
        let mut command = Command::new(CATAMARAN);
        command.args(["serve", "--config", &config]).stdin(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        wait_for("the new node to lead", || {
            let status = http::get(self.api, "/v1/status").ok()?.json()?;
            (status["leader"] == 1 && status["serving"] == "yes").then_some(())
        });
    }
}

impl Drop for Recovered {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn mark(cluster: &Cluster, id: u64) -> std::path::PathBuf {
    cluster.dir.join(format!("node-{id}/data.superseded"))
}

#[test]
fn the_old_majority_ends_when_it_comes_back_after_a_recovery() {
    let mut cluster = Cluster::start("superseded", 3, &[]);
    let scratch = Scratch::new("superseded");
    cluster.settle();
    assert_eq!(cluster.end("TERM"), Some(0));
    let source = config(&cluster, 3).to_str().unwrap().to_owned();
    // A rehearsal does not change the old cluster.
    let (_rehearsal, _) = Recovered::make(&scratch, "rehearsal", &source, &["--rehearsal"]);
    assert!([1, 2, 3].iter().all(|id| !mark(&cluster, *id).exists()));

    let (mut new, made) = Recovered::make(&scratch, "new", &source, &[]);
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(said.contains("marked 3 directories"), "{said}");
    for id in [1, 2, 3] {
        let (code, said) = serve_in_vain(&cluster, id);
        assert_eq!(code, Some(REMOVED), "{said}");
        assert!(said.contains(&format!("the cluster of node {id} is superseded")) && said.contains("try:"), "{said}");
    }
    // On other machines the command cannot mark the directories. The old majority starts again.
    for id in [1, 2] {
        std::fs::remove_file(mark(&cluster, id)).unwrap();
    }
    let mut nodes = Nodes::default();
    [1, 2].into_iter().for_each(|id| nodes.start_heard(&cluster, id));
    let key = cluster.client_key();
    wait_for("the old majority to acknowledge an update", || {
        let message = add(&key, "old.example.test.");
        let response = exchange(Transport::Tcp, cluster.dns(1), &message, Duration::from_secs(10))?;
        (rcode(&message, &response) == 0).then_some(())
    });

    new.start();
    for id in [1, 2] {
        let (status, said) = nodes.ended(&cluster, id);
        assert_eq!(status.code(), Some(REMOVED), "{said}");
        assert!(said.contains(&format!("the cluster of node {id} is superseded")), "{said}");
        assert!(said.contains("was made from node 3"), "{said}");
        assert!(mark(&cluster, id).exists());
    }
    let (code, said) = serve_in_vain(&cluster, 1);
    assert_eq!(code, Some(REMOVED), "{said}");
}
