//! Exchanges with servers on loopback, whose responses are lost, forged, refused or truncated.

use super::*;
use crate::address::{Addresses, Family};
use crate::machine::{Change, Update};
use crate::outcome::ObservedRrset;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use tsig::{Authenticated, KeyAlgorithm, KeyTable, Signer, TsigKey, authenticate};
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype};
use wire::parse::{FirstQuestion, Header, Message, Parsed, Section, parse_request};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn key() -> ClientKey {
    ClientKey::new(name("key.test").as_ref(), KeyAlgorithm::HmacSha256, SECRET).unwrap()
}

fn set(addresses: &[&str]) -> Addresses {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

fn update(addresses: usize) -> Request {
    let to = (0..addresses).map(|last| IpAddr::from([192, 0, (last / 256) as u8, (last % 256) as u8])).collect();
    let changes = vec![Change { family: Family::V4, from: set(&["203.0.113.1"]), to }];
    Request::Update { token: 1, server: 0, update: Update { owner: name("home.example.test"), ttl: 60, changes } }
}

fn look() -> Request {
    Request::Query { token: 1, server: 0, owner: name("home.example.test"), family: Family::V4 }
}

/// The signer of the response to a request. With a wrong secret it signs as a server does that rejects the request.
fn signer(request: &[u8], secret: &[u8], now_s: u64) -> Signer {
    let mut keys = KeyTable::new();
    let own_key = TsigKey::new(name("key.test").as_ref(), KeyAlgorithm::HmacSha256, &[secret]).unwrap();
    keys.insert(own_key).unwrap();
    let Parsed::Request(parsed) = parse_request(request) else { panic!("no request") };
    match authenticate(&parsed, &keys, now_s) {
        Authenticated::Verified { signer, .. } | Authenticated::Rejected { signer: Some(signer), .. } => signer,
        other => panic!("{other:?}"),
    }
}

fn plain(request: &[u8], rcode: Rcode, tc: bool, records: &[(Rtype, &[u8])]) -> Vec<u8> {
    let question = FirstQuestion::read(request).unwrap();
    let header = Header { qr: true, tc, rcode: rcode.0 as u8, ..Header::parse(request).unwrap() };
    let message = MessageBuilder::new(header).question(question.qname, question.qtype, question.qclass);
    let message = records.iter().fold(message, |message, (rtype, rdata)| {
        message.record(Section::Answer, question.qname, *rtype, Class::IN, 30, rdata)
    });
    message.build()
}

fn sign(signer: &Signer, mut response: Vec<u8>) -> Vec<u8> {
    let len = response.len();
    response.resize(len + signer.reserve_bytes(), 0);
    let len = signer.sign(&mut response, len, unix_s()).unwrap();
    response.truncate(len);
    response
}

fn signed(request: &[u8], rcode: Rcode, records: &[(Rtype, &[u8])]) -> Vec<u8> {
    sign(&signer(request, SECRET, unix_s()), plain(request, rcode, false, records))
}

/// A server on UDP and TCP at one port; `respond` returns the responses to the `n`th request. Records the requests.
fn serve(
    respond: impl Fn(usize, bool, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static,
) -> (Endpoint, Receiver<(bool, Vec<u8>)>) {
    let (udp, tcp) = loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
            break (udp, tcp);
        }
    };
    let endpoint = Endpoint { host: "127.0.0.1".into(), port: udp.local_addr().unwrap().port() };
    let (sender, requests) = channel();
    let respond = std::sync::Arc::new(respond);
    let (over_udp, tell_udp) = (respond.clone(), sender.clone());
    // Both threads run until the process exits.
    std::thread::spawn(move || {
        let mut bytes = [0; 4_096];
        for count in 0.. {
            let (len, from) = udp.recv_from(&mut bytes).unwrap();
            let _ = tell_udp.send((false, bytes[..len].to_vec()));
            over_udp(count, false, &bytes[..len]).iter().for_each(|response| drop(udp.send_to(response, from)));
        }
    });
    std::thread::spawn(move || {
        for count in 0.. {
            let (mut stream, _) = tcp.accept().unwrap();
            let mut prefix = [0; 2];
            stream.read_exact(&mut prefix).unwrap();
            let mut request = vec![0; usize::from(u16::from_be_bytes(prefix))];
            stream.read_exact(&mut request).unwrap();
            let _ = sender.send((true, request.clone()));
            for response in respond(count, true, &request) {
                stream.write_all(&[&(response.len() as u16).to_be_bytes(), &response[..]].concat()).unwrap();
            }
        }
    });
    (endpoint, requests)
}

fn ask_it(request: &Request, server: &Endpoint) -> Outcome {
    ask(request, server, &name("example.test"), &key())
}

#[test]
fn a_lost_response_is_retried_with_the_same_bytes() {
    let (server, requests) = serve(|count, _, request| match count {
        0 => vec![],
        _ => vec![signed(request, Rcode::NOERROR, &[])],
    });
    assert_eq!(ask_it(&update(1), &server), Outcome::Done);
    let (first, second) = (requests.recv().unwrap(), requests.recv().unwrap());
    assert!(!first.0 && first == second);
    // Prerequisites: no CNAME, and the old RRset. Updates: the old RRset is deleted, and the new one is added.
    let message = Message::parse(&first.1).unwrap();
    let section = |section| -> Vec<(Rtype, Class, u32, usize)> {
        let records = message.records(section).map(Result::unwrap);
        records.map(|record| (record.rtype, record.class, record.ttl, record.rdata().len())).collect()
    };
    let prerequisites = [(Rtype::CNAME, Class::NONE, 0, 0), (Rtype::A, Class::IN, 0, 4)];
    assert_eq!(section(Section::PREREQUISITE), prerequisites);
    assert_eq!(section(Section::UPDATE), [(Rtype::A, Class::ANY, 0, 0), (Rtype::A, Class::IN, 60, 4)]);
}

