//! DNS over TLS (RFC 7858).

use super::query;
use crate::data_key::rotate_data_key;
use crate::support::cluster::{CATAMARAN, Cluster, wait_for};
use crate::support::dns::{framed, read_message};
use crate::support::encrypted::{Doh, Doq, WAIT, ask, tls, trust, trust_tls12};
use crate::support::message::{describe, sign};
use rustls::{AlertDescription, ClientConfig, Error, HandshakeKind};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::number::Rtype;

fn alert(result: std::io::Result<impl Sized>) -> AlertDescription {
    let error = result.err().expect("the handshake fails");
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::AlertReceived(alert)) => *alert,
        other => panic!("{error} {other:?}"),
    }
}

fn failures(cluster: &Cluster, reason: &str) -> u64 {
    cluster.metric(1, &format!("catamaran_handshakes_failed_total{{transport=\"dot\",reason=\"{reason}\"}}"))
}

#[test]
fn each_rule_of_the_handshake() {
    let mut cluster = Cluster::start_encrypted("dot-rules", 1);
    let message = query("www.example.test.", Rtype::A).build();
    // RFC 7858 defines no ALPN name. `dot` was registered later.
    for protocols in [&[][..], &["dot"], &["h2", "dot"]] {
        let mut stream = tls(cluster.dot(1), &Arc::new(trust(&cluster, protocols))).unwrap();
        assert!(ask(&mut stream, &message).is_ok(), "{protocols:?}");
    }
    // RFC 7301 3.2: without a common name, the server sends an alert.
    for protocols in [&["h2"][..], &["doq"], &["dot1", "http/1.1"]] {
        let refused = tls(cluster.dot(1), &Arc::new(trust(&cluster, protocols)));
        assert_eq!(alert(refused), AlertDescription::NoApplicationProtocol, "{protocols:?}");
    }
    wait_for("the counter", || (failures(&cluster, "alpn") == 3).then_some(()));
    let old = Arc::new(trust_tls12(&cluster, &["dot"]));
    assert_eq!(alert(tls(cluster.dot(1), &old)), AlertDescription::ProtocolVersion);

    // Neither DNS without TLS, nor a client that disconnects during the handshake, leaves anything behind.
    let mut plain = TcpStream::connect(cluster.dot(1)).unwrap();
    plain.set_read_timeout(Some(WAIT)).unwrap();
    plain.write_all(&framed(&message)).unwrap();
    let _ = plain.read_to_end(&mut Vec::new());
    wait_for("the counter", || (failures(&cluster, "unacceptable") == 2).then_some(()));
    drop(TcpStream::connect(cluster.dot(1)).unwrap());
    wait_for("the counter", || (failures(&cluster, "broken") == 1).then_some(()));

    // A silent client has five seconds.
    let start = Instant::now();
    let mut silent = TcpStream::connect(cluster.dot(1)).unwrap();
    silent.set_read_timeout(Some(3 * WAIT)).unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).unwrap(), 0);
    let waited = start.elapsed();
    assert!((Duration::from_millis(4_500)..Duration::from_secs(20)).contains(&waited), "{waited:?}");
    wait_for("the counter", || (failures(&cluster, "timed_out") == 1).then_some(()));
    wait_for("no connection", || (cluster.metric(1, "catamaran_connections_open") == 0).then_some(()));

    // An operator may allow old clients. They get no transfers.
    cluster.end("TERM");
    cluster.configure(1, "versions = [\"1.3\"]", "versions = [\"1.2\", \"1.3\"]");
    cluster.resume_encrypted();
    let mut stream = tls(cluster.dot(1), &old).unwrap();
    assert!(ask(&mut stream, &message).is_ok());
    let wanted = sign(&cluster.client_key(), query("example.test.", Rtype::AXFR).build(), 0);
    let refused = ask(&mut stream, &wanted).unwrap();
    assert_eq!(describe(&wanted, &refused), "REFUSED, question, tsig noerror, mac");
}

