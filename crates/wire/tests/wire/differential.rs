//! Parses and composes the same bytes with this crate and with `domain`.

use crate::properties::{any_broken_message, any_name, any_rdata};
use catamaran_wire::limits::HEADER_BYTES;
use catamaran_wire::{
    Class, Composer, Message, MessageBuilder, NameBuf, NameError, Parsed, Rcode, RdataError, Rtype, Section,
    parse_request, rdata_canonical, rdata_check, rdata_fields, rdata_lowercase,
};
use domain::base::name::{Name as TheirName, ParsedName};
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message as TheirMessage, ParseRecordData, ParsedRecord};
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

type TheirData<'a> = AllRecordData<&'a [u8], ParsedName<&'a [u8]>>;

/// The types whose rdata `domain` parses.
const THEIR_TYPES: [Rtype; 37] = [
    Rtype::A,
    Rtype::NS,
    Rtype::MD,
    Rtype::MF,
    Rtype::CNAME,
    Rtype::SOA,
    Rtype::MB,
    Rtype::MG,
    Rtype::MR,
    Rtype::NULL,
    Rtype::PTR,
    Rtype::HINFO,
    Rtype::MINFO,
    Rtype::MX,
    Rtype::TXT,
    Rtype::RP,
    Rtype::AAAA,
    Rtype::SRV,
    Rtype::NAPTR,
    Rtype::DNAME,
    Rtype::DS,
    Rtype::SSHFP,
    Rtype::IPSECKEY,
    Rtype::RRSIG,
    Rtype::NSEC,
    Rtype::DNSKEY,
    Rtype::NSEC3,
    Rtype::NSEC3PARAM,
    Rtype::TLSA,
    Rtype::CDS,
    Rtype::CDNSKEY,
    Rtype::OPENPGPKEY,
    Rtype::ZONEMD,
    Rtype::SVCB,
    Rtype::HTTPS,
    Rtype::CAA,
    Rtype(65_280),
];

fn their_name(bytes: &[u8], at: usize) -> Option<(Vec<u8>, usize)> {
    let mut parser = Parser::from_ref(bytes);
    parser.advance(at).ok()?;
    let name = ParsedName::parse_ref(&mut parser).ok()?;
    let name: TheirName<Vec<u8>> = domain::base::ToName::to_name(&name);
    Some((name.as_slice().to_vec(), parser.pos()))
}

/// Whether the name has a pointer into the header, or one that does not point before the labels that it follows.
/// RFC 1035 4.1.4 only allows pointers to a prior name. `domain` follows these two kinds.
fn has_invalid_pointer(bytes: &[u8], mut at: usize) -> bool {
    let mut labels_start = at;
    while let Some(&first) = bytes.get(at) {
        match (first, bytes.get(at + 1)) {
            (1..0x40, _) => at += 1 + usize::from(first),
            (0xC0.., Some(&second)) => {
                let target = usize::from(u16::from_be_bytes([first & 0x3F, second]));
                if target < HEADER_BYTES || target >= labels_start {
                    return true;
                }
                (at, labels_start) = (target, target);
            }
            _ => return false,
        }
    }
    false
}

#[test]
fn a_pointer_into_the_labels_before_it_is_a_known_difference() {
    // At 13: a label of 32 bytes, and a pointer to 14, which is in this label.
    let bytes = [&[0; 13][..], &[32], &[0; 32], &[0xC0, 14]].concat();
    assert_eq!(NameBuf::read(&bytes, 13).map(|(_, end)| end), Err(NameError::Pointer));
    assert!(their_name(&bytes, 13).is_some() && has_invalid_pointer(&bytes, 13));
    // A pointer to a prior name is allowed.
    let bytes = [&[0; 12][..], b"\x01a\x00", b"\x01b\xC0\x0C"].concat();
    assert!(NameBuf::read(&bytes, 15).is_ok() && !has_invalid_pointer(&bytes, 15));
}

/// Their rdata: as composed, and in canonical form.
fn their_rdata(bytes: &[u8], at: usize, rtype: Rtype) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut parser = Parser::from_ref(bytes);
    parser.advance(at).ok()?;
    let mut rest = parser.parse_parser(bytes.len() - at).ok()?;
    let data = TheirData::parse_rdata(rtype.0.into(), &mut rest).ok()??;
    if rest.remaining() > 0 {
        return None;
    }
    let (mut composed, mut canonical) = (Vec::new(), Vec::new());
    data.compose_rdata(&mut composed).unwrap();
    data.compose_canonical_rdata(&mut canonical).unwrap();
    Some((composed, canonical))
}

