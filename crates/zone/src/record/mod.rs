//! Records, the identity of a zone, and the difference between two of its versions.
//!
//! The class of every record is IN. Other classes are refused at input (files, updates), so the class is not stored.

// Lists of many records.
mod list;
pub use list::RecordList;

use wire::name::{Name, NameRef};
use wire::number::{Rtype, Serial};

/// The identity of a zone: its view and apex.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ZoneId {
    /// The view, which is always 0 today.
    pub view: u16,
    /// The owner of the SOA, in canonical form (lower case).
    pub apex: Name,
}

/// One resource record of class IN (RFC 1035 3.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The owner, absolute, with case kept.
    pub owner: Name,
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds, at most 2^31 - 1 (RFC 2181 8).
    pub ttl: u32,
    /// The rdata in wire form with uncompressed names. Equality of this struct compares bytes; `wire::rdata` compares
    /// by RFC 4034 6.2.
    pub rdata: Box<[u8]>,
}

/// One record, borrowed from a version of a zone or from a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordRef<'a> {
    /// The owner, with case kept.
    pub owner: NameRef<'a>,
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The rdata in wire form, names uncompressed.
    pub rdata: &'a [u8],
}

impl RecordRef<'_> {
    /// An owned copy.
    #[must_use]
    pub fn to_record(&self) -> Record {
        let Self { owner, rtype, ttl, rdata } = *self;
        Record { owner: owner.to_name(), rtype, ttl, rdata: rdata.into() }
    }
}

impl<'a> From<&'a Record> for RecordRef<'a> {
    fn from(record: &'a Record) -> Self {
        Self { owner: record.owner.as_ref(), rtype: record.rtype, ttl: record.ttl, rdata: &record.rdata }
    }
}

/// The difference between two versions of a zone, like a difference sequence of IXFR (RFC 1995 4).
///
/// `deleted` contains the SOA of the old version, and `added` the new one. A change of an RRset's TTL deletes and adds
/// the whole RRset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changeset {
    /// Serial of the old version; `None` for a new zone.
    pub serial_from: Option<Serial>,
    /// Serial of the new version.
    pub serial_to: Serial,
    /// Deleted records.
    pub deleted: Vec<Record>,
    /// Added records.
    pub added: Vec<Record>,
}
