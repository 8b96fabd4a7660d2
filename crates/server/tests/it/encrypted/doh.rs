//! DNS over HTTPS (RFC 8484).

use super::drain::next_frame;
use super::floods::frame;
use super::query;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::framed;
use crate::support::encrypted::{Doh, tls, trust};
use crate::support::message::{describe, sign};
use rustls::{AlertDescription, Error};
use std::io::{Read, Write};
use std::sync::Arc;
use wire::number::Rtype;

/// Maximum size of the headers that the server accepts, as HTTP/2 counts them.
const HEADERS_MAX: usize = 16 << 10;
/// Frame types (RFC 9113 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const TYPE: (&str, &str) = ("content-type", "application/dns-message");

#[test]
fn each_rule_has_its_status() {
    let cluster = Cluster::start_encrypted("doh-rules", 1);
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let message = query("www.example.test.", Rtype::A).build();
    let encoded = data_encoding::BASE64URL_NOPAD.encode(&message);
    let good = format!("/dns-query?dns={encoded}");
    for (method, target, headers, body, status) in [
        ("GET", &*good, &[][..], None, 200),
        ("GET", &format!("/dns-query?x=y&dns={encoded}"), &[], None, 200),
        ("POST", "/dns-query", &[TYPE], Some(message.clone()), 200),
        ("POST", "/dns-query", &[("content-type", "application/DNS-message; a=b")], Some(message.clone()), 200),
        ("GET", "/dns-query", &[], None, 400),
        ("GET", &format!("/dns-query?dns={encoded}="), &[], None, 400),
        ("GET", "/dns-query?dns=!", &[], None, 400),
        ("GET", "/dns-query?dns=AAAA", &[], None, 400),
        ("POST", "/dns-query", &[TYPE], Some(Vec::new()), 400),
        ("POST", "/dns-query", &[TYPE], Some(vec![0; 11]), 400),
        ("GET", &format!("/?dns={encoded}"), &[], None, 404),
        ("POST", "/dns-query/x", &[TYPE], Some(message.clone()), 404),
        ("HEAD", &good, &[], None, 405),
        ("PUT", "/dns-query", &[TYPE], Some(message.clone()), 405),
        ("DELETE", &good, &[], None, 405),
        ("POST", "/dns-query", &[TYPE], Some(vec![0; 65_536]), 413),
        ("POST", "/dns-query", &[TYPE, ("content-length", "65536")], Some(vec![0; 65_536]), 413),
        ("GET", &format!("/dns-query?dns={}", "A".repeat(4_097)), &[], None, 414),
        ("POST", "/dns-query", &[], Some(message.clone()), 415),
        ("POST", "/dns-query", &[("content-type", "text/plain")], Some(message.clone()), 415),
    ] {
        let answer = doh.request(method, target, headers, body).unwrap();
        assert_eq!(answer.status, status, "{method} {target} {headers:?}: {answer:?}");
        if status == 200 {
            assert_eq!(answer.header("content-type"), "application/dns-message");
            assert_eq!(answer.header("content-length"), answer.body.len().to_string());
        } else if method != "HEAD" {
            assert!(answer.body.ends_with(b"\n"), "the response has no reason: {answer:?}");
        }
        if status == 405 {
            assert_eq!(answer.header("allow"), "GET, POST");
        }
    }
    assert_eq!(cluster.metric(1, "catamaran_http_bad_requests_total"), 16);
}

