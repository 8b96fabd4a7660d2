//! Tests of signed zones: signatures, and the names in the NSEC chain.

use super::*;
use zone::text;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Makes a zone from lines of owner, type and rdata.
fn zone(apex: &str, lines: &[(&str, Rtype, &[u8])]) -> ZoneRecords {
    let record = |&(owner, rtype, rdata): &(&str, Rtype, &[u8])| Record {
        owner: name(owner),
        rtype,
        ttl: 300,
        rdata: rdata.into(),
    };
    ZoneRecords { apex: name(apex), records: lines.iter().map(record).collect() }
}

const SOA: &[u8] = b"\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x3c";
const VALID: Validity = Validity { inception: 1_700_000_000, expiration: 1_900_000_000 };

fn types_at(zone: &ZoneRecords, owner: &str) -> Vec<String> {
    let at = zone.records.iter().filter(|record| record.owner == name(owner));
    at.map(|record| match record.rtype {
        Rtype::RRSIG => format!("RRSIG({})", u16::from_be_bytes([record.rdata[0], record.rdata[1]])),
        rtype => format!("{}", rtype.0),
    })
    .collect()
}

#[test]
fn zone_cuts_have_signed_ds_and_names_below_are_unsigned() {
    let mut zones = [
        zone(
            ".",
            &[
                (".", Rtype::SOA, SOA),
                (".", Rtype::NS, b"\x02ns\x04test\x00"),
                ("test.", Rtype::NS, b"\x02ns\x04test\x00"),
                ("ns.test.", Rtype::A, &[192, 0, 2, 1]),
                ("other.", Rtype::NS, b"\x02ns\x04test\x00"),
                // DS of another key, and an old chain.
                ("test.", Rtype::DS, &[1, 2, 3, 4]),
                (".", Rtype::NSEC, b"\x00\x00\x01\x40"),
            ],
        ),
        zone("test.", &[("test.", Rtype::SOA, SOA), ("test.", Rtype::NS, b"\x02ns\x04test\x00")]),
        zone("lost.other.", &[("lost.other.", Rtype::SOA, SOA)]),
    ];
    let mut counts = Vec::new();
    let trust = sign(&mut zones, &[1; 32], VALID, |count| counts.push(count));
    assert_eq!(counts, [1, 2, 3]);
    assert_eq!(types_at(&zones[0], "test."), ["2", "43", "RRSIG(43)", "47", "RRSIG(47)"]);
    assert_eq!(types_at(&zones[0], "ns.test."), ["1"]);
    assert_eq!(types_at(&zones[0], "other."), ["2", "47", "RRSIG(47)"]);
    assert_eq!(types_at(&zones[0], "."), ["2", "RRSIG(2)", "6", "RRSIG(6)", "47", "RRSIG(47)", "48", "RRSIG(48)"]);
    let ds = zones[0].records.iter().find(|record| record.rtype == Rtype::DS).unwrap();
    assert_eq!(*ds.rdata, *ZoneKey::derive(&[1; 32], name("test.").as_ref()).ds());
    assert_eq!(trust.anchors.len(), 1);
    assert_eq!((&trust.anchors[0].zone, &trust.undelegated), (&name("."), &vec![name("lost.other.")]));
}

#[test]
fn the_nsec_chain_is_a_circle_over_all_authoritative_names() {
    let mut zones = [zone(
        "test.",
        &[
            ("test.", Rtype::SOA, SOA),
            ("*.test.", Rtype::A, &[192, 0, 2, 1]),
            ("b.A.test.", Rtype::TXT, b"\x01x"),
            ("d.test.", Rtype::DNAME, b"\x00"),
            ("x.d.test.", Rtype::A, &[192, 0, 2, 1]),
            ("k.test.", Rtype(257), b"\x00\x05issue"),
        ],
    )];
    sign(&mut zones, &[1; 32], VALID, |_| {});
    let mut printed = Vec::new();
    for record in zones[0].records.iter().filter(|record| record.rtype == Rtype::NSEC) {
        // The lesser of the SOA's TTL and its last field.
        assert_eq!(record.ttl, 60);
        let mut rdata = String::new();
        text::print_rdata(Rtype::NSEC, &record.rdata, &mut rdata);
        printed.push(format!("{} {rdata}", record.owner));
    }
    let wanted = [
        "test. *.test. SOA RRSIG NSEC DNSKEY",
        "*.test. b.A.test. A RRSIG NSEC",
        "b.A.test. d.test. TXT RRSIG NSEC",
        "d.test. k.test. DNAME RRSIG NSEC",
        "k.test. test. RRSIG NSEC CAA",
    ];
    assert_eq!(printed, wanted);
    let wildcard =
        zones[0].records.iter().find(|record| record.owner == name("*.test.") && record.rtype == Rtype::RRSIG);
    assert_eq!(wildcard.unwrap().rdata[3], 1, "an asterisk is no label of a signature");
}

#[test]
fn equal_records_are_merged_with_one_ttl() {
    let mut zones = [zone(
        "test.",
        &[
            ("test.", Rtype::SOA, SOA),
            ("test.", Rtype::NS, b"\x02NS\x04test\x00"),
            ("TEST.", Rtype::NS, b"\x02ns\x04test\x00"),
            ("test.", Rtype::NS, b"\x01a\x04test\x00"),
        ],
    )];
    zones[0].records[2].ttl = 100;
    sign(&mut zones, &[1; 32], VALID, |_| {});
    let servers: Vec<_> = zones[0].records.iter().filter(|record| record.rtype == Rtype::NS).collect();
    assert_eq!(servers.len(), 2);
    assert!(servers.iter().all(|record| record.ttl == 100) && servers[0].rdata[1] == b'a');
}
