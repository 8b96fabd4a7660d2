//! A disk loses one sector of a record with an acknowledged update.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::Transport;
use crate::support::nodes::{Nodes, cluster_of_nodes, data, log_of};
use crate::support::pipeline::outcome_of;
use crate::updates::{add, add_text, assert_on_every_node, rcode};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

const SECTOR_BYTES: usize = 512;

/// The newest segment of a node's log and its contents.
fn newest_segment(cluster: &Cluster, id: u64) -> (PathBuf, Vec<u8>) {
    let files = std::fs::read_dir(data(cluster, id)).unwrap().map(|file| file.unwrap().path());
    let is_segment = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("log-");
    let path = files.filter(is_segment).max().unwrap();
    let mut bytes = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    (path, bytes)
}

/// Zeros the last sector of the last record with entries, and everything after the record and its seal. This looks as
/// if the node was killed before it wrote the rest.
fn lose_last_sector(cluster: &Cluster, id: u64) {
    let (path, bytes) = newest_segment(cluster, id);
    let sectors: Vec<&[u8]> = bytes.chunks(SECTOR_BYTES).collect();
    let begins = |sector: &usize| sectors[*sector][1..5] == *b"CtLg";
    let has_entries = |sector: &usize| begins(sector) && sectors[*sector][65..69] != [0; 4];
    let end = sectors.iter().rposition(|sector| sector.iter().any(|byte| *byte != 0)).unwrap() + 1;
    let first = (0..end).rfind(has_entries).expect("a record with entries");
    let next = (first + 1..end).find(begins).unwrap_or(end);
    // A one-sector record is followed by a seal.
    let kept = if next == first + 1 { next + 1 } else { next };
    assert!(end - next < 20, "few records follow the update: {first} {next} {end}");
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    for sector in (next - 1..next).chain(kept..end) {
        file.seek(SeekFrom::Start((sector * SECTOR_BYTES) as u64)).unwrap();
        file.write_all(&[0; SECTOR_BYTES]).unwrap();
    }
    file.sync_all().unwrap();
}

fn leads(cluster: &Cluster, id: u64) -> bool {
    cluster.status(id).is_some_and(|status| status["leader"].as_u64().is_some())
}

/// The leader and a second node store an update, and it is acknowledged while the third node is away. Then the leader
/// dies, and the second node loses a sector of the update.
fn acknowledge_and_tear(cluster: &Cluster, nodes: &mut Nodes, message: &[u8]) -> [u64; 3] {
    let leader = nodes.leader(cluster);
    let (second, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    nodes.kill(third);
    assert_eq!(rcode(message, &outcome_of(Transport::Tcp, cluster.dns(leader), message)), 0);
    nodes.kill(second);
    nodes.kill(leader);
    lose_last_sector(cluster, second);
    [leader, second, third]
}

#[test]
fn an_acknowledged_update_survives_a_lost_sector_and_the_death_of_the_leader() {
    let (cluster, mut nodes) = cluster_of_nodes("torn");
    let (small, large) = ("small.example.test.", "large.example.test.");
    survives(&cluster, &mut nodes, small, &add(&cluster.client_key(), small));
    survives(&cluster, &mut nodes, large, &add_text(&cluster.client_key(), large));
}

fn survives(cluster: &Cluster, nodes: &mut Nodes, owner: &str, message: &[u8]) {
    let [leader, second, third] = acknowledge_and_tear(cluster, nodes, message);
    nodes.start(cluster, second);
    nodes.start(cluster, third);
    let loss_file = data(cluster, second).with_extension("doubt");
    wait_for("the node to say what it waits for", || {
        log_of(cluster, second).contains("Start the named nodes").then_some(())
    });
    assert!(!leads(cluster, second) && !leads(cluster, third), "the update is lost");
    let noted = std::fs::read_to_string(&loss_file).unwrap();
    assert!(noted.starts_with("doubt term=") && noted.contains(" cause=torn\n"), "{noted}");
    let status = wait_for("the third to show its log", || {
        let status = cluster.status(second)?;
        (status["suspected_log_loss"]["waits_for"] == serde_json::json!([leader])).then_some(status)
    });
    assert_eq!(status["suspected_log_loss"]["cause"], "torn-record");
    let shown = cluster.run(&["status"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains(&format!("to elect a leader, start node {leader} ")), "{shown}");

    nodes.start(cluster, leader);
    cluster.settle();
    assert_on_every_node(cluster, &[owner.to_owned()]);
    wait_for("data.doubt to be removed", || (!loss_file.exists()).then_some(()));
}

#[test]
fn an_operator_can_give_up_what_only_a_lost_node_had() {
    let (cluster, mut nodes) = cluster_of_nodes("torn-lost");
    let [_, second, third] =
        acknowledge_and_tear(&cluster, &mut nodes, &add(&cluster.client_key(), "torn.example.test."));
    nodes.start(&cluster, second);
    nodes.start(&cluster, third);
    wait_for("the node to say what it waits for", || {
        log_of(&cluster, second).contains("Start the named nodes").then_some(())
    });
    nodes.kill(second);
    std::fs::remove_file(data(&cluster, second).with_extension("doubt")).unwrap();
    nodes.start(&cluster, second);
    wait_for("a leader", || leads(&cluster, third).then_some(()));
}

#[test]
fn a_cluster_whose_logs_are_all_torn_comes_back_by_itself() {
    let (cluster, mut nodes) = cluster_of_nodes("torn-all");
    let message = add_text(&cluster.client_key(), "torn.example.test.");
    let response = outcome_of(Transport::Tcp, cluster.dns(nodes.leader(&cluster)), &message);
    assert_eq!(rcode(&message, &response), 0);
    cluster.settle();
    cluster.ids().for_each(|id| nodes.kill(id));
    for id in cluster.ids() {
        lose_last_sector(&cluster, id);
        nodes.start(&cluster, id);
    }
    cluster.settle();
    for id in cluster.ids() {
        assert!(log_of(&cluster, id).contains("was cut off"), "node {id}: {}", log_of(&cluster, id));
    }
    for id in cluster.ids() {
        let loss_file = data(&cluster, id).with_extension("doubt");
        wait_for("data.doubt to be removed", || (!loss_file.exists()).then_some(()));
    }
}
