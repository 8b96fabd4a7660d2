//! Records, the identity of a zone, and the difference between two versions of one.
//!
//! The class of every record is IN: other classes are refused where they enter (files, updates), so none is kept.

// Very many of them.
mod list;
pub use list::RecordList;

use wire::name::{Name, NameRef};
use wire::number::{Rtype, Serial};

/// Which zone: zones are told apart by view and apex everywhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ZoneId {
    /// The view; there is one today, 0.
    pub view: u16,
    /// The owner of the SOA, in canonical form (lower case).
    pub apex: Name,
}

/// One resource record of class IN (RFC 1035 3.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The owner; absolute, case kept.
    pub owner: Name,
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds; at most 2^31 - 1 (RFC 2181 8).
    pub ttl: u32,
    /// The rdata in wire form, names in it uncompressed. Equality of this struct is of bytes; `wire::rdata` compares
    /// as RFC 4034 6.2 wants.
    pub rdata: Box<[u8]>,
}

/// One record, borrowed from a version of a zone or from a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordRef<'a> {
    /// The owner; case kept.
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

/// The difference between two versions of a zone, as one difference sequence of an IXFR has it (RFC 1995 4).
///
/// The SOA of the old version is among `deleted` and that of the new one among `added`. A change of an RRset's TTL
/// deletes and adds the whole RRset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changeset {
    /// Serial of the version that is changed; `None` when the zone is new.
    pub serial_from: Option<Serial>,
    /// Serial of the version that results.
    pub serial_to: Serial,
    /// Records that go.
    pub deleted: Vec<Record>,
    /// Records that come.
    pub added: Vec<Record>,
}
