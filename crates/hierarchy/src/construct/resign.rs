//! Zones signed anew, with a key of the laboratory: what was captured has expired.
//!
//! One key signs every zone, and the zones above say so by DS; so one trust anchor is enough, and a resolver validates
//! whatever was rebuilt. A zone that is delegated to and not here stays unsigned. Denial is by NSEC.

use super::assembly::is_dnssec;
use super::response::is_below;
use super::{Built, BuiltRecord, BuiltZone, bitmap};
use ring::digest::{SHA256, digest};
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use std::collections::{BTreeMap, BTreeSet};
use wire::name::Name;
use wire::number::{Class, Rtype};
use wire::rdata::rdata_lowercase;
use zone::Record;

/// ECDSAP256SHA256 (RFC 6605 4).
const ALGORITHM: u8 = 13;
/// TTL of DNSKEY and DS.
const KEY_TTL: u32 = 3_600;
/// Signatures hold from so many seconds before they are made, and until so many after.
const SIGNED_BEFORE_S: u32 = 86_400;
const SIGNED_AFTER_S: u32 = 365 * 86_400;
/// Why the records are there.
const SIGNED: &str = "signed anew";

/// A key that signs zones of the laboratory.
pub struct LabKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    /// The rdata of DNSKEY.
    dnskey: Box<[u8]>,
    tag: u16,
}

/// One RRset of a zone that is signed.
struct Rrset {
    ttl: u32,
    rdatas: Vec<Box<[u8]>>,
    made: Option<&'static str>,
}

type Rrsets = BTreeMap<(Name, Rtype), Rrset>;

impl LabKey {
    /// A new one.
    ///
    /// # Errors
    /// The operating system gives no random octets.
    pub fn generate() -> Result<Self, Unspecified> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random)
            .map_err(|_| Unspecified)?;
        // Zone key and secure entry point; protocol 3 (RFC 4034 2.1). The key without the octet that says that it is
        // not compressed (RFC 6605 4).
        let mut dnskey = vec![1, 1, 3, ALGORITHM];
        dnskey.extend_from_slice(pair.public_key().as_ref().get(1..).unwrap_or_default());
        let tag = key_tag(&dnskey);
        Ok(Self { pair, random, dnskey: dnskey.into(), tag })
    }

    /// DS of a zone with this key (RFC 4034 5.1).
    fn ds(&self, apex: &Name) -> Box<[u8]> {
        let hashed = digest(&SHA256, &[apex.as_ref().to_canonical().octets(), &self.dnskey].concat());
        let [high, low] = self.tag.to_be_bytes();
        [&[high, low, ALGORITHM, 2][..], hashed.as_ref()].concat().into()
    }

    /// RRSIG over an RRset (RFC 4034 3.1).
    fn sign(&self, apex: &Name, key: &(Name, Rtype), rrset: &Rrset, now_s: u32) -> Result<Box<[u8]>, Unspecified> {
        let (owner, rtype) = key;
        let labels = owner.as_ref().label_count() - usize::from(owner.as_ref().is_wildcard());
        let mut rdata = rtype.0.to_be_bytes().to_vec();
        rdata.extend([ALGORITHM, labels as u8]);
        let times = [rrset.ttl, now_s.wrapping_add(SIGNED_AFTER_S), now_s.wrapping_sub(SIGNED_BEFORE_S)];
        times.into_iter().for_each(|number| rdata.extend(number.to_be_bytes()));
        rdata.extend(self.tag.to_be_bytes());
        rdata.extend_from_slice(apex.as_ref().to_canonical().octets());
        // RFC 4034 3.1.8.1: each record in canonical form, in canonical order.
        let mut signed = rdata.clone();
        let mut canonical: Vec<Box<[u8]>> = rrset.rdatas.clone();
        canonical.iter_mut().for_each(|rdata| rdata_lowercase(*rtype, rdata));
        canonical.sort_unstable();
        for one in canonical {
            signed.extend_from_slice(owner.as_ref().to_canonical().octets());
            signed.extend(rtype.0.to_be_bytes());
            signed.extend(Class::IN.0.to_be_bytes());
            signed.extend(rrset.ttl.to_be_bytes());
            signed.extend((one.len() as u16).to_be_bytes());
            signed.extend_from_slice(&one);
        }
        rdata.extend_from_slice(self.pair.sign(&self.random, &signed)?.as_ref());
        Ok(rdata.into())
    }
}

impl Built {
    /// Signs every zone with a key, as of a time (seconds since 1970), in place of what they had of DNSSEC. Gives the
    /// trust anchors: DNSKEY of each zone that no other one here is above.
    ///
    /// # Errors
    /// The operating system gives no random octets.
    pub fn resign(&mut self, key: &LabKey, now_s: u32) -> Result<Vec<Record>, Unspecified> {
        let apexes: BTreeSet<Name> = self.zones.iter().map(|zone| zone.apex.clone()).collect();
        let mut anchors = Vec::new();
        for (zone, told) in self.zones.iter_mut().zip(&mut self.report.zones) {
            sign_zone(zone, &apexes, key, now_s)?;
            (told.records, told.is_signed, told.missing_proofs) = (zone.records.len(), true, 0);
            told.signatures_hold = None;
            let is_delegated = apexes.iter().any(|other| *other != zone.apex && is_below(&zone.apex, other));
            if !is_delegated {
                let (owner, rdata) = (zone.apex.clone(), key.dnskey.clone());
                anchors.push(Record { owner, rtype: Rtype::DNSKEY, ttl: KEY_TTL, rdata });
            }
        }
        Ok(anchors)
    }
}

