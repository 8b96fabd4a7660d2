//! Signs zones with new keys, because captured signatures have expired, and a capture never has all proofs of a zone.
//!
//! ```text
//!   records without DNSSEC --> + DNSKEY, + DS for each child in the hierarchy --> RRsets --> + NSEC chain --> + RRSIG
//! ```
//!
//! The keys of all zones are derived from one key of 32 bytes, so a parent only needs the names of its children. The
//! zones without a parent in the hierarchy are the trust anchors.

mod denial;
mod key;
mod rrsets;

pub use key::ZoneKey;
use rrsets::Rrsets;

use std::collections::BTreeSet;
use wire::name::Name;
use wire::number::Rtype;
use zone::Record;

/// TTL of DNSKEY records, in seconds.
const DNSKEY_TTL: u32 = 3600;
/// Types that signing creates, or that become wrong with new keys and signatures.
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

/// Whether signing replaces records of this type.
#[must_use]
pub fn is_made_by_signing(rtype: Rtype) -> bool {
    REPLACED.contains(&rtype)
}

/// One zone.
#[derive(Clone, Debug)]
pub struct ZoneRecords {
    /// Its apex.
    pub apex: Name,
    /// All its records, including glue.
    pub records: Vec<Record>,
}

/// Validity of signatures, in seconds of serial arithmetic (RFC 4034 3.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// Begin.
    pub inception: u32,
    /// End.
    pub expiration: u32,
}

/// A trust anchor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// The zone.
    pub zone: Name,
    /// The rdata of the DS record of its key.
    pub ds: Vec<u8>,
}

/// The result of signing, besides the signed zones.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Trust {
    /// Trust anchors of the zones without a parent here, in canonical order.
    pub anchors: Vec<Anchor>,
    /// Zones whose parent is here but does not delegate them. They have no DS, and no referral leads to them.
    pub undelegated: Vec<Name>,
}

/// Signs every zone of a hierarchy in place. Calls `each` with the number of signed zones.
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

/// Signs one zone. `ds` returns the DS of a delegation to a signed zone.
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
    let roles = denial::roles(&rrsets, apex.as_ref());
    for nsec in denial::chain(&rrsets, &roles, apex.as_ref()) {
        rrsets.insert((nsec.owner.clone(), Rtype::NSEC.0), vec![nsec]);
    }
    for ((owner, rtype), records) in rrsets {
        let is_signed = roles.get(&owner).is_some_and(|role| role.signs(Rtype(rtype)));
        let rrsig = if is_signed { key.sign(&records, validity) } else { None };
        zone.records.extend(records);
        zone.records.extend(rrsig);
    }
}

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
        // One spelling of the owner and one TTL (RFC 2181 5.2).
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

#[cfg(test)]
mod tests;
