//! A few addresses use all places for connections. Other clients still get in over each transport, and stay.

use super::query;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::tcp_from;
use crate::support::encrypted::{Doh, Doq, QuicError, TlsStream, ask, tls, tls_from, trust};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use wire::number::Rtype;

/// Addresses of the attacker, and connections of each.
const ADDRESSES: u8 = 16;
const EACH: usize = 8;
/// Places of the node. The attacker uses all of them.
const PLACES: usize = ADDRESSES as usize * EACH;

/// A node with this number of places and a long idle timeout: places become free by eviction alone.
fn start(test: &str, places: usize) -> Cluster {
    let mut cluster = Cluster::start_encrypted(test, 1);
    cluster.end("TERM");
    cluster.configure(1, "connections_max = 16384", &format!("connections_max = {places}"));
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 600000");
    cluster.resume_encrypted();
    cluster
}

fn cut(cluster: &Cluster, reason: &str) -> u64 {
    let page = ["tcp", "dot", "doh", "doq"].map(|transport| {
        let series = format!("catamaran_connections_closed_total{{transport=\"{transport}\",reason=\"{reason}\"}}");
        cluster.metric(1, &series)
    });
    page.iter().sum()
}

#[test]
fn sixteen_greedy_addresses_do_not_block_other_clients() {
    let cluster = start("full-pool", PLACES);
    let message = query("www.example.test.", Rtype::A).build();
    let dot = Arc::new(trust(&cluster, &["dot"]));
    let from = |number: u8| Ipv4Addr::new(127, 0, 1, number);
    // Half of them over TLS.
    let mut plain: Vec<TcpStream> = Vec::new();
    let mut under_tls: Vec<TlsStream> = Vec::new();
    for number in 1..=ADDRESSES {
        for _ in 0..EACH / 2 {
            plain.push(tcp_from(from(number), cluster.dns(1)).unwrap());
            under_tls.push(tls_from(from(number), cluster.dot(1), &dot).unwrap());
        }
    }
    let open = || cluster.metric(1, "catamaran_connections_open") as usize;
    wait_for("all of the attacker's connections", || (open() == PLACES).then_some(()));
    assert_eq!((cut(&cluster, "evicted"), cut(&cluster, "over_limit")), (0, 0));

    // Another client gets in over each transport, and is answered.
    let mut tcp = TcpStream::connect(cluster.dns(1)).unwrap();
    ask(&mut tcp, &message).unwrap();
    let mut tls = tls(cluster.dot(1), &dot).unwrap();
    ask(&mut tls, &message).unwrap();
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    assert_eq!(doh.post(&message).unwrap().status, 200);
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    doq.ask(&message).unwrap();
    // One connection was evicted for each of them, and the node stays within its limit.
    assert_eq!((cut(&cluster, "evicted"), cut(&cluster, "over_limit")), (4, 0));
    wait_for("as many as there may be", || (open() == PLACES).then_some(()));

    // The attacker connects again from all of its addresses. No address gets more places than the others, and the
    // refusals are counted.
    for number in 1..=ADDRESSES {
        plain.extend((0..EACH).map(|_| tcp_from(from(number), cluster.dns(1)).unwrap()));
    }
    wait_for("an end to each", || (cut(&cluster, "over_limit") > PLACES as u64 / 2).then_some(()));
    for _ in 0..3 {
        ask(&mut tcp, &message).unwrap();
        ask(&mut tls, &message).unwrap();
        assert_eq!(doh.post(&message).unwrap().status, 200);
        doq.ask(&message).unwrap();
    }
    assert!(open() <= PLACES);
}

#[test]
fn an_evicted_quic_client_gets_an_error_code() {
    let cluster = start("full-quic", 3);
    let message = query("www.example.test.", Rtype::A).build();
    let connect = || Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let [idle, busy, also_busy] = [connect(), connect(), connect()];
    for doq in [&busy, &also_busy] {
        // Times are in milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        doq.ask(&message).unwrap();
    }
    let mut other = tcp_from(Ipv4Addr::new(127, 0, 1, 1), cluster.dns(1)).unwrap();
    ask(&mut other, &message).unwrap();
    let ended = idle.wait(idle.connection.closed());
    assert_eq!(QuicError::from(ended), QuicError::Closed(4, String::new()), "DOQ_EXCESSIVE_LOAD");
    assert!(busy.ask(&message).is_ok() && also_busy.ask(&message).is_ok());
}
