//! The privileges that a running node has dropped in every thread. The node still works.

use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::dns::Transport;
use crate::support::encrypted::{tls, trust};
use crate::support::nodes::{Nodes, config, log_of};
use crate::support::pipeline::outcome_of;
use crate::updates::{add, is_there, rcode, socket};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

const PARTS: [&str; 4] = ["capabilities", "no_new_privs", "landlock", "seccomp"];
/// Names of threads that must exist, or the test would prove nothing.
const THREADS: [&str; 9] = ["signals", "replica", "log", "bulk", "audit", "udp-0", "update-0", "api", "peers"];

/// Each thread's name, capabilities (effective, permitted, inheritable, ambient, bounding), and the numbers of
/// no_new_privs and seccomp.
fn threads(process: u32) -> Vec<(String, [u64; 5], [u64; 2])> {
    let all = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let of = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let field = |name: &str| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
        let number = |name: &str, base| u64::from_str_radix(&field(name)?, base).ok();
        let mut sets = [0; 5];
        for (set, name) in sets.iter_mut().zip(["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "CapBnd:"]) {
            *set = number(name, 16)?;
        }
        Some((field("Name:")?, sets, [number("NoNewPrivs:", 10)?, number("Seccomp:", 10)?]))
    };
    all.filter_map(of).collect()
}

fn assert_takes_updates(cluster: &Cluster, owners: [&str; 2]) {
    for (transport, owner) in [Transport::Udp, Transport::Tcp].into_iter().zip(owners) {
        let update = add(&cluster.client_key(), owner);
        assert_eq!(rcode(&update, &outcome_of(transport, cluster.dns(1), &update)), 0, "{owner}");
        assert!(is_there(&socket(), cluster.dns(1), owner));
    }
}

fn set_sandbox_off(cluster: &Cluster) {
    cluster.configure(1, "data_key_file", "sandbox = \"off\"\ndata_key_file");
}

#[test]
fn every_thread_of_a_node_is_confined_unless_that_is_turned_off() {
    let mut cluster = Cluster::start("sandbox", 1, &[]);
    assert_takes_updates(&cluster, ["one.example.test.", "two.example.test."]);
    let confined = threads(cluster.pid(1).unwrap());
    for name in THREADS {
        assert!(confined.iter().any(|(of, ..)| of.starts_with(name)), "{name}: {confined:?}");
    }
    let is_root = std::fs::read_to_string("/proc/self/status").unwrap().contains("CapEff:\t0000000000000000");
    for (name, sets, numbers) in &confined {
        assert_eq!((&sets[..4], numbers), (&[0; 4][..], &[1, 2]), "{name}");
        // A process without capabilities cannot shrink the bounding set, and does not need to.
        assert!(is_root || sets[4] == 0, "{name}");
    }
    let status = cluster.status(1).unwrap();
    for part in PARTS {
        let level = match status["sandbox"][part].as_str().unwrap() {
            "no" => 0,
            "partly" => 1,
            "fully" => 2,
            other => panic!("{other}"),
        };
        assert_eq!(cluster.metric(1, &format!("catamaran_sandbox{{part=\"{part}\"}}")), level);
    }
    assert_eq!(status["sandbox"]["seccomp"], "fully");
    cluster.end("TERM");
    let log = std::fs::read_to_string(cluster.dir.join("node-1/node.log")).unwrap();
    assert!(log.contains("entered the sandbox") && !log.contains("cannot enable a part of the sandbox"), "{log}");

    set_sandbox_off(&cluster);
    cluster.resume(&[]);
    let free = threads(cluster.pid(1).unwrap());
    let own = threads(std::process::id());
    assert!(free.iter().all(|(_, sets, numbers)| (sets, numbers) == (&own[0].1, &own[0].2)), "{free:?}");
    assert!(PARTS.iter().all(|part| cluster.metric(1, &format!("catamaran_sandbox{{part=\"{part}\"}}")) == 0));
    cluster.end("TERM");
    let log = std::fs::read_to_string(cluster.dir.join("node-1/node.log")).unwrap();
    assert!(log.contains("the sandbox is off"), "{log}");
}