/// RFC 9113 10.5.1: the server announces its limit for headers (6.5.2). A larger request gets 431 (RFC 6585 5). The
/// connection continues, because its header table is still correct, unless the headers are far larger.
#[test]
fn long_headers_get_431_and_very_long_ones_close_the_connection() {
    let cluster = Cluster::start_encrypted("doh-headers", 1);
    let connect = || Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let (mut doh, mut another) = (connect(), connect());
    let message = query("www.example.test.", Rtype::A).build();
    let target = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(&message));
    let authority = format!("localhost:{}", cluster.doh(1).port());
    // Name and value of each field, and 32 bytes.
    let method = |method: &str| 7 + method.len() + 32;
    let others = (10 + authority.len() + 32) + (7 + 5 + 32) + (6 + 32);
    let get = HEADERS_MAX - others - method("GET") - (5 + target.len() + 32);
    let post =
        HEADERS_MAX - others - method("POST") - (5 + "/dns-query".len() + 32) - (TYPE.0.len() + TYPE.1.len() + 32);
    for round in 0..20 {
        for (bytes, status) in [(get - 1, 200), (get + 1, 431), (HEADERS_MAX, 431), (3 * HEADERS_MAX, 431)] {
            let answer = doh.request("GET", &target, &[("x-long", &"x".repeat(bytes))], None).unwrap();
            assert_eq!(answer.status, status, "{bytes} bytes in round {round}: {answer:?}");
            assert_eq!(answer.body.is_empty(), status == 431);
        }
        // The bodies of these requests are not read either. In total they are far larger than the connection's window.
        for (bytes, status) in [(post - 1, 413), (post + 1, 431)] {
            let long = "x".repeat(bytes);
            let answer = doh.request("POST", "/dns-query", &[TYPE, ("x-long", &long)], Some(vec![0; 65_536])).unwrap();
            assert_eq!(answer.status, status, "{bytes} bytes in round {round}: {answer:?}");
        }
        assert_eq!(doh.get(&message).unwrap().status, 200, "the connection was closed");
    }
    let cut = || cluster.metric(1, "catamaran_connections_closed_total");
    assert_eq!(cut(), 0);
    let long = "x".repeat(4 * HEADERS_MAX + 1);
    let error = doh.request("GET", &target, &[("x-long", &long)], None).unwrap_err();
    assert_eq!((error.is_go_away(), error.reason()), (true, Some(h2::Reason::ENHANCE_YOUR_CALM)), "{error:?}");
    assert!(doh.get(&message).is_err(), "the connection is still open");
    assert_eq!(another.get(&message).unwrap().status, 200, "another connection was closed");
    assert_eq!(connect().get(&message).unwrap().status, 200);
    wait_for("the counter", || (cut() == 1).then_some(()));
    assert_eq!(cluster.metric(1, "catamaran_connections_closed_total{transport=\"doh\",reason=\"excess\"}"), 1);
}

/// RFC 7541 7.1.3: few bytes stand for many, because each repeats an earlier field.
#[test]
fn headers_count_with_their_unpacked_size() {
    const REPEATED: usize = 4_000;
    /// END_HEADERS without END_STREAM and with it (RFC 9113 6.2).
    const UNENDED: u8 = 0x4;
    const WHOLE: u8 = 0x5;
    let cluster = Cluster::start_encrypted("doh-packed", 1);
    let config = Arc::new(trust(&cluster, &["h2"]));
    // GET, https, a path, and a field `x` that enters the table. Its length has seven bits and more (RFC 7541 5.1).
    let length = [0x7F, ((REPEATED - 127) % 128) as u8 | 0x80, ((REPEATED - 127) / 128) as u8];
    let head = [&[0x82, 0x87, 0x04, 1, b'/', 0x40, 1, b'x'][..], &length, &[b'y'; REPEATED]].concat();
    let mut others = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let message = query("www.example.test.", Rtype::A).build();
    for (times, flags, wanted) in [
        // An unknown path: headers, and a body with the reason.
        (2, WHOLE, vec![(HEADERS, 0x4), (DATA, 0x1)]),
        // Headers only. The server does not wait for the rest of the request.
        (4, UNENDED, vec![(HEADERS, WHOLE), (RST_STREAM, 0)]),
        (15, UNENDED, vec![(HEADERS, WHOLE), (RST_STREAM, 0)]),
        (16, UNENDED, vec![(GOAWAY, 0)]),
        (10_000, UNENDED, vec![(GOAWAY, 0)]),
    ] {
        let mut stream = tls(cluster.doh(1), &config).unwrap();
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
        // The first entry of the dynamic table has number 62.
        let block = [&head[..], &vec![0x80 | 62; times]].concat();
        stream.write_all(&[preface, frame(HEADERS, flags, 1, &block)].concat()).unwrap();
        let mut came = Vec::new();
        while came.len() < wanted.len() {
            match next_frame(&mut stream) {
                Ok(Some((kind, flags, _))) if [HEADERS, DATA, RST_STREAM, GOAWAY].contains(&kind) => {
                    came.push((kind, flags));
                }
                Ok(Some(_)) => {}
                end => panic!("{times} times: {end:?} behind {came:?}"),
            }
        }
        assert_eq!(came, wanted, "{times} times");
        assert_eq!(others.get(&message).unwrap().status, 200, "another connection was closed");
    }
    let cut = "catamaran_connections_closed_total{transport=\"doh\",reason=\"excess\"}";
    wait_for("the counter", || (cluster.metric(1, cut) == 2).then_some(()));
}

