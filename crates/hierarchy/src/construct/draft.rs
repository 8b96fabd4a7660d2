//! A zone that is being rebuilt: RRsets as they were first seen in their best place.

use super::Why;
use super::rrset::{Kind, Rrset};
use std::collections::{BTreeMap, BTreeSet};
use wire::name::Name;
use wire::number::Rtype;

/// How good a place an RRset was seen in (RFC 2181 5.4.1); what comes from a better one replaces the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rank {
    /// In a truncated response, so perhaps not whole.
    Partial,
    /// In the additional section of another zone's response.
    Elsewhere,
    /// In the additional section.
    Additional,
    /// In the authority section: of a denial, of an answer, or of a referral from the zone above; in an answer without
    /// AA, too.
    Authority,
    /// In the answer section.
    Answer,
}

/// An RRset that is kept.
pub(super) struct Held {
    pub(super) rank: Rank,
    pub(super) ttl: u32,
    pub(super) rdatas: Vec<Box<[u8]>>,
    /// Why it is there although nobody sent it.
    pub(super) made: Option<Why>,
}

/// What an RRset that came later is to the one that is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Differs {
    /// In its records.
    Records,
    /// In its TTL alone.
    Ttl,
}

/// A zone that is being rebuilt.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) rrsets: BTreeMap<(Name, Kind), Held>,
    /// Names that exist and do not have these types.
    pub(super) nodata: BTreeMap<Name, BTreeSet<Rtype>>,
    /// Names that do not exist.
    pub(super) nxdomain: BTreeSet<Name>,
    bytes: usize,
}

/// What an RRset takes beside its data: the entry, and an allocation for each record.
const RRSET_BYTES: usize = 160;
const RDATA_BYTES: usize = 32;

impl Draft {
    /// Keeps an RRset unless there is as good a one; says how good ones differ, and gives the one that is not kept.
    pub(super) fn put(&mut self, owner: &Name, rrset: &Rrset, rank: Rank) -> Option<(Differs, Held)> {
        let held = Held { rank, ttl: rrset.ttl, rdatas: rrset.rdatas.clone(), made: None };
        let key = (owner.clone(), rrset.kind);
        let Some(kept) = self.rrsets.get_mut(&key) else {
            self.bytes += bytes_of(&key.0, &held);
            self.rrsets.insert(key, held);
            return None;
        };
        let differs = if !rrset.has_same_records(&kept.rdatas) {
            Some(Differs::Records)
        } else {
            (rrset.ttl != kept.ttl).then_some(Differs::Ttl)
        };
        let is_usual = differs == Some(Differs::Ttl) && is_of_denial(rrset.kind, rank, kept.rank);
        let is_worth_telling = rank.min(kept.rank) > Rank::Elsewhere && !is_usual;
        let other = if rank > kept.rank {
            self.bytes = self.bytes + bytes_of(&key.0, &held) - bytes_of(&key.0, kept);
            std::mem::replace(kept, held)
        } else {
            held
        };
        differs.filter(|_| is_worth_telling).map(|differs| (differs, other))
    }

    /// Adds an RRset that is not in the trace. Does nothing below a DNAME, where RFC 6672 2.4 allows no records.
    pub(super) fn make(&mut self, owner: &Name, rtype: Rtype, ttl: u32, rdatas: Vec<Box<[u8]>>, why: impl Into<Why>) {
        if self.is_below_dname(owner) {
            return;
        }
        let held = Held { rank: Rank::Partial, ttl, rdatas, made: Some(why.into()) };
        self.bytes += bytes_of(owner, &held);
        self.rrsets.insert((owner.clone(), Kind::of(rtype)), held);
    }

    pub(super) fn get(&self, owner: &Name, rtype: Rtype) -> Option<&Held> {
        self.rrsets.get(&(owner.clone(), Kind::of(rtype)))
    }

    pub(super) fn remove(&mut self, owner: &Name, kind: Kind) -> Option<Held> {
        self.rrsets.remove(&(owner.clone(), kind))
    }

    /// Whether a name has records, or one below it has.
    pub(super) fn exists(&self, name: &Name) -> bool {
        let first = (name.clone(), Kind::of(Rtype(0)));
        self.rrsets.range(first..).next().is_some_and(|((owner, _), _)| super::response::is_below(owner, name))
    }

    /// Whether a wildcard stands for a name that does not exist (RFC 4592 3.3.1).
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

    /// Whether there is a zone cut at a name or above it, below the apex.
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

    /// Remembers that a name does not have a type, or, without one, that it does not exist; says whether that is new.
    pub(super) fn deny(&mut self, name: &Name, rtype: Option<Rtype>) -> bool {
        match rtype {
            Some(rtype) => self.nodata.entry(name.clone()).or_default().insert(rtype),
            None => self.nxdomain.insert(name.clone()),
        }
    }

    /// Whether anybody answered for the zone: glue and guesses alone make none.
    pub(super) fn is_zone(&self) -> bool {
        self.rrsets.values().any(|held| held.rank >= Rank::Authority)
    }

    /// Bytes that it takes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The name `*` below another; `None` when it would be too long.
pub(super) fn wildcard(encloser: &Name) -> Option<Name> {
    let mut bytes = b"\x01*".to_vec();
    bytes.extend_from_slice(encloser.as_bytes());
    wire::name::NameRef::from_octets(&bytes).ok().map(wire::name::NameRef::to_name)
}

/// Whether a TTL may differ because one place is a denial: there the TTL of the SOA is no more than its MINIMUM (RFC
/// 2308 3).
fn is_of_denial(kind: Kind, a: Rank, b: Rank) -> bool {
    let is_soa = kind.rtype == Rtype::SOA || kind.covered == Rtype::SOA;
    is_soa && (a == Rank::Authority) != (b == Rank::Authority)
}

/// Bytes that an RRset takes.
pub(super) fn bytes_of(owner: &Name, held: &Held) -> usize {
    let rdatas: usize = held.rdatas.iter().map(|rdata| rdata.len() + RDATA_BYTES).sum();
    RRSET_BYTES + owner.as_bytes().len() + rdatas
}
