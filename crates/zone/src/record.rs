//! What a zone is made of: its identity, records, and differences between two of its versions.

use wire::name::Name;
use wire::number::{Rtype, Serial};

/// Which zone: a view and an apex.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId {
    /// The view; zero is the only one today.
    pub view: u16,
    /// The apex, in canonical form.
    pub apex: Name,
}

/// One resource record of class IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The owner, case kept.
    pub owner: Name,
    /// The type.
    pub rtype: Rtype,
    /// Time to live, in seconds.
    pub ttl: u32,
    /// The rdata, uncompressed.
    pub rdata: Box<[u8]>,
}

/// The difference between two versions of a zone, an IXFR difference sequence (RFC 1995 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changeset {
    /// Serial of the older version; `None` when the zone is new.
    pub serial_from: Option<Serial>,
    /// Serial of the newer version.
    pub serial_to: Serial,
    /// What the newer version no longer has, the old SOA included.
    pub deleted: Vec<Record>,
    /// What only the newer version has, the new SOA included.
    pub added: Vec<Record>,
}
