//! Makes a zone look signed: NSEC or NSEC3 as RFC 4035 2.3 and RFC 5155 7.1 want them, DNSKEY and RRSIG of the right
//! form with signatures that mean nothing. Written plainly, apart from the code that is tested.

use std::collections::{BTreeMap, BTreeSet};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::nsec3::Nsec3Params;
use zone::record::Record;

/// How a zone is to deny.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scheme {
    Unsigned,
    Nsec,
    Nsec3,
    /// NSEC3 with opt-out.
    Nsec3OptOut,
}

pub(crate) const PARAMS: Nsec3Params<'static> = Nsec3Params { iterations: 1, salt: &[0xAB, 0xCD] };
/// The TTL of NSEC and NSEC3.
const DENIAL_TTL: u32 = 300;

/// The records and all that a signer adds.
pub(crate) fn sign(apex: &Name, mut records: Vec<Record>, scheme: Scheme) -> Vec<Record> {
    if scheme == Scheme::Unsigned {
        return records;
    }
    let add = |records: &mut Vec<Record>, owner: &Name, ttl, rtype, rdata: Vec<u8>| {
        records.push(Record { owner: owner.clone(), rtype, ttl, rdata: rdata.into() });
    };
    add(&mut records, apex, 3600, Rtype::DNSKEY, vec![1, 1, 3, 13, 1, 2, 3, 4]);
    if matches!(scheme, Scheme::Nsec3 | Scheme::Nsec3OptOut) {
        add(&mut records, apex, 0, Rtype::NSEC3PARAM, params_rdata(0));
    }
    let map = ZoneMap::new(apex, &records);
    let denial = if scheme == Scheme::Nsec { map.nsecs() } else { map.nsec3s(scheme == Scheme::Nsec3OptOut) };
    records.extend(denial);
    let signatures = map.signatures(&records);
    records.extend(signatures);
    records
}

/// Which names a zone has, and what they are.
struct ZoneMap {
    apex: Name,
    types: BTreeMap<Name, BTreeSet<Rtype>>,
}

impl ZoneMap {
    fn new(apex: &Name, records: &[Record]) -> Self {
        let mut types: BTreeMap<Name, BTreeSet<Rtype>> = BTreeMap::new();
        for record in records {
            types.entry(record.owner.clone()).or_default().insert(record.rtype);
        }
        Self { apex: apex.clone(), types }
    }

    fn has(&self, owner: &Name, rtype: Rtype) -> bool {
        self.types.get(owner).is_some_and(|types| types.contains(&rtype))
    }

    fn is_cut(&self, owner: &Name) -> bool {
        *owner != self.apex && self.has(owner, Rtype::NS)
    }

    fn is_occluded(&self, owner: &Name) -> bool {
        ancestors(&self.apex, owner).iter().skip(1).any(|above| self.is_cut(above) || self.has(above, Rtype::DNAME))
    }

    fn authoritative(&self) -> impl Iterator<Item = &Name> {
        self.types.keys().filter(|owner| !self.is_occluded(owner))
    }

    /// The types that the owner's bitmap has, apart from NSEC and RRSIG.
    fn own_types(&self, owner: &Name) -> BTreeSet<Rtype> {
        let types = self.types.get(owner).cloned().unwrap_or_default();
        let is_cut = self.is_cut(owner);
        types.into_iter().filter(|rtype| !is_cut || matches!(*rtype, Rtype::NS | Rtype::DS)).collect()
    }

    fn nsecs(&self) -> Vec<Record> {
        let owners: Vec<&Name> = self.authoritative().collect();
        let next = owners.iter().cycle().skip(1);
        let make = |(owner, next): (&&Name, &&Name)| {
            let mut types = self.own_types(owner);
            types.extend([Rtype::NSEC, Rtype::RRSIG]);
            let mut rdata = next.as_bytes().to_vec();
            rdata.extend(bitmap(&types));
            Record { owner: (*owner).clone(), rtype: Rtype::NSEC, ttl: DENIAL_TTL, rdata: rdata.into() }
        };
        owners.iter().zip(next).map(make).collect()
    }

