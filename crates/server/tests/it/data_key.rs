//! The key that seals secrets: replaced when a node is removed, and by command, while clients continue.

use crate::members::Joined;
use crate::support::cluster::{CATAMARAN, Cluster, Scratch, text, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::message::name;
use crate::support::ports::free_ports;
use crate::updates::{Stream, add, rcode};
use serde_json::Value;
use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use wire::Rtype;
use wire::builder::MessageBuilder;

fn run(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(CATAMARAN);
    command.args(words).args(["--dir", dir.to_str().unwrap()]).stdin(Stdio::null()).output().unwrap()
}

/// Runs a command that must succeed. Returns its output.
fn done(dir: &Path, words: &[&str]) -> String {
    let output = run(dir, words);
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    text(&output)
}

fn votes(at: &Joined, ids: &[u64]) -> Option<()> {
    let status = at.status().filter(|status| status["serving"] == "yes" && status["ca_count"] == 1)?;
    let voters = status["members"].as_array()?.iter().filter(|member| member["voter"] == true);
    (voters.map(|member| member["node"].as_u64().unwrap()).collect::<Vec<_>>() == ids).then_some(())
}

/// Sends an update through a node, signed by the key of the cluster. Returns the RCODE.
fn update(cluster: &Cluster, to: SocketAddr, owner: &str) -> Option<u8> {
    let message = add(&cluster.client_key(), &format!("{owner}.example.test."));
    exchange(Transport::Udp, to, &message, Duration::from_secs(5)).map(|response| rcode(&message, &response))
}

#[test]
fn a_node_that_was_removed_can_open_nothing_new() {
    let cluster = Cluster::start("data-key", 1, &[]);
    let token = || done(&cluster.dir, &["cluster", "add"]).trim().to_owned();
    let mut two = Joined::start(&cluster, 2, &token());
    wait_for("node 2 to vote", || votes(&two, &[1, 2]));
    let three = Joined::start(&cluster, 3, &token());
    wait_for("node 3 to vote", || votes(&three, &[1, 2, 3]));
    let scratch = Scratch::new("data-key");
    let [second, third] = ["joined-2", "joined-3"].map(|name| cluster.dir.join(name));
    let file_of = |dir: &Path| std::fs::read_to_string(dir.join("data.key")).unwrap();
    let backups = Cell::new(0);
    // The data key of a node, in clear text.
    let key_of = |dir: &Path| {
        backups.set(backups.get() + 1);
        let file = scratch.path().join(format!("backup-{}", backups.get())).to_str().unwrap().to_owned();
        done(dir, &["cluster", "backup", &file, "--with-data-key"]);
        std::fs::read_to_string(format!("{file}.key")).unwrap()
    };
    let old = key_of(&third);
    assert_eq!([key_of(&cluster.dir), key_of(&second)], [old.clone(), old.clone()]);
    let old_key = old.split_whitespace().last().unwrap();
    let wrapped = [&*cluster.dir, &second, &third].map(file_of);
    assert!(wrapped[0] != wrapped[1] && wrapped[1] != wrapped[2], "each wraps it by a key of its own");
    for text in &wrapped {
        assert!(text.starts_with("catamaran-data-key 3 wrapped ") && !text.contains(old_key), "{text}");
    }
    let old_file = scratch.file("old.key", &old);

    let stream = Stream::start(&cluster, 1, "d");
    done(&cluster.dir, &["cluster", "remove", "3"]);
    let is_sealed_by = |status: Option<Value>, number: u64| {
        status.filter(|status| status["data_key"] == number && status["data_key_changes"] == false).map(drop)
    };
    wait_for("the next key at node 1", || is_sealed_by(cluster.status(1), 2));
    wait_for("the next key at node 2", || is_sealed_by(two.status(), 2));
    wait_for("the old key to be forgotten", || {
        let files = [key_of(&cluster.dir), key_of(&second)];
        (files[0] == files[1] && !files[0].contains(old_key) && files[0].contains("\n2 ")).then_some(())
    });
    assert_eq!(file_of(&third), wrapped[2], "the removed node got a new data key");
    // Every remaining node can open secrets sealed with the old key, also after a restart.
    let before = stream.acknowledged();
    wait_for("updates signed by it", || (stream.acknowledged() >= before + 20).then_some(()));
    wait_for("an update through node 2", || (update(&cluster, two.dns, "two") == Some(0)).then_some(()));
    two.restart();
    wait_for("node 2 again", || votes(&two, &[1, 2]));
    wait_for("the outcome of an update", || (update(&cluster, two.dns, "again") == Some(0)).then_some(()));
    done(&second, &["key", "add", "late", "--update", "--zone", "example.test"]);

    let file = scratch.path().join("backup").to_str().unwrap().to_owned();
    done(&cluster.dir, &["cluster", "backup", &file, "--with-data-key"]);
    no_key_of_another_cluster_goes_beside_a_backup(&cluster);
    let [dns, peer, api] = three_addresses();
    let restore = |key: &str| {
        let words = ["cluster", "restore", &file, "--data-key", key, "--dns", &dns, "--peer", &peer, "--api", &api];
        run(&scratch.path().join("new"), &words)
    };
    let refused = restore(&old_file);
    assert!(!refused.status.success() && text(&refused).contains("cannot open the secret"), "{}", text(&refused));
    let restored = restore(&format!("{file}.key"));
    assert!(restored.status.success() && text(&restored).contains("2 keys"), "{}", text(&restored));

    // By command. A node that joins later gets the key too.
    let printed = done(&second, &["cluster", "rotate", "--data-key", "--wait", "40"]);
    assert!(printed.contains("data key 3 seals every secret"), "{printed}");
    let four = Joined::start(&cluster, 4, done(&second, &["cluster", "add"]).trim());
    wait_for("node 4 to vote", || votes(&four, &[1, 2, 4]));
    wait_for("an update through node 4", || (update(&cluster, four.dns, "four") == Some(0)).then_some(()));
    stream.finish();
}

fn three_addresses() -> [String; 3] {
    let port = free_ports(3);
    [0, 1, 2].map(|offset| format!("127.0.0.1:{}", port + offset))
}

/// That key could not open the backup.
fn no_key_of_another_cluster_goes_beside_a_backup(cluster: &Cluster) {
    let other = Scratch::new("data-key-other");
    std::fs::copy(cluster.dir.join("api.token"), other.path().join("api.token")).unwrap();
    other.file("data.key", &format!("catamaran-data-key 1 plain {}=\n", "A".repeat(43)));
    let (foreign, api) = (other.path().join("backup"), cluster.api(1).to_string());
    let words = ["cluster", "backup", foreign.to_str().unwrap(), "--with-data-key", "--api", &api];
    let refused = run(other.path(), &words);
    assert!(!refused.status.success() && text(&refused).contains("does not open the backup"), "{}", text(&refused));
    assert!(!foreign.exists() && !other.path().join("backup.key").exists());
}

/// Replaces the cluster's data key by one with this number, and waits until no node has the old key.
pub(crate) fn rotate_data_key(cluster: &Cluster, number: u64) {
    done(&cluster.dir, &["cluster", "rotate", "--data-key", "--wait", "40"]);
    for id in cluster.ids() {
        let alone = format!("the data keys of this node have changed numbers=[{number}]");
        let log = cluster.dir.join(format!("node-{id}/node.log"));
        let is_alone = || std::fs::read_to_string(&log).unwrap().contains(&alone).then_some(());
        wait_for("the old data key to be retired", is_alone);
    }
}

#[test]
fn a_node_starts_with_the_key_that_wraps_its_data_key_and_not_without() {
    let scratch = Scratch::new("wrapping-key");
    let (dir, away) = (scratch.path().join("node"), scratch.path().join("run"));
    std::fs::create_dir(&away).unwrap();
    let wrapping = away.join("wrapping").to_str().unwrap().to_owned();
    let [dns, peer, api] = three_addresses();
    done(&dir, &["init", "--dns", &dns, "--peer", &peer, "--api", &api, "--wrapping-key", &wrapping]);
    let config = dir.join("node-1/catamaran.toml").to_str().unwrap().to_owned();
    let serve = || Command::new(CATAMARAN).args(["serve", "--config", &config]).stderr(Stdio::piped()).spawn().unwrap();
    let answers = || {
        let message = MessageBuilder::query(1, name("example.test.").as_ref(), Rtype::SOA).build();
        exchange(Transport::Udp, dns.parse().unwrap(), &message, Duration::from_millis(200)).map(drop)
    };
    let mut node = serve();
    wait_for("the node to answer", answers);
    node.kill().unwrap();
    node.wait().unwrap();

    let text_of_config = std::fs::read(&config).unwrap();
    std::fs::remove_file(&config).unwrap();
    let again = run(&dir, &["init", "--dns", &dns, "--peer", &peer, "--api", &api, "--wrapping-key", &wrapping]);
    assert!(again.status.code() == Some(5) && text(&again).contains("never overwritten"), "{}", text(&again));
    std::fs::write(&config, text_of_config).unwrap();
    let kept = std::fs::read(&wrapping).unwrap();
    let assert_refused = |why: &str| {
        let output = serve().wait_with_output().unwrap();
        let text = text(&output);
        assert!(output.status.code() == Some(3) && text.contains(why) && text.contains(&wrapping), "{text}");
        assert!(text.contains("restore both files"), "{text}");
    };
    std::fs::remove_file(&wrapping).unwrap();
    assert_refused("cannot read its wrapping key");
    std::fs::write(&wrapping, format!("catamaran-wrapping-key 1 {}=\n", "A".repeat(43))).unwrap();
    assert_refused("does not decrypt it");
    std::fs::write(&wrapping, kept).unwrap();
    let mut node = serve();
    wait_for("the node to answer again", answers);
    node.kill().unwrap();
    node.wait().unwrap();

    std::fs::remove_dir_all(dir.join("node-1/data")).unwrap();
    let text = text(&serve().wait_with_output().unwrap());
    assert!(text.contains("Never start an older copy") && !text.contains("restore"), "{text}");
}