fn sign_zone(zone: &mut BuiltZone, apexes: &BTreeSet<Name>, key: &LabKey, now_s: u32) -> Result<(), Unspecified> {
    let mut rrsets = Rrsets::new();
    for BuiltRecord { record, made } in zone.records.drain(..) {
        if !is_dnssec(record.rtype) {
            let new = || Rrset { ttl: record.ttl, rdatas: Vec::new(), made };
            rrsets.entry((record.owner, record.rtype)).or_insert_with(new).rdatas.push(record.rdata);
        }
    }
    let apex = &zone.apex;
    let (owners, cuts) = owners_and_cuts(apex, &rrsets);
    for cut in cuts.intersection(apexes) {
        rrsets.insert((cut.clone(), Rtype::DS), made(KEY_TTL, key.ds(cut)));
    }
    rrsets.insert((apex.clone(), Rtype::DNSKEY), made(KEY_TTL, key.dnskey.clone()));
    add_nsec(apex, &owners, &cuts, &mut rrsets);
    let mut soa = Vec::new();
    for (named, rrset) in rrsets {
        let (owner, rtype) = &named;
        let is_ours = owners.contains(owner) && (!cuts.contains(owner) || matches!(*rtype, Rtype::DS | Rtype::NSEC));
        let signature = if is_ours { Some(key.sign(apex, &named, &rrset, now_s)?) } else { None };
        let records = if *rtype == Rtype::SOA { &mut soa } else { &mut zone.records };
        let Rrset { ttl, rdatas, made } = rrset;
        let record =
            |rtype, rdata, made| BuiltRecord { record: Record { owner: owner.clone(), rtype, ttl, rdata }, made };
        records.extend(rdatas.into_iter().map(|rdata| record(*rtype, rdata, made)));
        records.extend(signature.map(|rdata| record(Rtype::RRSIG, rdata, Some(SIGNED))));
    }
    soa.append(&mut zone.records);
    zone.records = soa;
    Ok(())
}

/// The names that the zone answers for, and those of them that are zone cuts; what is below a cut or a DNAME is
/// neither.
fn owners_and_cuts(apex: &Name, rrsets: &Rrsets) -> (BTreeSet<Name>, BTreeSet<Name>) {
    let (mut owners, mut cuts) = (BTreeSet::new(), BTreeSet::new());
    let mut above: Option<&Name> = None;
    for (owner, rtype) in rrsets.keys() {
        above = above.filter(|above| is_below(owner, above));
        if above.is_some_and(|above| above != owner) {
            continue;
        }
        owners.insert(owner.clone());
        let is_cut = *rtype == Rtype::NS && owner != apex;
        if is_cut {
            cuts.insert(owner.clone());
        }
        if is_cut || *rtype == Rtype::DNAME {
            above = Some(owner);
        }
    }
    (owners, cuts)
}

/// A chain of NSEC through all names (RFC 4034 4, RFC 4035 2.3).
fn add_nsec(apex: &Name, owners: &BTreeSet<Name>, cuts: &BTreeSet<Name>, rrsets: &mut Rrsets) {
    // RFC 9077 3.2: the lesser of the SOA's TTL and its MINIMUM.
    let soa = rrsets.get(&(apex.clone(), Rtype::SOA));
    let minimum = soa.and_then(|soa| soa.rdatas.first()?.last_chunk()).map(|octets| u32::from_be_bytes(*octets));
    let ttl = soa.map_or(KEY_TTL, |soa| soa.ttl).min(minimum.unwrap_or(KEY_TTL));
    let mut types: BTreeMap<&Name, BTreeSet<Rtype>> = BTreeMap::new();
    for (owner, rtype) in rrsets.keys() {
        let is_listed = !cuts.contains(owner) || matches!(*rtype, Rtype::NS | Rtype::DS);
        if let Some(owner) = owners.get(owner).filter(|_| is_listed) {
            types.entry(owner).or_default().insert(*rtype);
        }
    }
    let next = owners.iter().skip(1).chain([apex]);
    for (owner, next) in owners.iter().zip(next) {
        let mut listed = types.remove(owner).unwrap_or_default();
        listed.extend([Rtype::NSEC, Rtype::RRSIG]);
        let mut rdata = next.octets().to_vec();
        bitmap::push(&listed, &mut rdata);
        rrsets.insert((owner.clone(), Rtype::NSEC), made(ttl, rdata.into()));
    }
}

fn made(ttl: u32, rdata: Box<[u8]>) -> Rrset {
    Rrset { ttl, rdatas: vec![rdata], made: Some(SIGNED) }
}

/// RFC 4034 appendix B.
fn key_tag(rdata: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or_default());
    let sum: u32 = rdata.chunks(2).map(word).sum();
    (sum + (sum >> 16)) as u16
}
