//! Backup, restore, and recovery of a new cluster from the last node of an old one, with an operator's commands.

use crate::members::Joined;
use crate::support::cluster::{CATAMARAN, Cluster, Scratch, kill, text, wait_for};
use crate::support::http;
use crate::support::nodes::{Nodes, config};
use crate::support::ports::free_ports;
use crate::support::restored::Restored;
use crate::support::tools::{dig, has, nsupdate};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Default jump of serials after a restore.
const GAP: u64 = 1 << 30;

impl Restored {
    /// The cluster's id, from the file beside its CA.
    fn cluster_id(&self) -> String {
        id_in(Path::new(&self.dir))
    }

    /// The lines of the cluster's audit log.
    fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(format!("{}/node-1/data.audit", self.dir)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The audit log begins with a line about the cluster's origin: this action, the source in `from`, and the id of
    /// the old cluster.
    fn assert_audited(&self, action: &str, from: &str, old: &str) {
        let lines = self.audit();
        let [gap, made] = [&lines[0], &lines[1]];
        let (through, index) = (gap["gap_to"].as_u64().unwrap(), made["index"].as_u64().unwrap());
        assert_eq!((&gap["gap_after"], index, &made["action"]), (&0.into(), through + 1, &action.into()), "{lines:?}");
        let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
        let subject = made["subject"].as_str().unwrap();
        let wanted = format!("old={old} new={} through={through} {from} uid={uid}", self.cluster_id());
        assert!(subject.starts_with(&wanted), "{subject}\n{wanted}");
        assert_ne!(old, self.cluster_id());
        let now_ms = crate::support::message::now_s() * 1_000;
        let age_ms = now_ms.abs_diff(made["time_ms"].as_u64().unwrap());
        assert!(age_ms < 600_000, "{age_ms}");
    }

    fn has(&self, owner: &str) -> bool {
        dig(self.dns, &[owner, "A", "+short"]).contains("192.0.2.")
    }

    fn serial(&self) -> u64 {
        serial(self.dns)
    }
}

/// The id of the cluster whose files are in this directory.
fn id_in(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("cluster.id")).unwrap().trim().to_owned()
}

fn serial(server: SocketAddr) -> u64 {
    let soa = dig(server, &["example.test", "SOA", "+short"]);
    soa.split_whitespace().nth(2).and_then(|serial| serial.parse().ok()).unwrap_or_else(|| panic!("{soa}"))
}

/// Adds a record, and retries: on a busy machine there may be no leader for a while, and a repeated add changes
/// nothing.
fn add(server: SocketAddr, cluster: &Cluster, label: &str) {
    let line = format!("update add {label}.example.test. 60 A 192.0.2.9");
    wait_for("an update to be acknowledged", || match nsupdate(server, &cluster.update_key(), &line) {
        Ok(_) => Some(()),
        Err(error) if error.contains("SERVFAIL") || error.contains("timed out") => None,
        Err(error) => panic!("{error}"),
    });
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
    // The key of another cluster, and a file with one changed byte, are refused. No files are left.
    let stranger = scratch.file("stranger.key", &format!("catamaran-data-key 1 plain {}=\n", "A".repeat(43)));
    let refused = new.make(&["restore", &file, "--data-key", &stranger]);
    assert!(text(&refused).contains("cannot open the secret"), "{}", text(&refused));
    assert_eq!((refused.status.code(), std::fs::exists(&new.dir).unwrap()), (Some(3), false), "{}", text(&refused));
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = scratch.path().join("damaged").to_str().unwrap().to_owned();
    std::fs::write(&damaged, &bytes).unwrap();
    let key = format!("{file}.key");
    let refused = new.make(&["restore", &damaged, "--data-key", &key]);
    assert!(text(&refused).contains("damaged"), "{}", text(&refused));
    assert_eq!((refused.status.code(), std::fs::exists(&new.dir).unwrap()), (Some(3), false));

    // A restore never overwrites files that identify the old cluster, even if only one of them is left.
    for left in ["ca.pem", "ca.key", "cluster.id", "data.key", "api.token"] {
        std::fs::create_dir(&new.dir).unwrap();
        let there = Path::new(&new.dir).join(left);
        std::fs::copy(cluster.dir.join(left), &there).unwrap();
        let refused = new.make(&["restore", &file, "--data-key", &key]);
        assert_eq!(refused.status.code(), Some(5), "{}", text(&refused));
        let refused = text(&refused);
        assert!(refused.contains("files of another cluster") && refused.contains(left), "{refused}");
        let files: Vec<_> = std::fs::read_dir(&new.dir).unwrap().map(|file| file.unwrap().path()).collect();
        assert_eq!(files, [there]);
        std::fs::remove_dir_all(&new.dir).unwrap();
    }
    // An existing directory keeps files that do not belong to a cluster. The next attempt finds it unchanged.
    std::fs::create_dir(&new.dir).unwrap();
    std::fs::write(Path::new(&new.dir).join("notes"), "of somebody").unwrap();
    assert_eq!(new.make(&["restore", &file, "--data-key", &stranger]).status.code(), Some(3));

    let made = new.make(&["restore", &file, "--data-key", &key]);
    assert!(made.status.success() && text(&made).contains("1 zone, "), "{}", text(&made));
    new.assert_audited("cluster restore", "nodes=1,2,3 from=backup", &id_in(&cluster.dir));
    new.start();
    assert!(new.has("before.example.test") && new.has("www.example.test") && !new.has("after.example.test"));
    // Secondaries of the old cluster may have seen `after`. The serial that they see now is newer.
    assert_eq!(new.serial(), before + GAP);
    // The old cluster's key files still work.
    add(new.dns, &cluster, "anew");
    assert!(new.has("anew.example.test"));
    let again = new.make(&["restore", &file, "--data-key", &key]);
    assert_eq!(again.status.code(), Some(5), "{}", text(&again));
    // Later lines follow that line. It appears once, also after the node has started.
    let last = wait_for("the line of the update", || new.audit().into_iter().rfind(|line| line.get("key").is_some()));
    let made: Vec<_> = new.audit().into_iter().filter(|line| line["action"] == "cluster restore").collect();
    assert!(made.len() == 1 && made[0]["index"].as_u64() < last["index"].as_u64(), "{:?}", new.audit());
    new.assert_audited("cluster restore", "nodes=1,2,3 from=backup", &id_in(&cluster.dir));
    let status = http::get(new.api, "/v1/status").unwrap().json().unwrap();
    assert_eq!(status["members"].as_array().unwrap().len(), 1);
}

