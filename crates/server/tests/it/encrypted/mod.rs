//! DNS over TLS, HTTPS and QUIC.

// Each transport: a client that breaks each rule, and the server's reaction.
mod doh;
mod doq;
mod dot;
mod early_data;
mod long_answers;
// The certificate changes while connections are open.
mod renewal;
// The node stops while connections are open.
mod drain;
// Clients that attack.
mod floods;
mod full_pool;
mod handshake_rate;
mod held_back;
mod idle;
mod parked;
mod rates;
mod unread;
// Clients that do not attack.
mod steady_readers;
// Clients of other projects.
mod clients;

use crate::support::cluster::Cluster;
use crate::support::dns::{Transport, exchange};
use crate::support::encrypted::{Doh, Doq, WAIT, ask, tls, trust};
use crate::support::message::{describe, name, now_s, sign};
use std::sync::Arc;
use wire::builder::MessageBuilder;
use wire::number::{Opcode, Rtype};
use wire::parse::Message;

const COOKIE: u16 = 10;
const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;
const EDE: u16 = 15;

/// A query as QUIC requires it: its ID is zero.
fn query(qname: &str, qtype: Rtype) -> MessageBuilder {
    MessageBuilder::query(0, name(qname).as_ref(), qtype)
}

/// The queries of the comparison, each with a description.
fn queries() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (qname, qtype) in [
        ("www.example.test.", Rtype::A),
        ("www.example.test.", Rtype::TXT),
        ("WWW.Example.TEST.", Rtype::AAAA),
        ("nothing.example.test.", Rtype::A),
        ("alias.example.test.", Rtype::A),
        ("a.b.wild.example.test.", Rtype::TXT),
        ("example.test.", Rtype::MX),
        ("example.test.", Rtype::SOA),
        ("example.test.", Rtype(255)),
        ("example.test.", Rtype::AXFR),
        ("example.org.", Rtype::A),
        ("example.test.", Rtype(41)),
    ] {
        let what = format!("{qname} {qtype:?}");
        all.push((what.clone(), query(qname, qtype).build()));
        all.push((format!("{what} EDNS DO"), query(qname, qtype).edns(4_096, true).build()));
        all.push((format!("{what} NSID"), query(qname, qtype).edns(1_232, false).option(3, &[]).build()));
    }
    let a = || query("www.example.test.", Rtype::A);
    all.push(("version 1 of EDNS".into(), a().edns(1_232, false).edns_version(1).build()));
    all.push(("opcode 5 without zone".into(), a().header(|header| header.opcode = Opcode(5)).build()));
    all.push(("opcode 2".into(), a().header(|header| header.opcode = Opcode(2)).build()));
    all.push(("cut off".into(), a().build()[..20].to_vec()));
    all.push(("bytes left over".into(), [a().build(), vec![0]].concat()));
    all.push(("an unsigned update".into(), MessageBuilder::update(0, name("example.test.").as_ref()).build()));
    all
}

#[test]
fn all_transports_give_the_same_answers() {
    let cluster = Cluster::start_encrypted("five", 1);
    let mut dot = tls(cluster.dot(1), &Arc::new(trust(&cluster, &["dot"]))).unwrap();
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let all = queries();
    let transports = ["udp", "tcp", "dot", "doq"];
    let count = |transport| cluster.metric(1, &format!("catamaran_requests_total{{transport=\"{transport}\"}}"));
    let before = transports.map(count);
    for (what, message) in &all {
        let want = exchange(Transport::Tcp, cluster.dns(1), message, WAIT).unwrap();
        assert_eq!(exchange(Transport::Udp, cluster.dns(1), message, WAIT).unwrap(), want, "{what} over UDP");
        assert_eq!(ask(&mut dot, message).unwrap(), want, "{what} over TLS");
        assert_eq!(doq.ask(message).unwrap(), want, "{what} over QUIC");
        let posted = doh.post(message).unwrap();
        assert_eq!((posted.status, &posted.body), (200, &want), "{what} over HTTPS");
        if message[2] & 0x78 == 0 {
            assert_eq!(doh.get(message).unwrap().body, want, "{what} over HTTPS with GET");
        }
    }
    for (transport, before) in transports.into_iter().zip(before) {
        let (counted, sent) = (count(transport) - before, all.len() as u64);
        // A client sends a datagram again when the response is late.
        let is_right = if transport == "udp" { (sent..sent + 10).contains(&counted) } else { counted == sent };
        assert!(is_right, "{transport}: {counted} of {sent}");
    }
    assert_eq!(cluster.metric(1, "catamaran_handshakes_total"), 3);
    assert_eq!(cluster.metric(1, "catamaran_panics_total"), 0);
}

