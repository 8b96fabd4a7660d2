//! Disks that damage what is stored: nodes fetch the damaged parts from each other.

use crate::support::cluster::{Cluster, PATIENCE, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::nodes::{Nodes, cluster_of_nodes, data, said};
use crate::updates::{add, add_text, assert_on_every_node, rcode};
use std::path::PathBuf;

const SECTOR_BYTES: usize = 512;

/// The files of a node whose names begin so, in order.
fn files(cluster: &Cluster, id: u64, prefix: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(data(cluster, id)).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix)).collect();
    files.sort();
    files
}

/// Flips a bit of a file on the disk.
fn flip(path: &PathBuf, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

/// Where the records with entries begin in the newest segment of a node, and how many sectors each has.
fn records(cluster: &Cluster, id: u64) -> (PathBuf, Vec<(usize, usize)>) {
    let path = files(cluster, id, "log-").pop().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let sectors: Vec<&[u8]> = bytes.chunks(SECTOR_BYTES).collect();
    let begins: Vec<usize> = (0..sectors.len()).filter(|place| sectors[*place][1..5] == *b"CtLg").collect();
    let has_entries = |place: &usize| sectors[*place][65..69] != [0; 4];
    let sizes = begins.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
    let found = sizes.filter(|(place, _)| has_entries(place)).map(|(place, size)| (place * SECTOR_BYTES, size));
    (path, found.collect())
}

/// Updates that are acknowledged.
fn acknowledge(cluster: &Cluster, nodes: &Nodes, names: std::ops::Range<u32>) -> Vec<String> {
    let leader = nodes.leader(cluster);
    let update = |number: u32| {
        let owner = format!("host-{number}.example.test.");
        let key = cluster.client_key();
        let message = if number % 2 == 0 { add(&key, &owner) } else { add_text(&key, &owner) };
        let response = exchange(Transport::Tcp, cluster.dns(leader), &message, PATIENCE).unwrap();
        assert_eq!(rcode(&message, &response), 0, "{owner}");
        owner
    };
    names.map(update).collect()
}

/// Stops all nodes, damages some, and starts all.
fn damage(cluster: &Cluster, nodes: &mut Nodes, ids: &[u64], damage: impl Fn(u64)) {
    cluster.settle();
    cluster.ids().for_each(|id| nodes.stop(id));
    ids.iter().for_each(|id| damage(*id));
    cluster.ids().for_each(|id| nodes.start_heard(cluster, id));
}

/// Damages a record with entries that is so far from the end, in its header or its body.
fn damage_record(cluster: &Cluster, id: u64, from_end: usize, is_header: bool) {
    let (path, records) = records(cluster, id);
    let large: Vec<_> = records.iter().filter(|(_, sectors)| *sectors > 1).collect();
    let (offset, sectors) = large[large.len() - 1 - from_end];
    if is_header {
        // Two bits: one would be put right from what is around it.
        flip(&path, offset + 9);
        flip(&path, offset + 70);
    } else {
        flip(&path, offset + sectors / 2 * SECTOR_BYTES + 300);
    }
}

fn assert_repaired(cluster: &Cluster, nodes: &mut Nodes, damaged: &[u64], owners: &[String]) {
    cluster.settle();
    for id in damaged {
        assert!(nodes.has_ended(*id).is_none(), "{}", said(cluster, *id));
        wait_for("the node to say that it was repaired", || {
            said(cluster, *id).contains("the node's data is repaired").then_some(())
        });
    }
    assert_on_every_node(cluster, owners);
}

#[test]
fn bits_flipped_at_different_places_on_two_and_on_all_nodes_lose_nothing() {
    let (cluster, mut nodes) = cluster_of_nodes("flipped-bits");
    let mut owners = acknowledge(&cluster, &nodes, 0..12);
    damage(&cluster, &mut nodes, &[1, 2], |id| damage_record(&cluster, id, id as usize, false));
    assert_repaired(&cluster, &mut nodes, &[1, 2], &owners);

    owners.extend(acknowledge(&cluster, &nodes, 12..24));
    damage(&cluster, &mut nodes, &[1, 2, 3], |id| damage_record(&cluster, id, id as usize - 1, id == 2));
    assert_repaired(&cluster, &mut nodes, &[1, 2, 3], &owners);

    // Nothing is left behind, and the repaired logs start as any other.
    owners.extend(acknowledge(&cluster, &nodes, 24..26));
    damage(&cluster, &mut nodes, &[], |_| {});
    cluster.settle();
    assert_on_every_node(&cluster, &owners);
    for id in cluster.ids() {
        assert!(!said(&cluster, id).contains("damaged"), "{}", said(&cluster, id));
        assert!(!data(&cluster, id).with_extension("doubt").exists(), "node {id}");
        let members = std::fs::read_to_string(data(&cluster, id).with_extension("members")).unwrap();
        assert_eq!(members.matches("\"address\"").count(), 3, "{members}");
    }
}
