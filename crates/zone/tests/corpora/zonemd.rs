//! Zones with a digest of themselves: the digest is right only if every record was understood (RFC 8976).

use super::support::{data, read, read_tar, scan};
use catamaran_zone::record::Record;
use std::collections::BTreeSet;
use wire::number::Rtype;
use wire::rdata::rdata_lowercase;

/// RFC 8976 3.3: all records in canonical form and order, without the digests at the apex and their signatures.
fn digest(apex: &wire::name::Name, records: &[Record], algorithm: u8) -> Vec<u8> {
    let mut canonical = BTreeSet::new();
    for record in records {
        let is_digest = |rtype: Rtype| rtype == Rtype::ZONEMD && record.owner == *apex;
        let covered = record.rdata.first_chunk::<2>().map_or(0, |bytes| u16::from_be_bytes(*bytes));
        if is_digest(record.rtype) || (record.rtype == Rtype::RRSIG && is_digest(Rtype(covered))) {
            continue;
        }
        // RFC 8976 3.3.1: records outside of the zone are no part of it.
        if record.owner.as_ref().is_at_or_below(apex.as_ref()) {
            let mut rdata = record.rdata.to_vec();
            rdata_lowercase(record.rtype, &mut rdata);
            canonical.insert((record.owner.as_ref().to_canonical(), record.rtype, rdata, record.ttl));
        }
    }
    let algorithm = if algorithm == 1 { &ring::digest::SHA384 } else { &ring::digest::SHA512 };
    let mut context = ring::digest::Context::new(algorithm);
    for (owner, rtype, rdata, ttl) in canonical {
        context.update(owner.as_bytes());
        context.update(&rtype.0.to_be_bytes());
        context.update(&[0, 1]);
        context.update(&ttl.to_be_bytes());
        context.update(&(rdata.len() as u16).to_be_bytes());
        context.update(&rdata);
    }
    context.finish().as_ref().to_vec()
}

/// How many digests of the zone are right, and how many of them could be.
fn verify(name: &str, bytes: &[u8], origin: &str) -> (usize, usize) {
    let loaded = scan(bytes, Some(origin)).unwrap_or_else(|errors| panic!("{name}: {errors}"));
    let (mut right, mut all) = (0, 0);
    let records = loaded.records.to_records();
    for record in records.iter().filter(|record| record.rtype == Rtype::ZONEMD && record.owner == loaded.apex) {
        // Scheme 1, SHA-384 or SHA-512.
        if record.rdata[4] == 1 && matches!(record.rdata[5], 1 | 2) {
            all += 1;
            right += usize::from(record.rdata[6..] == digest(&loaded.apex, &records, record.rdata[5]));
        }
    }
    (right, all)
}

#[test]
fn digests_of_the_cases() {
    let Some(folder) = data() else { return };
    let mut zones = 0;
    for (name, bytes) in read_tar(&folder, "zonemd-cases-01-25.tar.xz") {
        if !name.ends_with(".zone") {
            continue;
        }
        let origin = if name.ends_with("example.com.zone") { "example.com." } else { "example." };
        let (right, all) = verify(&name, &bytes, origin);
        println!("{name}: {right} of {all}");
        assert!(all > 0 && right == all, "{name}: {right} of {all} digests are right");
        zones += 1;
    }
    assert_eq!(zones, 18);
}

#[test]
fn digest_of_the_root_zone() {
    let Some(folder) = data() else { return };
    let bytes = read(&folder, "root-20210519-zonemd.zone.xz");
    assert_eq!(verify("root-20210519-zonemd.zone", &bytes, "."), (1, 1));
}
