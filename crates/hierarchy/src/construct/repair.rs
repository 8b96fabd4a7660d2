//! Adds what a zone needs, and removes what it must not contain.

use super::draft::Draft;
use super::map::Map;
use super::report::{DroppedRrset, Report};
use super::response::is_below;
use super::rrset::{Kind, target_of};
use crate::bitmap;
use crate::limits::MADE_ADDRESSES_MAX;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::limits::{NSEC3_ITERATIONS_LOADED_MAX, NSEC3_SALT_LOADED_BYTES_MAX};

/// Default TTL of made-up records.
const MADE_TTL: u32 = 3_600;
/// SERIAL, REFRESH, RETRY, EXPIRE and MINIMUM of a made-up SOA.
const MADE_SOA: [u32; 5] = [1, 7_200, 900, 1_209_600, 300];
/// Types allowed at a zone cut: the parent's side of it, and glue.
const AT_CUT: [Rtype; 6] = [Rtype::NS, Rtype::DS, Rtype::NSEC, Rtype::RRSIG, Rtype::A, Rtype::AAAA];
/// Address for names without a known one (RFC 5737).
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Reason of a record that makes a name exist.
const DENIED: &str = "the name exists, and no record of it was seen";

/// A zone and its report.
pub(super) struct Repair<'r> {
    pub(super) apex: &'r Name,
    pub(super) draft: &'r mut Draft,
    pub(super) report: &'r mut Report,
}