#[test]
fn responses_have_max_age_and_dns_errors_have_status_200() {
    let cluster = Cluster::start_encrypted("doh-fresh", 1);
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    for (qname, qtype, rcode, max_age) in [
        ("www.example.test.", Rtype::A, 0, 300),
        ("alias.example.test.", Rtype::A, 0, 300),
        // The MINIMUM of the SOA.
        ("www.example.test.", Rtype::TXT, 0, 60),
        ("nothing.example.test.", Rtype::A, 3, 60),
        ("example.org.", Rtype::A, 5, 0),
        ("example.test.", Rtype(41), 1, 0),
    ] {
        let message = query(qname, qtype).build();
        for answer in [doh.get(&message).unwrap(), doh.post(&message).unwrap()] {
            assert_eq!((answer.status, answer.body[3] & 0x0F), (200, rcode), "{qname}");
            assert_eq!(answer.header("cache-control"), format!("max-age={max_age}"), "{qname}");
        }
    }
    // A zone does not fit into one response, so the server refuses the transfer.
    let key = cluster.client_key();
    let wanted = sign(&key, query("example.test.", Rtype::AXFR).build(), 0);
    let answer = doh.post(&wanted).unwrap();
    assert_eq!((answer.status, describe(&wanted, &answer.body)), (200, "REFUSED, question, tsig noerror, mac".into()));
}

#[test]
fn the_protocol_must_be_named() {
    let cluster = Cluster::start_encrypted("doh-alpn", 1);
    for protocols in [&["dot"][..], &["http/1.1"]] {
        let error = tls(cluster.doh(1), &Arc::new(trust(&cluster, protocols))).unwrap_err();
        let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
        assert_eq!(error, Some(&Error::AlertReceived(AlertDescription::NoApplicationProtocol)));
    }
    // RFC 9113 3.2: a client without ALPN speaks another protocol.
    let mut unnamed = tls(cluster.doh(1), &Arc::new(trust(&cluster, &[]))).unwrap();
    let _ = unnamed.write_all(b"GET /dns-query HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut response = Vec::new();
    let _ = unnamed.read_to_end(&mut response);
    assert!(response.is_empty(), "{response:?}");
    // The server does not speak DNS over TLS here either. Any bytes that come back are frames.
    let mut wrong = tls(cluster.doh(1), &Arc::new(trust(&cluster, &["h2"]))).unwrap();
    wrong.write_all(&framed(&query("www.example.test.", Rtype::A).build())).unwrap();
    let mut response = Vec::new();
    let _ = wrong.read_to_end(&mut response);
    assert!(!response.windows(3).any(|window| window == b"www"), "{response:?}");
    let failed = "catamaran_handshakes_failed_total{transport=\"doh\",reason=\"alpn\"}";
    wait_for("the counter", || (cluster.metric(1, failed) == 3).then_some(()));
}

#[test]
fn a_connection_serves_any_number_of_requests() {
    let cluster = Cluster::start_encrypted("doh-many", 1);
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let message = query("www.example.test.", Rtype::A).build();
    assert_eq!(doh.repeat(30_000, &message).unwrap(), 30_000);
    assert_eq!(cluster.metric(1, "catamaran_connections_closed_total"), 0);
}