#[test]
fn options_that_depend_on_the_transport() {
    let cluster = Cluster::start_encrypted("options", 1);
    let mut dot = tls(cluster.dot(1), &Arc::new(trust(&cluster, &[]))).unwrap();
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let plain = query("www.example.test.", Rtype::A).edns(1_232, false);
    let padded = plain.clone().option(PADDING, &[0; 31]).build();
    let kept = plain.option(KEEPALIVE, &[]).build();
    let options = |response: &[u8]| -> Vec<u16> {
        let message = Message::parse(response).unwrap();
        message.edns().unwrap().options().map(|(code, _)| code).collect()
    };
    let over = |transport, message: &[u8]| exchange(transport, cluster.dns(1), message, WAIT).unwrap();
    // RFC 8467 4.1: encrypted transports pad to blocks of 468 bytes. On other transports, padding would hide nothing.
    for response in [ask(&mut dot, &padded).unwrap(), doh.post(&padded).unwrap().body, doq.ask(&padded).unwrap()] {
        assert_eq!((response.len(), options(&response)), (468, vec![PADDING]));
    }
    for response in [over(Transport::Udp, &padded), over(Transport::Tcp, &padded)] {
        assert_eq!(options(&response), [0_u16; 0]);
    }
    // RFC 7828 3.1: on TCP, TLS included.
    for response in [ask(&mut dot, &kept).unwrap(), over(Transport::Tcp, &kept)] {
        let message = Message::parse(&response).unwrap();
        assert_eq!(message.edns().unwrap().option(KEEPALIVE), Some(&100u16.to_be_bytes()[..]), "10 s");
    }
    for response in [over(Transport::Udp, &kept), doh.post(&kept).unwrap().body] {
        assert_eq!(options(&response), [0_u16; 0]);
    }
}

