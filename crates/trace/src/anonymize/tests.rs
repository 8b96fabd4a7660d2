//! Tests with messages that contain every kind of data.

use super::*;
use crate::message::Transport;
use proptest::prelude::*;
use wire::parse::edns::code;
use wire::{Class, MessageBuilder};

fn anonymizer(options: Options) -> Anonymizer {
    let kept_suffixes = ["com".parse().unwrap()].into();
    Anonymizer::new(&Key::new([7; 32]), Anonymization { kept_suffixes, options, ..Anonymization::default() })
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn apply(anonymizer: &mut Anonymizer, bytes: &[u8]) -> Option<Vec<u8>> {
    let (source, destination) = ("192.0.2.1:4000".parse().unwrap(), "[2001:db8::53]:53".parse().unwrap());
    let message = Message { at_ns: 7, source, destination, transport: Transport::Tcp, bytes };
    let changed = anonymizer.apply(&message)?;
    assert_eq!((changed.at_ns, changed.transport), (7, Transport::Tcp));
    assert_eq!((changed.source.port(), changed.destination.port()), (4_000, 53));
    assert_ne!((changed.source.ip(), changed.destination.ip()), (source.ip(), destination.ip()));
    Some(changed.bytes.to_vec())
}

/// Returns the anonymized rdata of one record, with decompressed names.
fn rdata(rtype: Rtype, bytes: &[u8]) -> Vec<u8> {
    let owner = name("secret.example.com.");
    let query = MessageBuilder::query(1, owner.as_ref(), rtype).header(|header| header.qr = true);
    let built = query.record(Section::Answer, owner.as_ref(), rtype, Class::IN, 60, bytes).build();
    let mut anonymizer = anonymizer(Options::Blank);
    let changed = apply(&mut anonymizer, &built).unwrap();
    assert_eq!((anonymizer.tally().records_blank, anonymizer.tally().records_dropped), (0, 0), "{rtype:?}");
    let message = wire::parse::Message::parse(&changed).unwrap();
    let record = message.records(Section::Answer).next().unwrap().unwrap();
    assert_eq!((record.rtype, record.ttl, &record.owner), (rtype, 60, &message.question().unwrap().qname));
    let mut rdata = Vec::new();
    record.rdata_canonical(&mut rdata).unwrap_or_else(|error| panic!("{rtype:?}: {error:?}"));
    rdata
}

/// The pseudonym of a name and of addresses.
fn pseudonym(text: &str) -> Vec<u8> {
    anonymizer(Options::Blank).pseudonyms.name(name(text).as_ref()).unwrap()
}

fn v4(bytes: [u8; 4]) -> [u8; 4] {
    anonymizer(Options::Blank).pseudonyms.addresses.v4(bytes)
}

fn v6(bytes: [u8; 16]) -> [u8; 16] {
    anonymizer(Options::Blank).pseudonyms.addresses.v6(bytes)
}

#[test]
fn names_and_addresses_in_rdata_have_their_pseudonyms() {
    let host = name("mail.secret.example.com.");
    let other = pseudonym("mail.secret.example.com.");
    let six = [0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(rdata(Rtype::A, &[192, 0, 2, 77]), v4([192, 0, 2, 77]));
    assert_eq!(rdata(Rtype::AAAA, &six), v6(six));
    assert_eq!(rdata(Rtype::NS, host.as_bytes()), other);
    assert_eq!(rdata(Rtype::PTR, host.as_bytes()), other);
    assert_eq!(rdata(Rtype::MX, &[&[0, 10], host.as_bytes()].concat()), [&[0, 10], other.as_slice()].concat());
    let service = [&[0, 1, 0, 2, 0x13, 0xC4], host.as_bytes()].concat();
    assert_eq!(rdata(Rtype::SRV, &service), [&[0, 1, 0, 2, 0x13, 0xC4], other.as_slice()].concat());
    let authority = [host.as_bytes(), host.as_bytes(), &[9; 20]].concat();
    assert_eq!(rdata(Rtype::SOA, &authority), [other.as_slice(), &other, &[9; 20]].concat());
    assert_eq!(rdata(Rtype::A6, &[&[0], &six[..]].concat()), [&[0], &v6(six)[..]].concat());
    let part = [&[64, 0, 0, 0, 0, 0, 0, 0, 1][..], host.as_bytes()].concat();
    assert_eq!(rdata(Rtype::A6, &part), [&[64, 0, 0, 0, 0, 0, 0, 0, 0][..], &other].concat());
    let gateway = [&[10, 1, 2][..], &[192, 0, 2, 77], b"key"].concat();
    assert_eq!(rdata(Rtype::IPSECKEY, &gateway), [&[10, 1, 2][..], &v4([192, 0, 2, 77]), &[0; 3]].concat());
    let gateway = [&[10, 3, 2][..], host.as_bytes(), b"key"].concat();
    assert_eq!(rdata(Rtype::IPSECKEY, &gateway), [&[10, 3, 2][..], &other, &[0; 3]].concat());
    // alpn=h2, port, ipv4hint with two, ech, ipv6hint.
    let [head, alpn] = [&[0, 1][..], &[0, 1, 0, 3, 2, b'h', b'2', 0, 3, 0, 2, 1, 187]];
    let binding = [head, host.as_bytes(), alpn, &[0, 4, 0, 8, 192, 0, 2, 1, 192, 0, 2, 2]].concat();
    let binding = [&binding[..], &[0, 5, 0, 3, b'e', b'c', b'h', 0, 6, 0, 16], &six].concat();
    let expected = [head, &other, alpn, &[0, 4, 0, 8], &v4([192, 0, 2, 1]), &v4([192, 0, 2, 2])].concat();
    let expected = [&expected[..], &[0, 5, 0, 3, 0, 0, 0, 0, 6, 0, 16], &v6(six)].concat();
    assert_eq!(rdata(Rtype::HTTPS, &binding), expected);
}

#[test]
fn personal_data_is_zeroed() {
    assert_eq!(rdata(Rtype::TXT, b"\x06secret\x02ok"), b"\x06xxxxxx\x02xx");
    assert_eq!(rdata(Rtype::HINFO, b"\x03VAX\x00"), b"\x03xxx\x00");
    assert_eq!(rdata(Rtype::CAA, b"\x00\x05issueca.example"), b"\x00\x05issuexxxxxxxxxx");
    assert_eq!(rdata(Rtype::DS, &[&[0x30, 0x39, 8, 1][..], &[9; 20]].concat()), [&[0, 0, 8, 1][..], &[0; 20]].concat());
    assert_eq!(rdata(Rtype::DNSKEY, &[1, 1, 3, 8, 9, 9, 9]), [1, 1, 3, 8, 0, 0, 0]);
    let signer = name("secret.example.com.");
    let signature =
        [&[0, 1, 8, 2, 0, 0, 0, 60, 1, 2, 3, 4, 5, 6, 7, 8, 0x30, 0x39], signer.as_bytes(), &[9; 64]].concat();
    let other = pseudonym("secret.example.com.");
    let expected = [&[0, 1, 8, 2, 0, 0, 0, 60, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0], other.as_slice(), &[0; 64]].concat();
    assert_eq!(rdata(Rtype::RRSIG, &signature), expected);
    let hashed = [&[1, 0, 0, 5, 2, 0xAB, 0xCD, 20][..], &[9; 20], &[0, 1, 0x40]].concat();
    assert_eq!(rdata(Rtype::NSEC3, &hashed), [&[1, 0, 0, 5, 2, 0, 0, 20][..], &[0; 20], &[0, 1, 0x40]].concat());
    let here = [0, 0x12, 0x16, 0x13, 0x89, 0x17, 0x2D, 0xD0, 0x70, 0xBE, 0x15, 0xF0, 0, 0x98, 0x8D, 0x20];
    assert_ne!(rdata(Rtype::LOC, &here)[4..], here[4..]);
    assert!(rdata(Rtype::APL, &[0, 1, 24, 3, 192, 0, 2]).is_empty());
    assert_eq!(rdata(Rtype::EUI48, &[1, 2, 3, 4, 5, 6]), [0; 6]);
    assert_eq!(rdata(Rtype(65_280), b"whatever"), [0; 8]);
}

#[test]
fn responses_keep_their_structure_and_size() {
    // The answer and the name of the server point to the question.
    let mut bytes = MessageBuilder::query(0x1234, name("www.secret.example.com.").as_ref(), Rtype::A).build();
    bytes[2] |= 0x80;
    bytes[7] = 1;
    bytes[9] = 1;
    bytes.extend_from_slice(&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 77]);
    bytes.extend_from_slice(&[0xC0, 16, 0, 2, 0, 1, 0, 0, 0, 60, 0, 5, 2, b'n', b's', 0xC0, 16]);
    let changed = apply(&mut anonymizer(Options::Blank), &bytes).unwrap();
    assert_eq!((changed.len(), &changed[..12]), (bytes.len(), &bytes[..12]));
    let message = wire::parse::Message::parse(&changed).unwrap();
    let question = message.question().unwrap().qname;
    assert_eq!(question.as_bytes(), pseudonym("www.secret.example.com."));
    let server = message.records(Section::Authority).next().unwrap().unwrap();
    let mut rdata = Vec::new();
    server.rdata_canonical(&mut rdata).unwrap();
    assert_eq!(rdata, pseudonym("ns.secret.example.com."));
    assert_eq!(server.owner.as_ref(), question.as_ref().parent().unwrap());
}

fn options_of(mode: Options, built: MessageBuilder) -> (Vec<(u16, Vec<u8>)>, u64) {
    let mut anonymizer = anonymizer(mode);
    let changed = apply(&mut anonymizer, &built.build()).unwrap();
    let edns = wire::parse::Message::parse(&changed).unwrap().edns().unwrap();
    assert_eq!((edns.payload, edns.dnssec_ok), (4_096, true));
    (edns.options().map(|(code, bytes)| (code, bytes.to_vec())).collect(), anonymizer.tally().options_dropped)
}

#[test]
fn options_are_zeroed_dropped_or_kept() {
    let subnet = |bytes: &[u8]| [&[0, 1, 23, 0], bytes].concat();
    let query = MessageBuilder::query(1, name("a.com.").as_ref(), Rtype::A)
        .edns(4_096, true)
        .option(code::COOKIE, &[9; 8])
        .option(code::CLIENT_SUBNET, &subnet(&[192, 0, 2]))
        .option(code::CLIENT_SUBNET, &subnet(&[192, 0]))
        .option(code::EDE, b"\x00\x16no way")
        .option(code::TCP_KEEPALIVE, &[0, 100])
        .option(65_001, b"secret");
    let [a, b, c, _] = v4([192, 0, 2, 0]);
    let mapped = subnet(&[a, b, c & 0xFE]);
    let blank = vec![
        (code::COOKIE, vec![0; 8]),
        (code::CLIENT_SUBNET, mapped.clone()),
        (code::EDE, b"\x00\x16xxxxxx".to_vec()),
        (code::TCP_KEEPALIVE, vec![0, 100]),
        (65_001, vec![0; 6]),
    ];
    // The second subnet is malformed.
    assert_eq!(options_of(Options::Blank, query.clone()), (blank, 1));
    assert_eq!(options_of(Options::Drop, query.clone()), (vec![], 6));
    let (kept, dropped) = options_of(Options::Keep, query);
    assert_eq!((kept.len(), dropped, &kept[0].1, &kept[1].1), (5, 1, &vec![9; 8], &mapped));
    assert_eq!(kept[4], (65_001, b"secret".to_vec()));
}

#[test]
fn signatures_are_zeroed_and_keep_their_parameters() {
    let key = name("key.secret.example.com.");
    let signed = |algorithm: &str, mac: u16| {
        let [time, rest] = [&[0, 0, 1, 2, 3, 4, 1, 44][..], &[0, 1, 0, 0, 0, 0]];
        let mac = [&mac.to_be_bytes()[..], &vec![9; mac.into()]].concat();
        let rdata = [name(algorithm).as_bytes(), time, &mac, rest].concat();
        let query = MessageBuilder::query(1, name("a.com.").as_ref(), Rtype::A);
        query.record(Section::Additional, key.as_ref(), Rtype::TSIG, Class::ANY, 0, &rdata).build()
    };
    let bytes = signed("hmac-sha256.", 32);
    let mut anonymizer = anonymizer(Options::Blank);
    let changed = apply(&mut anonymizer, &bytes).unwrap();
    assert_eq!(changed.len(), bytes.len());
    let message = wire::parse::Message::parse(&changed).unwrap();
    let record = message.records(Section::Additional).next().unwrap().unwrap();
    assert_eq!(record.owner.as_bytes(), pseudonym("key.secret.example.com."));
    let rdata = record.rdata();
    assert!(rdata.starts_with(b"\x0bhmac-sha256\0\0\0\x01\x02\x03\x04\x01\x2c\0\x20") && !rdata.contains(&9));
    // An unregistered algorithm is treated like any other name.
    let signed_message = apply(&mut anonymizer, &signed("secretive.example.", 4)).unwrap();
    assert!(!signed_message.windows(9).any(|bytes| bytes == b"secretive"));
}

#[test]
fn messages_that_cannot_be_anonymized_are_skipped_and_counted() {
    let mut anonymizer = anonymizer(Options::Blank);
    let query = MessageBuilder::query(1, name("secret.com.").as_ref(), Rtype::A);
    let complete = query.clone().build();
    assert_eq!(apply(&mut anonymizer, &complete[..complete.len() - 1]), None);
    // Bytes after the last record are removed.
    let cut = apply(&mut anonymizer, &[&complete[..], b"secret"].concat()).unwrap();
    assert_eq!(cut.len(), complete.len());
    let root = Name::root();
    let add = |rtype, rdata: &[u8]| {
        query.clone().record(Section::Additional, root.as_ref(), rtype, Class::IN, 0, rdata).build()
    };
    // TKEY is removed, malformed rdata becomes zeros, and rdata of an UPDATE may be empty.
    let without = apply(&mut anonymizer, &add(Rtype::TKEY, b"secret")).unwrap();
    assert_eq!((without.len(), without[11]), (complete.len(), 0));
    let blank = apply(&mut anonymizer, &add(Rtype::A, b"secret")).unwrap();
    assert!(blank.ends_with(&[0, 6, 0, 0, 0, 0, 0, 0]));
    let empty = add(Rtype::A, b"");
    assert_eq!(apply(&mut anonymizer, &empty).unwrap().len(), empty.len());
    let bad = apply(&mut anonymizer, &add(Rtype::OPT, b"\x00\x0a\x00\xffx")).unwrap();
    assert_eq!(bad.len(), complete.len());
    let expected = AnonymizationTally {
        messages: 6,
        given: 5,
        malformed: 1,
        records_dropped: 2,
        records_blank: 1,
        extra_dropped: 1,
        ..AnonymizationTally::default()
    };
    assert_eq!(anonymizer.tally(), expected);
}

/// A TLV of RFC 8490.
fn tlv(number: u16, data: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

/// A message of DNS Stateful Operations with these TLVs.
fn stateful(tlvs: &[Vec<u8>]) -> Vec<u8> {
    [&[0xAB, 0xCD, 6 << 3, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &tlvs.concat()].concat()
}

#[test]
fn stateful_operations_keep_their_tlvs_without_personal_data() {
    let host = name("www.secret.example.com.");
    let other = pseudonym("www.secret.example.com.");
    let of = |name: &[u8], rdata: &[u8]| [name, &[0, 1, 0, 1], rdata].concat();
    let (keepalive, delay) = (tlv(1, &[0, 0, 1, 2, 3, 4, 5, 6]), tlv(2, &[0, 0, 0, 9]));
    let bytes = stateful(&[
        keepalive.clone(),
        delay.clone(),
        // Padding; a subscription and its end; a pushed record; a record to reconfirm; a private TLV.
        tlv(3, b"secret"),
        tlv(0x40, &of(host.as_bytes(), b"")),
        tlv(0x42, &[7, 8]),
        tlv(0x41, &of(host.as_bytes(), &[0, 0, 0, 60, 0, 4, 192, 0, 2, 1])),
        tlv(0x43, &of(host.as_bytes(), &[192, 0, 2, 1])),
        tlv(0xF800, b"whose"),
        // A malformed keepalive, and a malformed name.
        tlv(1, b"secret"),
        tlv(0x40, b"\x06secret"),
    ]);
    let expected = stateful(&[
        keepalive,
        delay,
        tlv(3, &[0; 6]),
        tlv(0x40, &of(&other, b"")),
        tlv(0x42, &[7, 8]),
        tlv(0x41, &vec![0; host.as_bytes().len() + 14]),
        tlv(0x43, &of(&other, &[0; 4])),
        tlv(0xF800, &[0; 5]),
        tlv(1, &[0; 6]),
        tlv(0x40, &[0; 7]),
    ]);
    let mut anonymizer = anonymizer(Options::Keep);
    assert_eq!(apply(&mut anonymizer, &bytes), Some(expected));
    assert_eq!(anonymizer.tally().extra_dropped, 0);
    // A response without TLVs, and one with an incomplete TLV: the TLVs before it stay.
    let mut response = stateful(&[]);
    response[2] |= 0x80;
    assert_eq!(apply(&mut anonymizer, &response), Some(response));
    let short = [&bytes[..24], &tlv(3, b"secret")[..7]].concat();
    assert_eq!(apply(&mut anonymizer, &short), Some(bytes[..24].to_vec()));
    // In a query, the same bytes have no known layout.
    let mut query = bytes;
    query[2] = 0;
    assert_eq!(apply(&mut anonymizer, &query).unwrap().len(), 12);
    let AnonymizationTally { messages, given, extra_dropped, .. } = anonymizer.tally();
    assert_eq!((messages, given, extra_dropped), (4, 4, 2));
}

proptest! {
    #[test]
    fn dso_messages_keep_their_size_except_for_names(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let bytes = stateful(&[bytes]);
        let mut anonymizer = anonymizer(Options::Blank);
        let changed = apply(&mut anonymizer, &bytes).unwrap();
        prop_assert_eq!(apply(&mut anonymizer, &changed).map(|again| again.len()), Some(changed.len()));
    }

    #[test]
    fn output_is_a_message_and_anonymizing_repeats(
        bytes in prop::collection::vec(any::<u8>(), 12..120),
        counts in prop::collection::vec(0_u8..3, 4),
    ) {
        let mut bytes = bytes;
        counts.iter().enumerate().for_each(|(at, count)| bytes[4 + 2 * at..6 + 2 * at].copy_from_slice(&[0, *count]));
        let mut anonymizer = anonymizer(Options::Blank);
        if let Some(changed) = apply(&mut anonymizer, &bytes) {
            prop_assert!(wire::parse::Message::parse(&changed).is_ok());
            prop_assert!(apply(&mut anonymizer, &changed).is_some());
        }
        let tally = anonymizer.tally();
        prop_assert_eq!(tally.messages, tally.given + tally.malformed + tally.too_long);
    }
}