/// Replaces a file by another.
fn replace(file: &Path, by: &Path) {
    let new = file.with_extension("replacement");
    std::fs::copy(by, &new).unwrap();
    std::fs::rename(new, file).unwrap();
}

#[test]
fn a_node_reads_only_the_files_that_it_was_given() {
    let mut cluster = Cluster::start_encrypted("sandbox-files", 2);
    // The layout that certbot uses: links into a directory that holds all versions.
    let scratch = Scratch::new("sandbox-files");
    let at = |name: &str| scratch.path().join(name);
    let node = |name: &str| cluster.dir.join("node-1").join(name);
    for dir in ["live", "archive", "other"] {
        std::fs::create_dir(at(dir)).unwrap();
        std::fs::copy(node("dns.pem"), at(dir).join("1.pem")).unwrap();
        std::fs::copy(node("dns.key"), at(dir).join("1.key")).unwrap();
    }
    let link = |to: &str| {
        for kind in ["pem", "key"] {
            let (new, file) = (at(&format!("live/new.{kind}")), at(&format!("live/dns.{kind}")));
            symlink(at(&format!("{to}.{kind}")), &new).unwrap();
            std::fs::rename(new, file).unwrap();
        }
    };
    link("archive/1");
    cluster.end("TERM");
    for kind in ["pem", "key"] {
        let file = at(&format!("live/dns.{kind}"));
        let text = std::fs::read_to_string(config(&cluster, 1)).unwrap();
        let line = text.lines().find(|line| line.contains(&format!("dns.{kind}\""))).unwrap();
        let (key, _) = line.split_once(" = ").unwrap();
        cluster.configure(1, line, &format!("{key} = {file:?}"));
    }
    let certificate = |name: &str| CertificateDer::from_pem_file(at(name)).unwrap();
    let shown = || {
        let stream = tls(cluster.dot(1), &Arc::new(trust(&cluster, &["dot"]))).unwrap();
        stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    };
    let loads = |result: &str| cluster.metric(1, &format!("catamaran_certificate_loads_total{{result=\"{result}\"}}"));
    let mut nodes = Nodes::default();
    nodes.start(&cluster, 2);
    nodes.start(&cluster, 1);
    cluster.settle();
    assert_eq!(shown(), certificate("archive/1.pem"));

    // Another version in the same directory is accepted, through a new link or as a new file.
    for (dir, kind) in [("archive", "pem"), ("archive", "key"), ("other", "pem"), ("other", "key")] {
        // The certificate of node 2, of the same CA.
        let of_another = cluster.dir.join(format!("node-2/dns.{kind}"));
        std::fs::copy(of_another, at(&format!("{dir}/2.{kind}"))).unwrap();
    }
    link("archive/2");
    wait_for("the new link", || (loads("taken") == 2).then_some(()));
    assert_eq!(shown(), certificate("archive/2.pem"));
    replace(&at("archive/2.pem"), &at("archive/1.pem"));
    replace(&at("archive/2.key"), &at("archive/1.key"));
    wait_for("the new file", || (loads("taken") == 3).then_some(()));
    assert_eq!(shown(), certificate("archive/1.pem"));
    // A file in a directory outside the configuration is refused, although this user can read it.
    link("other/2");
    // A new certificate beside the old key is refused too, so the counter alone does not show the reason.
    wait_for("the refusal", || {
        (loads("refused") >= 1 && log_of(&cluster, 1).contains("Permission denied")).then_some(())
    });
    assert_eq!((shown(), loads("taken")), (certificate("archive/1.pem"), 3));
    // Without the sandbox, it is accepted.
    nodes.stop(1);
    set_sandbox_off(&cluster);
    nodes.start(&cluster, 1);
    cluster.settle();
    assert_eq!(shown(), certificate("other/2.pem"));
}