    fn nsec3s(&self, opt_out: bool) -> Vec<Record> {
        let mut hashed = BTreeMap::new();
        for owner in self.authoritative() {
            let is_unsigned_cut = self.is_cut(owner) && !self.has(owner, Rtype::DS);
            if opt_out && is_unsigned_cut {
                continue;
            }
            for name in ancestors(&self.apex, owner) {
                let mut types = self.own_types(&name);
                let is_signed = if self.is_cut(&name) { types.contains(&Rtype::DS) } else { !types.is_empty() };
                if is_signed {
                    types.insert(Rtype::RRSIG);
                }
                hashed.insert(PARAMS.hash(name.as_ref()), (name, types));
            }
        }
        let next = hashed.keys().cycle().skip(1);
        let make = |((_, (name, types)), next): ((_, &(Name, BTreeSet<Rtype>)), &[u8; 20])| {
            let mut rdata = params_rdata(u8::from(opt_out));
            rdata.push(20);
            rdata.extend(next);
            rdata.extend(bitmap(types));
            let mut owner = vec![32];
            owner.extend(PARAMS.label(name.as_ref()));
            owner.extend(self.apex.as_bytes());
            let owner = NameRef::from_bytes(&owner).unwrap().to_name();
            Record { owner, rtype: Rtype::NSEC3, ttl: DENIAL_TTL, rdata: rdata.into() }
        };
        hashed.iter().zip(next).map(make).collect()
    }

    fn signatures(&self, records: &[Record]) -> Vec<Record> {
        let mut rrsets = BTreeMap::new();
        for record in records {
            let is_cut = self.is_cut(&record.owner);
            let is_signed = match record.rtype {
                Rtype::NSEC3 => true,
                Rtype::NSEC | Rtype::DS => !self.is_occluded(&record.owner),
                _ => !is_cut && !self.is_occluded(&record.owner),
            };
            if is_signed {
                rrsets.insert((record.owner.clone(), record.rtype), record.ttl);
            }
        }
        let make = |((owner, rtype), ttl): ((Name, Rtype), u32)| {
            let labels = owner.as_ref().label_count() - usize::from(owner.as_ref().is_wildcard());
            let mut rdata = rtype.0.to_be_bytes().to_vec();
            rdata.extend([13, labels as u8]);
            for number in [ttl, 1_900_000_000, 1_700_000_000] {
                rdata.extend(number.to_be_bytes());
            }
            rdata.extend([0x30, 0x39]);
            rdata.extend(self.apex.as_bytes());
            rdata.extend([0xDE, 0xAD]);
            Record { owner, rtype: Rtype::RRSIG, ttl, rdata: rdata.into() }
        };
        rrsets.into_iter().map(make).collect()
    }
}

/// A name and all names above it up to the apex, the name first.
pub(crate) fn ancestors(apex: &Name, name: &Name) -> Vec<Name> {
    let mut names = Vec::new();
    let mut at = Some(name.as_ref());
    while let Some(name) = at.filter(|name| name.is_at_or_below(apex.as_ref())) {
        names.push(name.to_name());
        at = name.parent();
    }
    names
}

fn params_rdata(flags: u8) -> Vec<u8> {
    let mut rdata = vec![1, flags];
    rdata.extend(PARAMS.iterations.to_be_bytes());
    rdata.push(PARAMS.salt.len() as u8);
    rdata.extend(PARAMS.salt);
    rdata
}

/// RFC 4034 4.1.2.
fn bitmap(types: &BTreeSet<Rtype>) -> Vec<u8> {
    let mut windows: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for rtype in types {
        let [window, place] = rtype.0.to_be_bytes();
        let bits = windows.entry(window).or_default();
        bits.resize(bits.len().max(usize::from(place / 8) + 1), 0);
        bits[usize::from(place / 8)] |= 0x80 >> (place % 8);
    }
    let window = |(window, bits): (u8, Vec<u8>)| [vec![window, bits.len() as u8], bits].concat();
    windows.into_iter().flat_map(window).collect()
}
