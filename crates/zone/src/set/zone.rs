//! One zone of one version.

use super::records::Records;
use super::zone_record::{Denial, ZoneRecord, nsec3_params, soa_expire};
use crate::hash::StateHash;
use crate::key;
use crate::nsec3::Nsec3Params;
use crate::record::RecordRef;
use crate::record::ZoneId;
use crate::vertex::{LeafNames, RrsetRef, Vertex};
use store::{Key, Trail, Tree, View};
use wire::compose::SoaForm;
use wire::name::NameRef;
use wire::number::{Rtype, Serial};

/// One zone of one version.
#[derive(Clone, Copy)]
pub struct Zone<'a> {
    store: View<'a, LeafNames>,
    view: u16,
    apex: NameRef<'a>,
    record: ZoneRecord,
    soa_form: SoaForm<'a>,
}

impl<'a> Zone<'a> {
    pub(super) fn from_leaf(store: View<'a, LeafNames>, view: u16, leaf: &'a [u8]) -> Option<Self> {
        let (apex, record, soa_form) = ZoneRecord::from_leaf(leaf)?;
        Some(Self { store, view, apex, record, soa_form })
    }

    /// The names of the zone at the end of a trail in the tree of zones.
    pub(crate) fn names_at(store: View<'_, LeafNames>, trail: &Trail) -> Tree {
        store.trail_leaf(trail).and_then(ZoneRecord::names_of).unwrap_or(Tree::EMPTY)
    }

    /// The identity of the zone, copied.
    #[must_use]
    pub fn id(&self) -> ZoneId {
        ZoneId { view: self.view, apex: self.apex.to_name() }
    }

    /// The view.
    #[must_use]
    pub const fn view(&self) -> u16 {
        self.view
    }

    /// The owner of the SOA, in lower case.
    #[must_use]
    pub const fn apex(&self) -> NameRef<'a> {
        self.apex
    }

    /// The serial of the SOA; `None` while the zone has no records.
    #[must_use]
    pub const fn serial(&self) -> Option<Serial> {
        self.record.serial
    }

    /// The SOA RRset; `None` while the zone has no records.
    #[must_use]
    pub fn soa(&self) -> Option<RrsetRef<'a>> {
        self.rrset(self.apex, Rtype::SOA)
    }

    /// The SOA's EXPIRE. A primary server returns it in the EXPIRE option (RFC 7314 3.2).
    #[must_use]
    pub fn expire(&self) -> Option<u32> {
        self.soa()?.first().and_then(soa_expire)
    }

    /// The SOA as negative responses carry it.
    pub(crate) const fn soa_form(&self) -> SoaForm<'a> {
        self.soa_form
    }

    /// Whether the zone comes with signatures: its apex has DNSKEY. Updates would make it bogus.
    #[must_use]
    pub const fn is_presigned(&self) -> bool {
        self.record.presigned
    }

    /// How the zone proves that something does not exist.
    #[must_use]
    pub const fn denial(&self) -> Denial {
        self.record.denial
    }

    /// Number of records, including RRSIG and NSEC3.
    #[must_use]
    pub const fn record_count(&self) -> u64 {
        self.record.record_count
    }

    /// The sum of the hashes of all records, and of the zone's identity.
    #[must_use]
    pub const fn hash(&self) -> StateHash {
        self.record.hash
    }

    /// The RRset of an owner and a type; see [`Zone::rrsets`] for RRSIG.
    #[must_use]
    pub fn rrset(&self, owner: NameRef<'_>, rtype: Rtype) -> Option<RrsetRef<'a>> {
        let key = key::of(owner);
        let vertex = if rtype == Rtype::NSEC3 { self.hashed_vertex(&key) } else { self.vertex(&key) };
        vertex?.rrset(rtype)
    }

    /// The RRsets of an owner, in ascending order of type, each with its RRSIGs. A type with only RRSIGs is left out.
    pub fn rrsets(&self, owner: NameRef<'_>) -> impl Iterator<Item = RrsetRef<'a>> + use<'a> {
        let key = key::of(owner);
        let vertices = [self.vertex(&key), self.hashed_vertex(&key)];
        vertices.into_iter().flatten().flat_map(|vertex| vertex.entries()).filter(|rrset| !rrset.is_empty())
    }

    /// Every record of an owner, including RRSIGs without the records that they cover. The owner has its first case.
    pub fn records_at(&self, owner: NameRef<'_>) -> impl Iterator<Item = RecordRef<'a>> + use<'a> {
        let key = key::of(owner);
        let vertices = [self.vertex(&key), self.hashed_vertex(&key)];
        vertices.into_iter().flatten().flat_map(|vertex| {
            let owner = vertex.owner();
            vertex.entries().flat_map(move |rrset| {
                let RrsetRef { rtype, ttl, rrsig_ttl, .. } = rrset;
                let rdatas = rrset.rdatas().map(move |rdata| RecordRef { owner, rtype, ttl, rdata });
                let rrsig = move |rdata| RecordRef { owner, rtype: Rtype::RRSIG, ttl: rrsig_ttl, rdata };
                rdatas.chain(rrset.rrsigs().map(rrsig))
            })
        })
    }

    /// Whether a name exists: it has records, or a name below it has (RFC 4592 2.2.2, empty non-terminals). Owners of
    /// only NSEC3 do not exist (RFC 5155 7.2.8).
    #[must_use]
    pub fn name_exists(&self, name: NameRef<'_>) -> bool {
        let key = key::of(name);
        self.vertex(&key).is_some() || self.has_descendant(&key)
    }

    /// All records.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records::new(self.store, self.record.names, self.record.hashed)
    }

    /// The records from an owner on, in the order of [`Zone::records`], to continue an interrupted read.
    #[must_use]
    pub fn records_from(&self, first: NameRef<'_>) -> Records<'a> {
        Records::from(self.store, self.record.names, self.record.hashed, &key::of(first))
    }

    /// The position of a name.
    #[must_use]
    pub(crate) fn vertex(&self, key: &Key) -> Option<Vertex<'a>> {
        self.store.get(self.record.names, key).map(Vertex::from_leaf)
    }

    /// The position of an NSEC3 record.
    #[must_use]
    pub(crate) fn hashed_vertex(&self, key: &Key) -> Option<Vertex<'a>> {
        if self.record.hashed == Tree::EMPTY {
            return None;
        }
        self.store.get(self.record.hashed, key).map(Vertex::from_leaf)
    }

    /// The chain of NSEC3 records that proofs use.
    #[must_use]
    pub(crate) fn nsec3_params(&self) -> Option<Nsec3Params<'a>> {
        nsec3_params(&self.vertex(&key::of(self.apex))?).ok().flatten()
    }

    /// Whether a name below that of `key` has records.
    #[must_use]
    pub(crate) fn has_descendant(&self, key: &Key) -> bool {
        let mut first_below = Key::new();
        self.store.succ(self.record.names, key).is_some_and(|leaf| {
            key::write(Vertex::from_leaf(leaf).owner(), &mut first_below);
            key.is_prefix_of(&first_below)
        })
    }

    /// Reads the trees.
    pub(crate) const fn store(&self) -> View<'a, LeafNames> {
        self.store
    }

    /// Owner to RRsets.
    pub(crate) const fn names(&self) -> Tree {
        self.record.names
    }

    /// Owner to NSEC3.
    pub(crate) const fn hashed(&self) -> Tree {
        self.record.hashed
    }
}
