//! Backup, restore, and a new cluster from the last node of an old one, by the commands of an operator.

use crate::members::Joined;
use crate::support::cluster::{CATAMARAN, Cluster, Scratch, free_ports, kill, wait_for};
use crate::support::http;
use crate::support::nodes::cluster_of_nodes;
use crate::support::tools::{dig, has, nsupdate, transfer};
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

    /// The audit log begins with where the state comes from, before the first start.
    fn assert_audited(&self, action: &str, from: &str, old: &Cluster) {
        let text = std::fs::read_to_string(format!("{}/node-1/data.audit", self.dir)).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let (subject, index) = (line["subject"].as_str().unwrap(), line["index"].as_u64().unwrap());
        let id = std::fs::read_to_string(old.dir.join("cluster.id")).unwrap();
        assert_eq!((&line["action"], text.lines().count()), (&action.into(), 1), "{text}");
        assert!(index > 1 && line["time_ms"].as_u64() > Some(1_700_000_000_000), "{text}");
        let parts = ["1 zones", id.trim(), &format!("up to entry {}", index - 1), from];
        assert!(parts.iter().all(|part| subject.contains(part)), "{parts:?}: {subject}");
    }

    fn has(&self, owner: &str) -> bool {
        dig(self.dns, &[owner, "A", "+short"]).contains("192.0.2.")
    }

    fn serial(&self) -> u64 {
        serial(self.dns)
    }

    fn status(&self) -> serde_json::Value {
        http::get(self.api, "/v1/status").unwrap().json().unwrap()
    }

    fn metric(&self, series: &str) -> u64 {
        let text = http::get(self.api, "/metrics").unwrap().text();
        let line = text.lines().find(|line| line.starts_with(series));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no {series}"))
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
    new.assert_audited("cluster restore", &file, &cluster);
    new.start();
    assert!(new.has("before.example.test") && new.has("www.example.test") && !new.has("after.example.test"));
    // Secondaries of the old cluster may have seen `after`: what they see now is newer.
    assert_eq!(new.serial(), before + 65_536);
    // The old cluster's key files are good.
    add(new.dns, &cluster, "anew");
    assert!(new.has("anew.example.test"));
    let again = new.make(&["restore", &file, "--data-key", &key]);
    assert_eq!(again.status.code(), Some(5), "{}", text(&again));
    // The new node goes on with the log that `restore` began, and hides nothing behind a gap.
    let audit = std::fs::read_to_string(format!("{}/node-1/data.audit", new.dir)).unwrap();
    assert!(audit.lines().count() > 1 && !audit.contains("gap"), "{audit}");
}

