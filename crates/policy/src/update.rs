//! The input of an evaluation: the steps of an update, the zone that they change, and the limits of that zone.

use std::ops::ControlFlow;
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::set::{RecordRef, Zone};

/// One step of the update section (RFC 2136 2.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Add a record (2.5.1).
    Add {
        /// Its owner.
        owner: Name,
        /// Its type.
        rtype: Rtype,
        /// Its TTL in seconds, at most 2^31 - 1.
        ttl: u32,
        /// Its rdata, names uncompressed.
        rdata: Box<[u8]>,
    },
    /// Delete an RRset (2.5.2).
    DeleteRrset(Name, Rtype),
    /// Delete all RRsets of an owner (2.5.3).
    DeleteName(Name),
    /// Delete one record of an RRset (2.5.4).
    DeleteRecord(Name, Rtype, Box<[u8]>),
}

/// The view of a zone that the evaluation of an update needs.
pub trait ZoneRead {
    /// The apex.
    fn apex(&self) -> NameRef<'_>;
    /// Whether the zone was signed elsewhere: it has a DNSKEY at its apex and no keys of ours.
    fn is_presigned(&self) -> bool;
    /// Number of all records.
    fn record_count(&self) -> u64;
    /// Visits all records of this owner, RRSIGs included, RRset by RRset, until `visit` breaks. Wildcards and zone cuts
    /// are not applied (RFC 2136 1.1.3, 1.1.4).
    fn records_at(&self, owner: NameRef<'_>, visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>);
}

impl ZoneRead for Zone<'_> {
    fn apex(&self) -> NameRef<'_> {
        Zone::apex(self)
    }

    fn is_presigned(&self) -> bool {
        Zone::is_presigned(self)
    }

    fn record_count(&self) -> u64 {
        Zone::record_count(self)
    }

    fn records_at(&self, owner: NameRef<'_>, visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) {
        let _ = Zone::records_at(self, owner).try_for_each(visit);
    }
}

/// Limits of a zone's contents, independent of the key that writes them; 0 means no limit. An update may keep or delete
/// records over a limit, but set no TTL over the limit. Contents that replace the whole zone must keep all limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Largest TTL in seconds.
    pub ttl_max_s: u32,
    /// Largest number of records of one type at a name.
    pub rrset_records_max: u32,
    /// Largest number of records in the zone.
    pub records_max: u32,
}

impl ZoneLimits {
    /// No limits.
    pub const NONE: Self = Self { ttl_max_s: 0, rrset_records_max: 0, records_max: 0 };

    /// Whether there are no limits.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::NONE)
    }
}
