//! Zones signed anew, under a key of the laboratory: captured signatures have expired, and a capture has never all of
//! the proofs that a zone gives.
//!
//! ```text
//!   records without DNSSEC --> + DNSKEY, + DS for each child in the hierarchy --> RRsets --> + NSEC chain --> + RRSIG
//! ```
//!
//! The keys of all zones come from one key of 32 bytes, so that a parent needs nothing of its children but their
//! names. Trust begins at the zones that have no parent here, the root if it is among them.

mod denial;
mod key;

pub use key::ZoneKey;

use std::collections::{BTreeMap, BTreeSet};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::Record;

/// TTL of DNSKEY records, in seconds.
const DNSKEY_TTL: u32 = 3600;
/// Types that signing makes, or that a change of keys and signatures makes wrong.
const REPLACED: [Rtype; 9] = [
    Rtype::RRSIG,
    Rtype::NSEC,
    Rtype::NSEC3,
    Rtype::NSEC3PARAM,
    Rtype::DNSKEY,
    Rtype::DS,
    // CDS, CDNSKEY (RFC 7344), ZONEMD (RFC 8976).
    Rtype(59),
    Rtype(60),
    Rtype(63),
];

/// Whether records of a type are made by signing, in place of those that were there.
#[must_use]
pub fn is_made_by_signing(rtype: Rtype) -> bool {
    REPLACED.contains(&rtype)
}

/// One zone.
#[derive(Clone, Debug)]
pub struct ZoneRecords {
    /// Where it begins.
    pub apex: Name,
    /// All of its records, glue too.
    pub records: Vec<Record>,
}

/// From when until when signatures hold, in seconds of serial arithmetic (RFC 4034 3.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// Not before.
    pub inception: u32,
    /// Not after.
    pub expiration: u32,
}

/// What resolvers are told to trust.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// The zone.
    pub zone: Name,
    /// The rdata of the DS record for its key.
    pub ds: Vec<u8>,
}

/// What signing a hierarchy gives beside its zones.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Trust {
    /// Of the zones without a parent here, in canonical order.
    pub anchors: Vec<Anchor>,
    /// Zones with a parent here that does not delegate them: nothing leads to them, and no DS is anywhere.
    pub undelegated: Vec<Name>,
}

/// Signs every zone of a hierarchy in place; `each` is told how many are done.
pub fn sign(zones: &mut [ZoneRecords], lab_key: &[u8; 32], validity: Validity, mut each: impl FnMut(usize)) -> Trust {
    let apexes: BTreeSet<Name> = zones.iter().map(|zone| zone.apex.as_ref().to_canonical()).collect();
    let mut delegated = BTreeSet::new();
    for (index, zone) in zones.iter_mut().enumerate() {
        let apex = zone.apex.as_ref().to_canonical();
        sign_zone(zone, lab_key, validity, |cut| {
            let is_child = *cut != apex && apexes.contains(cut);
            is_child.then(|| {
                delegated.insert(cut.clone());
                ZoneKey::derive(lab_key, cut.as_ref()).ds()
            })
        });
        each(index + 1);
    }
    let mut trust = Trust::default();
    for apex in &apexes {
        let mut above = std::iter::successors(apex.as_ref().parent(), |name| name.parent());
        if above.any(|name| apexes.contains(&name.to_canonical())) {
            if !delegated.contains(apex) {
                trust.undelegated.push(apex.clone());
            }
            continue;
        }
        trust.anchors.push(Anchor { zone: apex.clone(), ds: ZoneKey::derive(lab_key, apex.as_ref()).ds() });
    }
    trust
}

/// Signs one zone; `ds` gives the DS of a delegation that leads to a signed zone.
fn sign_zone(
    zone: &mut ZoneRecords,
    lab_key: &[u8; 32],
    validity: Validity,
    mut ds: impl FnMut(&Name) -> Option<Vec<u8>>,
) {
    let key = ZoneKey::derive(lab_key, zone.apex.as_ref());
    let mut rrsets = rrsets(std::mem::take(&mut zone.records));
    let apex = zone.apex.clone();
    let dnskey = Record { owner: apex.clone(), rtype: Rtype::DNSKEY, ttl: DNSKEY_TTL, rdata: key.dnskey().into() };
    rrsets.insert((apex.clone(), Rtype::DNSKEY.0), vec![dnskey]);
    let cuts: Vec<(Name, u32)> = rrsets
        .iter()
        .filter(|((owner, rtype), _)| *rtype == Rtype::NS.0 && *owner != apex)
        .map(|((owner, _), records)| (owner.clone(), records[0].ttl))
        .collect();
    for (cut, ttl) in cuts {
        if let Some(rdata) = ds(&cut.as_ref().to_canonical()) {
            let record = Record { owner: cut.clone(), rtype: Rtype::DS, ttl, rdata: rdata.into() };
            rrsets.insert((cut, Rtype::DS.0), vec![record]);
        }
    }
    let places = denial::places(&rrsets, apex.as_ref());
    for nsec in denial::chain(&rrsets, &places, apex.as_ref()) {
        rrsets.insert((nsec.owner.clone(), Rtype::NSEC.0), vec![nsec]);
    }
    for ((owner, rtype), records) in rrsets {
        let is_signed = places.get(&owner).is_some_and(|place| place.signs(Rtype(rtype)));
        let rrsig = if is_signed { key.sign(&records, validity) } else { None };
        zone.records.extend(records);
        zone.records.extend(rrsig);
    }
}

/// RRsets by owner and type, in canonical order, without what signing replaces.
type Rrsets = BTreeMap<(Name, u16), Vec<Record>>;

fn rrsets(records: Vec<Record>) -> Rrsets {
    let mut rrsets = Rrsets::new();
    for record in records {
        if !is_made_by_signing(record.rtype) {
            rrsets.entry((record.owner.clone(), record.rtype.0)).or_default().push(record);
        }
    }
    for ((owner, rtype), records) in &mut rrsets {
        let canonical = |record: &Record| {
            let mut rdata = record.rdata.to_vec();
            wire::rdata_lowercase(Rtype(*rtype), &mut rdata);
            rdata
        };
        // One owner, spelled one way, and one TTL (RFC 2181 5.2).
        let ttl = records.iter().map(|record| record.ttl).min().unwrap_or_default();
        records.sort_by_cached_key(canonical);
        records.dedup_by(|a, b| wire::rdata_eq(Rtype(*rtype), &a.rdata, &b.rdata));
        for record in records {
            record.owner.clone_from(owner);
            record.ttl = ttl;
        }
    }
    rrsets
}

/// The TTL of negative answers (RFC 9077 3.1): that of the SOA, or its last field if that is less.
fn negative_ttl(rrsets: &Rrsets, apex: NameRef<'_>) -> u32 {
    let soa = rrsets.get(&(apex.to_name(), Rtype::SOA.0)).and_then(|records| records.first());
    soa.map_or(0, |soa| {
        let minimum = soa.rdata.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        minimum.min(soa.ttl)
    })
}

#[cfg(test)]
mod tests;
