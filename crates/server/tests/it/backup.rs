//! Backup, restore, and a new cluster from the last node of an old one, by the commands of an operator.

use crate::support::cluster::{CATAMARAN, Cluster, Scratch, free_ports, kill, wait_for};
use crate::support::http;
use crate::support::tools::{dig, has, nsupdate};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};

/// A cluster of one node that `restore` or `recover` made.
struct Restored {
    dir: String,
    dns: SocketAddr,
    peer: SocketAddr,
    api: SocketAddr,
    child: Option<Child>,
}

impl Restored {
    fn new(scratch: &Scratch, name: &str) -> Self {
        let port = free_ports(3);
        let [dns, peer, api] = [0, 1, 2].map(|offset| SocketAddr::from(([127, 0, 0, 1], port + offset)));
        let dir = scratch.path().join(name).to_str().unwrap().to_owned();
        Self { dir, dns, peer, api, child: None }
    }

    /// Makes it, by `restore` or `recover` with these words.
    fn make(&self, words: &[&str]) -> Output {
        Command::new(CATAMARAN)
            .arg("cluster")
            .args(words)
            .args(["--dir", &self.dir, "--dns", &self.dns.to_string()])
            .args(["--peer", &self.peer.to_string(), "--api", &self.api.to_string()])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs it until it leads.
    fn start(&mut self) {
        let config = format!("{}/node-1/catamaran.toml", self.dir);
        let mut command = Command::new(CATAMARAN);
        command.args(["serve", "--config", &config]).stdin(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        wait_for("it to lead", || {
            let status = http::get(self.api, "/v1/status").ok()?.json()?;
            (status["leader"] == 1 && status["serving"] == "yes").then_some(())
        });
    }

    fn has(&self, owner: &str) -> bool {
        dig(self.dns, &[owner, "A", "+short"]).contains("192.0.2.")
    }

    fn serial(&self) -> u64 {
        serial(self.dns)
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn serial(server: SocketAddr) -> u64 {
    let soa = dig(server, &["example.test", "SOA", "+short"]);
    soa.split_whitespace().nth(2).and_then(|serial| serial.parse().ok()).unwrap_or_else(|| panic!("{soa}"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn add(server: SocketAddr, cluster: &Cluster, label: &str) {
    let line = format!("update add {label}.example.test. 60 A 192.0.2.9");
    nsupdate(server, &cluster.update_key(), &line).unwrap();
}

#[test]
fn a_cluster_is_restored_as_another() {
    if !has("nsupdate") {
        return;
    }
    let cluster = Cluster::start("backup", 3, &[]);
    let scratch = Scratch::new("backup");
    let file = scratch.path().join("monday").to_str().unwrap().to_owned();
    add(cluster.dns(2), &cluster, "before");
    let before = serial(cluster.dns(2));
    let made = cluster.run(&["cluster", "backup", &file, "--with-data-key"]);
    assert!(made.status.success() && text(&made).contains("verified"), "{}", text(&made));
    assert!(!scratch.path().join("monday.partial").exists());
    let again = cluster.run(&["cluster", "backup", &file]);
    assert_eq!((again.status.code(), text(&again).contains("never overwritten")), (Some(5), true), "{}", text(&again));
    add(cluster.dns(1), &cluster, "after");

    let mut new = Restored::new(&scratch, "new");
    // Another cluster's key, and a file with one octet that is not what was written: nothing is left of either.
    let stranger = scratch.file("stranger.key", &format!("catamaran-data-key 1 plain {}=\n", "A".repeat(43)));
    let refused = new.make(&["restore", &file, "--data-key", &stranger]);
    assert!(text(&refused).contains("does not open the secret"), "{}", text(&refused));
    assert_eq!((refused.status.code(), std::fs::exists(&new.dir).unwrap()), (Some(3), false), "{}", text(&refused));
    let mut octets = std::fs::read(&file).unwrap();
    let middle = octets.len() / 2;
    octets[middle] ^= 1;
    let damaged = scratch.path().join("damaged").to_str().unwrap().to_owned();
    std::fs::write(&damaged, &octets).unwrap();
    let key = format!("{file}.key");
    let refused = new.make(&["restore", &damaged, "--data-key", &key]);
    assert!(text(&refused).contains("damaged"), "{}", text(&refused));
    assert_eq!((refused.status.code(), std::fs::exists(&new.dir).unwrap()), (Some(3), false));

    let made = new.make(&["restore", &file, "--data-key", &key]);
    assert!(made.status.success() && text(&made).contains("1 zones"), "{}", text(&made));
    new.start();
    assert!(new.has("before.example.test") && new.has("www.example.test") && !new.has("after.example.test"));
    // Secondaries of the old cluster may have seen `after`: what they see now is newer.
    assert_eq!(new.serial(), before + 65_536);
    // The old cluster's key files are good.
    add(new.dns, &cluster, "anew");
    assert!(new.has("anew.example.test"));
    let again = new.make(&["restore", &file, "--data-key", &key]);
    assert_eq!(again.status.code(), Some(5), "{}", text(&again));
    // A node of the old cluster is told by its certificate that it is none of this one.
    let status = http::get(new.api, "/v1/status").unwrap().json().unwrap();
    assert_eq!(status["members"].as_array().unwrap().len(), 1);
}

#[test]
fn the_last_node_founds_a_new_cluster() {
    if !has("nsupdate") {
        return;
    }
    let cluster = Cluster::start("recover", 3, &[]);
    let scratch = Scratch::new("recover");
    add(cluster.dns(1), &cluster, "kept");
    cluster.settle();
    let before = serial(cluster.dns(3));
    let config = cluster.dir.join("node-3/catamaran.toml").to_str().unwrap().to_owned();
    let mut new = Restored::new(&scratch, "new");
    // Who does not say that something may be lost is asked to; a node that runs is no source.
    assert_eq!(new.make(&["recover", &config]).status.code(), Some(2));
    let running = new.make(&["recover", &config, "--accept-loss"]);
    assert!(text(&running).contains("the data directory is in use"), "{}", text(&running));
    assert!(!std::fs::exists(&new.dir).unwrap());
    for id in [1, 2, 3] {
        kill("KILL", cluster.pid(id).unwrap());
        cluster.wait_for_line(&format!("node {id} ended"));
    }
    for id in [1, 2] {
        std::fs::remove_dir_all(cluster.dir.join(format!("node-{id}/data"))).unwrap();
    }
    let made = new.make(&["recover", &config, "--accept-loss"]);
    assert!(made.status.success() && text(&made).contains("cannot join"), "{}", text(&made));
    new.start();
    assert!(new.has("kept.example.test"));
    assert_eq!(new.serial(), before + 65_536);
    add(new.dns, &cluster, "anew");
    assert!(new.has("anew.example.test"));
}
