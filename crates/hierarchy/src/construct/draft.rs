//! A zone under construction: RRsets from their best source.

use super::Reason;
use super::rrset::{Kind, Rrset};
use std::collections::{BTreeMap, BTreeSet};
use wire::name::Name;
use wire::number::Rtype;

/// Trust in the source of an RRset (RFC 2181 5.4.1). An RRset of a higher rank replaces one of a lower rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rank {
    /// In a truncated response: possibly incomplete.
    Partial,
    /// In the additional section of another zone's response.
    Elsewhere,
    /// In the additional section.
    Additional,
    /// In the authority section of a denial, an answer or a referral, or in an answer without AA.
    Authority,
    /// In the answer section.
    Answer,
}

/// A kept RRset.
pub(super) struct StoredRrset {
    pub(super) rank: Rank,
    pub(super) ttl: u32,
    pub(super) rdatas: Vec<Box<[u8]>>,
    /// The reason, if the RRset is made up.
    pub(super) made: Option<Reason>,
}

/// How a later RRset differs from the kept one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Difference {
    /// In the records.
    Records,
    /// Only in the TTL.
    Ttl,
}

/// A zone under construction.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) rrsets: BTreeMap<(Name, Kind), StoredRrset>,
    /// Existing names without these types.
    pub(super) nodata: BTreeMap<Name, BTreeSet<Rtype>>,
    /// Names that do not exist.
    pub(super) nxdomain: BTreeSet<Name>,
    bytes: usize,
}

/// Memory of an RRset besides its data: the entry, and an allocation for each record.
const RRSET_BYTES: usize = 160;
const RDATA_BYTES: usize = 32;

impl Draft {
    /// Keeps an RRset unless an RRset of the same or a higher rank exists. Returns the difference between two of the
    /// same rank, and the RRset that is not kept.
    pub(super) fn put(&mut self, owner: &Name, rrset: &Rrset, rank: Rank) -> Option<(Difference, StoredRrset)> {
        let stored = StoredRrset { rank, ttl: rrset.ttl, rdatas: rrset.rdatas.clone(), made: None };
        let key = (owner.clone(), rrset.kind);
        let Some(kept) = self.rrsets.get_mut(&key) else {
            self.bytes += bytes_of(&key.0, &stored);
            self.rrsets.insert(key, stored);
            return None;
        };
        let differs = if !rrset.has_same_records(&kept.rdatas) {
            Some(Difference::Records)
        } else {
            (rrset.ttl != kept.ttl).then_some(Difference::Ttl)
        };
        let is_usual = differs == Some(Difference::Ttl) && is_of_denial(rrset.kind, rank, kept.rank);
        let is_worth_telling = rank.min(kept.rank) > Rank::Elsewhere && !is_usual;
        let other = if rank > kept.rank {
            self.bytes = self.bytes + bytes_of(&key.0, &stored) - bytes_of(&key.0, kept);
            std::mem::replace(kept, stored)
        } else {
            stored
        };
        differs.filter(|_| is_worth_telling).map(|differs| (differs, other))
    }

    /// Adds an RRset that is not in the trace. Does nothing below a DNAME, where RFC 6672 2.4 allows no records.
    pub(super) fn make(
        &mut self,
        owner: &Name,
        rtype: Rtype,
        ttl: u32,
        rdatas: Vec<Box<[u8]>>,
        why: impl Into<Reason>,
    ) {
        if self.is_below_dname(owner) {
            return;
        }
        let stored = StoredRrset { rank: Rank::Partial, ttl, rdatas, made: Some(why.into()) };
        self.bytes += bytes_of(owner, &stored);
        self.rrsets.insert((owner.clone(), Kind::of(rtype)), stored);
    }

    pub(super) fn get(&self, owner: &Name, rtype: Rtype) -> Option<&StoredRrset> {
        self.rrsets.get(&(owner.clone(), Kind::of(rtype)))
    }

    pub(super) fn remove(&mut self, owner: &Name, kind: Kind) -> Option<StoredRrset> {
        self.rrsets.remove(&(owner.clone(), kind))
    }

    /// Whether the name or a name below it has records.
    pub(super) fn exists(&self, name: &Name) -> bool {
        let first = (name.clone(), Kind::of(Rtype(0)));
        self.rrsets.range(first..).next().is_some_and(|((owner, _), _)| super::response::is_below(owner, name))
    }

    /// Whether a wildcard matches a name that does not exist (RFC 4592 3.3.1).
    pub(super) fn has_wildcard_for(&self, name: &Name) -> bool {
        self.wildcard_for(name).is_some()
    }

    /// The wildcard that answers for a name that does not exist.
    pub(super) fn wildcard_for(&self, name: &Name) -> Option<Name> {
        let mut next = name.as_ref().parent();
        while let Some(encloser) = next {
            let owner = encloser.to_name();
            if self.exists(&owner) {
                return wildcard(&owner).filter(|wildcard| self.exists(wildcard));
            }
            next = encloser.parent();
        }
        None
    }

    /// Whether the name is below a DNAME.
    pub(super) fn is_below_dname(&self, name: &Name) -> bool {
        let mut next = name.as_ref().parent();
        while let Some(above) = next {
            if self.get(&above.to_name(), Rtype::DNAME).is_some() {
                return true;
            }
            next = above.parent();
        }
        false
    }

    /// The zone cut at the name or above it, but below the apex.
    pub(super) fn cut_above(&self, apex: &Name, name: &Name) -> Option<Name> {
        let mut cut = None;
        let mut next = Some(name.as_ref());
        while let Some(name) = next.filter(|name| *name != apex.as_ref()) {
            let owner = name.to_name();
            if self.get(&owner, Rtype::NS).is_some() {
                cut = Some(owner);
            }
            next = name.parent();
        }
        cut
    }

    /// Notes that a name lacks a type or, without a type, does not exist. Returns whether this is new.
    pub(super) fn deny(&mut self, name: &Name, rtype: Option<Rtype>) -> bool {
        match rtype {
            Some(rtype) => self.nodata.entry(name.clone()).or_default().insert(rtype),
            None => self.nxdomain.insert(name.clone()),
        }
    }

    /// Whether any server answered for the zone. Glue and guesses alone do not count.
    pub(super) fn is_zone(&self) -> bool {
        self.rrsets.values().any(|stored| stored.rank >= Rank::Authority)
    }

    /// Memory of the draft, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The wildcard below a name. `None` if it would be too long.
pub(super) fn wildcard(encloser: &Name) -> Option<Name> {
    let mut bytes = b"\x01*".to_vec();
    bytes.extend_from_slice(encloser.as_bytes());
    wire::name::NameRef::from_bytes(&bytes).ok().map(wire::name::NameRef::to_name)
}

/// Whether TTLs may differ because one source is a denial, where the TTL of the SOA is at most its MINIMUM (RFC 2308
/// 3).
fn is_of_denial(kind: Kind, a: Rank, b: Rank) -> bool {
    let is_soa = kind.rtype == Rtype::SOA || kind.covered == Rtype::SOA;
    is_soa && (a == Rank::Authority) != (b == Rank::Authority)
}

/// Memory of an RRset, in bytes.
pub(super) fn bytes_of(owner: &Name, stored: &StoredRrset) -> usize {
    let rdatas: usize = stored.rdatas.iter().map(|rdata| rdata.len() + RDATA_BYTES).sum();
    RRSET_BYTES + owner.as_bytes().len() + rdatas
}