#[test]
fn forged_responses_are_ignored() {
    let (server, _) = serve(|_, _, request| {
        let mut altered = signed(request, Rcode::YXRRSET, &[]);
        altered[3] ^= 1;
        let mut other_id = signed(request, Rcode::NXRRSET, &[]);
        other_id[0] ^= 1;
        vec![
            plain(request, Rcode::NOERROR, false, &[]),
            plain(request, Rcode::REFUSED, false, &[]),
            altered,
            other_id,
            vec![0; 5],
            signed(request, Rcode::NXRRSET, &[]),
        ]
    });
    assert_eq!(ask_it(&update(1), &server), Outcome::Prerequisite(Rcode::NXRRSET));
}

#[test]
fn an_unsigned_response_counts_if_no_signed_one_arrives() {
    type Respond = fn(&[u8]) -> Vec<u8>;
    let cases: [(Respond, Outcome); 5] = [
        (|request| plain(request, Rcode::REFUSED, false, &[]), Outcome::Refused(Refusal::Unsigned(Rcode::REFUSED))),
        (|request| plain(request, Rcode::NOERROR, false, &[]), Outcome::Unreachable(Failure::Rcode(Rcode::NOERROR))),
        (
            |request| {
                let other = signer(request, b"another secret of thirty bytes", unix_s());
                sign(&other, plain(request, Rcode::NOTAUTH, false, &[]))
            },
            Outcome::Refused(Refusal::Key(Rcode::BADSIG)),
        ),
        (|_| vec![0; 3], Outcome::Unreachable(Failure::Timeout)),
        (|request| signed(request, Rcode::SERVFAIL, &[]), Outcome::Unreachable(Failure::Rcode(Rcode::SERVFAIL))),
    ];
    // In parallel: each waits until its timeout for a response that is not forged.
    let threads = cases.map(|(respond, expected)| {
        std::thread::spawn(move || {
            let (server, _) = serve(move |_, _, request| vec![respond(request)]);
            assert_eq!(ask_it(&update(1), &server), expected);
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn badtime_has_the_time_of_the_server() {
    let (server, _) = serve(|_, _, request| {
        let late = unix_s() + 1_000;
        let signer = signer(request, SECRET, late);
        let mut response = plain(request, Rcode::NOTAUTH, false, &[]);
        let len = response.len();
        response.resize(len + signer.reserve_bytes(), 0);
        let len = signer.sign(&mut response, len, late).unwrap();
        response.truncate(len);
        vec![response]
    });
    let Outcome::Refused(Refusal::Clock(Some(server_time))) = ask_it(&update(1), &server) else { panic!() };
    assert!(server_time.abs_diff(unix_s() + 1_000) < 60);
}

#[test]
fn large_and_truncated_messages_use_tcp() {
    let (server, requests) = serve(|_, is_tcp, request| match is_tcp {
        false => vec![sign(&signer(request, SECRET, unix_s()), plain(request, Rcode::NOERROR, true, &[]))],
        true => vec![signed(request, Rcode::NOERROR, &[(Rtype::A, &[192, 0, 2, 1])])],
    });
    let observed = ObservedRrset { addresses: set(&["192.0.2.1"]), ttl: Some(30), is_alias: false };
    assert_eq!(ask_it(&look(), &server), Outcome::Observed(observed));
    // A busy machine may have been asked over UDP more than once.
    let (is_tcp, over_udp) = requests.recv().unwrap();
    let (_, over_tcp) = requests.iter().find(|(is_tcp, _)| *is_tcp).unwrap();
    assert!(!is_tcp && over_udp == over_tcp, "the same bytes");
    assert_eq!(ask_it(&update(100), &server), Outcome::Done);
    assert!(requests.recv().unwrap().0);
}

#[test]
fn answers_are_parsed() {
    let (server, _) = serve(|_, _, request| vec![signed(request, Rcode::NOERROR, &[(Rtype::CNAME, b"\x01a\0")])]);
    assert_eq!(
        ask_it(&look(), &server),
        Outcome::Observed(ObservedRrset { is_alias: true, ..ObservedRrset::default() })
    );
    let (server, _) = serve(|_, _, request| vec![signed(request, Rcode::NXDOMAIN, &[])]);
    assert_eq!(ask_it(&look(), &server), Outcome::Observed(ObservedRrset::default()));
    let (server, _) = serve(|_, _, request| vec![signed(request, Rcode::REFUSED, &[])]);
    assert_eq!(ask_it(&look(), &server), Outcome::Refused(Refusal::Rcode(Rcode::REFUSED)));
}

#[test]
fn a_closed_port_fails_at_once() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = Endpoint { host: "127.0.0.1".into(), port: socket.local_addr().unwrap().port() };
    drop(socket);
    let outcome = ask_it(&update(1), &server);
    assert!(matches!(&outcome, Outcome::Unreachable(Failure::Network(why)) if why.contains("refused")), "{outcome:?}");
}
