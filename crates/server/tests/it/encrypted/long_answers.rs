//! Answers of nearly 64 KiB: complete over every transport but UDP, and never with TC there.

use super::query;
use crate::support::cluster::Cluster;
use crate::support::dns::{Transport, exchange};
use crate::support::encrypted::{Doh, Doq, WAIT, ask, tls, trust};
use crate::support::message::{name, sign};
use std::sync::Arc;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::Header;

/// Texts of one name, each a record of 262 bytes in an answer: the maximum that updates can add.
const TEXTS: usize = 244;
/// Size of the answer in bytes: header, question, and the records.
const BYTES: usize = 12 + 22 + 262 * TEXTS;

#[test]
fn an_answer_of_nearly_64_kib_is_whole() {
    const { assert!(BYTES > 63_900 && BYTES <= 65_535) };
    let cluster = Cluster::start_encrypted("long", 1);
    let (key, owner) = (cluster.client_key(), name("big.example.test."));
    let texts: Vec<Vec<u8>> = (0..TEXTS).map(|index| [&[249], format!("{index:0249}").as_bytes()].concat()).collect();
    for part in texts.chunks(50) {
        let update = MessageBuilder::update(0, name("example.test.").as_ref());
        let update = part.iter().fold(update, |update, text| update.add(owner.as_ref(), Rtype::TXT, 60, text)).build();
        let response = exchange(Transport::Tcp, cluster.dns(1), &sign(&key, update, 0), WAIT).unwrap();
        assert_eq!(response[3] & 0x0F, 0);
    }
    let message = query("big.example.test.", Rtype::TXT).build();
    let want = exchange(Transport::Tcp, cluster.dns(1), &message, WAIT).unwrap();
    let header = Header::parse(&want).unwrap();
    assert_eq!((want.len(), header.tc, usize::from(header.counts[1])), (BYTES, false, TEXTS));

    let mut stream = tls(cluster.dot(1), &Arc::new(trust(&cluster, &["dot"]))).unwrap();
    assert!(ask(&mut stream, &message).unwrap() == want, "over TLS");
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    for answer in [doh.get(&message).unwrap(), doh.post(&message).unwrap()] {
        assert!((answer.status, &answer.body) == (200, &want), "over HTTPS: {} bytes", answer.body.len());
    }
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    assert!(doq.ask(&message).unwrap() == want, "over QUIC");
    // A datagram has TC set.
    let short = exchange(Transport::Udp, cluster.dns(1), &message, WAIT).unwrap();
    assert!(Header::parse(&short).unwrap().tc);
}
