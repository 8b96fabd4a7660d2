//! Each type in both directions: golden forms, and random rdata.

use super::{TextError, print_rdata, scan_rdata_text, scan_rtype};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::name::Name;
use wire::number::Rtype;
use wire::rdata::{Field, layout, rdata_check};

fn scan(rtype: &str, text: &str) -> Result<Vec<u8>, TextError> {
    let origin: Name = "example.".parse().unwrap();
    scan_rdata_text(scan_rtype(rtype.as_bytes()).unwrap(), text.as_bytes(), Some(origin.as_ref()))
}

fn reprint(rtype: &str, text: &str) -> String {
    let mut out = String::new();
    let rdata = scan(rtype, text).unwrap_or_else(|error| panic!("{rtype} {text}: {error}"));
    print_rdata(scan_rtype(rtype.as_bytes()).unwrap(), &rdata, &mut out);
    out
}

/// One line for each type, in the printed form.
const GOLDEN: &[(&str, &str)] = &[
    ("A", "192.0.2.1"),
    ("NS", "ns.example."),
    ("SOA", "ns.example. h\\.m.example. 4294967295 1 2 3 4"),
    ("WKS", "192.0.2.1 6 0 25 65535"),
    ("HINFO", "\"a b\" \"\\\"\\\\\\000\\255\""),
    ("MINFO", "a. b."),
    ("MX", "65535 ."),
    ("TXT", "\"\" \"a\""),
    ("RP", "a. b."),
    ("ISDN", "\"1\""),
    ("ISDN", "\"1\" \"2\""),
    ("NSAP", "0x47000580"),
    ("SIG", "A 1 2 3 20040102030405 20030102030405 7 a. AAEC"),
    ("KEY", "0 0 0"),
    ("GPOS", "\"-22.6\" \"116.8\" \"250.0\""),
    ("AAAA", "2001:db8::1"),
    ("LOC", "42 21 54.000 N 71 6 18.000 W -24.00m 30.00m 10000.00m 10.00m"),
    ("NXT", "a. A NXT"),
    ("EID", "0a0b"),
    ("SRV", "0 1 2 a."),
    ("ATMA", "39246f"),
    ("ATMA", "+3584001"),
    ("NAPTR", "100 10 \"\" \"\" \"/urn:cid:.+@([^\\\\.]+\\\\.)(.*)$/\\\\2/i\" ."),
    ("CERT", "PKIX 65535 1 AAEC"),
    ("A6", "0 2001:db8::1"),
    ("A6", "64 ::1 a."),
    ("A6", "128 a."),
    ("SINK", "64 1 AAEC"),
    ("APL", ""),
    ("APL", "1:192.168.32.0/21 !2:ff00::/8"),
    ("DS", "12345 3 200 0a0b"),
    ("SSHFP", "1 1 0a"),
    ("IPSECKEY", "10 0 2 . AAEC"),
    ("IPSECKEY", "10 1 2 192.0.2.1 AAEC"),
    ("IPSECKEY", "10 2 2 2001:db8::1"),
    ("IPSECKEY", "10 3 2 a. AAEC"),
    ("RRSIG", "TYPE1234 5 2 3600 20660111130312 20051228130312 42860 a. AAEC"),
    ("NSEC", "a. A NS TYPE1234 TYPE65535"),
    ("NSEC", "a."),
    ("DNSKEY", "257 3 8 AAEC"),
    ("DHCID", "AAEC"),
    ("NSEC3", "1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr A RRSIG"),
    ("NSEC3", "1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr"),
    ("NSEC3PARAM", "1 0 0 -"),
    ("TLSA", "3 1 1 0a"),
    ("HIP", "2 0a0b AAEC"),
    ("HIP", "2 0a0b AAEC a. b."),
    ("CSYNC", "66 3 A NS AAAA"),
    ("ZONEMD", "2018031900 1 240 000102030405060708090a0b"),
    // RFC 8976 A.3
    ("ZONEMD", "2018031900 241 1 e1846540e33a9e4189792d18d5d131f605fc283e"),
    ("SVCB", "0 a."),
    (
        "SVCB",
        concat!(
            "1 . mandatory=alpn,port alpn=\"h2,f\\\\,\\\\\\\\o\\\"\" no-default-alpn port=53 ipv4hint=1.2.3.",
            "4,4.3.2.1 ech=AAEC ipv6hint=::1 dohpath=\"/{?dns}\" ohttp tls-supported-groups=29,23 key65535=",
            "\"a\"",
        ),
    ),
    // RFC 9953 3.2: the root path has no segment.
    ("SVCB", "1 . alpn=\"co\" docpath"),
    // An invalid path is printed in the generic form.
    ("SVCB", "1 . key10=\"/dns\""),
    ("SVCB", "1 . alpn=\"co\" docpath=\"dns,a\\\\,b\""),
    ("DSYNC", "CDS NOTIFY 53 a."),
    ("DSYNC", "CSYNC 2 53 a."),
    ("NID", "10 0014:4fff:ff20:ee64"),
    ("L32", "10 10.1.2.0"),
    ("EUI48", "00-00-5e-00-53-2a"),
    ("EUI64", "00-00-5e-ef-10-00-00-2a"),
    ("URI", "10 1 \"ftp://a\""),
    ("CAA", "128 tbs \"Unknown\""),
    ("DOA", "0 1 2 \"\" AAEC"),
    ("DOA", "0 100000 200 \"a\" -"),
    ("AMTRELAY", "10 0 0 ."),
    ("AMTRELAY", "128 1 3 a."),
    ("IPN", "10000000000000000000"),
    ("TYPE65280", "\\# 0"),
    ("TYPE65280", "\\# 3 00ff10"),
    ("NULL", "\\# 1 00"),
];

