//! What the tests make zones from.

use wire::name::Name;
use wire::number::{Rtype, Serial};
use zone::record::{Record, ZoneId};
use zone::set::{StoreConfig, ZoneSet, ZoneSetConfig};

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error:?}"))
}

pub(crate) fn zone_id(apex: &str) -> ZoneId {
    ZoneId { view: 0, apex: name(apex) }
}

/// A set with room for a test.
pub(crate) fn small_set() -> ZoneSet {
    let store = StoreConfig { reserve_bytes: 1 << 30, huge_pages: false };
    ZoneSet::new(ZoneSetConfig { store }).expect("a gigabyte of addresses")
}

/// A published set with one zone.
pub(crate) fn set_of(apex: &str, records: &[Record]) -> ZoneSet {
    let mut set = small_set();
    add_zone(&mut set, apex, records);
    set
}

/// Imports a zone and publishes.
pub(crate) fn add_zone(set: &mut ZoneSet, apex: &str, records: &[Record]) {
    let id = zone_id(apex);
    let mut edit = set.edit();
    edit.add_records(&id, records).unwrap();
    edit.commit_stage(&id).unwrap();
    let version = edit.seal();
    set.publish(version);
}

pub(crate) fn record(owner: &str, ttl: u32, rtype: Rtype, rdata: &[u8]) -> Record {
    Record { owner: name(owner), rtype, ttl, rdata: rdata.into() }
}

pub(crate) fn soa(apex: &str, serial: Serial) -> Record {
    let mut rdata = b"\x02ns\x00\x04mail\x00".to_vec();
    for number in [serial.0, 7200, 900, 1_209_600, 300] {
        rdata.extend(number.to_be_bytes());
    }
    record(apex, 3600, Rtype::SOA, &rdata)
}
