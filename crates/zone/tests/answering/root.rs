//! The real root zone of 2017-08-21, signed: loaded whole, and some thousand queries compared with the model and
//! validated.
//!
//! The zone is not part of the project: `CATAMARAN_DATA`, or `../shared/data` beside the workspace, has it or the
//! test is skipped, in plain sight.

use crate::common::{add_zone, name, small_set, zone_id};
use crate::model::{Model, compare, under};
use crate::signing::Scheme;
use lzma_rust2::XzReader;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::PathBuf;
use wire::name::Name;
use wire::number::{Rtype, Serial};
use zone::check::check;
use zone::file::{LoadOptions, Slice, load};
use zone::record::Record;

const FILE: &str = "zones/root-20170821.zone.xz";

fn root_zone() -> Option<Vec<Record>> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("CATAMARAN_DATA").map_or(beside, PathBuf::from).join(FILE);
    let Ok(packed) = std::fs::read(&path) else {
        skip::data(path.display());
        return None;
    };
    let mut text = Vec::new();
    XzReader::new(packed.as_slice(), true).read_to_end(&mut text).expect("xz");
    let loaded = load(&mut Slice::new(text), None, &LoadOptions::default()).expect("a zone file");
    Some(check(loaded).expect("a zone").records.to_records())
}

fn sorted(records: impl Iterator<Item = Record>) -> Vec<(Name, u16, u32, Box<[u8]>)> {
    let mut all: Vec<_> = records.map(|record| (record.owner, record.rtype.0, record.ttl, record.rdata)).collect();
    all.sort();
    all
}

#[test]
fn the_root_zone_is_kept_and_answered() {
    let Some(records) = root_zone() else { return };
    let mut set = small_set();
    add_zone(&mut set, ".", &records);
    let zone = set.published().zone(&zone_id(".")).unwrap();
    assert_eq!((zone.serial(), zone.is_presigned()), (Some(Serial(2_017_082_100)), true));
    assert_eq!(zone.record_count(), records.len() as u64);
    // Nothing is lost, nothing is added, and owners come in canonical order.
    let owners: Vec<Name> = zone.records().map(|record| record.owner.to_name()).collect();
    assert!(owners.is_sorted());
    assert!(sorted(zone.records().map(|record| record.to_record())) == sorted(records.iter().cloned()));

    let data = |record: &&Record| !matches!(record.rtype, Rtype::RRSIG | Rtype::NSEC);
    let model = Model::new(&name("."), &records.iter().filter(data).cloned().collect::<Vec<_>>());
    let mut queries = BTreeSet::new();
    for owner in owners.into_iter().collect::<BTreeSet<_>>() {
        queries.extend([(owner.clone(), Rtype::DS), (owner.clone(), Rtype::NS)]);
        if owner.as_ref().label_count() <= 1 {
            queries.extend([(owner.clone(), Rtype::A), (under(b"\x03www", &owner), Rtype::AAAA)]);
            let first = owner.as_bytes().get(1).copied().unwrap_or(b'x');
            queries.insert((under(&[4, first, b'z', b'-', b'0'], &name(".")), Rtype::A));
        }
    }
    for (qname, qtype) in &queries {
        compare(&set, &model, Scheme::Nsec, qname, *qtype).unwrap();
    }
    assert!(queries.len() > 8_000, "{} queries", queries.len());
}
