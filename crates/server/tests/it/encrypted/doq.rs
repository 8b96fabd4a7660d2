//! DNS over QUIC (RFC 9250).

use super::{KEEPALIVE, query};
use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::dns::framed;
use crate::support::encrypted::{Doq, QuicError, trust};
use crate::support::message::{describe, sign};
use std::time::{Duration, Instant};
use wire::number::{Opcode, Rtype};

/// DOQ_PROTOCOL_ERROR (RFC 9250 8.4).
const PROTOCOL_ERROR: u64 = 2;
/// STREAM_LIMIT_ERROR (RFC 9000 20.1).
const STREAM_LIMIT_ERROR: u64 = 4;
/// The first error code of TLS alerts (RFC 9001 4.8).
const CRYPTO_ERROR: u64 = 0x100;

#[test]
fn each_rule_of_a_stream() {
    let cluster = Cluster::start_encrypted("doq-rules", 1);
    let connect = || Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let good = query("www.example.test.", Rtype::A).build();
    let whole = framed(&good);
    let mut response = good.clone();
    response[2] |= 0x80;
    let with_id = query("www.example.test.", Rtype::A).header(|header| header.id = 1).build();
    let kept = query("www.example.test.", Rtype::A).edns(1_232, false).option(KEEPALIVE, &[]);
    let of_opcode_2 = kept.clone().header(|header| header.opcode = Opcode(2));
    let cases = [
        ("an ID", framed(&with_id)),
        ("nothing", Vec::new()),
        ("half a length", whole[..1].to_vec()),
        ("half a message", whole[..20].to_vec()),
        ("two messages", whole.repeat(2)),
        ("more than a message", [&whole[..], &[0]].concat()),
        ("far more than a message", [&whole[..], &vec![0; 70_000]].concat()),
        ("edns-tcp-keepalive", framed(&kept.clone().build())),
        ("edns-tcp-keepalive where EDNS is of another version", framed(&kept.edns_version(1).build())),
        ("edns-tcp-keepalive where the opcode has no meaning", framed(&of_opcode_2.build())),
        ("a response", framed(&response)),
    ];
    for (what, bytes) in &cases {
        let doq = connect();
        assert!(doq.ask(&good).is_ok(), "before {what}");
        match doq.stream(bytes) {
            Err(QuicError::Closed(PROTOCOL_ERROR, _)) => {}
            // The end of the stream may be seen before that of the connection.
            other => match doq.wait(doq.connection.closed()).into() {
                QuicError::Closed(PROTOCOL_ERROR, _) => {}
                ended => panic!("{what}: {other:?}, {ended:?}"),
            },
        }
    }
    let cut = "catamaran_connections_closed_total{transport=\"doq\",reason=\"protocol\"}";
    wait_for("the counter", || (cluster.metric(1, cut) == cases.len() as u64).then_some(()));
    // RFC 9250 4.2: unidirectional streams are not used. QUIC itself stops a client from opening one.
    let doq = connect();
    let opened = doq
        .wait(async { tokio::time::timeout(std::time::Duration::from_millis(300), doq.connection.open_uni()).await });
    assert!(opened.is_err(), "no stream is allowed");
    // The client may cancel a query (RFC 9250 4.3.1).
    doq.wait(async {
        let (mut send, mut receive) = doq.connection.open_bi().await.unwrap();
        send.write_all(&whole[..10]).await.unwrap();
        send.reset(3u32.into()).unwrap();
        receive.stop(3u32.into()).unwrap();
    });
    assert!(doq.ask(&good).is_ok());
}

