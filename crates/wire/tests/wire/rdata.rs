//! The table of layouts: valid and malformed rdata of each type, names, canonical form, equality, decompression.

use catamaran_wire::{
    Field, NameError, RdataError, Rtype, layout, rdata_canonical, rdata_check, rdata_eq, rdata_fields, rdata_lowercase,
    rdata_names,
};
use std::collections::BTreeMap;

fn rtype(mnemonic: &str) -> Rtype {
    let number = mnemonic.strip_prefix("TYPE").map(|number| number.parse().unwrap());
    let known = (0..=u16::MAX).find(|&number| Rtype(number).mnemonic() == Some(mnemonic));
    Rtype(number.or(known).unwrap_or_else(|| panic!("no type {mnemonic}")))
}

fn describe(name: &str, rdata: &[u8]) -> String {
    let rtype = rtype(name.split(':').next().unwrap());
    let result = rdata_check(rtype, rdata);
    let parts: Result<Vec<(Field, &[u8])>, RdataError> = rdata_fields(rtype, rdata).collect();
    if let Err(error) = result {
        assert!(!rdata_eq(rtype, rdata, &rdata.to_ascii_uppercase()) || rdata == rdata.to_ascii_uppercase());
        return format!("error {error:?}");
    }
    // The fields together are the rdata.
    assert_eq!(parts.unwrap().iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect::<Vec<u8>>(), rdata);
    let mut text = String::from("ok");
    for name in rdata_names(rtype, rdata) {
        text += &format!(" {name}");
    }
    let mut lowered = rdata.to_vec();
    rdata_lowercase(rtype, &mut lowered);
    assert!(rdata_eq(rtype, rdata, &lowered));
    if lowered != rdata {
        text += " canonical ";
        text.extend(lowered.iter().map(|byte| format!("{byte:02x}")));
    }
    text
}

#[test]
fn rdata_of_each_type() {
    crate::support::check_golden("rdata.txt", describe);
}

#[test]
fn every_layout_has_a_good_and_a_bad_case() {
    let mut cases: BTreeMap<u16, (u32, u32)> = BTreeMap::new();
    let lines: Vec<&str> = include_str!("../golden/rdata.txt").lines().collect();
    for at in (0..lines.len()).filter(|&at| lines[at].starts_with(|c: char| c.is_ascii_uppercase())) {
        let case = cases.entry(rtype(lines[at].split(':').next().unwrap()).0).or_default();
        if lines[at + 2].starts_with("  ok") { case.0 += 1 } else { case.1 += 1 }
    }
    for number in 0..=u16::MAX {
        let rtype = Rtype(number);
        if layout(rtype).is_some() {
            let (good, bad) = cases.get(&number).copied().unwrap_or_default();
            assert!(good > 0 && (bad > 0 || rtype == Rtype::NULL), "{rtype:?}: {good} good, {bad} bad");
        }
    }
}

/// A message with the name `Example.` at offset 12.
fn message_with(rdata: &[u8]) -> (Vec<u8>, std::ops::Range<usize>) {
    let mut message = vec![0; 12];
    message.extend_from_slice(b"\x07Example\0");
    let start = message.len();
    message.extend_from_slice(rdata);
    let end = message.len();
    message.extend_from_slice(b"behind");
    (message, start..end)
}

fn canonical(rtype: Rtype, rdata: &[u8]) -> Result<Vec<u8>, RdataError> {
    let (message, range) = message_with(rdata);
    let mut out = b"before".to_vec();
    let result = rdata_canonical(&message, range, rtype, &mut out);
    assert!(out.starts_with(b"before"));
    assert!(result.is_ok() || out.len() == 6, "an error leaves nothing behind");
    result.map(|()| out.split_off(6))
}