/// Compares serials as a secondary does (RFC 1982 3.2).
fn is_newer(serial: u64, than: u64) -> bool {
    let ahead = (serial as u32).wrapping_sub(than as u32);
    ahead != 0 && ahead < 1 << 31
}

#[test]
fn serials_of_a_restored_cluster_are_ahead_by_the_given_number() {
    if !has("nsupdate") {
        return;
    }
    let cluster = Cluster::start("serial-gap", 1, &[]);
    let scratch = Scratch::new("serial-gap");
    let file = scratch.path().join("monday").to_str().unwrap().to_owned();
    let made = cluster.run(&["cluster", "backup", &file, "--with-data-key"]);
    assert!(made.status.success(), "{}", text(&made));
    let (before, key) = (serial(cluster.dns(1)), format!("{file}.key"));
    for label in ["a", "b", "c", "d", "e"] {
        add(cluster.dns(1), &cluster, label);
    }
    let served = serial(cluster.dns(1));
    assert_eq!(served, before + 5);

    let mut new = Restored::new(&scratch, "gap");
    for wrong in ["0", "2147483648", "-1", "many"] {
        let gap = format!("--serial-gap={wrong}");
        let refused = new.make(&["restore", &file, "--data-key", &key, &gap]);
        assert_eq!((refused.status.code(), std::fs::exists(&new.dir).unwrap()), (Some(2), false), "{}", text(&refused));
        assert!(text(&refused).contains("from 1 to 2147483647"), "{}", text(&refused));
    }
    let made = new.make(&["restore", &file, "--data-key", &key, "--serial-gap", "2147483647"]);
    let wanted = format!("example.test. moves from serial {before} to {}", before + 2_147_483_647);
    assert!(made.status.success() && text(&made).contains(&wanted), "{}", text(&made));
    new.start();
    assert!(is_newer(new.serial(), before) && is_newer(new.serial(), served));
    add(new.dns, &cluster, "anew");
    assert_eq!(new.serial(), before + (1 << 31));

    let mut small = Restored::new(&scratch, "small");
    let made = small.make(&["restore", &file, "--data-key", &key, "--serial-gap", "1000"]);
    assert!(made.status.success(), "{}", text(&made));
    small.start();
    assert!(small.serial() == before + 1_000 && is_newer(small.serial(), served));
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
    // Without `--accept-loss`, the command asks for it. A running node is not a source.
    assert_eq!(new.make(&["recover", &config]).status.code(), Some(2));
    let running = new.make(&["recover", &config, "--accept-loss"]);
    assert!(text(&running).contains("the data directory is in use"), "{}", text(&running));
    assert!(!std::fs::exists(&new.dir).unwrap());
    for id in [1, 2, 3] {
        kill("KILL", cluster.pid(id).unwrap());
        cluster.wait_for_line(&format!("node {id} exited"));
    }
    for id in [1, 2] {
        std::fs::remove_dir_all(cluster.dir.join(format!("node-{id}/data"))).unwrap();
    }
    // Recovery into the old cluster's own directory is refused. So is a source that stopped because of its data.
    let (dns, peer) = (new.dns.to_string(), new.peer.to_string());
    let ca = std::fs::read(cluster.dir.join("ca.pem")).unwrap();
    let there = cluster.run(&["cluster", "recover", &config, "--accept-loss", "--dns", &dns, "--peer", &peer]);
    assert_eq!(
        (there.status.code(), text(&there).contains("files of another cluster")),
        (Some(5), true),
        "{}",
        text(&there)
    );
    assert_eq!(std::fs::read(cluster.dir.join("ca.pem")).unwrap(), ca);
    let quarantined = cluster.dir.join("node-3/data.quarantined");
    let loss_file = cluster.dir.join("node-3/data.doubt");
    let why = "the log lacks what was acknowledged";
    for (file, words) in
        [(&loss_file, format!("doubt term=2 index=900 kind=lost\n{why}\n")), (&quarantined, why.to_owned())]
    {
        std::fs::write(file, words).unwrap();
        let refused = new.make(&["recover", &config, "--accept-loss"]);
        assert_eq!(refused.status.code(), Some(9), "{}", text(&refused));
        assert!(text(&refused).contains(why), "{}", text(&refused));
        assert!(!std::fs::exists(&new.dir).unwrap());
    }
    std::fs::remove_file(&loss_file).unwrap();
    let damaged = Restored::new(&scratch, "damaged");
    let made = damaged.make(&["recover", &config, "--accept-loss", "--accept-damage"]);
    assert!(made.status.success(), "{}", text(&made));
    damaged.assert_audited("cluster recover", "nodes=1,2,3 from=node-3 accepted=damage", &id_in(&cluster.dir));
    std::fs::remove_file(&quarantined).unwrap();

    let made = new.make(&["recover", &config, "--accept-loss"]);
    assert!(made.status.success() && text(&made).contains("cannot join"), "{}", text(&made));
    new.assert_audited("cluster recover", "nodes=1,2,3 from=node-3", &id_in(&cluster.dir));
    new.start();
    assert!(new.has("kept.example.test"));
    assert_eq!(new.serial(), before + GAP);
    add(new.dns, &cluster, "anew");
    assert!(new.has("anew.example.test"));
}