#[test]
fn golden_files_round_trip() {
    for &(rtype, text) in GOLDEN {
        assert_eq!(reprint(rtype, text), text, "{rtype}");
    }
}

#[test]
fn other_ways_to_write_it() {
    for (rtype, text, printed) in [
        ("MX", "10 @", "10 example."),
        ("MX", "10 \\@", "10 \\@.example."),
        ("SOA", "a b 1 1h 2m30s 1W 4", "a.example. b.example. 1 3600 150 604800 4"),
        ("TXT", "a b", "\"a\" \"b\""),
        ("TXT", "a\"b\"", "\"a\" \"b\""),
        ("TXT", "\\# 1 00", "\"\""),
        ("TXT", "( \"a\nb\" )", "\"a\\010b\""),
        ("TXT", "foo\\ bar\\;", "\"foo bar;\""),
        ("DS", "1 RSASHA1 200 0A 0b", "1 5 200 0a0b"),
        ("NSEC", "@ TYPE1 NS A", "example. A NS"),
        ("LOC", "1 N 2 30 E 0", "1 0 0.000 N 2 30 0.000 E 0.00m 1.00m 10000.00m 10.00m"),
        ("ATMA", "39.246f.00", "39246f00"),
        ("IPN", "100.100", "429496729700"),
        ("WKS", "10.0.0.1 tcp ( smtp 0 25 )", "10.0.0.1 6 0 25"),
        ("SVCB", "1 a key65535=b alpn=h2 port=1 key7", "1 a.example. alpn=\"h2\" port=1 key7 key65535=\"b\""),
        ("SVCB", "16 . alpn=foo\\092,bar,h2", "16 . alpn=\"foo\\\\,bar,h2\""),
        ("CAA", "0 \"issue\" a", "0 issue \"a\""),
        ("DSYNC", "type59 1 1 .", "CDS NOTIFY 1 ."),
        ("NXT", ". ( 127 A )", ". A TYPE127"),
        ("SVCB", "1 . key9=abc", "1 . key9=\"abc\""),
        ("A6", "60 2001:db8::1 a.", "60 ::1 a."),
    ] {
        assert_eq!(reprint(rtype, text), printed, "{rtype} {text}");
    }
}

