//! Other ways to do one thing, that some server goes.

/// Another way to do one thing; [`super::predicates`] says who goes it, and which rule settles it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quirk {
    /// The update section is scanned before the prerequisites are looked at.
    ScanFirst,
    /// A DS without NS beside it, or at the apex, is deleted, whoever brought it; the serial steps all the same.
    OrphanDsGoes,
    /// Adds a DS at the apex like any other type.
    ApexDsTaken,
    /// An NS of the apex whose target is in the zone and has no address makes the update be REFUSED.
    ApexNsNeedsAddress,
    /// A CDS of the apex without the DNSKEY that it names makes the update be REFUSED.
    ApexCdsNeedsKey,
    /// A record named twice among the prerequisites has to exist twice.
    ValuesAreCounted,
    /// A record that is there and comes in another case is a change, and the serial steps.
    CaseCounts,
    /// RRSIG is added and deleted at the apex.
    ApexRrsigTaken,
    /// A record of class IN whose type is of no record makes the message unreadable.
    MetaTypesUnreadable,
    /// Rdata that does not fit class and type makes the message unreadable: none for a record to be deleted, some for
    /// an RRset to be deleted or for type ANY, none for TKEY.
    RdataHasToFit,
    /// Each SOA of an update is compared with that of the zone, not with the one before it.
    SoaAgainstZone,
    /// The rdata of CAA, HINFO, HTTPS, TXT, and of what holds a digest is not looked into.
    RdataUnchecked,
    /// A GOST digest may have any length.
    GostUnchecked,
    /// MAILA, MAILB, type 0 and unassigned meta types are types of records.
    MetaTypesTaken,
    /// An RRset of type 0 may be deleted; there is none.
    TypeZeroDeleted,
    /// An SOA is taken for newer when its serial is half the circle away, or newer than that of one before it in the
    /// update but not than that of the zone; then the update fails.
    LongWayFails,
    /// The TTL of what deletes an RRset or a name is not looked at.
    TtlOfDeletionUnchecked,
    /// A TTL of more than 31 bits is kept as it is.
    HugeTtlKept,
    /// A record that exists is not added again, whatever its TTL, but for a CNAME.
    TtlOfExistingStays,
    /// Adding a record below a DNAME, or a DNAME above records, is REFUSED when its turn comes; there is no scan of the
    /// update section before.
    BelowDnameRefused,
    /// A DNAME that would replace another only deletes it.
    DnameReplacedIsLost,
    /// NSEC and RRSIG are added and deleted as other types are.
    SignerTypesTaken,
    /// Nothing stands beside a CNAME, KEY neither.
    NothingBesideCname,
    /// A WKS of the same address and protocol is added, not put in the place of the other.
    WksAdds,
    /// 4294967295 is counts by 0.
    WrapToZero,
}

/// The ways that are gone at once.
#[derive(Clone, Copy)]
pub struct Quirks<'q>(pub &'q [Quirk]);

impl Quirks<'_> {
    /// Whether this is one of them.
    #[must_use]
    pub fn has(self, quirk: Quirk) -> bool {
        self.0.contains(&quirk)
    }
}
