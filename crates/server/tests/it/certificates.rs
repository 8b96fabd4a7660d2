//! Certificates between nodes: renewed and replaced by another CA while updates continue. Also join tokens from any
//! node.

use crate::members::Joined;
use crate::support::cluster::{CATAMARAN, Cluster, PATIENCE, kill, text, wait_for};
use crate::support::nodes::{Nodes, config};
use crate::updates::{Stream, assert_on_every_node, wait_for_more};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::Value;
use skip::stalls::StallWatch;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The certificate and key of a node, kept after the node gets new ones.
struct Files {
    cert: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Files {
    fn of(cluster: &Cluster, id: u64) -> Self {
        let at = |name: &str| cluster.dir.join(format!("node-{id}/{name}"));
        Self {
            cert: CertificateDer::pem_file_iter(at("node.pem")).unwrap().map(Result::unwrap).collect(),
            key: PrivateKeyDer::from_pem_file(at("node.key")).unwrap(),
        }
    }

    /// Whether node `to` accepts a connection for checkpoints from node `from` with these files.
    fn are_taken(&self, cluster: &Cluster, from: u64, to: u64) -> bool {
        let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots(cluster))
            .with_client_auth_cert(self.cert.clone(), self.key.clone_key())
            .unwrap();
        let name = format!("node-{to}.catamaran.internal").try_into().unwrap();
        let mut tls = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut stream = TcpStream::connect(peer_address(cluster, to)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = rustls::Stream::new(&mut tls, &mut stream);
        let numbers = [from, to, 77].map(u64::to_be_bytes).concat();
        let mut welcome = [0; 32];
        let written = stream.write_all(&[&b"catamaran-peer\0\x01\x02"[..], &numbers].concat());
        written.and_then(|()| stream.read_exact(&mut welcome)).is_ok() && welcome[16..24] == to.to_be_bytes()
    }
}

/// The CAs of a cluster.
fn roots(cluster: &Cluster) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(cluster.dir.join("ca.pem")).unwrap() {
        roots.add(root.unwrap()).unwrap();
    }
    roots
}

/// Whether a client that trusts the CA of the cluster can use DNS over TLS with a node.
fn greets_clients(cluster: &Cluster, id: u64) -> bool {
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots(cluster))
        .with_no_client_auth();
    let mut tls = ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
    let Ok(mut stream) = TcpStream::connect(cluster.dot(id)) else { return false };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while tls.is_handshaking() {
        if tls.complete_io(&mut stream).is_err() {
            return false;
        }
    }
    true
}

/// The peer address of a node.
fn peer_address(cluster: &Cluster, id: u64) -> SocketAddr {
    let text = std::fs::read_to_string(config(cluster, id)).unwrap();
    let config: toml::Table = text.parse().unwrap();
    config["peer"]["listen"].as_str().unwrap().parse().unwrap()
}

fn members(status: &Value) -> &Vec<Value> {
    status["members"].as_array().unwrap()
}

/// Waits until every node has reported the certificate that it uses.
fn certificates(cluster: &Cluster) -> Vec<(u64, u64)> {
    wait_for("every node's report of its certificate", || {
        let status = cluster.status(1).filter(|status| status["ca_count"] == 1)?;
        let of = |member: &Value| {
            let certificate = &member["certificate"];
            Some((certificate["ca"].as_u64()?, certificate["renewal"].as_u64()?))
        };
        members(&status).iter().map(of).collect()
    })
}

/// Runs a command of `cluster` that must succeed. Returns its output.
fn done(cluster: &Cluster, words: &[&str]) -> String {
    let output = cluster.run(&[&["cluster"], words].concat());
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    text(&output)
}

