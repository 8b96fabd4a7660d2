//! Compression pointers in the rdata of updates. Nodes follow them in the types of RFC 1035 and in those that RFC 3597
//! 4 lists, and refuse them in all others. Answers compress names in the types of RFC 1035 only.

use crate::support::cluster::Cluster;
use crate::support::dns::{RESPONSE_WITHIN, Transport, exchange};
use crate::support::message::{name, sign};
use crate::support::pipeline::outcome_of;
use crate::updates::rcode;
use wire::builder::MessageBuilder;
use wire::number::{Rcode, Rtype};

const ZONE: &[u8] = b"\x07example\x04test\x00";
/// A pointer to the name of the zone, which begins an UPDATE.
const TO_ZONE: [u8; 2] = [0xC0, 12];

/// A type, the rdata before the name, and the rdata after it.
type Form = (Rtype, &'static [u8], &'static [u8]);

/// RFC 1035 3.3: "well-known" in the words of RFC 3597 4.
const CLASSIC: [Form; 2] = [(Rtype::MX, &[0, 10], &[]), (Rtype::PTR, &[], &[])];
/// RFC 3597 4: "Receivers SHOULD also decompress RRs of type RP, AFSDB, RT, SIG, PX, NXT, NAPTR, and SRV".
const RECEIVED: [Form; 4] = [
    (Rtype::SRV, &[0, 1, 0, 2, 0, 53], &[]),
    (Rtype(17), &[], &[0]),
    (Rtype(18), &[0, 1], &[]),
    (Rtype::NAPTR, &[0, 1, 0, 2, 0, 0, 0], &[]),
];
/// "Future specifications": nothing else may have a pointer.
const OTHERS: [Form; 3] = [(Rtype::DNAME, &[], &[]), (Rtype(36), &[0, 1], &[]), (Rtype(64), &[0, 1], &[])];

fn rdata(form: Form, target: &[u8], end: &[u8]) -> Vec<u8> {
    [form.1, target, end, form.2].concat()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn pointers_are_followed_where_rfc_3597_says_and_sent_where_rfc_1035_does() {
    let cluster = Cluster::start("compression", 1, &[]);
    let (key, dns) = (cluster.client_key(), cluster.dns(1));
    let update = |owner: &str, rtype: Rtype, rdata: &[u8]| {
        let message = MessageBuilder::update(9, name("example.test.").as_ref());
        let message = sign(&key, message.add(name(owner).as_ref(), rtype, 60, rdata).build(), 0);
        rcode(&message, &outcome_of(Transport::Tcp, dns, &message))
    };
    let answer = |owner: &str, rtype| {
        let query = MessageBuilder::query(9, name(owner).as_ref(), rtype).build();
        exchange(Transport::Tcp, dns, &query, RESPONSE_WITHIN).unwrap()
    };
    for (index, form) in CLASSIC.into_iter().chain(RECEIVED).enumerate() {
        // A label, and a pointer to the rest of the name.
        let (owner, label) = (format!("o{index}.example.test."), b"\x06target");
        assert_eq!(update(&owner, form.0, &rdata(form, label, &TO_ZONE)), Rcode::NOERROR.0 as u8, "{form:?}");
        let is_classic = index < CLASSIC.len();
        let response = answer(&owner, form.0);
        assert_eq!(response[7], 1, "{form:?}: {response:?}");
        // The expected name: complete, or with a pointer to its rest.
        let whole = rdata(form, label, ZONE);
        let is_whole = contains(&response, &[&(whole.len() as u16).to_be_bytes()[..], &whole].concat());
        let is_cut = contains(&response, &[form.1, label, &[0xC0]].concat());
        assert_eq!((is_whole, is_cut), (!is_classic, is_classic), "{form:?}: {response:?}");
    }
    for (index, form) in OTHERS.into_iter().enumerate() {
        let owner = format!("x{index}.example.test.");
        assert_eq!(update(&owner, form.0, &rdata(form, b"\x06target", &TO_ZONE)), Rcode::FORMERR.0 as u8, "{form:?}");
        assert_eq!(answer(&owner, form.0)[7], 0, "{form:?}");
        // The same rdata without a pointer is accepted.
        assert_eq!(update(&owner, form.0, &rdata(form, b"\x06target", ZONE)), Rcode::NOERROR.0 as u8, "{form:?}");
    }
    // A pointer past the end, or to itself, is invalid in every type.
    for (form, end) in [(CLASSIC[0], [0xFF, 0xFF]), (RECEIVED[0], [0xC0 | 0x3F, 0xFF])] {
        assert_eq!(update("bad.example.test.", form.0, &rdata(form, b"\x06target", &end)), Rcode::FORMERR.0 as u8);
    }
}
