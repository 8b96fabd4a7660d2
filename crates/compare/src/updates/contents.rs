//! The contents of a zone as a set.

use crate::response::{Rr, Section};
use std::fmt::Write as _;
use wire::name::Name;
use wire::number::{Class, Rtype};
use wire::rdata::rdata_lowercase;
use zone::Record;
use zone::text::print_record;

/// The records of a zone, with names in lower case and one SOA.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// The records.
    pub records: Section,
}

impl Contents {
    /// The set of these records.
    pub fn of(records: impl IntoIterator<Item = Record>) -> Self {
        Self { records: records.into_iter().map(|record| rr(&record)).collect() }
    }

    /// The records of an owner; `owner` is in lower case.
    pub fn at<'a>(&'a self, owner: &'a [u8]) -> impl Iterator<Item = &'a Rr> {
        self.records.iter().filter(move |rr| rr.owner == owner)
    }

    /// The records of an RRset; `owner` is in lower case.
    pub fn rrset<'a>(&'a self, owner: &'a [u8], rtype: Rtype) -> impl Iterator<Item = &'a Rr> {
        self.at(owner).filter(move |rr| rr.rtype == rtype)
    }

    /// The SOA.
    #[must_use]
    pub fn soa(&self) -> Option<&Rr> {
        self.records.iter().find(|rr| rr.rtype == Rtype::SOA)
    }

    /// The serial of the SOA; 0 when there is none.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.soa().and_then(|soa| serial_of(&soa.rdata)).unwrap_or_default()
    }

    /// Replaces the serial in the SOA.
    pub fn set_serial(&mut self, serial: u32) {
        let Some(soa) = self.soa().cloned() else { return };
        self.records.remove(&soa);
        let mut changed = soa;
        let at = changed.rdata.len().saturating_sub(20);
        if let Some(bytes) = changed.rdata.get_mut(at..at + 4) {
            bytes.copy_from_slice(&serial.to_be_bytes());
        }
        self.records.insert(changed);
    }

    /// The contents as a zone file.
    #[must_use]
    pub fn zone_file(&self) -> String {
        let mut text = String::new();
        // The SOA comes first, as some servers require.
        for rr in self.soa().into_iter().chain(self.records.iter().filter(|rr| rr.rtype != Rtype::SOA)) {
            if let Some(record) = record(rr) {
                print_record(&record, &mut text);
                let _written = writeln!(text);
            }
        }
        text
    }
}

/// The serial in an SOA's rdata (RFC 1035 3.3.13).
#[must_use]
pub fn serial_of(rdata: &[u8]) -> Option<u32> {
    rdata.get(rdata.len().checked_sub(20)?..)?.first_chunk().map(|&bytes| u32::from_be_bytes(bytes))
}

/// Converts a record to the compared form.
#[must_use]
pub fn rr(record: &Record) -> Rr {
    let mut rdata = record.rdata.to_vec();
    rdata_lowercase(record.rtype, &mut rdata);
    let owner = record.owner.as_bytes().to_ascii_lowercase();
    Rr { owner, rtype: record.rtype, class: Class::IN, ttl: record.ttl, rdata }
}

/// Converts an RR to a record. `None` if its owner is not a valid name.
#[must_use]
pub fn record(rr: &Rr) -> Option<Record> {
    let owner: Name = wire::name::NameRef::from_bytes(&rr.owner).ok()?.to_name();
    Some(Record { owner, rtype: rr.rtype, ttl: rr.ttl, rdata: rr.rdata.clone().into() })
}
