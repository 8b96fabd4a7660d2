//! OPT of responses that come from no zone, or have no records.

use crate::common::{set_of, soa};
use wire::builder::MessageBuilder;
use wire::number::{Class, Rcode, Rtype, Serial};
use wire::parse::{Header, Message, Parsed, parse_request};
use zone::answer::{AnswerContext, AnswerKind, Bare, Chaos, Head, Servable, Transport, answer, respond_bare};

const COOKIE: u16 = 10;
const ZONEVERSION: u16 = 19;
const NSID: u16 = 3;
const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;
const EDE: u16 = 15;

fn context() -> AnswerContext<'static> {
    AnswerContext {
        transport: Transport::Udp,
        udp_bytes_max: 1232,
        payload: 1232,
        nsid: None,
        cookie: Some(&[7; 24]),
        keepalive: None,
        padding_block: 0,
        chaos: Chaos { id_server: Some(b"node-1"), version: None },
        zone_state: &|_| Servable::Ready,
        tsig_reserve: 0,
    }
}

#[test]
fn no_zoneversion_without_a_zone() {
    let set = set_of("test.", &[soa("test.", Serial(7))]);
    let with_options = |message: MessageBuilder| message.option(COOKIE, &[7; 8]).option(ZONEVERSION, &[]).build();
    let query = |qname: &str, qtype, qclass| {
        let qname: wire::Name = qname.parse().unwrap();
        with_options(MessageBuilder::new(Header::default()).question(qname.as_ref(), qtype, qclass))
    };
    for (message, kind, has_version) in [
        (with_options(MessageBuilder::new(Header::default())), AnswerKind::CookieOnly, false),
        (query("id.server.", Rtype::TXT, Class::CH), AnswerKind::Chaos, false),
        (query("version.bind.", Rtype::TXT, Class::CH), AnswerKind::Refused, false),
        (query("elsewhere.", Rtype::A, Class::IN), AnswerKind::Refused, false),
        (query("x.test.", Rtype::A, Class::IN), AnswerKind::NxDomain, true),
    ] {
        let Parsed::Request(request) = parse_request(&message) else { panic!("no request: {kind:?}") };
        let mut out = [0; 1232];
        let answered = answer(set.head(), &request, &context(), &mut out);
        let response = Message::parse(&out[..answered.len]).unwrap();
        let edns = response.edns().unwrap();
        let version: Option<&[u8]> = has_version.then_some(&[1, 0, 0, 0, 0, 7]);
        assert_eq!((answered.kind, edns.option(ZONEVERSION)), (kind, version));
        assert_eq!(edns.option(COOKIE), Some(&[7; 24][..]));
    }
}

#[test]
fn responses_without_records_have_the_usual_options() {
    let query = |message: MessageBuilder| {
        let message =
            [NSID, KEEPALIVE, PADDING, ZONEVERSION].iter().fold(message, |message, &code| message.option(code, &[]));
        message.option(COOKIE, &[7; 8]).build()
    };
    let name: wire::Name = "www.test.".parse().unwrap();
    let request = query(MessageBuilder::query(1, name.as_ref(), Rtype::A).edns(512, true));
    let reject = query(MessageBuilder::query(1, name.as_ref(), Rtype::A).edns(512, true).edns_version(1));
    let long = [b'n'; 500];
    let stream = AnswerContext {
        transport: Transport::Tcp,
        nsid: Some(b"node-1"),
        keepalive: Some(100),
        padding_block: 468,
        tsig_reserve: 90,
        ..context()
    };
    let datagram = AnswerContext { nsid: Some(&long), ..context() };
    for message in [&request, &reject] {
        let parsed = parse_request(message);
        let head = match &parsed {
            Parsed::Request(request) => Head::from(request),
            Parsed::Reject(reject) => Head::from(reject),
            Parsed::Drop(_) => panic!("dropped"),
        };
        let bare = Bare { rcode: Rcode::BADVERS, extended: Some(18), ..Bare::default() };
        for (context, options, bytes) in [
            (&stream, &[COOKIE, NSID, KEEPALIVE, EDE, PADDING][..], 468 - 90),
            // What is too long for the client is left out, and the rest is there.
            (&datagram, &[COOKIE, EDE], 12 + 14 + 11 + 28 + 6),
        ] {
            let mut out = [0; 1232];
            let len = respond_bare(&head, context, bare, &mut out);
            let response = Message::parse(&out[..len]).unwrap();
            let edns = response.edns().unwrap();
            assert_eq!(edns.options().map(|(code, _)| code).collect::<Vec<_>>(), options);
            assert_eq!((response.rcode(), edns.dnssec_ok, len), (Rcode::BADVERS, true, bytes));
            assert_eq!(response.header().counts, [1, 0, 0, 1]);
        }
    }
}
