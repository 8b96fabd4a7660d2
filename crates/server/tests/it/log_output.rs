//! A log output that fails or blocks loses log lines, and never stops the node.

use crate::support::cluster::{CATAMARAN, Cluster, KillOnDrop, PATIENCE, Scratch, kill, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::message::{name, sign};
use crate::support::nodes::{Nodes, config};
use crate::support::tools::forbidden;
use crate::updates::{Stream, add, assert_on_every_node, is_there, rcode, socket};
use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tsig::client::ClientKey;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// Capacity of a pipe in bytes (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;
/// Block size of the small file system, in bytes.
const PAGE_BYTES: usize = 4 << 10;

/// Checks that the node executes an update, answers queries and API requests, counts lost log lines, and stops cleanly.
fn assert_goes_on_without_a_log(name: &str, stderr: impl Into<Stdio>) {
    let mut cluster = Cluster::start(name, 1, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let mut nodes = Nodes::default();
    nodes.start_with_stderr(1, &config(&cluster, 1), stderr.into());
    cluster.settle();
    let owner = format!("{name}.example.test.");
    let message = add(&cluster.client_key(), &owner);
    let response = exchange(Transport::Udp, cluster.dns(1), &message, PATIENCE).unwrap();
    assert_eq!(rcode(&message, &response), 0);
    assert!(is_there(&socket(), cluster.dns(1), &owner));
    let run = cluster.run(&["zone", "list"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let lost = || (cluster.metric(1, "catamaran_log_lines_lost_total") > 0).then_some(());
    if !name.ends_with("stalled") {
        wait_for("lost lines", lost);
    }
    nodes.stop(1);
}

#[test]
fn a_node_goes_on_when_its_log_is_on_a_full_disk() {
    assert_goes_on_without_a_log("log-full", OpenOptions::new().write(true).open("/dev/full").unwrap());
}

#[test]
fn a_node_goes_on_when_the_reader_of_its_log_is_gone() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_goes_on_without_a_log("log-gone", writer);
}

#[test]
fn a_node_goes_on_when_the_reader_of_its_log_stalls() {
    let (_reader, writer) = stalled_pipe();
    assert_goes_on_without_a_log("log-stalled", writer);
}

/// A small file system mounted over a node's directory, with a copy of its contents.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn make(dir: &Path, size: &str) -> Result<Self, String> {
        let kept = dir.with_extension("kept");
        std::fs::rename(dir, &kept).unwrap();
        std::fs::create_dir(dir).unwrap();
        let size = format!("size={size},mode=700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir).output().unwrap();
        if !mounted.status.success() {
            return Err(String::from_utf8_lossy(&mounted.stderr).trim().to_owned());
        }
        let disk = Self(dir.to_owned());
        assert!(Command::new("cp").arg("-a").args([kept.join("."), dir.join(".")]).status().unwrap().success());
        Ok(disk)
    }

    /// Fills the file system completely with one file, until the file is removed.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).unwrap();
        let mut piece = vec![1; 1 << 16];
        while !piece.is_empty() {
            while file.write_all(&piece).is_ok() {}
            piece.truncate(piece.len() / 2);
        }
        path
    }
}

/// Fills the last page of a log file, so that no further line fits into it.
fn fill_last_page(log: &Path) {
    let mut appended = OpenOptions::new().append(true).open(log).unwrap();
    let rest = PAGE_BYTES - appended.metadata().unwrap().len() as usize % PAGE_BYTES;
    appended.write_all(&vec![b'\n'; rest]).unwrap();
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// An update of about 20 kB, so that a log soon needs more space.
fn large(key: &ClientKey, number: u32) -> Vec<u8> {
    let mut text = [[250; 1].to_vec(), vec![b'x'; 250]].concat().repeat(80);
    let owner = name(&format!("large-{}.example.test.", number % 4));
    text[1..5].copy_from_slice(&number.to_be_bytes());
    let update = MessageBuilder::update(number as u16, name("example.test.").as_ref())
        .delete_rrset(owner.as_ref(), Rtype::TXT)
        .add(owner.as_ref(), Rtype::TXT, 60, &text)
        .build();
    sign(key, update, 0)
}

/// Whether a node reports that its disk is full.
fn is_disk_full(cluster: &Cluster, id: u64) -> bool {
    cluster.status(id).is_some_and(|status| status["disk_full"] == true)
}

#[test]
fn a_node_whose_disk_and_log_output_are_full_goes_on() {
    let mut cluster = Cluster::start("full-disk", 3, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let disk = match SmallDisk::make(&cluster.dir.join("node-3"), "256M") {
        Ok(disk) => disk,
        Err(why) => {
            forbidden(&format!("a small file system (root: {why})"));
            return;
        }
    };
    cluster.configure_all("[log]\ncheckpoint_bytes = 65536\nkeep_entries = 50\nkeep_bytes = 65536\n");
    let mut nodes = Nodes::default();
    // The log output of node 3 is on that disk too.
    let log = cluster.dir.join("node-3/log");
    let appended = OpenOptions::new().create(true).append(true).open(&log).unwrap();
    [1, 2].into_iter().for_each(|id| nodes.start(&cluster, id));
    nodes.start_with_stderr(3, &config(&cluster, 3), appended.into());
    cluster.settle();
    fill_last_page(&log);
    let filler = disk.fill();
    let key = cluster.client_key();
    let mut number = 0;
    wait_for("a full disk", || {
        for _ in 0..20 {
            number += 1;
            let message = large(&key, number);
            // SERVFAIL, or a closed connection: node 3 leads, and transfers the leadership.
            if let Some(response) = exchange(Transport::Tcp, cluster.dns(1), &message, PATIENCE) {
                assert!([0, 2].contains(&rcode(&message, &response)));
            }
        }
        is_disk_full(&cluster, 3).then_some(())
    });
    assert_eq!(nodes.has_ended(3), None);
    assert!(is_there(&socket(), cluster.dns(3), "www.example.test."), "node 3 answers queries");
    std::fs::remove_file(filler).unwrap();
    let stream = Stream::start(&cluster, 3, "room");
    wait_for("acknowledged updates", || (stream.acknowledged() >= 50).then_some(()));
    let names = stream.finish();
    cluster.settle();
    wait_for("room", || (!is_disk_full(&cluster, 3)).then_some(()));
    assert_on_every_node(&cluster, &names);
    cluster.ids().for_each(|id| nodes.stop(id));
}

#[test]
fn a_cluster_of_up_continues_when_its_disk_has_room_again() {
    let mut cluster = Cluster::start("up-full", 3, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let disk = match SmallDisk::make(&cluster.dir, "640M") {
        Ok(disk) => disk,
        Err(why) => {
            forbidden(&format!("a small file system (root: {why})"));
            return;
        }
    };
    cluster.configure_all("[log]\ncheckpoint_bytes = 65536\nkeep_entries = 50\nkeep_bytes = 65536\n");
    cluster.resume(&["--supervise"]);
    let stream = Stream::start(&cluster, 1, "full");
    wait_for("acknowledged updates", || (stream.acknowledged() >= 50).then_some(()));
    for id in cluster.ids() {
        fill_last_page(&cluster.dir.join(format!("node-{id}/node.log")));
    }
    let filler = disk.fill();
    wait_for("full disks", || cluster.ids().all(|id| is_disk_full(&cluster, id)).then_some(()));
    for id in cluster.ids() {
        assert!(is_there(&socket(), cluster.dns(id), "www.example.test."), "node {id} answers queries");
    }
    std::fs::remove_file(filler).unwrap();
    let before = stream.acknowledged();
    wait_for("acknowledged updates", || (stream.acknowledged() >= before + 50).then_some(()));
    let names = stream.finish();
    cluster.settle();
    assert_on_every_node(&cluster, &names);
    assert!(!cluster.lines().iter().any(|line| line.contains("ended")), "{:?}", cluster.lines());
    assert_eq!(cluster.end("TERM"), Some(0));
}

/// A full pipe with a reader that never reads.
fn stalled_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'\n'; PIPE_BYTES]).unwrap();
    (reader, writer)
}

#[test]
fn up_starts_and_stops_its_nodes_when_the_readers_of_its_output_stall() {
    let mut cluster = Cluster::start("up-stalled", 3, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let ((_out_reader, out), (_err_reader, err)) = (stalled_pipe(), stalled_pipe());
    let mut up = Command::new(CATAMARAN)
        .args(["up", "--dir", cluster.dir.to_str().unwrap(), "--nodes", "3", "--supervise"])
        .args(["--port", &cluster.port.to_string(), "--api-port", &cluster.api_port.to_string()])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map(KillOnDrop)
        .unwrap();
    cluster.settle();
    // Not node 1, because `up` may be setting up the cluster through it.
    let before = cluster.status(3).unwrap()["pid"].as_u64().unwrap();
    kill("KILL", before as u32);
    wait_for("another process", || cluster.status(3).filter(|status| status["pid"] != before));
    kill("TERM", up.0.id());
    let status = wait_for("the end of `up`", || up.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(cluster.ids().all(|id| cluster.status(id).is_none()), "all nodes are stopped");
}

#[test]
fn commands_exit_quietly_without_a_reader_and_report_a_full_disk() {
    let cluster = Cluster::start("no-reader", 1, &[]);
    let scratch = Scratch::new("no-reader");
    let dir = scratch.path().join("made");
    let run = |words: &[&str], out: Stdio| {
        let child = Command::new(CATAMARAN).args(words).stdin(Stdio::null()).stdout(out).stderr(Stdio::piped()).spawn();
        let output = child.unwrap().wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let gone = || Stdio::from(std::io::pipe().unwrap().1);
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let init = ["init", "--dir", dir.to_str().unwrap(), "--dns", "127.0.0.1:1", "--peer", "127.0.0.1:2"];
    assert_eq!(run(&init, gone()), (Some(0), String::new()));
    let at = cluster.dir.to_str().unwrap();
    assert_eq!(run(&["status", "--dir", at], gone()), (Some(0), String::new()));
    let (code, printed) = run(&["status", "--dir", at], full());
    assert!(code == Some(1) && printed.starts_with("error: cannot print the output\n"), "{code:?} {printed}");
    // A token that is not printed is lost, so this is an error.
    let (code, printed) = run(&["cluster", "add", "--dir", at], gone());
    assert!(code == Some(1) && printed.starts_with("error: cannot print the output\n"), "{code:?} {printed}");
}
