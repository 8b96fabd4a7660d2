//! DNS over HTTPS (RFC 8484).

use super::query;
use crate::support::cluster::Cluster;
use crate::support::encrypted::{Doh, framed, tls, trust};
use crate::support::message::{describe, sign};
use rustls::{AlertDescription, Error};
use std::io::{Read, Write};
use std::sync::Arc;
use wire::number::Rtype;

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
            assert!(answer.body.ends_with(b"\n"), "it is said why: {answer:?}");
        }
        if status == 405 {
            assert_eq!(answer.header("allow"), "GET, POST");
        }
    }
    // Headers of 16 KiB and more.
    let long = "x".repeat(17 << 10);
    let answer = doh.request("GET", &good, &[("x-long", &long)], None);
    assert!(answer.as_ref().map_or(true, |answer| answer.status == 431), "{answer:?}");
    assert_eq!(doh.get(&message).unwrap().status, 200, "the connection goes on");
    assert_eq!(cluster.metric(1, "catamaran_http_bad_requests_total"), 16);
}

#[test]
fn answers_say_how_long_they_may_be_kept_and_errors_of_dns_are_no_errors_of_http() {
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
    // There is no place for a zone in one response; what is current is said.
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
    // RFC 9113 3.2: a client that names none speaks something else.
    let mut unnamed = tls(cluster.doh(1), &Arc::new(trust(&cluster, &[]))).unwrap();
    let _ = unnamed.write_all(b"GET /dns-query HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut said = Vec::new();
    let _ = unnamed.read_to_end(&mut said);
    assert!(said.is_empty(), "{said:?}");
    // Nor is it DNS as it is over TLS: what comes back, if anything does, are frames.
    let mut wrong = tls(cluster.doh(1), &Arc::new(trust(&cluster, &["h2"]))).unwrap();
    wrong.write_all(&framed(&query("www.example.test.", Rtype::A).build())).unwrap();
    let mut said = Vec::new();
    let _ = wrong.read_to_end(&mut said);
    assert!(!said.windows(3).any(|window| window == b"www"), "{said:?}");
    let failed = "catamaran_handshakes_failed_total{transport=\"doh\",reason=\"alpn\"}";
    assert_eq!(cluster.metric(1, failed), 3);
}

#[test]
fn a_connection_is_good_for_any_number_of_requests() {
    let cluster = Cluster::start_encrypted("doh-many", 1);
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let message = query("www.example.test.", Rtype::A).build();
    assert_eq!(doh.repeat(30_000, &message).unwrap(), 30_000);
    assert_eq!(cluster.metric(1, "catamaran_connections_cut_total"), 0);
}