/// RFC 9250 4.3.3: a client that opens one is in error, and its connection is closed. No such stream is allowed (RFC
/// 9000 4.6), so QUIC closes the connection with its own error, before DNS could.
#[test]
fn a_unidirectional_stream_closes_the_connection() {
    let cluster = Cluster::start_encrypted("doq-one-way", 1);
    let good = query("www.example.test.", Rtype::A).build();
    let other = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let request_count = || cluster.metric(1, "catamaran_requests_total{transport=\"doq\"}");
    let cut = || cluster.metric(1, "catamaran_connections_closed_total{transport=\"doq\",reason=\"protocol\"}");
    for (turn, (what, bytes)) in [("a query", framed(&good)), ("nothing", Vec::new())].into_iter().enumerate() {
        let doq = Doq::connect_unruly(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
        assert!(doq.ask(&good).is_ok(), "before a stream with {what}");
        let before = request_count();
        doq.wait(async {
            let mut stream = doq.connection.open_uni().await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            stream.finish().unwrap();
        });
        let ended = QuicError::from(doq.wait(doq.connection.closed()));
        assert_eq!(ended, QuicError::Transport(STREAM_LIMIT_ERROR), "{what}");
        wait_for("the counter", || (cut() == 1 + turn as u64).then_some(()));
        assert_eq!(request_count(), before, "{what} was counted as a request");
        assert!(other.ask(&good).is_ok(), "another connection was closed");
    }
    assert_eq!(cluster.metric(1, "catamaran_panics_total"), 0);
}

/// RFC 9000 10.3: a killed node sends nothing, and after a restart it does not know its clients.
#[test]
fn a_quic_client_gets_a_stateless_reset_after_a_restart() {
    let mut cluster = Cluster::start_encrypted("doq-killed", 1);
    // Several runtimes: each client reaches the same runtime as before the restart.
    cluster.end("TERM");
    cluster.configure(1, "udp_workers = 0", "udp_workers = 3");
    // The restart may take a while. Meanwhile no connection becomes idle.
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 120000");
    cluster.resume_encrypted();
    let good = query("www.example.test.", Rtype::A).build();
    let clients: Vec<Doq> = (0..8).map(|_| Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap()).collect();
    assert!(clients.iter().all(|doq| doq.ask(&good).is_ok()));
    let pid = cluster.pid(1).unwrap();
    kill("KILL", pid);
    // `up` exits with its only node.
    cluster.end("TERM");
    cluster.resume_encrypted();
    let start = Instant::now();
    for doq in &clients {
        let ended = doq.wait_long(doq.connection.closed());
        assert_eq!(ended, quinn::ConnectionError::Reset, "after {:?}", start.elapsed());
    }
    println!("all have heard of it after {:?}", start.elapsed());
}

/// RFC 9250 4.2: the client must end the stream after its query, and the server may wait for that. A client that sends
/// more data has broken the protocol (4.3.3), unlike a client that is slow with its query.
#[test]
fn a_query_with_trailing_data_is_not_answered() {
    /// The default `idle_ms`.
    const IDLE: Duration = Duration::from_secs(10);
    let cluster = Cluster::start_encrypted("doq-unended", 1);
    let good = query("www.example.test.", Rtype::A).build();
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let start = Instant::now();
    let (mut send, mut receive) = doq.wait(doq.connection.open_bi()).unwrap();
    doq.wait(send.write_all(&framed(&good))).unwrap();
    // Other streams continue meanwhile.
    while start.elapsed() < IDLE / 2 {
        let answer = doq.ask(&good);
        // After a long stall of this machine, the connection has ended already.
        assert!(answer.is_ok() || start.elapsed() >= IDLE, "{answer:?} after {:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended = QuicError::from(doq.wait_long(doq.connection.closed()));
    assert_eq!(ended, QuicError::Closed(PROTOCOL_ERROR, "the stream goes on after the query".into()));
    assert!(start.elapsed() >= IDLE - Duration::from_millis(100), "after {:?}", start.elapsed());
    let came = doq.wait(receive.read_chunk(1, true));
    assert!(came.is_err(), "nothing came back: {came:?}");
    let cut = "catamaran_connections_closed_total{transport=\"doq\",reason=\"protocol\"}";
    wait_for("the counter", || (cluster.metric(1, cut) == 1).then_some(()));
}

#[test]
fn alpn_is_required_and_queries_run_in_parallel() {
    let cluster = Cluster::start_encrypted("doq-many", 1);
    for protocols in [&["dot"][..], &["h3"], &[]] {
        let Err(refused) = Doq::connect(cluster.dot(1), trust(&cluster, protocols)) else { panic!("{protocols:?}") };
        assert_eq!(refused, QuicError::Transport(CRYPTO_ERROR + 120), "no_application_protocol");
    }
    let failed = "catamaran_handshakes_failed_total{transport=\"doq\",reason=\"alpn\"}";
    wait_for("the counter", || (cluster.metric(1, failed) == 3).then_some(()));

    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let message = framed(&query("www.example.test.", Rtype::A).build());
    doq.wait(async {
        // More streams than may be open at once: QUIC makes the client wait.
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..1_000 {
            let (connection, message) = (doq.connection.clone(), message.clone());
            tasks.spawn(async move {
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                send.write_all(&message).await.unwrap();
                send.finish().unwrap();
                receive.read_to_end(1_000).await.unwrap().len()
            });
        }
        let sizes = tasks.join_all().await;
        assert!(sizes.len() == 1_000 && sizes.iter().all(|size| *size == sizes[0] && *size > 12));
    });
    // A zone on its own stream.
    let wanted = sign(&cluster.client_key(), query("example.test.", Rtype::AXFR).build(), 0);
    assert_eq!(describe(&wanted, &doq.ask(&wanted).unwrap()), "NOERROR, question, answer 14, tsig noerror, mac");
    // An idle connection is closed, whatever packets keep QUIC alive.
    let start = Instant::now();
    let ended = QuicError::from(doq.wait_long(doq.connection.closed()));
    assert_eq!(ended, QuicError::Closed(0, String::new()), "DOQ_NO_ERROR");
    assert!(start.elapsed().as_secs() >= 8, "after {:?}", start.elapsed());
}