#[test]
fn refused_files_name_the_reason() {
    use TextError::*;
    for (rtype, text, error) in [
        ("A", "", Missing),
        ("A", "1.2.3", Ipv4),
        ("A", "1.2.3.04", Ipv4),
        ("A", "1.2.3.4 5", LeftOver),
        ("A", "\\# 3 000000", Rdata(wire::rdata::RdataError::Short)),
        ("A", "\\# 4 000000", GenericLength { expected: 4, found: 3 }),
        ("AAAA", "1::2::3", Ipv6),
        ("NS", "a..b", Name(wire::name::NameError::Text)),
        ("NS", "\"a\"", NotPlain),
        ("NS", "\\25.", Escape),
        ("NS", "\\256.", Escape),
        ("TXT", "", Missing),
        ("TXT", "\"a", QuoteOpen),
        ("TXT", "\"a\nb\"", QuoteOpen),
        ("TXT", "( a", ParenthesisOpen),
        ("TXT", "a )", ParenthesisUnopened),
        ("TXT", "( ( a ) )", ParenthesisNested),
        ("TXT", "a\\", Escape),
        ("MX", "65536 a", Number),
        ("LOC", "91 N 0 E 0", Location),
        ("LOC", "90 0 0.001 N 0 E 0", Location),
        ("LOC", "1 N 1 E", Missing),
        ("DNSKEY", "257 3 8 A===", Base64Length),
        ("DNSKEY", "257 3 FOO AAEC", Algorithm),
        ("DS", "1 5 1 0", HexOdd),
        ("DS", "1 5 1 00", DigestLength { kind: 1, expected: Some(20), found: 1 }),
        ("ZONEMD", "1 1 1 00", DigestLength { kind: 1, expected: Some(48), found: 1 }),
        ("ZONEMD", "1 241 1 00", DigestLength { kind: 1, expected: None, found: 1 }),
        ("NSEC", "a. FOO", Rtype),
        ("RRSIG", "A 1 2 3 20050229000000 0 7 a. AAEC", Time),
        ("SVCB", "1 . alpn=a alpn=b", ParameterTwice),
        ("SVCB", "1 . port", ParameterValueMissing),
        ("SVCB", "1 . docpath=a,,b", ParameterId),
        ("SVCB", "1 . alpn=\"a\"b", Parameter),
        ("APL", "1:1.2.3.4/33", Prefix),
        ("EUI48", "00-00-5e-00-53", Address),
        ("NULL", "a", FormMissing),
        ("TYPE65280", "a", FormMissing),
    ] {
        assert_eq!(scan(rtype, text), Err(error), "{rtype} {text}");
    }
}

#[test]
fn relative_names_need_an_origin() {
    assert_eq!(scan_rdata_text(Rtype::NS, b"a", None), Err(TextError::OriginMissing));
    assert_eq!(scan_rdata_text(Rtype::NS, b"@", None), Err(TextError::OriginMissing));
    assert!(scan_rdata_text(Rtype::NS, b"a.", None).is_ok());
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(vec(any::<u8>(), 1..20), 0..6).prop_map(|labels| {
        let mut bytes: Vec<u8> =
            labels.into_iter().flat_map(|label| [&[label.len() as u8], &label[..]].concat()).collect();
        bytes.push(0);
        bytes
    })
}

fn len8(min: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), min..40).prop_map(|bytes| [&[bytes.len() as u8], &bytes[..]].concat())
}

/// A location on the globe.
fn location() -> impl Strategy<Value = Vec<u8>> {
    let sizes = (0u8..=9, 1u8..=9, 0u8..=9, 1u8..=9);
    let position = (0u32..=648_000_000, 0u32..=1_296_000_000, any::<u32>());
    (sizes, position).prop_map(|((e1, m1, e2, m2), (latitude, longitude, altitude))| {
        let mut bytes = vec![0, m1 << 4 | e1, m2 << 4 | e2, 0];
        bytes.extend(((1u32 << 31) - 324_000_000 + latitude).to_be_bytes());
        bytes.extend(((1u32 << 31) - 648_000_000 + longitude).to_be_bytes());
        bytes.extend(altitude.to_be_bytes());
        bytes
    })
}