impl Repair<'_> {
    /// Removes what a zone must not contain.
    pub(super) fn prune(&mut self) {
        self.keep_one_each();
        self.separate_aliases();
        self.drop_below_cuts();
        self.drop_costly_chains();
        self.drop_lone_signatures();
    }

    /// Keeps one SOA, one CNAME and one DNAME at an owner (RFC 2181 10.1, RFC 6672 2.4), and SOA only at the apex.
    fn keep_one_each(&mut self) {
        let mut misplaced = Vec::new();
        for ((owner, kind), stored) in &mut self.draft.rrsets {
            if matches!(kind.rtype, Rtype::SOA | Rtype::CNAME | Rtype::DNAME) {
                stored.rdatas.truncate(1);
            }
            let is_apex = owner == self.apex;
            if kind.rtype == Rtype::SOA && !is_apex || is_apex && matches!(kind.rtype, Rtype::CNAME | Rtype::DS) {
                misplaced.push((owner.clone(), *kind));
            }
        }
        self.drop_all(misplaced, "does not belong at this name of the zone");
    }

    /// Removes everything beside a CNAME except DNSSEC records (RFC 2181 10.1).
    fn separate_aliases(&mut self) {
        let aliases = self.draft.rrsets.keys().filter(|(_, kind)| kind.rtype == Rtype::CNAME);
        let owners: Vec<Name> = aliases.map(|(owner, _)| owner.clone()).collect();
        let mut dropped = Vec::new();
        for owner in owners {
            let first = (owner.clone(), Kind::of(Rtype(0)));
            let same_owner = self.draft.rrsets.range(first..).take_while(|((other, _), _)| *other == owner);
            let is_beside = |kind: &Kind| !matches!(kind.rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC);
            let others = same_owner.filter(|((_, kind), _)| is_beside(kind)).map(|(key, _)| key.clone());
            dropped.extend(others);
        }
        self.drop_all(dropped, "stands beside a CNAME");
    }

    /// Below a zone cut, keeps only addresses, as glue. Below a DNAME, keeps nothing (RFC 6672 2.3).
    fn drop_below_cuts(&mut self) {
        let mut dropped = Vec::new();
        let mut above: Option<(Name, Rtype)> = None;
        let is_cut = |owner: &Name, above: &Option<(Name, Rtype)>| above.as_ref().is_some_and(|(cut, _)| cut == owner);
        for (owner, kind) in self.draft.rrsets.keys() {
            above = above.filter(|(above, _)| is_below(owner, above));
            let may_stay: &[Rtype] = match &above {
                Some((_, Rtype::DNAME)) if !is_cut(owner, &above) => &[],
                Some((_, Rtype::NS)) if is_cut(owner, &above) => &AT_CUT,
                Some((_, Rtype::NS)) => &[Rtype::A, Rtype::AAAA],
                _ => &[kind.rtype],
            };
            if !may_stay.contains(&kind.rtype) {
                dropped.push((owner.clone(), *kind));
            }
            let occludes = kind.rtype == Rtype::DNAME || kind.rtype == Rtype::NS && owner != self.apex;
            if above.is_none() && occludes {
                above = Some((owner.clone(), kind.rtype));
            }
        }
        self.drop_all(dropped, "is at or below a zone cut or a DNAME, and no glue");
    }

    /// Removes NSEC3 chains whose iterations or salt exceed what servers accept (RFC 9276 3.2).
    fn drop_costly_chains(&mut self) {
        let is_costly = |rdata: &[u8]| {
            let &[_, _, high, low, salt_bytes, ..] = rdata else { return false };
            u16::from_be_bytes([high, low]) > NSEC3_ITERATIONS_LOADED_MAX
                || usize::from(salt_bytes) > NSEC3_SALT_LOADED_BYTES_MAX
        };
        let chains = self.draft.rrsets.iter().filter(|((_, kind), stored)| {
            matches!(kind.rtype, Rtype::NSEC3 | Rtype::NSEC3PARAM) && stored.rdatas.iter().any(|rdata| is_costly(rdata))
        });
        let costly_chains = chains.map(|(key, _)| key.clone()).collect();
        self.drop_all(costly_chains, "has more iterations or salt than servers take");
    }

    /// Removes signatures without the RRset that they cover.
    fn drop_lone_signatures(&mut self) {
        let lone_signatures = self
            .draft
            .rrsets
            .keys()
            .filter(|(owner, kind)| kind.rtype == Rtype::RRSIG && self.draft.get(owner, kind.covered).is_none());
        let lone_signatures: Vec<_> = lone_signatures.cloned().collect();
        self.drop_all(lone_signatures, "covers records that were not seen");
    }

    pub(super) fn drop_all(&mut self, keys: Vec<(Name, Kind)>, why: &'static str) {
        for (owner, kind) in keys {
            self.draft.remove(&owner, kind);
            let rrset = name_of(&owner, kind);
            self.report.dropped.add(DroppedRrset { zone: self.apex.to_string(), rrset, why });
        }
    }

    /// Completes the NS records of the apex: from the zone above, from elsewhere, or a made-up one.
    pub(super) fn complete_name_servers(&mut self, map: &Map, delegation: Option<(u32, Vec<Box<[u8]>>)>) {
        if self.draft.get(self.apex, Rtype::NS).is_some() {
            return;
        }
        if let Some((ttl, rdatas)) = delegation {
            return self.make(self.apex, Rtype::NS, ttl, rdatas, "no NS was seen; those of the zone above");
        }
        let known = map.zones.get(self.apex).map(|zone| &zone.name_servers).filter(|names| !names.is_empty());
        let (rdatas, why) = match known {
            Some(names) => {
                (names.iter().map(|name| name.as_bytes().into()).collect(), "no NS was seen; those named elsewhere")
            }
            None => (vec![below(self.apex, b"catlab-ns").as_bytes().into()], "no NS was seen"),
        };
        self.make(self.apex, Rtype::NS, MADE_TTL, rdatas, why);
    }

    /// Removes CNAMEs at the names of the zone's name servers (RFC 2181 10.3): servers refuse such a zone.
    /// [`Repair::complete_addresses`] adds addresses instead.
    pub(super) fn separate_name_servers(&mut self) {
        let ns = self.draft.get(self.apex, Rtype::NS).into_iter().flat_map(|ns| &ns.rdatas);
        let targets: Vec<Name> = ns.filter_map(|rdata| target_of(Rtype::NS, rdata)).collect();
        let aliases = targets.into_iter().filter(|target| self.draft.get(target, Rtype::CNAME).is_some());
        let signatures = Kind::signatures(Rtype::CNAME);
        let mut dropped = Vec::new();
        for target in aliases {
            if self.draft.rrsets.contains_key(&(target.clone(), signatures)) {
                dropped.push((target.clone(), signatures));
            }
            dropped.push((target, Kind::of(Rtype::CNAME)));
        }
        self.drop_all(dropped, "is the alias of a name server of the zone");
    }

    /// Adds an SOA. Needs the name servers.
    pub(super) fn complete_soa(&mut self) {
        if self.draft.get(self.apex, Rtype::SOA).is_some() {
            return;
        }
        let first = self.draft.get(self.apex, Rtype::NS).and_then(|ns| ns.rdatas.first());
        let mut rdata = first.map_or(vec![0], |name| name.to_vec());
        rdata.extend_from_slice(below(self.apex, b"hostmaster").as_bytes());
        MADE_SOA.into_iter().for_each(|number| rdata.extend(number.to_be_bytes()));
        self.make(self.apex, Rtype::SOA, MADE_TTL, vec![rdata.into()], "no SOA was seen");
    }

    /// Adds addresses of the zone's own name servers, and of names in it that MX and similar records point to. Servers
    /// do not load zones without them.
    pub(super) fn complete_addresses(&mut self, map: &Map) {
        let mut wanted = BTreeSet::new();
        for ((owner, kind), stored) in &self.draft.rrsets {
            let is_apex_ns = kind.rtype == Rtype::NS && owner == self.apex;
            if is_apex_ns || matches!(kind.rtype, Rtype::MX | Rtype::SRV) {
                let targets = stored.rdatas.iter().filter_map(|rdata| target_of(kind.rtype, rdata));
                wanted.extend(targets.map(|target| (target, is_apex_ns, stored.ttl)));
            }
        }
        for (target, is_name_server, ttl) in wanted {
            let is_in_zone = !target.as_ref().is_root() && is_below(&target, self.apex);
            let has = |rtype| self.draft.get(&target, rtype).is_some();
            let is_elsewhere = !is_name_server && self.draft.cut_above(self.apex, &target).is_some();
            let has_any = has(Rtype::A) || has(Rtype::AAAA) || has(Rtype::CNAME);
            let wildcard = self.draft.wildcard_for(&target).filter(|_| !self.draft.exists(&target));
            // A wildcard CNAME must not match the name of a name server either.
            let is_by_wildcard =
                wildcard.is_some_and(|owner| !is_name_server || self.draft.get(&owner, Rtype::CNAME).is_none());
            if !is_in_zone || is_elsewhere || has_any || is_by_wildcard {
                continue;
            }
            let seen = map.addresses.get(&target).filter(|seen| !seen.is_empty());
            let zone_servers = map.zones.get(self.apex).map(|zone| &zone.servers).filter(|_| is_name_server);
            let (addresses, why) = match (seen, zone_servers.filter(|zone_servers| !zone_servers.is_empty())) {
                (Some(seen), _) => (seen.clone(), "no address was seen in the zone; those seen elsewhere"),
                (None, Some(zone_servers)) => {
                    (zone_servers.clone(), "no address was seen; those of the zone's servers")
                }
                (None, None) => (BTreeSet::from([NOWHERE]), "no address was seen; a reserved one"),
            };
            self.make_addresses(&target, ttl, &addresses, why);
        }
    }

    /// Gives names that exist without the queried type a record of another type.
    pub(super) fn complete_denied(&mut self) {
        let denied = std::mem::take(&mut self.draft.nodata);
        for (name, rtypes) in denied {
            let is_cut = self.draft.cut_above(self.apex, &name).is_some();
            if is_cut || self.draft.exists(&name) || self.draft.has_wildcard_for(&name) {
                continue;
            }
            let rtype = if rtypes.contains(&Rtype::TXT) { Rtype::HINFO } else { Rtype::TXT };
            let text: &[u8] = if rtype == Rtype::TXT { b"\x06catlab" } else { b"\x06catlab\x00" };
            self.make(&name, rtype, MADE_TTL, vec![text.into()], DENIED);
        }
    }

    /// Adds NSEC3PARAM. Without it, servers do not use the chain (RFC 5155 4).
    pub(super) fn complete_nsec3(&mut self) {
        if self.draft.get(self.apex, Rtype::NSEC3PARAM).is_some() {
            return;
        }
        let chain = self.draft.rrsets.iter().find(|((_, kind), _)| kind.rtype == Rtype::NSEC3);
        let Some((ttl, rdata)) = chain.and_then(|(_, stored)| Some((stored.ttl, stored.rdatas.first()?))) else {
            return;
        };
        let salt_end = rdata.get(4).map_or(0, |len| 5 + usize::from(*len));
        let Some(parameters) = rdata.get(..salt_end).filter(|parameters| parameters.len() >= 5) else { return };
        let mut parameters: Box<[u8]> = parameters.into();
        // RFC 5155 4.1.2: the opt-out flag is 0 here.
        parameters[1] = 0;
        self.make(self.apex, Rtype::NSEC3PARAM, ttl, vec![parameters], "NSEC3 was seen, its parameters were not");
    }

    /// Adds NS for delegations that only an NSEC and glue below them show. The names of the glue become the name
    /// servers. Otherwise the glue would be data of this zone.
    pub(super) fn complete_cuts(&mut self) {
        let nsec = self.draft.rrsets.iter().filter(|((_, kind), _)| kind.rtype == Rtype::NSEC);
        let is_cut = |rdata: &[u8]| bitmap::has(rdata, Rtype::NS) && !bitmap::has(rdata, Rtype::SOA);
        let cuts = nsec
            .filter(|(_, stored)| stored.rdatas.iter().any(|rdata| is_cut(rdata)))
            .map(|((owner, _), stored)| (owner, stored.ttl));
        let mut made = Vec::new();
        for (cut, ttl) in cuts.filter(|(cut, _)| self.draft.get(cut, Rtype::NS).is_none()) {
            let first = (cut.clone(), Kind::of(Rtype(0)));
            let below = self.draft.rrsets.range(first..).take_while(|((owner, _), _)| is_below(owner, cut));
            let glue = below.filter(|((_, kind), _)| matches!(kind.rtype, Rtype::A | Rtype::AAAA));
            let names: BTreeSet<&Name> = glue.map(|((owner, _), _)| owner).collect();
            let rdatas: Vec<Box<[u8]>> = names.into_iter().map(|name| name.as_bytes().into()).collect();
            if !rdatas.is_empty() {
                made.push((cut.clone(), ttl, rdatas));
            }
        }
        for (cut, ttl, rdatas) in made {
            self.make(&cut, Rtype::NS, ttl, rdatas, "its NSEC says that it is delegated; the names of glue below it");
        }
    }

    /// Adds the NSEC of the apex. Without it, servers treat the zone as unsigned. Its next name ignores [`DENIED`]
    /// records: they are added later, but are already there when zones are merged.
    pub(super) fn complete_nsec(&mut self) {
        let is_signed = self.draft.rrsets.keys().any(|(_, kind)| kind.rtype == Rtype::RRSIG);
        let has = |rtype| self.draft.get(self.apex, rtype).is_some();
        if !is_signed || has(Rtype::NSEC) || has(Rtype::NSEC3PARAM) {
            return;
        }
        let mut types = BTreeSet::from([Rtype::NSEC, Rtype::RRSIG]);
        let mut next = self.apex;
        let seen = self.draft.rrsets.iter().filter(|(_, stored)| stored.made.as_deref() != Some(DENIED));
        for ((owner, kind), _) in seen {
            if owner == self.apex {
                types.insert(kind.rtype);
            } else if kind.rtype != Rtype::A && kind.rtype != Rtype::AAAA {
                // Addresses may be glue, which has no NSEC.
                next = owner;
                break;
            }
        }
        let mut rdata = next.as_bytes().to_vec();
        bitmap::push(&types, &mut rdata);
        let ttl = self.draft.get(self.apex, Rtype::SOA).map_or(MADE_TTL, |soa| soa.ttl);
        let why = "the zone is signed, and the NSEC of its apex was not seen";
        self.make(self.apex, Rtype::NSEC, ttl, vec![rdata.into()], why);
    }

    pub(super) fn make_addresses(&mut self, owner: &Name, ttl: u32, addresses: &BTreeSet<IpAddr>, why: &'static str) {
        let bytes = |address: &IpAddr| match address {
            IpAddr::V4(address) => (Rtype::A, address.octets().to_vec().into_boxed_slice()),
            IpAddr::V6(address) => (Rtype::AAAA, address.octets().to_vec().into_boxed_slice()),
        };
        for wanted in [Rtype::A, Rtype::AAAA] {
            let of_family = addresses.iter().map(bytes).filter(|(rtype, _)| *rtype == wanted);
            let rdatas: Vec<Box<[u8]>> = of_family.map(|(_, rdata)| rdata).take(MADE_ADDRESSES_MAX).collect();
            if !rdatas.is_empty() {
                self.make(owner, wanted, ttl, rdatas, why);
            }
        }
    }

    pub(super) fn make(&mut self, owner: &Name, rtype: Rtype, ttl: u32, rdatas: Vec<Box<[u8]>>, why: &'static str) {
        self.draft.make(owner, rtype, ttl, rdatas, why);
    }
}

/// Owner and type, for display.
pub(super) fn name_of(owner: &Name, kind: Kind) -> String {
    let mut text = format!("{owner} ");
    zone::text::print_rtype(kind.rtype, &mut text);
    if kind.rtype == Rtype::RRSIG {
        text.push_str(" of ");
        zone::text::print_rtype(kind.covered, &mut text);
    }
    text
}

/// Name in a zone above for the server of a zone. The FNV-1a hash makes it unique, also after a merge of hierarchies.
pub(super) fn server_name(above: &Name, apex: &Name) -> Name {
    let apex = apex.as_ref().to_canonical();
    let hash =
        apex.as_bytes().iter().fold(0x811C_9DC5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    below(above, format!("catlab-ns-{hash:08x}").as_bytes())
}

/// The name one label below another, or the other name if the result would be too long.
fn below(apex: &Name, label: &[u8]) -> Name {
    let mut bytes = vec![label.len() as u8];
    bytes.extend_from_slice(label);
    bytes.extend_from_slice(apex.as_bytes());
    NameRef::from_bytes(&bytes).unwrap_or(apex.as_ref()).to_name()
}
