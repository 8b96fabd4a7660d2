//! OPT of responses that come from no zone.

use crate::common::{soa, set_of};
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype, Serial};
use wire::parse::{Header, Message, Parsed, parse_request};
use zone::answer::{AnswerContext, AnswerKind, Chaos, Servable, Transport, answer};

const COOKIE: u16 = 10;
const ZONEVERSION: u16 = 19;

fn context() -> AnswerContext<'static> {
    AnswerContext {
        transport: Transport::Udp,
        udp_octets_max: 1232,
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
fn there_is_no_zoneversion_of_no_zone() {
    let set = set_of("test.", &[soa("test.", Serial(7))]);
    let asked = |message: MessageBuilder| message.option(COOKIE, &[7; 8]).option(ZONEVERSION, &[]).build();
    let query = |qname: &str, qtype, qclass| {
        let qname: wire::Name = qname.parse().unwrap();
        asked(MessageBuilder::new(Header::default()).question(qname.as_ref(), qtype, qclass))
    };
    for (message, kind, has_version) in [
        (asked(MessageBuilder::new(Header::default())), AnswerKind::CookieOnly, false),
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
