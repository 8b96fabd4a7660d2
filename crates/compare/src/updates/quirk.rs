//! Quirks: deviations of some servers from the reference.

/// A quirk. [`super::predicates`] says which server has it, and which rule supports ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quirk {
    /// The update section is scanned before the prerequisites are checked.
    ScanFirst,
    /// A DS without NS, or at the apex, is deleted, even if it was there before. The serial still increases.
    OrphanDsGoes,
    /// Adds a DS at the apex like any other type.
    ApexDsTaken,
    /// An NS of the apex with a target in the zone but without an address makes the update REFUSED.
    ApexNsNeedsAddress,
    /// A CDS of the apex without its DNSKEY makes the update REFUSED.
    ApexCdsNeedsKey,
    /// A record listed twice in the prerequisites must exist twice.
    ValuesAreCounted,
    /// An existing record in another case is a change, and the serial increases.
    CaseCounts,
    /// RRSIG is added and deleted at the apex.
    ApexRrsigTaken,
    /// A record of class IN with a type that no record can have makes the message unreadable.
    MetaTypesUnreadable,
    /// Rdata that does not fit class and type makes the message unreadable: none for a deleted record, some for a
    /// deleted RRset or type ANY, or none for TKEY.
    RdataHasToFit,
    /// Each SOA of an update is compared with that of the zone, not with the one before it.
    SoaAgainstZone,
    /// The rdata of CAA, HINFO, HTTPS, TXT and digest types is not checked.
    RdataUnchecked,
    /// A GOST digest may have any length.
    GostUnchecked,
    /// MAILA, MAILB, type 0 and unassigned meta types are types of records.
    MetaTypesTaken,
    /// An RRset of type 0 may be deleted. It never exists.
    TypeZeroDeleted,
    /// An SOA counts as newer if its serial is half the number space away. It also does if its serial is newer than
    /// that of an earlier SOA in the update, but not newer than that of the zone. The update then fails.
    LongWayFails,
    /// The TTL of a deletion of an RRset or a name is not checked.
    TtlOfDeletionUnchecked,
    /// A TTL of more than 31 bits is kept.
    HugeTtlKept,
    /// An existing record is not added again, even with another TTL. A CNAME is.
    TtlOfExistingStays,
    /// Adding a record below a DNAME, or a DNAME above records, is REFUSED at that step. The update section is not
    /// scanned first.
    BelowDnameRefused,
    /// A DNAME that would replace another one only deletes it.
    DnameReplacedIsLost,
    /// NSEC and RRSIG are added and deleted like other types.
    SignerTypesTaken,
    /// No record may be beside a CNAME, not even KEY.
    NothingBesideCname,
    /// A WKS with the same address and protocol is added instead of replacing the other.
    WksAdds,
    /// 4294967295 is followed by 0.
    WrapToZero,
}

/// The active quirks.
#[derive(Clone, Copy)]
pub struct Quirks<'q>(pub &'q [Quirk]);

impl Quirks<'_> {
    /// Whether this quirk is active.
    #[must_use]
    pub fn has(self, quirk: Quirk) -> bool {
        self.0.contains(&quirk)
    }
}
