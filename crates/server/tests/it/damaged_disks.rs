//! Disks that damage stored data: nodes fetch the damaged parts from each other.

use crate::support::cluster::{CATAMARAN, Cluster, wait_for};
use crate::support::dns::Transport;
use crate::support::http;
use crate::support::nodes::{Nodes, cluster_of_nodes, config, data, log_of};
use crate::support::pipeline::outcome_of;
use crate::support::ports::free_ports;
use crate::updates::{add, add_text, assert_on_every_node, rcode};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const SECTOR_BYTES: usize = 512;

/// Returns the files of a node whose names have this prefix, in order.
fn files(cluster: &Cluster, id: u64, prefix: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(data(cluster, id)).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix)).collect();
    files.sort();
    files
}

/// Flips a bit of a file on the disk.
fn flip(path: &PathBuf, offset: usize) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset as u64).unwrap();
    file.sync_all().unwrap();
}

/// Returns the newest segment of a node, with the offset and the number of sectors of each record with entries.
fn records(cluster: &Cluster, id: u64) -> (PathBuf, Vec<(usize, usize)>) {
    let path = files(cluster, id, "log-").pop().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let sectors: Vec<&[u8]> = bytes.chunks(SECTOR_BYTES).collect();
    let begins: Vec<usize> = (0..sectors.len()).filter(|sector| sectors[*sector][1..5] == *b"CtLg").collect();
    let has_entries = |sector: &usize| sectors[*sector][65..69] != [0; 4];
    let sizes = begins.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
    let found = sizes.filter(|(sector, _)| has_entries(sector)).map(|(sector, size)| (sector * SECTOR_BYTES, size));
    (path, found.collect())
}

/// Sends updates and waits until each is acknowledged.
fn acknowledge(cluster: &Cluster, nodes: &Nodes, names: std::ops::Range<u32>) -> Vec<String> {
    let leader = nodes.leader(cluster);
    let update = |number: u32| {
        let owner = format!("host-{number}.example.test.");
        let key = cluster.client_key();
        let message = if number.is_multiple_of(2) { add(&key, &owner) } else { add_text(&key, &owner) };
        assert_eq!(rcode(&message, &outcome_of(Transport::Tcp, cluster.dns(leader), &message)), 0, "{owner}");
        owner
    };
    names.map(update).collect()
}

/// Stops all nodes, damages some, and starts all.
fn damage(cluster: &Cluster, nodes: &mut Nodes, ids: &[u64], damage: impl Fn(u64)) {
    cluster.settle();
    cluster.ids().for_each(|id| nodes.stop(id));
    ids.iter().for_each(|id| damage(*id));
    cluster.ids().for_each(|id| nodes.start(cluster, id));
}

/// Damages the header or the body of a record with entries. `from_end` counts such records from the end of the log.
fn damage_record(cluster: &Cluster, id: u64, from_end: usize, is_header: bool) {
    let (path, records) = records(cluster, id);
    let large: Vec<_> = records.iter().filter(|(_, sectors)| *sectors > 1).collect();
    let (offset, sectors) = large[large.len() - 1 - from_end];
    if is_header {
        // Flips two bits, because a single one would be corrected from the surrounding data.
        flip(&path, offset + 9);
        flip(&path, offset + 70);
    } else {
        flip(&path, offset + sectors / 2 * SECTOR_BYTES + 300);
    }
}

fn assert_repaired(cluster: &Cluster, nodes: &mut Nodes, damaged: &[u64], owners: &[String]) {
    cluster.settle();
    for id in damaged {
        assert!(nodes.has_ended(*id).is_none(), "{}", log_of(cluster, *id));
        wait_for("the node to report its repair", || {
            log_of(cluster, *id).contains("the node's data is repaired").then_some(())
        });
    }
    assert_on_every_node(cluster, owners);
}

#[test]
fn bits_flipped_at_different_positions_on_two_and_on_all_nodes_lose_nothing() {
    let (cluster, mut nodes) = cluster_of_nodes("flipped-bits");
    let mut owners = acknowledge(&cluster, &nodes, 0..12);
    damage(&cluster, &mut nodes, &[1, 2], |id| damage_record(&cluster, id, id as usize, false));
    assert_repaired(&cluster, &mut nodes, &[1, 2], &owners);

    owners.extend(acknowledge(&cluster, &nodes, 12..24));
    damage(&cluster, &mut nodes, &[1, 2, 3], |id| damage_record(&cluster, id, id as usize - 1, id == 2));
    assert_repaired(&cluster, &mut nodes, &[1, 2, 3], &owners);

    // No temporary files are left, and the repaired logs start like any other.
    owners.extend(acknowledge(&cluster, &nodes, 24..26));
    damage(&cluster, &mut nodes, &[], |_| {});
    cluster.settle();
    assert_on_every_node(&cluster, &owners);
    for id in cluster.ids() {
        assert!(!log_of(&cluster, id).contains("damaged"), "{}", log_of(&cluster, id));
        assert!(!data(&cluster, id).with_extension("doubt").exists(), "node {id}");
        let members = std::fs::read_to_string(data(&cluster, id).with_extension("members")).unwrap();
        assert_eq!(members.matches("\"address\"").count(), 3, "{members}");
    }
}