#[test]
fn a_removed_node_founds_a_new_cluster_only_on_request() {
    let mut cluster = Cluster::start("recover-removed", 3, &[]);
    let scratch = Scratch::new("recover-removed");
    // The other nodes get a new data key. Under `up` all nodes share the file, but a node on a machine of its own keeps
    // it.
    let keys = ["data.key", "wrapping.key"].map(|name| {
        let file = cluster.dir.join(name);
        (std::fs::read(&file).unwrap(), file)
    });
    let removed = cluster.run(&["cluster", "remove", "3"]);
    assert!(removed.status.success(), "{}", text(&removed));
    cluster.wait_for_line("node 3 was removed from the cluster");
    assert_eq!(cluster.end("TERM"), Some(0));
    let config = cluster.dir.join("node-3/catamaran.toml").to_str().unwrap().to_owned();
    let new = Restored::new(&scratch, "new");
    let refused = new.make(&["recover", &config, "--accept-loss"]);
    assert_eq!(refused.status.code(), Some(5), "{}", text(&refused));
    assert!(text(&refused).contains("it was removed from its cluster"), "{}", text(&refused));
    assert!(!std::fs::exists(&new.dir).unwrap());
    // The recovery uses the node's old data key. It uses the current one if the node received it before its removal.
    let recover = || new.make(&["recover", &config, "--accept-loss", "--accept-damage"]);
    let mut made = recover();
    if !made.status.success() {
        keys.iter().for_each(|(bytes, file)| std::fs::write(file, bytes).unwrap());
        made = recover();
    }
    assert!(made.status.success(), "{}", text(&made));
    new.assert_audited("cluster recover", "nodes=1,2 from=node-3 accepted=removed", &id_in(&cluster.dir));
}