/// Known differences between this crate and `domain` about valid rdata. Everything else must agree.
fn is_known_difference(rtype: Rtype, ours: &Result<(), RdataError>, rdata: &[u8]) -> bool {
    match (rtype, ours) {
        // A value that a registered field does not allow: `domain` checks fewer fields.
        (_, Err(RdataError::Value(_))) => true,
        // No string at all (RFC 1035 3.3.14: "one or more").
        (Rtype::TXT, Err(RdataError::Short)) => rdata.is_empty(),
        // An empty digest, key or signature.
        (
            Rtype::DS
            | Rtype::CDS
            | Rtype::DNSKEY
            | Rtype::CDNSKEY
            | Rtype::RRSIG
            | Rtype::SSHFP
            | Rtype::TLSA
            | Rtype::OPENPGPKEY
            | Rtype::ZONEMD,
            Err(RdataError::Short),
        ) => true,
        _ => rdata.len() > usize::from(u16::MAX),
    }
}

proptest! {
    #![proptest_config(crate::support::config(2048))]

    #[test]
    fn names_of_a_message(
        bytes in vec(prop_oneof![3 => 0u8..4, 2 => 0xC0u8..0xC1, 2 => 12u8..40, 1 => any::<u8>()], 13..60),
        at in 12usize..40,
    ) {
        let (ours, theirs) = (NameBuf::read(&bytes, at), their_name(&bytes, at));
        match (&ours, &theirs) {
            (Ok((name, end)), Some((their_name, their_end))) => {
                prop_assert_eq!(name.as_bytes(), &their_name[..]);
                prop_assert_eq!(end, their_end);
            }
            (Ok(_), None) => prop_assert!(false, "only ours reads {:?} at {}: {:?}", bytes, at, ours),
            (Err(error), Some(_)) => {
                prop_assert!(has_invalid_pointer(&bytes, at), "only theirs reads {:?} at {}", bytes, at);
                prop_assert_eq!(*error, NameError::Pointer);
            }
            (Err(_), None) => {}
        }
    }

    #[test]
    fn rdata_uncompressed(rtype in select(&THEIR_TYPES[..]), rdata in vec(prop_oneof![0u8..5, any::<u8>()], 0..80)) {
        compare_rdata(rtype, &rdata)?;
    }

    #[test]
    fn rdata_almost_right(
        (rtype, mut rdata) in any_rdata(),
        damage in vec((any::<Index>(), any::<u8>()), 0..2),
    ) {
        for (at, byte) in damage {
            if !rdata.is_empty() {
                let at = at.index(rdata.len());
                rdata[at] = byte;
            }
        }
        if THEIR_TYPES.contains(&rtype) {
            compare_rdata(rtype, &rdata)?;
        }
    }

    #[test]
    fn rdata_compressed(
        (rtype, prefix) in select(vec![
            (Rtype::NS, &b""[..]),
            (Rtype::CNAME, b""),
            (Rtype::PTR, b""),
            (Rtype::MX, b"\0\x01"),
            (Rtype::SRV, b"\0\x01\0\x02\0\x03"),
            (Rtype::MINFO, b"\x01x\0"),
            (Rtype::RP, b"\x01x\0"),
            (Rtype::SOA, b"\x01x\0"),
        ]),
        first in any_name(), cut in 0usize..4, tail in vec(any::<u8>(), 0..26),
    ) {
        let mut bytes = [&[0; 12][..], first.as_bytes()].concat();
        // The name's end that is left when `cut` labels are taken off it.
        let end = first.as_ref().strip(cut.min(first.as_ref().label_count())).unwrap();
        let target = first.as_bytes().len() - end.as_bytes().len();
        let start = bytes.len();
        bytes.extend_from_slice(prefix);
        bytes.extend_from_slice(&[2, b'n', b's', 0xC0, 12 + target as u8]);
        bytes.extend_from_slice(&tail);
        let mut ours = Vec::new();
        let result = rdata_canonical(&bytes, start..bytes.len(), rtype, &mut ours);
        let theirs = their_rdata(&bytes, start, rtype);
        prop_assert_eq!(result.is_ok(), theirs.is_some());
        if let Some((theirs, _)) = theirs {
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn whole_messages(bytes in any_broken_message()) {
        let theirs = their_walk(&bytes);
        match Message::parse(&bytes) {
            Ok(message) => {
                let theirs = theirs.unwrap();
                let ours = Section::ALL.into_iter().flat_map(|section| message.records(section));
                let ours: Vec<_> = ours.map(Result::unwrap).collect();
                prop_assert_eq!(ours.len(), theirs.len());
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    let rdata = (ours.rtype, ours.class.0, ours.ttl, ours.rdata().len());
                    prop_assert_eq!(ours.owner.as_bytes(), &theirs.0[..]);
                    prop_assert_eq!(rdata, theirs.1);
                }
            }
            // `domain` accepts trailing bytes and pointers into the header.
            Err(catamaran_wire::ParseError::LeftOver | catamaran_wire::ParseError::Name(NameError::Pointer)) => {}
            Err(error) => prop_assert!(theirs.is_none(), "{:?} {:?}", error, bytes),
        }
    }

    #[test]
    fn composed_messages(qname in any_name(), rrsets in vec((any_name(), any_rdata()), 1..20)) {
        let query = MessageBuilder::query(7, qname.as_ref(), Rtype::A).build();
        let Parsed::Request(request) = parse_request(&query) else { panic!() };
        let mut buffer = vec![0; 65_535];
        let mut composer = Composer::new(&mut buffer, 65_535);
        composer.start_response(&request, Rcode::NOERROR, true);
        for (owner, (rtype, rdata)) in &rrsets {
            composer.push_rrset(Section::Answer, owner.as_ref(), *rtype, Class::IN, 60, [&rdata[..]]).unwrap();
        }
        let len = composer.finish(None);
        let theirs = TheirMessage::from_octets(&buffer[..len]).unwrap();
        prop_assert!(theirs.header().aa() && theirs.header().qr());
        for (record, (owner, (rtype, rdata))) in theirs.answer().unwrap().zip(&rrsets) {
            let record = record.unwrap();
            let name: TheirName<Vec<u8>> = domain::base::ToName::to_name(&record.owner());
            prop_assert!(name.as_slice().eq_ignore_ascii_case(owner.as_bytes()));
            prop_assert_eq!(record.rtype().to_int(), rtype.0);
            if let Ok(Some(record)) = record.into_record::<TheirData<'_>>() {
                let (mut theirs, mut ours) = (Vec::new(), rdata.clone());
                record.data().compose_canonical_rdata(&mut theirs).unwrap();
                rdata_lowercase(*rtype, &mut ours);
                if THEIR_TYPES.contains(rtype) && !is_lowered_by_them(*rtype) {
                    prop_assert_eq!(ours, theirs, "{:?}", rtype);
                }
            } else {
                prop_assert!(!THEIR_TYPES.contains(rtype), "{:?} {:?}", rtype, rdata);
            }
        }
    }
}