#[test]
fn pipelining_transfers_and_idle_timeouts_follow_the_rules() {
    let cluster = Cluster::start_encrypted("dot-connection", 1);
    let named = Arc::new(trust(&cluster, &["dot"]));
    let mut stream = tls(cluster.dot(1), &named).unwrap();
    // Pipelined queries, in one piece and byte by byte (RFC 7766 6.2.1.1).
    let message = |id| query("www.example.test.", Rtype::A).header(|header| header.id = id).build();
    let all: Vec<u8> = (0..300).flat_map(|id| framed(&message(id))).collect();
    stream.write_all(&all).unwrap();
    for byte in framed(&message(300)) {
        stream.write_all(&[byte]).unwrap();
    }
    for id in 0..=300u16 {
        assert_eq!(read_message(&mut stream).unwrap()[..2], id.to_be_bytes());
    }
    // A client that follows RFC 9103 7 gets a zone. A client without ALPN does not.
    let wanted = sign(&cluster.client_key(), query("example.test.", Rtype::AXFR).build(), 0);
    let zone = ask(&mut stream, &wanted).unwrap();
    assert_eq!(describe(&wanted, &zone), "NOERROR, question, answer 14, tsig noerror, mac");
    let mut unnamed = tls(cluster.dot(1), &Arc::new(trust(&cluster, &[]))).unwrap();
    assert_eq!(describe(&wanted, &ask(&mut unnamed, &wanted).unwrap()), "REFUSED, question, tsig noerror, mac");
    // A response is not a request, and gets no response.
    let mut response = message(1);
    response[2] |= 0x80;
    unnamed.write_all(&framed(&response)).unwrap();
    assert_eq!(read_message(&mut unnamed).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    // An idle connection is closed with close_notify. Without it `read_to_end` would fail.
    stream.sock.set_read_timeout(Some(3 * WAIT)).unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    let idle = "catamaran_connections_closed_total{transport=\"dot\",reason=\"idle\"}";
    wait_for("the counter", || (cluster.metric(1, idle) == 1).then_some(()));
}

#[test]
fn a_session_resumes_on_every_node() {
    let cluster = Cluster::start_encrypted("dot-resume", 3);
    // One session store for all nodes, by the server's name.
    let config = Arc::new(trust(&cluster, &["dot"]));
    let message = query("www.example.test.", Rtype::A).build();
    let mut kinds = Vec::new();
    for id in [1, 2, 3, 1] {
        let mut stream = tls(cluster.dot(id), &config).unwrap();
        assert!(ask(&mut stream, &message).is_ok());
        kinds.push(stream.conn.handshake_kind().unwrap());
    }
    assert_eq!(kinds[0], HandshakeKind::Full);
    assert_eq!(kinds[1..], [HandshakeKind::Resumed; 3]);
    let resumed = |id| cluster.metric(id, "catamaran_handshakes_resumed_total");
    assert_eq!([1, 2, 3].map(resumed), [1, 1, 1]);
    let over = |transport| {
        let of = |id, what| cluster.metric(id, &format!("catamaran_handshakes_{what}{{transport=\"{transport}\"}}"));
        [1, 2, 3].map(|id| (of(id, "total"), of(id, "resumed_total")))
    };
    assert_eq!(over("dot"), [(2, 1), (1, 1), (1, 1)]);
    // QUIC has its own tickets. Those of one protocol are not valid for another.
    let config = trust(&cluster, &["doq"]);
    for id in [1, 2, 3, 1] {
        let doq = Doq::connect(cluster.dot(id), config.clone()).unwrap();
        assert!(doq.ask(&message).is_ok());
    }
    assert_eq!(over("doq"), [(2, 1), (1, 1), (1, 1)]);
    // Over HTTPS too, and queries on the resumed connection are answered.
    let config = trust(&cluster, &["h2"]);
    for id in [1, 2, 3, 1] {
        let mut doh = Doh::connect(cluster.doh(id), config.clone());
        assert_eq!(doh.get(&message).unwrap().status, 200);
    }
    assert_eq!(over("doh"), [(2, 1), (1, 1), (1, 1)]);
    assert_eq!([1, 2, 3].map(resumed), [3, 3, 3]);
}

#[test]
fn a_new_data_key_ends_session_resumption() {
    let cluster = Cluster::start_encrypted("dot-retired", 3);
    let message = query("www.example.test.", Rtype::A).build();
    let kind = |id: u64, config: &Arc<ClientConfig>| {
        let mut stream = tls(cluster.dot(id), config).unwrap();
        assert!(ask(&mut stream, &message).is_ok());
        stream.conn.handshake_kind().unwrap()
    };
    // Each client has its own tickets, from node 1.
    let clients = [(); 3].map(|()| Arc::new(trust(&cluster, &["dot"])));
    clients.iter().for_each(|client| assert_eq!(kind(1, client), HandshakeKind::Full));
    clients.iter().for_each(|client| assert_eq!(kind(2, client), HandshakeKind::Resumed));
    rotate_data_key(&cluster, 2);
    for (id, client) in (1..).zip(&clients) {
        assert_eq!(kind(id, client), HandshakeKind::Full, "a client resumed a session with a ticket of the old key");
        // A ticket of node `id` is valid at every node.
        cluster.ids().for_each(|id| assert_eq!(kind(id, client), HandshakeKind::Resumed));
    }
    // QUIC works as before. Its address tokens are derived from the new key.
    assert!(Doq::connect(cluster.dot(2), trust(&cluster, &["doq"])).unwrap().ask(&message).is_ok());
}

#[test]
fn a_node_warns_at_start_about_a_low_file_limit() {
    let mut cluster = Cluster::start("few-files", 1, &[]);
    cluster.end("TERM");
    let config = cluster.dir.join("node-1/catamaran.toml");
    let start = |files: usize| {
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {files}; exec \"$0\" serve --stop-with-stdin --config \"$1\"")])
            .args([CATAMARAN.as_ref(), config.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = wait_for("the node", || cluster.status(1));
        assert_eq!(status["node"], 1);
        drop(child.stdin.take());
        let mut printed = String::new();
        child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(child.wait().unwrap().success(), "{printed}");
        printed
    };
    let printed = start(1_000);
    assert!(printed.contains("the limit of open files is too low") && printed.contains("files_max=1000 "), "{printed}");
    // 16,384 connections, and 768 other files. For each core: on each address a TCP socket and a UDP socket, which is
    // open twice, and four files of its runtime.
    let text = std::fs::read_to_string(&config).unwrap();
    let listen = text.lines().find(|line| line.starts_with("listen = [")).unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = 16_384 + 768 + cores * (3 * listen.matches('"').count() / 2 + 4);
    assert!(printed.contains(&format!("wanted={wanted} ")), "{wanted}: {printed}");
    let printed = start(wanted);
    assert!(!printed.contains("the limit of open files is too low"), "{printed}");
}