/// All records of the zone, from the API of a node of the cluster in `dir`.
fn exported(dir: &str, api: SocketAddr) -> String {
    let mut command = Command::new(CATAMARAN);
    command.args(["zone", "export", "example.test", "--dir", dir, "--api", &api.to_string()]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_node_gives_a_backup_of_the_same_and_a_learner_too() {
    if !has("nsupdate") {
        return;
    }
    let cluster = Cluster::start("backups", 3, &[]);
    let scratch = Scratch::new("backups");
    let token = cluster.run(&["cluster", "add", "--learner"]);
    let learner = Joined::start(&cluster, 4, String::from_utf8_lossy(&token.stdout).trim());
    wait_for("the learner", || learner.answers().then_some(()));
    for id in cluster.ids() {
        add(cluster.dns(id), &cluster, &format!("n{id}"));
    }
    let hash = cluster.settle();
    wait_for("the learner to have all", || learner.status().filter(|status| status["state_hash"] == *hash));
    let before = serial(cluster.dns(1));
    let old_serial = |zone: &str| zone.replace(&(before + GAP).to_string(), &before.to_string());
    let wanted = exported(cluster.dir.to_str().unwrap(), cluster.api(1));
    let apis = cluster.ids().map(|id| cluster.api(id)).chain([learner.api()]);
    for (number, api) in (1..).zip(apis) {
        let file = scratch.path().join(format!("of-{number}")).to_str().unwrap().to_owned();
        let made = cluster.run(&["cluster", "backup", &file, "--api", &api.to_string(), "--with-data-key"]);
        assert!(made.status.success(), "{}", text(&made));
        let mut new = Restored::new(&scratch, &format!("new-{number}"));
        let made = new.make(&["restore", &file, "--data-key", &format!("{file}.key")]);
        assert!(made.status.success(), "{}", text(&made));
        new.start();
        for id in cluster.ids() {
            assert!(new.has(&format!("n{id}.example.test")), "n{id} in the backup of node {number}");
        }
        assert_eq!(new.serial(), before + GAP);
        let zone = exported(&new.dir, new.api);
        assert_eq!(old_serial(&zone), wanted, "from the backup of node {number}");
        assert_ne!(zone, wanted);
    }
}

#[test]
fn a_node_of_the_old_cluster_cannot_join_the_restored_one() {
    if !has("nsupdate") {
        return;
    }
    let mut cluster = Cluster::start("old-nodes", 3, &[]);
    let scratch = Scratch::new("old-nodes");
    let token = cluster.run(&["cluster", "add"]);
    assert!(token.status.success(), "{}", text(&token));
    let token = String::from_utf8_lossy(&token.stdout).trim().to_owned();
    add(cluster.dns(1), &cluster, "before");
    let file = scratch.path().join("monday").to_str().unwrap().to_owned();
    let made = cluster.run(&["cluster", "backup", &file, "--with-data-key"]);
    assert!(made.status.success(), "{}", text(&made));
    assert_eq!(cluster.end("TERM"), Some(0));
    // The new node uses the peer address of node 1, where the old nodes look for node 1.
    let own = std::fs::read_to_string(config(&cluster, 1)).unwrap();
    let peer = own.lines().skip_while(|line| line.trim() != "[peer]").find(|line| line.starts_with("listen")).unwrap();
    let mut new = Restored::new(&scratch, "new");
    new.peer = peer.split('"').nth(1).unwrap().parse().unwrap();
    let made = new.make(&["restore", &file, "--data-key", &format!("{file}.key")]);
    assert!(made.status.success(), "{}", text(&made));
    new.start();
    let state = |new: &Restored| {
        let status = http::get(new.api, "/v1/status").unwrap().json().unwrap();
        [status["zones"].clone(), status["term"].clone(), Value::from(status["members"].as_array().unwrap().len())]
    };
    let before = state(&new);
    // Node 2 of the old cluster, with its data and certificate, takes the new node for its node 1.
    let mut nodes = Nodes::default();
    nodes.start(&cluster, 2);
    wait_for("the old node to run", || cluster.status(2));
    let refused = wait_for("the restored one to refuse it, and again", || {
        let page = http::get(new.api, "/metrics").ok()?.text();
        let refused = page.lines().find_map(|line| line.strip_prefix("catamaran_peer_refused_total "))?;
        refused.parse::<f64>().ok().filter(|refused| *refused >= 6.0)
    });
    println!("{refused} connections of the old node were refused");
    assert_eq!(cluster.metric(2, "catamaran_peer_dialled_total"), 0, "the old node connected to the restored cluster");
    let old = cluster.status(2).unwrap();
    assert_eq!((&old["leader"], old["zones"].as_array().unwrap().len()), (&Value::Null, 1), "{old}");
    // A token of the old cluster is not valid here, although its address leads to this cluster.
    let port = free_ports(3);
    let [dns, peer, api] = [0, 1, 2].map(|offset| format!("127.0.0.1:{}", port + offset));
    let dir = scratch.path().join("joined").to_str().unwrap().to_owned();
    let joined = Command::new(CATAMARAN)
        .args(["join", "--token", &token, "--dir", &dir, "--dns", &dns, "--peer", &peer, "--api", &api])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!joined.status.success() && !text(&joined).contains("joined as"), "{}", text(&joined));
    println!("{}", text(&joined));
    // The restored cluster continues as before, and the old node receives none of its updates.
    assert_eq!(state(&new), before);
    add(new.dns, &cluster, "anew");
    assert!(new.has("anew.example.test") && new.has("before.example.test"));
    assert!(!dig(cluster.dns(2), &["anew.example.test", "A", "+short"]).contains("192.0.2."));
    nodes.stop(2);
}