/// Types whose names `domain` lower-cases in canonical form though RFC 4034 6.2 does not list them.
fn is_lowered_by_them(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::IPSECKEY | Rtype::SVCB | Rtype::HTTPS)
}

fn compare_rdata(rtype: Rtype, rdata: &[u8]) -> Result<(), TestCaseError> {
    let (ours, theirs) = (rdata_check(rtype, rdata), their_rdata(rdata, 0, rtype));
    match (&ours, theirs) {
        (Ok(()), Some((composed, canonical))) => {
            prop_assert_eq!(rdata, &composed[..], "{:?}", rtype);
            let mut lowered = rdata.to_vec();
            rdata_lowercase(rtype, &mut lowered);
            prop_assert!(is_lowered_by_them(rtype) || lowered == canonical, "{:?} {:?}", rtype, rdata);
        }
        // RFC 4025 2.4: algorithm 0 means "no key". This crate does not check that no key follows.
        (Ok(()), None) if rtype == Rtype::IPSECKEY => {
            let has_key = rdata_fields(rtype, rdata).last().is_some_and(|key| !key.unwrap().1.is_empty());
            prop_assert_eq!(rdata[2] == 0, has_key, "only ours reads {:?}", rdata);
        }
        (Ok(()), None) => prop_assert!(false, "only ours reads {:?} {:?}", rtype, rdata),
        // Compressed to nothing but itself: where there is no message, `domain` may still follow a pointer back.
        (Err(RdataError::Name(NameError::Pointer)), Some(_)) => {}
        (Err(_), Some(_)) => {
            prop_assert!(is_known_difference(rtype, &ours, rdata), "{:?} {:?} {:?}", rtype, ours, rdata)
        }
        (Err(_), None) => {}
    }
    Ok(())
}

type TheirRecord = (Vec<u8>, (Rtype, u16, u32, usize));

fn their_walk(bytes: &[u8]) -> Option<Vec<TheirRecord>> {
    let message = TheirMessage::from_octets(bytes).ok()?;
    let mut records = Vec::new();
    for question in message.question() {
        question.ok()?;
    }
    let sections = message.sections().ok()?;
    let all = sections.1.chain(sections.2).chain(sections.3);
    for record in all {
        let record: ParsedRecord<'_, &[u8]> = record.ok()?;
        let name: TheirName<Vec<u8>> = domain::base::ToName::to_name(&record.owner());
        let fixed =
            (Rtype(record.rtype().to_int()), record.class().to_int(), record.ttl().as_secs(), record.rdlen().into());
        records.push((name.as_slice().to_vec(), fixed));
    }
    Some(records)
}