#[test]
fn certificates_rotate_under_load_without_an_election() {
    let mut cluster = Cluster::start_encrypted("rotate", 3);
    cluster.settle();
    assert_eq!(certificates(&cluster), [(1, 0); 3]);
    let id = std::fs::read_to_string(cluster.dir.join("cluster.id")).unwrap();
    let streams: Vec<Stream> = cluster.ids().map(|id| Stream::start(&cluster, id, &format!("c{id}"))).collect();
    wait_for_more(&streams, 50);
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let of = |id: u64| cluster.status(id).map(|status| (status["term"].as_u64(), status["leader"].as_u64())).unwrap();
    let before: Vec<_> = cluster.ids().map(of).collect();

    let first = Files::of(&cluster, 2);
    assert!(done(&cluster, &["rotate", "--wait", "40"]).contains("every node uses a new key"));
    assert_eq!(certificates(&cluster), [(1, 1); 3]);
    let second = Files::of(&cluster, 2);
    assert!(first.cert != second.cert && first.key != second.key);
    wait_for("the old key to be refused", || (!first.are_taken(&cluster, 2, 1)).then_some(()));
    assert!(second.are_taken(&cluster, 2, 1));
    assert!(!second.are_taken(&cluster, 3, 1), "node 3 accepts the certificate of another node");
    wait_for_more(&streams, 50);

    let printed = done(&cluster, &["rotate", "--ca", "--wait", "40"]);
    assert_eq!(printed.lines().count(), 3, "{printed}");
    wait_for_more(&streams, 50);
    assert_eq!(certificates(&cluster), [(2, 1); 3]);
    let third = Files::of(&cluster, 2);
    wait_for("the old CA to go", || (!second.are_taken(&cluster, 2, 1)).then_some(()));
    assert!(third.are_taken(&cluster, 2, 1) && !first.are_taken(&cluster, 2, 1));
    assert!(cluster.metric(1, "catamaran_node_certificate_expiry_timestamp_seconds{node=\"2\"}") > 1_700_000_000);

    // Certificates for clients on this machine, and the CA that clients trust, are new too.
    cluster.ids().for_each(|id| wait_for("its certificate for clients", || greets_clients(&cluster, id).then_some(())));

    let after: Vec<_> = cluster.ids().map(of).collect();
    if watch.stall("elections during a rotation").is_none() {
        assert_eq!(after, before, "no election, and no other leader");
    }
    drop(watch);
    let names: Vec<String> = streams.into_iter().flat_map(Stream::finish).collect();
    // The last updates may still be on their way to the third node.
    cluster.settle();
    assert_on_every_node(&cluster, &names);
    // All nodes restart with their current files, as the same cluster.
    assert_eq!(cluster.end("TERM"), Some(0));
    cluster.resume_encrypted();
    cluster.settle();
    assert_eq!(certificates(&cluster), [(2, 1); 3]);
    assert_eq!(std::fs::read_to_string(cluster.dir.join("cluster.id")).unwrap(), id);
    assert!(Files::of(&cluster, 2).are_taken(&cluster, 2, 1));
}

#[test]
fn a_ca_rotation_waits_for_a_node_that_is_down_and_resumes() {
    let mut cluster = Cluster::start("rotate-down", 3, &[]);
    certificates(&cluster);
    assert_eq!(cluster.end("TERM"), Some(0));
    let mut nodes = Nodes::default();
    [1, 2].into_iter().for_each(|id| nodes.start(&cluster, id));
    nodes.leader(&cluster);
    wait_for("the rotation to wait for node 3 only", || {
        let waits = cluster.run(&["cluster", "rotate", "--ca", "--wait", "1"]);
        assert!(!waits.status.success(), "{}", text(&waits));
        text(&waits).contains("waiting for node 3").then_some(())
    });
    let table = done(&cluster, &["status"]);
    assert!(table.contains("the CA is being replaced"), "{table}");
    nodes.start(&cluster, 3);
    let printed = done(&cluster, &["rotate", "--ca", "--wait", "40"]);
    assert_eq!(printed.lines().count(), 2, "the second run must continue with the second step: {printed}");
    assert_eq!(certificates(&cluster), [(2, 0); 3]);
    cluster.settle();
    cluster.ids().for_each(|id| nodes.stop(id));
}

#[test]
fn a_key_rotation_waits_for_a_node_that_is_down_and_locks_out_no_node() {
    let mut cluster = Cluster::start("rotate-keys-down", 3, &[]);
    certificates(&cluster);
    assert_eq!(cluster.end("TERM"), Some(0));
    let mut nodes = Nodes::default();
    [1, 2].into_iter().for_each(|id| nodes.start(&cluster, id));
    nodes.leader(&cluster);
    let old = [1, 2].map(|id| Files::of(&cluster, id));
    wait_for("the rotation to wait for node 3 only", || {
        let waits = cluster.run(&["cluster", "rotate", "--wait", "3"]);
        assert!(!waits.status.success(), "{}", text(&waits));
        text(&waits).contains("waiting for node 3").then_some(())
    });
    // The stopped node knows only the old keys, and cannot learn the new ones.
    assert!([1, 2].iter().zip(&old).all(|(&id, old)| Files::of(&cluster, id).key == old.key));
    nodes.start(&cluster, 3);
    assert!(done(&cluster, &["rotate", "--wait", "40"]).contains("every node uses a new key"));
    cluster.settle();
    wait_for("the old keys to be refused", || {
        [1, 2].iter().zip(&old).all(|(&id, old)| !old.are_taken(&cluster, id, 3)).then_some(())
    });
    // The command does not wait for a removed node.
    nodes.stop(3);
    let waits = cluster.run(&["cluster", "rotate", "--wait", "2"]);
    assert!(!waits.status.success(), "{}", text(&waits));
    done(&cluster, &["remove", "3"]);
    done(&cluster, &["rotate", "--wait", "40"]);
    [1, 2].into_iter().for_each(|id| nodes.stop(id));
}