#[test]
fn a_damaged_checkpoint_is_fetched_from_a_node_that_has_an_intact_one() {
    let (cluster, mut nodes) = cluster_of_nodes("flipped-checkpoints");
    let owners = acknowledge(&cluster, &nodes, 0..6);
    // The header and the middle of a block. One log is damaged too.
    damage(&cluster, &mut nodes, &[1, 2, 3], |id| match id {
        1 => flip(&files(&cluster, id, "checkpoint-")[0], 20),
        2 => flip(&files(&cluster, id, "checkpoint-")[0], 4096 + 100),
        _ => damage_record(&cluster, id, 1, true),
    });
    assert_repaired(&cluster, &mut nodes, &[1, 2, 3], &owners);
}

/// Returns the first entry of a record and the number of its entries.
fn entries_at(path: &PathBuf, offset: usize) -> (u64, u64) {
    let bytes = std::fs::read(path).unwrap();
    let number =
        |at: usize, len: usize| bytes[offset + at..][..len].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    (number(69, 8), number(65, 4))
}

fn recover(cluster: &Cluster, name: &str, words: &[&str]) -> Output {
    let (port, old) = (free_ports(3), config(cluster, 1));
    let [dns, peer, api] = [0, 1, 2].map(|offset| format!("127.0.0.1:{}", port + offset));
    let mut command = Command::new(CATAMARAN);
    command.args(["cluster", "recover"]).arg(old).args(["--accept-loss"]).args(words);
    command.arg("--dir").arg(cluster.dir.join(name)).args(["--dns", &dns, "--peer", &peer, "--api", &api]);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn nodes_exit_when_all_lost_the_same_entries_and_earlier_ones_are_recovered() {
    let (cluster, mut nodes) = cluster_of_nodes("flipped-same");
    acknowledge(&cluster, &nodes, 0..8);
    cluster.settle();
    cluster.ids().for_each(|id| nodes.stop(id));
    let (path, all) = records(&cluster, 1);
    let large: Vec<_> = all.iter().filter(|(_, sectors)| *sectors > 1).collect();
    let (entry, _) = entries_at(&path, large[large.len() - 2].0);
    for id in cluster.ids() {
        let (path, all) = records(&cluster, id);
        let has = |offset: usize| {
            let (first, count) = entries_at(&path, offset);
            (first..first + count).contains(&entry)
        };
        let (offset, _) = all.iter().find(|(offset, _)| has(*offset)).unwrap();
        flip(&path, offset + SECTOR_BYTES + 300);
    }
    // While a node that may help is down, the others wait for it.
    [1, 2].into_iter().for_each(|id| nodes.start(&cluster, id));
    wait_for("node 1 to name the nodes it waits for", || {
        log_of(&cluster, 1).contains("waits for other nodes").then_some(())
    });
    assert!(log_of(&cluster, 1).contains(&format!("entries {entry} to ")), "{}", log_of(&cluster, 1));
    let health = http::get(cluster.api(1), "/healthz").unwrap();
    assert_eq!((health.status, health.text().contains("repairing")), (503, true), "{}", health.text());
    nodes.start(&cluster, 3);
    for id in cluster.ids() {
        let (status, printed) = nodes.ended(&cluster, id);
        assert_eq!(status.code(), Some(9), "{printed}");
        assert!(printed.contains("no other node has that part") && printed.contains("cluster recover"), "{printed}");
    }
    let text = |output: &Output| String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    let refused = recover(&cluster, "refused", &[]);
    assert_eq!(
        (refused.status.code(), text(&refused).contains("--accept-damage")),
        (Some(9), true),
        "{}",
        text(&refused)
    );
    let made = recover(&cluster, "made", &["--accept-damage"]);
    assert!(made.status.success() && text(&made).contains(&format!("entries {entry} to ")), "{}", text(&made));
}

#[test]
fn a_scrub_finds_damage_while_the_node_runs_and_a_restart_repairs_it() {
    let mut cluster = Cluster::start("flipped-scrub", 3, &[]);
    cluster.configure_all("[log]\nscrub_interval_s = 1\n");
    let mut nodes = Nodes::take_over(&mut cluster);
    let owners = acknowledge(&cluster, &nodes, 0..8);
    nodes.stop(2);
    nodes.start(&cluster, 2);
    cluster.settle();
    let last = || cluster.metric(2, "catamaran_scrub_last_success_timestamp_seconds");
    wait_for("a scrub", || (last() > 0 && cluster.metric(2, "catamaran_scrub_read_bytes") > 0).then_some(()));
    assert_eq!(cluster.metric(2, "catamaran_scrub_damaged_places"), 0);
    assert!(!log_of(&cluster, 2).contains("has damaged"), "{}", log_of(&cluster, 2));

    damage_record(&cluster, 2, 1, false);
    wait_for("the damage to be found", || (cluster.metric(2, "catamaran_scrub_damaged_places") == 1).then_some(()));
    assert!(log_of(&cluster, 2).contains("differs from its checksum"), "{}", log_of(&cluster, 2));
    nodes.stop(2);
    nodes.start(&cluster, 2);
    assert_repaired(&cluster, &mut nodes, &[2], &owners);
    let before = last();
    wait_for("a scrub of the repaired log", || (last() > before).then_some(()));
}