/// The bytes of one field. `rdata_check` filters combinations that other fields do not allow.
fn field(field: Field) -> BoxedStrategy<Vec<u8>> {
    let bytes = |count: usize| vec(any::<u8>(), count..=count).boxed();
    match field {
        Field::U8 => prop_oneof![2 => 0u8..4, 1 => any::<u8>()].prop_map(|byte| vec![byte]).boxed(),
        Field::Algorithm | Field::IpProtocol => bytes(1),
        Field::RelayType => (any::<bool>(), 0u8..4).prop_map(|(top, kind)| vec![u8::from(top) << 7 | kind]).boxed(),
        Field::U16 | Field::RtypeField | Field::CertType => bytes(2),
        Field::U32 | Field::Ttl | Field::Time32 | Field::Ipv4 => bytes(4),
        Field::Eui48 => bytes(6),
        Field::Eui64 | Field::Locator64 | Field::Ipn => bytes(8),
        Field::Ipv6 => bytes(16),
        Field::Name(_) | Field::A6Name => name().boxed(),
        Field::NamesRest => vec(name(), 0..4).prop_map(|names| names.concat()).boxed(),
        Field::CharString | Field::HexLen8 => len8(0).boxed(),
        Field::Base32Len8 => len8(1).boxed(),
        Field::CharStringOptional => prop_oneof![Just(Vec::new()), len8(0)].boxed(),
        Field::CharStringsRest => vec(len8(0), 1..5).prop_map(|strings| strings.concat()).boxed(),
        Field::Tag => "[a-zA-Z0-9]{1,20}".prop_map(|tag| [&[tag.len() as u8], tag.as_bytes()].concat()).boxed(),
        Field::Loc => location().boxed(),
        Field::Bitmap => proptest::collection::btree_map(any::<u8>(), (vec(any::<u8>(), 0..32), 1u8..), 0..4)
            .prop_map(|windows| {
                let each = |(window, (bits, last)): (u8, (Vec<u8>, u8))| {
                    [&[window, bits.len() as u8 + 1], &bits[..], &[last]].concat()
                };
                windows.into_iter().flat_map(each).collect()
            })
            .boxed(),
        Field::Apl => vec((1u16..4, 0u8..=32, any::<bool>(), vec(any::<u8>(), 0..4), 1u8..), 0..4)
            .prop_map(|items| {
                let each = |(family, prefix, negated, mut address, last): (u16, u8, bool, Vec<u8>, u8)| {
                    if !address.is_empty() {
                        *address.last_mut().unwrap() = last;
                    }
                    let len = address.len() as u8 | u8::from(negated) << 7;
                    [&family.to_be_bytes()[..], &[prefix, len], &address].concat()
                };
                items.into_iter().flat_map(each).collect()
            })
            .boxed(),
        Field::SvcParams => proptest::collection::btree_map(0u16..12, vec(any::<u8>(), 0..20), 0..6)
            .prop_map(|params| params.into_iter().flat_map(|(key, value)| param(key, value)).collect())
            .boxed(),
        Field::HipKeys => (vec(any::<u8>(), 1..30), any::<u8>(), vec(any::<u8>(), 1..90))
            .prop_map(|(tag, algorithm, key)| {
                [&[tag.len() as u8, algorithm, 0, key.len() as u8], &tag[..], &key[..]].concat()
            })
            .boxed(),
        Field::A6Suffix => prop_oneof![
            vec(any::<u8>(), 16..=16).prop_map(|address| [&[0], &address[..]].concat()),
            vec(any::<u8>(), 8..=8).prop_map(|address| [&[64], &address[..]].concat()),
            Just(vec![128]),
        ]
        .boxed(),
        Field::Gateway { .. } => prop_oneof![Just(Vec::new()), bytes(4), bytes(16), name()].boxed(),
        Field::NxtBitmap | Field::PortBitmap => vec(any::<u8>(), 1..16).boxed(),
        Field::Atma => {
            prop_oneof!["[0-9]{1,20}".prop_map(|digits| [&[1], digits.as_bytes()].concat()), vec(any::<u8>(), 2..30),]
                .boxed()
        }
        Field::Bytes | Field::HexRest { .. } | Field::Base64Rest { .. } | Field::TextRest { .. } | Field::Nsap => {
            vec(any::<u8>(), 0..60).boxed()
        }
    }
}