#[test]
fn error_responses_have_the_same_options() {
    let cluster = Cluster::start_encrypted("bare", 1);
    let key = cluster.client_key();
    let mut dot = tls(cluster.dot(1), &Arc::new(trust(&cluster, &[]))).unwrap();
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let with_options = |message: MessageBuilder, has_keepalive: bool| {
        let message = message.edns(1_232, false).option(COOKIE, &[7; 8]).option(PADDING, &[0; 31]);
        if has_keepalive { message.option(KEEPALIVE, &[]) } else { message }
    };
    let update = || MessageBuilder::update(0, name("example.test.").as_ref());
    let add = |owner: &str| update().add(name(owner).as_ref(), Rtype::A, 60, &[192, 0, 2, 9]);
    let opcode = |number| query("example.test.", Rtype::SOA).header(|header| header.opcode = Opcode(number));
    let signed = |message: MessageBuilder, has_keepalive| sign(&key, with_options(message, has_keepalive).build(), 0);
    let mut badly_signed = signed(update(), true);
    // A byte of the MAC. After it come the original ID, the error, and the length of the empty other data.
    *badly_signed.iter_mut().rev().nth(6).unwrap() ^= 1;
    let all = [
        (with_options(opcode(2), true).build(), "NOTIMP", None),
        (with_options(query("example.test.", Rtype::A), true).edns_version(1).build(), "BADVERS", None),
        (with_options(update(), true).build(), "REFUSED", Some(EDE)),
        (badly_signed, "NOTAUTH", None),
        (signed(add("elsewhere.test."), true), "NOTZONE", None),
        (signed(add("padded.example.test."), true), "NOERROR", None),
        (signed(query("padded.example.test.", Rtype::A), true), "NOERROR", None),
        (signed(MessageBuilder::update(0, name("nowhere.").as_ref()), true), "NOTAUTH", Some(EDE)),
    ];
    for (message, rcode, ede) in &all {
        let response = ask(&mut dot, message).unwrap();
        let parsed = Message::parse(&response).unwrap();
        let edns = parsed.edns().unwrap();
        assert_eq!(parsed.rcode().mnemonic(), Some(*rcode));
        let options: Vec<u16> = edns.options().map(|(code, _)| code).collect();
        let wanted: Vec<u16> = [COOKIE, KEEPALIVE].into_iter().chain(*ede).chain([PADDING]).collect();
        assert_eq!(options, wanted, "{rcode}");
        assert_eq!(edns.option(COOKIE).map(|cookie| (cookie.len(), &cookie[..8])), Some((24, &[7; 8][..])));
        // RFC 8467 4.1: the block holds the whole message, TSIG included.
        assert_eq!(response.len(), 468, "{rcode}");
        // Over TCP the response has everything but the padding, which would hide nothing.
        if rcode != &"NOERROR" {
            let response = exchange(Transport::Tcp, cluster.dns(1), message, WAIT).unwrap();
            let parsed = Message::parse(&response).unwrap();
            let options: Vec<u16> = parsed.edns().unwrap().options().map(|(code, _)| code).collect();
            assert_eq!(options, wanted[..wanted.len() - 1], "{rcode} over TCP");
        }
    }
    // The MAC covers the whole signed message.
    let message = signed(add("verified.example.test."), true);
    let response = ask(&mut dot, &message).unwrap();
    key.verify(&message, &response, now_s()).unwrap();
    // Other transports too. There is no keepalive on QUIC and in HTTP, where it is an error or has no meaning.
    let message = with_options(update(), false).build();
    for response in [doh.post(&message).unwrap().body, doq.ask(&message).unwrap()] {
        let parsed = Message::parse(&response).unwrap();
        let options: Vec<u16> = parsed.edns().unwrap().options().map(|(code, _)| code).collect();
        assert_eq!((response.len(), options), (468, vec![COOKIE, EDE, PADDING]));
    }
}

#[test]
fn updates_and_signed_requests_work_over_each_transport() {
    let cluster = Cluster::start_encrypted("signed", 1);
    let key = cluster.client_key();
    let mut dot = tls(cluster.dot(1), &Arc::new(trust(&cluster, &["dot"]))).unwrap();
    let mut doh = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"]));
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let update = |text: &str| {
        let message = MessageBuilder::update(0, name("example.test.").as_ref());
        sign(&key, message.add(name(text).as_ref(), Rtype::A, 60, &[192, 0, 2, 9]).build(), 0)
    };
    let done = "NOERROR, question, tsig noerror, mac";
    for (text, over) in [("dot.example.test.", 0), ("doh.example.test.", 1), ("doq.example.test.", 2)] {
        let message = update(text);
        let mut send = |message: &[u8]| match over {
            0 => ask(&mut dot, message).unwrap(),
            1 => doh.post(message).unwrap().body,
            _ => doq.ask(message).unwrap(),
        };
        let response = send(&message);
        assert_eq!(describe(&message, &response), done, "{text}");
        let signed = sign(&key, query(text, Rtype::A).build(), 0);
        let response = send(&signed);
        assert_eq!(describe(&signed, &response), "NOERROR, question, answer 1, tsig noerror, mac", "{text}");
    }
    assert_eq!(cluster.metric(1, "catamaran_updates_total{end=\"done\"}"), 3);
    // With GET, any party on the path may repeat a request.
    let refused = doh.get(&update("get.example.test.")).unwrap();
    assert_eq!(refused.status, 400, "{refused:?}");
    let absent = query("get.example.test.", Rtype::A).build();
    assert_eq!(ask(&mut dot, &absent).unwrap()[3] & 0x0F, 3, "NXDOMAIN");
}