/// The new cluster listens where a node of the old one did, so the others of that call it.
#[test]
fn nodes_of_the_old_cluster_cannot_join_the_restored_one() {
    if !has("nsupdate") {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("strangers");
    let scratch = Scratch::new("strangers");
    let file = scratch.path().join("monday").to_str().unwrap().to_owned();
    let made = cluster.run(&["cluster", "backup", &file, "--with-data-key"]);
    assert!(made.status.success(), "{}", text(&made));
    let token = cluster.run(&["cluster", "add"]);
    let token = String::from_utf8_lossy(&token.stdout).trim().to_owned();
    let members = cluster.status(1).unwrap()["members"].clone();
    let peer = members.as_array().unwrap().iter().find(|member| member["node"] == 1).unwrap()["address"].clone();
    cluster.ids().for_each(|id| nodes.kill(id));
    let mut new = Restored::new(&scratch, "new");
    new.peer = peer.as_str().unwrap().parse().unwrap();
    let made = new.make(&["restore", &file, "--data-key", &format!("{file}.key")]);
    assert!(made.status.success(), "{}", text(&made));
    new.start();
    let term = new.status()["term"].clone();

    // Two of three: a majority of what they believe in, which it must not become part of.
    nodes.start(&cluster, 2);
    nodes.start(&cluster, 3);
    wait_for("the new node to refuse them", || (new.metric("catamaran_peer_refused_total") >= 2).then_some(()));
    let led = nodes.leader(&cluster);
    assert_ne!(led, 1);
    add(new.dns, &cluster, "anew");
    add(cluster.dns(2), &cluster, "of-old");
    assert!(new.has("anew.example.test") && !new.has("of-old.example.test"));
    let knows = |id, owner: &str| dig(cluster.dns(id), &[owner, "A", "+short"]).contains("192.0.2.");
    assert!(knows(2, "of-old.example.test") && !knows(2, "anew.example.test") && !knows(3, "anew.example.test"));
    // A token of the old cluster is of no use either.
    let port = free_ports(3);
    let [dns, other, api] = [0, 1, 2].map(|offset| SocketAddr::from(([127, 0, 0, 1], port + offset)).to_string());
    let dir = scratch.path().join("joined");
    nodes.kill(2);
    nodes.kill(3);
    let joined = Command::new(CATAMARAN)
        .args(["join", "--token", &token, "--dir", dir.to_str().unwrap()])
        .args(["--dns", &dns, "--peer", &other, "--api", &api])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!joined.status.success(), "{}", text(&joined));
    let status = new.status();
    assert_eq!((status["members"].as_array().unwrap().len(), &status["term"]), (1, &term), "{status}");
    assert!(new.has("anew.example.test"), "it goes on");
}

/// What any node writes restores to the same: of the leader, of a follower, of a node that has no vote.
#[test]
fn every_node_gives_a_backup_of_the_same() {
    if !has("nsupdate") {
        return;
    }
    let cluster = Cluster::start("backups", 3, &[]);
    let scratch = Scratch::new("backups");
    (0..20).for_each(|number| add(cluster.dns(1 + number % 3), &cluster, &format!("n{number}")));
    let token = cluster.run(&["cluster", "add", "--learner"]);
    let learner = Joined::start(&cluster, 4, String::from_utf8_lossy(&token.stdout).trim());
    wait_for("the learner", || learner.answers().then_some(()));
    cluster.settle();
    let wanted = transfer(cluster.dns(1), Some(&cluster.update_key()), "example.test");
    let apis = cluster.ids().map(|id| cluster.api(id)).chain([learner.api]);
    let mut restored = Vec::new();
    for (number, api) in apis.enumerate() {
        let file = scratch.path().join(format!("of-{number}")).to_str().unwrap().to_owned();
        let made = cluster.run(&["cluster", "backup", &file, "--with-data-key", "--api", &api.to_string()]);
        assert!(made.status.success() && text(&made).contains("verified"), "{api}: {}", text(&made));
        let mut new = Restored::new(&scratch, &format!("new-{number}"));
        let made = new.make(&["restore", &file, "--data-key", &format!("{file}.key")]);
        assert!(made.status.success(), "{api}: {}", text(&made));
        new.start();
        restored.push(transfer(new.dns, Some(&cluster.update_key()), "example.test"));
    }
    assert_eq!(restored.len(), 4);
    // The serial jumped ahead, by as much in each.
    let without_soa = |records: &[String]| records.iter().filter(|record| !record.contains(" SOA ")).cloned().collect();
    let wanted: Vec<String> = without_soa(&wanted);
    assert!(wanted.len() > 20, "{wanted:?}");
    for (number, records) in restored.iter().enumerate() {
        assert_eq!(without_soa(records), wanted, "of node {}", number + 1);
        assert_eq!(records, &restored[0], "of node {}", number + 1);
    }
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
    new.assert_audited("cluster recover", "node-3/data", &cluster);
    new.start();
    assert!(new.has("kept.example.test"));
    assert_eq!(new.serial(), before + 65_536);
    add(new.dns, &cluster, "anew");
    assert!(new.has("anew.example.test"));
}
