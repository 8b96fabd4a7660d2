//! Properties for arbitrary bytes: nothing panics, parsing is faithful, and composed messages can be parsed.

use catamaran_wire::compose::SoaForm;
use catamaran_wire::{
    Class, Composer, EdnsOut, Message, MessageBuilder, Name, NameBuf, NameRef, Parsed, Rcode, Rtype, Section, layout,
    parse_request, rdata_canonical, rdata_check, rdata_eq, rdata_fields, rdata_lowercase, rdata_names,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::cmp::Ordering;

/// Names of few, short labels, so that suffixes are shared, and sometimes long ones.
pub(crate) fn any_name() -> impl Strategy<Value = Name> {
    let label = prop_oneof![
        8 => select(vec!["a", "A", "b", "ns", "NS", "example", "Example", "test"]).prop_map(|l| l.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..=63),
    ];
    vec(label, 0..6).prop_filter_map("at most 255 bytes", |labels| {
        let mut bytes = Vec::new();
        for label in labels {
            bytes.push(label.len() as u8);
            bytes.extend(label);
        }
        bytes.push(0);
        Some(NameRef::from_bytes(&bytes).ok()?.to_name())
    })
}

pub(crate) fn known_types() -> Vec<Rtype> {
    (0..=u16::MAX).map(Rtype).filter(|&rtype| layout(rtype).is_some()).collect()
}

/// A type with well-formed rdata from its golden cases.
pub(crate) fn any_rdata() -> impl Strategy<Value = (Rtype, Vec<u8>)> {
    let golden: Vec<&str> = include_str!("../golden/rdata.txt").lines().collect();
    let mut cases = Vec::new();
    for case in golden.split(|line| line.is_empty() || line.starts_with('#')).flat_map(|block| block.chunks_exact(3)) {
        if let Some(rtype) = (0..=u16::MAX).map(Rtype).find(|t| t.mnemonic() == case[0].split(':').next())
            && case[2].starts_with("  ok")
        {
            cases.push((rtype, crate::support::hex(case[1])));
        }
    }
    let name = |rtype| any_name().prop_map(move |name| (rtype, name.as_bytes().to_vec()));
    let soa = (any_name(), any_name(), vec(any::<u8>(), 20))
        .prop_map(|(mname, rname, rest)| (Rtype::SOA, [mname.as_bytes(), rname.as_bytes(), &rest].concat()));
    prop_oneof![
        4 => select(cases),
        2 => select(vec![Rtype::NS, Rtype::CNAME, Rtype::PTR, Rtype::DNAME]).prop_flat_map(name),
        1 => soa,
        1 => vec(any::<u8>(), 0..300).prop_map(|rdata| (Rtype(65_280), rdata)),
    ]
}

/// A message with one record at least, then some bytes changed.
pub(crate) fn any_broken_message() -> impl Strategy<Value = Vec<u8>> {
    let records = vec((any_name(), any_rdata(), 1usize..=3), 0..6);
    let damage = vec((any::<Index>(), any::<u8>()), 0..4);
    (any::<bool>(), any_name(), records, any::<bool>(), damage, any::<Index>(), 0u8..4).prop_map(
        |(is_update, qname, mut records, has_edns, damage, cut, how)| {
            let mut builder = match is_update {
                true => MessageBuilder::update(1, qname.as_ref()),
                false => MessageBuilder::query(1, qname.as_ref(), Rtype::A),
            };
            records.sort_by_key(|record| record.2);
            for (owner, (rtype, rdata), section) in &records {
                let section = Section::ALL[section - 1];
                builder = builder.record(section, owner.as_ref(), *rtype, Class::IN, 1, rdata);
            }
            if has_edns {
                builder = builder.edns(1232, true).option(10, b"12345678").option(3, b"");
            }
            let mut bytes = builder.build();
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if how == 0 {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        },
    )
}

/// Reads every part of a message.
fn read_all(bytes: &[u8]) {
    if let Parsed::Request(request) = parse_request(bytes) {
        let mut rdata = Vec::new();
        for section in Section::ALL {
            let records: Vec<_> = request.records(section).collect();
            assert_eq!(records.len(), usize::from(request.record_count(section)));
            for record in records {
                let record = record.unwrap();
                rdata.clear();
                if record.rdata_canonical(&mut rdata).is_ok() {
                    assert_eq!(rdata_check(record.rtype, &rdata), Ok(()));
                }
                let _ = record.edns();
            }
        }
        assert_eq!(request.tsig_view().is_some(), request.tsig.is_some());
    }
    if let Ok(message) = Message::parse(bytes) {
        assert_eq!(message.questions().count(), usize::from(message.header().counts[0]));
        let _ = message.rcode();
        assert_eq!(message.header().to_bytes(), bytes[..12]);
    }
}

/// The response to a query for this name with an SOA of this rdata: composed, and from the prepared form if that fits.
fn with_soa(qname: &Name, apex: &Name, rdata: &[u8], limit: usize) -> (Vec<u8>, Option<Vec<u8>>) {
    let query = MessageBuilder::query(1, qname.as_ref(), Rtype::A).build();
    let Parsed::Request(request) = parse_request(&query) else { panic!("a query") };
    let form = SoaForm::make(apex.as_ref(), 300, rdata);
    let respond = |is_formed: bool| {
        let mut bytes = vec![0; limit];
        let mut composer = Composer::new(&mut bytes, limit);
        composer.start_response(&request, Rcode::NXDOMAIN, true);
        let done = if is_formed {
            composer.push_soa_form(apex.as_ref(), SoaForm::from_bytes(&form))
        } else {
            let owner = apex.as_ref();
            composer.push_rrset(Section::Authority, owner, Rtype::SOA, Class::IN, 300, [rdata]).map(|()| true)
        };
        if done.is_err() {
            composer.truncate_all();
        }
        let len = composer.finish(None);
        bytes.truncate(len);
        (done != Ok(false)).then_some(bytes)
    };
    (respond(false).expect("always composed"), respond(true))
}

/// `name` below `apex`.
fn below(name: &Name, apex: &Name) -> Option<Name> {
    let bytes = name.as_bytes();
    let bytes = [&bytes[..bytes.len() - 1], apex.as_bytes()].concat();
    Some(NameRef::from_bytes(&bytes).ok()?.to_name())
}

#[test]
fn the_soa_of_a_usual_zone_is_prepared() {
    let name = |text: &str| text.parse::<Name>().unwrap();
    let soa = |mname: &str, rname: &str| [name(mname).as_bytes(), name(rname).as_bytes(), &[7; 20]].concat();
    for (qname, mname, rname, is_ready) in [
        ("www.example.test.", "ns.example.test.", "hostmaster.example.test.", true),
        ("example.test.", "ns.example.test.", "hostmaster.example.test.", true),
        ("a.b.example.test.", "ns.dns.example.test.", "admin.dns.example.test.", true),
        ("www.example.test.", "ns.example.", "admin.provider.test.", true),
        ("www.example.test.", "example.test.", "example.test.", true),
        ("www.example.test.", ".", ".", true),
        // A question with part of these names could be a pointer target, which no form supports.
        ("ns.example.test.", "ns.example.test.", "hostmaster.example.test.", false),
        ("x.dns.example.test.", "ns.dns.example.test.", "admin.example.test.", false),
        ("www.hostmaster.example.test.", "ns.example.test.", "hostmaster.example.test.", false),
        ("www.EXAMPLE.test.", "ns.example.test.", "hostmaster.example.test.", false),
    ] {
        let (composed, formed) = with_soa(&name(qname), &name("example.test."), &soa(mname, rname), 512);
        assert_eq!(formed.is_some(), is_ready, "{qname} {mname} {rname}");
        assert!(formed.is_none_or(|formed| formed == composed), "{qname} {mname} {rname}");
    }
}

proptest! {
    #[test]
    fn a_prepared_soa_equals_a_composed_one(
        (label, apex, mname, rname) in (any_name(), any_name(), any_name(), any_name()),
        (is_mname_below, is_rname_below, is_rname_at) in any::<(bool, bool, bool)>(),
        limit in prop_oneof![3 => Just(2_000usize), 1 => 12usize..200],
    ) {
        let mname = below(&mname, &apex).filter(|_| is_mname_below).unwrap_or(mname);
        let above = if is_rname_at { &mname } else { &apex };
        let rname = below(&rname, above).filter(|_| is_rname_below).unwrap_or(rname);
        let rdata = [mname.as_bytes(), rname.as_bytes(), &[3; 20]].concat();
        let qname = below(&label, &apex).unwrap_or(apex.clone());
        let (composed, formed) = with_soa(&qname, &apex, &rdata, limit);
        if let Some(formed) = formed {
            prop_assert_eq!(composed, formed, "{} at {}: {} {}", qname, apex, mname, rname);
        }
    }
}

proptest! {
    #![proptest_config(crate::support::config(1024))]

    #[test]
    fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..600)) {
        read_all(&bytes);
    }

    #[test]
    fn bytes_after_a_valid_header_are_read(
        flags in select(vec![0u8, 0x28]),
        body in vec(any::<u8>(), 0..200),
        counts in any::<[u8; 4]>(),
    ) {
        let header = [0, 1, flags, 0, 0, 1, 0, counts[1] & 3, 0, counts[2] & 3, 0, counts[3] & 3];
        read_all(&[&header[..], &body].concat());
    }

    #[test]
    fn damaged_messages_are_read(bytes in any_broken_message()) {
        read_all(&bytes);
        for at in 0..bytes.len() {
            let _ = NameBuf::read(&bytes, at);
        }
    }

    #[test]
    fn any_rdata_is_read(rtype in select(known_types()), rdata in vec(any::<u8>(), 0..100)) {
        let checked = rdata_check(rtype, &rdata);
        prop_assert_eq!(rdata_fields(rtype, &rdata).all(|field| field.is_ok()) || checked.is_err(), true);
        rdata_names(rtype, &rdata).for_each(drop);
        let mut lowered = rdata.clone();
        rdata_lowercase(rtype, &mut lowered);
        prop_assert!(checked.is_err() || rdata_eq(rtype, &rdata, &lowered));
        let mut out = Vec::new();
        let message = [&[0; 12][..], b"\x01a\0", &rdata].concat();
        let _ = rdata_canonical(&message, 15..message.len(), rtype, &mut out);
    }

    #[test]
    fn equal_rdata_has_one_canonical_form((rtype, rdata) in any_rdata(), other in any_rdata()) {
        let lower = |rtype, rdata: &[u8]| {
            let mut rdata = rdata.to_vec();
            rdata_lowercase(rtype, &mut rdata);
            rdata
        };
        prop_assert_eq!(rdata_check(rtype, &rdata), Ok(()));
        let lowered = lower(rtype, &rdata);
        prop_assert_eq!(&lower(rtype, &lowered), &lowered);
        prop_assert_eq!(rdata_check(rtype, &lowered), Ok(()));
        if other.0 == rtype {
            prop_assert_eq!(rdata_eq(rtype, &rdata, &other.1), lowered == lower(rtype, &other.1));
            prop_assert_eq!(rdata_eq(rtype, &rdata, &other.1), rdata_eq(rtype, &other.1, &rdata));
        }
    }

    #[test]
    fn composed_messages_are_read_back(
        qname in any_name(),
        rrsets in vec((any_name(), vec(any_rdata(), 1..4), 1usize..=3, any::<u32>()), 0..20),
        limit in 60usize..1500,
    ) {
        let query = MessageBuilder::query(7, qname.as_ref(), Rtype::A).edns(1232, true).build();
        let Parsed::Request(request) = parse_request(&query) else { panic!() };
        let edns = EdnsOut { payload: 1232, dnssec_ok: true, nsid: Some(b"x"), ..EdnsOut::default() };
        let mut rrsets = rrsets;
        rrsets.sort_by_key(|rrset| rrset.2);
        let mut buffer = vec![0xEE; limit];
        let mut composer = Composer::new(&mut buffer, limit);
        composer.start_response(&request, Rcode::NXDOMAIN, true);
        composer.reserve(edns.byte_count());
        let mut expected = Vec::new();
        for (owner, rdatas, section, ttl) in &rrsets {
            // An RRset of one type: the rdatas that have the first one's.
            let rtype = rdatas[0].0;
            let rdatas: Vec<&[u8]> = rdatas.iter().filter(|r| r.0 == rtype).map(|r| &r.1[..]).collect();
            let section = Section::ALL[section - 1];
            let fitting = composer.bytes_left();
            let before = composer.byte_count();
            match composer.push_rrset(section, owner.as_ref(), rtype, Class::IN, *ttl, rdatas.iter().copied()) {
                Ok(()) => expected.extend(rdatas.iter().map(|r| (section, owner.clone(), rtype, *ttl, r.to_vec()))),
                Err(_) => {
                    prop_assert_eq!(composer.byte_count(), before);
                    let uncompressed: usize = rdatas.iter().map(|r| owner.as_bytes().len() + 10 + r.len()).sum();
                    prop_assert!(uncompressed > fitting);
                }
            }
        }
        let len = composer.finish(Some(&edns));
        if len < query.len() {
            // The limit is so small that not even question and OPT fit.
            prop_assert!(limit < 12 + qname.as_bytes().len() + 4 + edns.byte_count());
            return Ok(());
        }
        let message = Message::parse(&buffer[..len]).unwrap();
        let question = message.question().unwrap();
        prop_assert_eq!(question.qname.as_bytes(), qname.as_bytes());
        prop_assert_eq!(message.rcode(), Rcode::NXDOMAIN);
        let mut found = Vec::new();
        for section in Section::ALL {
            for record in message.records(section) {
                let record = record.unwrap();
                if record.rtype == Rtype::OPT {
                    continue;
                }
                let mut rdata = Vec::new();
                record.rdata_canonical(&mut rdata).unwrap();
                found.push((section, record.owner.to_name(), record.rtype, record.ttl, rdata));
            }
        }
        if !message.header().tc {
            prop_assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                prop_assert_eq!((found.0, &found.1), (expected.0, &expected.1));
                prop_assert_eq!((found.2, found.3), (expected.2, expected.3));
                // Compression may change the case of owners only.
                prop_assert_eq!(&found.4, &expected.4);
            }
        }
    }

    #[test]
    fn built_messages_are_read_back(qname in any_name(), records in vec((any_name(), any_rdata()), 0..8)) {
        let mut builder = MessageBuilder::update(9, qname.as_ref());
        for (owner, (rtype, rdata)) in &records {
            builder = builder.add(owner.as_ref(), *rtype, 5, rdata);
        }
        let bytes = builder.build();
        let Parsed::Request(request) = parse_request(&bytes) else { panic!() };
        let found: Vec<_> = request.records(Section::UPDATE).map(Result::unwrap).collect();
        prop_assert_eq!(found.len(), records.len());
        for (found, (owner, (rtype, rdata))) in found.iter().zip(&records) {
            prop_assert_eq!(found.owner.as_bytes(), owner.as_bytes());
            prop_assert_eq!((found.rtype, found.rdata()), (*rtype, &rdata[..]));
        }
    }

    #[test]
    fn names_are_ordered_as_their_labels_are(a in any_name(), b in any_name()) {
        let labels = |name: &Name| {
            let mut labels: Vec<_> = name.as_ref().labels().map(<[u8]>::to_ascii_lowercase).collect();
            labels.reverse();
            labels
        };
        prop_assert_eq!(a.cmp(&b), labels(&a).cmp(&labels(&b)));
        prop_assert_eq!(a == b, a.cmp(&b) == Ordering::Equal);
        let again: Name = a.to_string().parse().unwrap();
        prop_assert_eq!(again.as_bytes(), a.as_bytes());
    }
}