/// Gives a stopped node an expired certificate of the cluster's CA.
fn let_end(cluster: &Cluster, id: u64) {
    let key = |file: &str| KeyPair::from_pem(&std::fs::read_to_string(cluster.dir.join(file)).unwrap()).unwrap();
    let mut ca = CertificateParams::default();
    ca.distinguished_name = DistinguishedName::new();
    ca.distinguished_name.push(DnType::CommonName, "catamaran cluster");
    let mut node = CertificateParams::new(vec![format!("node-{id}.catamaran.internal")]).unwrap();
    node.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    node.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let own = key(&format!("node-{id}/node.key"));
    let ended = node.signed_by(&own, &Issuer::new(ca, key("ca.key"))).unwrap();
    std::fs::write(cluster.dir.join(format!("node-{id}/node.pem")), ended.pem()).unwrap();
}

#[test]
fn a_node_whose_certificate_ended_while_it_was_down_comes_back() {
    let mut cluster = Cluster::start("rotate-ended", 3, &[]);
    certificates(&cluster);
    assert_eq!(cluster.end("TERM"), Some(0));
    let mut nodes = Nodes::default();
    [1, 3].into_iter().for_each(|id| nodes.start(&cluster, id));
    nodes.leader(&cluster);
    assert!(Files::of(&cluster, 2).are_taken(&cluster, 2, 1));
    let_end(&cluster, 2);
    assert!(!Files::of(&cluster, 2).are_taken(&cluster, 2, 1), "a node accepts the expired certificate");
    nodes.start(&cluster, 2);
    cluster.settle();
    wait_for("its new certificate", || Files::of(&cluster, 2).are_taken(&cluster, 2, 1).then_some(()));
    // A whole cluster recovers in the same way, although at first no node accepts another.
    cluster.ids().for_each(|id| nodes.stop(id));
    cluster.ids().for_each(|id| let_end(&cluster, id));
    cluster.ids().for_each(|id| nodes.start(&cluster, id));
    nodes.leader(&cluster);
    cluster.settle();
    cluster.ids().for_each(|id| nodes.stop(id));
}

#[test]
fn a_node_joins_through_another_once_the_founder_is_gone_for_good() {
    let cluster = Cluster::start("rotate-join", 1, &[]);
    let token = || done(&cluster, &["add"]).trim().to_owned();
    let two = Joined::start(&cluster, 2, &token());
    let votes = |at: &Joined, ids: &[u64]| {
        let status = at.status().filter(|status| status["serving"] == "yes" && status["ca_count"] == 1)?;
        let voters = members(&status).iter().filter(|member| member["voter"] == true);
        (voters.map(|member| member["node"].as_u64().unwrap()).collect::<Vec<_>>() == ids).then_some(())
    };
    wait_for("node 2 to vote", || votes(&two, &[1, 2]));
    let three = Joined::start(&cluster, 3, &token());
    wait_for("node 3 to vote", || votes(&three, &[1, 2, 3]));
    // The machine with the key of the CA is lost.
    kill("KILL", cluster.pid(1).unwrap());
    cluster.wait_for_line("node 1 exited");
    std::fs::remove_file(cluster.dir.join("ca.key")).unwrap();
    std::fs::remove_dir_all(cluster.dir.join("node-1")).unwrap();

    let dir = cluster.dir.join("joined-2");
    assert!(!dir.join("ca.key").exists());
    let at_two = |words: &[&str]| at(&dir, words);
    wait_for("another leader", || three.status()?["leader"].as_u64().filter(|leader| *leader != 1));
    let token = at_two(&["add"]);
    let four = Joined::start(&cluster, 4, token.trim());
    wait_for("node 4 to vote", || votes(&four, &[1, 2, 3, 4]));
    wait_for("its answers", || four.answers().then_some(()));
    at_two(&["remove", "1"]);
    wait_for("node 1 to be out", || votes(&four, &[2, 3, 4]));
    // Changing the CA does not need any file of the founding node either.
    assert_eq!(at_two(&["rotate", "--ca", "--wait", "40"]).lines().count(), 3);
    wait_for("certificates of it", || {
        let status = four.status()?;
        members(&status).iter().all(|member| member["certificate"]["ca"] == 2).then_some(())
    });
}

/// Runs a command of `cluster` with the files of a node. It must succeed. Returns its output.
fn at(dir: &Path, words: &[&str]) -> String {
    let mut command = Command::new(CATAMARAN);
    let output = command
        .arg("cluster")
        .args(words)
        .args(["--dir", dir.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    text(&output)
}
