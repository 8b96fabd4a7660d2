//! What the server tells TCP clients about their connection, and which options it sets in the kernel.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::encrypted::{ask, tls, trust};
use crate::support::message::name;
use crate::support::tools::{Watched, may_watch};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::Message;

/// edns-tcp-keepalive (RFC 7828).
const KEEPALIVE: u16 = 11;

/// The idle timeout in the server's response, in units of 100 ms.
fn keepalive_timeout(stream: &mut (impl Read + Write)) -> u16 {
    let query = MessageBuilder::query(1, name("www.example.test.").as_ref(), Rtype::A);
    let response = ask(stream, &query.edns(1_232, false).option(KEEPALIVE, &[]).build()).unwrap();
    let message = Message::parse(&response).unwrap();
    let edns = message.edns().unwrap();
    let (_, data) = edns.options().find(|(code, _)| *code == KEEPALIVE).expect("the option");
    u16::from_be_bytes(data.try_into().unwrap())
}

#[test]
fn keepalive_reports_the_current_idle_timeout() {
    let mut cluster = Cluster::start_encrypted("keepalive", 1);
    cluster.end("TERM");
    cluster.configure(1, "connections_max = 16384", "connections_max = 8");
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 60000");
    cluster.resume_encrypted();
    let connect = || TcpStream::connect(cluster.dns(1)).unwrap();
    let mut first = connect();
    assert_eq!(keepalive_timeout(&mut first), 600);
    let mut more: Vec<TcpStream> = (0..6).map(|_| connect()).collect();
    // All of them are accepted. After that, more than three quarters of the limit are in use.
    more.iter_mut().for_each(|stream| assert!(keepalive_timeout(stream) > 0));
    assert_eq!(keepalive_timeout(&mut first), 60);
    let mut encrypted = tls(cluster.dot(1), &Arc::new(trust(&cluster, &["dot"]))).unwrap();
    assert_eq!(keepalive_timeout(&mut encrypted), 60);
    drop((encrypted, more));
    wait_for("room", || (cluster.metric(1, "catamaran_connections_open") <= 2).then_some(()));
    assert_eq!(keepalive_timeout(&mut first), 600);
}

#[test]
fn responses_are_sent_out_of_order() {
    if !may_watch() {
        return;
    }
    let cluster = Cluster::start_encrypted("nodelay", 1);
    let watched = Watched::start(&cluster.dir, cluster.pid(1).unwrap(), &["-e", "trace=accept4,setsockopt"]);
    let config = |protocol| Arc::new(trust(&cluster, &[protocol]));
    let query = MessageBuilder::query(1, name("www.example.test.").as_ref(), Rtype::A).build();
    for _ in 0..4 {
        assert!(ask(&mut TcpStream::connect(cluster.dns(1)).unwrap(), &query).is_ok());
        assert!(ask(&mut tls(cluster.dot(1), &config("dot")).unwrap(), &query).is_ok());
        assert!(tls(cluster.doh(1), &config("h2")).is_ok());
    }
    let text = watched.stop();
    let set = text.lines().filter(|line| line.contains("TCP_NODELAY, [1]") && line.ends_with("= 0")).count();
    // Four sockets of each kind. The API gets no requests meanwhile.
    assert_eq!(set, 12, "{text}");
}