#[test]
fn names_are_decompressed_where_rfc_3597_4_says_and_nowhere_else() {
    let whole = b"\x01a\x07Example\0";
    let cut = b"\x01a\xC0\x0C";
    let cases: [(Rtype, &[u8], &[u8]); 12] = [
        (Rtype::NS, b"", b""),
        (Rtype::CNAME, b"", b""),
        (Rtype::PTR, b"", b""),
        (Rtype::MX, b"\0\x05", b""),
        (Rtype::AFSDB, b"\0\x01", b""),
        (Rtype::RT, b"\0\x01", b""),
        (Rtype::SRV, b"\0\x01\0\x02\0\x03", b""),
        (Rtype::NAPTR, b"\0\x01\0\x02\x01S\x00\x00", b""),
        (Rtype::NXT, b"", b"\x40"),
        (Rtype::SIG, b"\0\x01\x05\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0", b"sig"),
        (Rtype::RP, b"\x01x\0", b""),
        (Rtype::MINFO, b"\0", b""),
    ];
    for (rtype, before, behind) in cases {
        let compressed = [before, cut, behind].concat();
        assert_eq!(canonical(rtype, &compressed), Ok([before, whole, behind].concat()), "{rtype:?}");
    }
    let soa = [&cut[..], b"\xC0\x0C", &[9; 20]].concat();
    assert_eq!(canonical(Rtype::SOA, &soa), Ok([&whole[..], b"\x07Example\0", &[9; 20]].concat()));

    let plain: [(Rtype, &[u8], &[u8]); 8] = [
        (Rtype::DNAME, b"", b""),
        (Rtype::KX, b"\0\x01", b""),
        (Rtype::NSEC, b"", b"\0\x01\x40"),
        (Rtype::RRSIG, b"\0\x01\x05\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0", b"sig"),
        (Rtype::SVCB, b"\0\x01", b""),
        (Rtype::HTTPS, b"\0\x01", b""),
        (Rtype::LP, b"\0\x01", b""),
        (Rtype::AMTRELAY, b"\0\x03", b""),
    ];
    for (rtype, before, behind) in plain {
        let compressed = [before, cut, behind].concat();
        assert_eq!(canonical(rtype, &compressed), Err(RdataError::Name(NameError::Pointer)), "{rtype:?}");
        let uncompressed = [before, whole, behind].concat();
        assert_eq!(canonical(rtype, &uncompressed).as_deref(), Ok(&uncompressed[..]), "{rtype:?}");
    }
    // In an unknown type, bytes that look like a pointer are data (RFC 3597 4).
    assert_eq!(canonical(Rtype(65_280), b"\xC0\x0C").as_deref(), Ok(&b"\xC0\x0C"[..]));
}

#[test]
fn a_name_ends_where_its_rdata_ends() {
    // The label would continue into "behind".
    assert_eq!(canonical(Rtype::NS, b"\x03a"), Err(RdataError::Short));
    assert_eq!(canonical(Rtype::MX, b"\0\x01\xC0"), Err(RdataError::Short));
    assert_eq!(canonical(Rtype::NS, b"\xC0\x0Cx"), Err(RdataError::LeftOver));
    assert_eq!(canonical(Rtype::DNAME, b"\x03a"), Err(RdataError::Short));
}

#[test]
fn equality_ignores_case_in_names_of_the_listed_types_only() {
    let name = (b"\x01a\x01B\0", b"\x01A\x01b\0");
    for rtype in [Rtype::NS, Rtype::CNAME, Rtype::PTR, Rtype::DNAME] {
        assert!(rdata_eq(rtype, name.0, name.1), "{rtype:?}");
    }
    assert!(!rdata_eq(Rtype::NSAP_PTR, name.0, name.1));
    assert!(!rdata_eq(Rtype::TXT, b"\x01a", b"\x01A"));
    assert!(!rdata_eq(Rtype(65_280), b"a", b"A"));
    assert!(!rdata_eq(Rtype::NS, b"\x01a\0", b"\x01b\0"));
    assert!(!rdata_eq(Rtype::MX, b"\0\x61\0", b"\0\x41\0"), "a preference is no name");
    let naptr = |flags: &[u8], to: &[u8]| [b"\0\0\0\0\x01", flags, b"\0\0\x01", to, b"\0"].concat();
    assert!(rdata_eq(Rtype::NAPTR, &naptr(b"s", b"x"), &naptr(b"s", b"X")));
    assert!(!rdata_eq(Rtype::NAPTR, &naptr(b"s", b"x"), &naptr(b"S", b"x")));
}