/// A service parameter, with a value that the key is likely to allow.
fn param(key: u16, mut value: Vec<u8>) -> Vec<u8> {
    match key {
        0 => value = vec![0, 11],
        1 => {
            if value.is_empty() {
                value.push(b'x');
            }
            value.insert(0, value.len() as u8);
        }
        2 | 8 => value.clear(),
        3 => value = vec![1, 2],
        4 => value.truncate(value.len() / 4 * 4),
        6 => value.truncate(value.len() / 16 * 16),
        7 => value.iter_mut().for_each(|byte| *byte &= 0x7F),
        _ => {}
    }
    [&key.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), &value].concat()
}

/// Well-formed rdata of the type.
fn rdata(rtype: Rtype) -> impl Strategy<Value = Vec<u8>> {
    let fields: Vec<_> = layout(rtype).unwrap().iter().map(|&f| field(f)).collect();
    fields.prop_map(|fields| fields.concat())
}

#[test]
fn random_rdata_of_every_type_round_trips() {
    for rtype in (0..=u16::MAX).map(Rtype).filter(|&rtype| layout(rtype).is_some()) {
        let (well_formed, with_form) = (core::cell::Cell::new(0), core::cell::Cell::new(0));
        // A runner counts its runs, so each type gets its own.
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        proptest::test_runner::TestRunner::new(config)
            .run(&rdata(rtype), |rdata| {
                if rdata_check(rtype, &rdata).is_err() {
                    return Ok(());
                }
                well_formed.set(well_formed.get() + 1);
                let mut text = String::new();
                print_rdata(rtype, &rdata, &mut text);
                with_form.set(with_form.get() + i32::from(!text.starts_with("\\#")));
                prop_assert_eq!(scan_rdata_text(rtype, text.as_bytes(), None), Ok(rdata), "{:?} {}", rtype, text);
                Ok(())
            })
            .unwrap();
        assert!(well_formed.get() >= 20, "{rtype:?}: only {} of 256 were well formed", well_formed.get());
        assert!(with_form.get() >= 10 || rtype == Rtype::NULL, "{rtype:?}: {} had a form", with_form.get());
    }
}

proptest! {
    #[test]
    fn any_bytes_print_and_what_is_well_formed_round_trips(rtype in 0u16..270, rdata in vec(any::<u8>(), 0..60)) {
        let rtype = Rtype(rtype);
        let mut text = String::new();
        print_rdata(rtype, &rdata, &mut text);
        match rdata_check(rtype, &rdata) {
            Ok(()) => prop_assert_eq!(scan_rdata_text(rtype, text.as_bytes(), None), Ok(rdata)),
            Err(error) => {
                let refused = scan_rdata_text(rtype, text.as_bytes(), None).unwrap_err();
                let is_digest = matches!(refused, TextError::DigestLength { .. });
                prop_assert!(is_digest || refused == error.into(), "{:?}", refused);
            }
        }
    }

    #[test]
    fn scanner_terminates_on_any_text(rtype in 0u16..270, text in vec(any::<u8>(), 0..60)) {
        let _ = scan_rdata_text(Rtype(rtype), &text, None);
    }

    #[test]
    fn scanner_terminates_on_likely_words(rtype in 0u16..270, text in concat!(
            "([0-9]{1,4}|[a-z.\\\\\"=:,/-]{1,6}|[()@-]|alpn=|\"|key1=|A|0x|1:1.2.3.4/|N|E)( ([0-9]{1,4}|[a-z",
            ".\\\\\"=:,/-]{1,6}|[()@-]|\n|A|NS|AA==|1.5m|N|E|S|W)){0,9}",
        )) {
        if let Ok(rdata) = scan_rdata_text(Rtype(rtype), text.as_bytes(), None) {
            let mut printed = String::new();
            print_rdata(Rtype(rtype), &rdata, &mut printed);
            prop_assert_eq!(scan_rdata_text(Rtype(rtype), printed.as_bytes(), None), Ok(rdata));
        }
    }
}
