//! Completes the drafts, so that servers load the zones.

use super::assembly::Assembly;
use super::draft::{Draft, Rank};
use super::map::{Map, MappedZone};
use super::repair::{Repair, name_of, server_name};
use super::report::{Conflict, InventedRrset, KeptAnswer, OtherAnswer, Report, ZoneReport};
use super::response::is_below;
use super::rrset::{Kind, target_of};
use super::{Built, BuiltRecord, BuiltZone};
use crate::limits::SERVERS_OF_ZONE_MAX;
use crate::roots::ROOT_SERVERS;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::Record;

type Drafts = BTreeMap<Name, Draft>;

/// Addresses for the servers of zones without a known server (RFC 5737, RFC 3849). One server may have several zones if
/// none of them is above another.
const NOBODYS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 53)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0x53))];

/// Mark of an RRset that was only sent in a place that makes it no answer.
pub(super) const ELSEWHERE: &str = "seen only beside answers of other zones";

impl Assembly {
    /// Returns the zones and the report.
    #[must_use]
    pub fn finish(self) -> Built {
        let Self { mut map, drafts, mut report, conflicts, behaviors, .. } = self;
        // Glue alone is no reason for a zone.
        let (mut drafts, mut glue): (Drafts, Drafts) = drafts.into_iter().partition(|(_, draft)| draft.is_zone());
        complete_ancestors(&mut drafts, &mut glue, &mut map);
        let mut all_conflicts = Vec::new();
        for ((zone, owner, kind), contradiction) in conflicts {
            if let Some(draft) = drafts.get(&zone) {
                let (kept, rrset) = (draft.rrsets.get(&(owner.clone(), kind)), name_of(&owner, kind));
                all_conflicts.push(contradiction.into_conflict(zone.to_string(), rrset, kind, kept));
            }
        }
        for stored in drafts.values_mut().flat_map(|draft| draft.rrsets.values_mut()) {
            if stored.rank == Rank::Elsewhere {
                stored.made = Some(ELSEWHERE.into());
            }
        }
        each(&mut drafts, &mut report, |mut repair| repair.prune());
        let delegations: BTreeMap<Name, _> =
            drafts.keys().filter_map(|apex| Some((apex.clone(), delegation_of(&drafts, apex)?))).collect();
        each(&mut drafts, &mut report, |mut repair| {
            repair.complete_name_servers(&map, delegations.get(repair.apex).cloned());
            repair.separate_name_servers();
        });
        move_name_servers(&mut drafts, &map, &mut report);
        each(&mut drafts, &mut report, |mut repair| repair.complete_soa());
        connect(&mut drafts, &map, &mut report);
        each(&mut drafts, &mut report, |mut repair| repair.complete_cuts());
        each(&mut drafts, &mut report, |mut repair| {
            repair.complete_addresses(&map);
            repair.complete_nsec3();
            repair.complete_nsec();
            tell_contradictions(&mut repair, &mut all_conflicts);
            repair.complete_denied();
        });
        let zones = drafts.into_iter().map(|(apex, draft)| close(apex, draft, &map, &mut report)).collect();
        // Addresses that serve no zone are not part of the hierarchy.
        let mut behaviors = behaviors.finish();
        let servers: BTreeSet<IpAddr> = report.zones.iter().flat_map(|zone| &zone.servers).copied().collect();
        behaviors.retain(|server, _| servers.contains(server));
        all_conflicts.iter().for_each(|conflict| report.conflicts.add(conflict.clone()));
        Built { zones, behaviors, report, conflicts: all_conflicts }
    }
}

fn each(drafts: &mut Drafts, report: &mut Report, mut work: impl FnMut(Repair<'_>)) {
    for (apex, draft) in drafts {
        work(Repair { apex, draft, report });
    }
}

/// The nearest zone above another.
fn above<'d>(drafts: &'d Drafts, apex: &Name) -> Option<&'d Name> {
    let mut next = apex.as_ref().parent();
    while let Some(name) = next {
        if let Some((above, _)) = drafts.get_key_value(&name.to_name()) {
            return Some(above);
        }
        next = name.parent();
    }
    None
}

/// Makes the missing zones above those that answered: the root, top-level domains, and zones between. A resolver that
/// knew them before the trace began did not ask them again. [`connect`] delegates to them and from them.
fn complete_ancestors(drafts: &mut Drafts, glue: &mut Drafts, map: &mut Map) {
    let apexes: Vec<Name> = drafts.keys().cloned().collect();
    let mut wanted = BTreeSet::new();
    for apex in &apexes {
        let labels = apex.as_ref().label_count();
        wanted.insert(Name::root());
        wanted.extend(apex.as_ref().strip(labels.saturating_sub(1)).map(NameRef::to_name));
        let cut = above(drafts, apex).and_then(|parent| drafts.get(parent)?.cut_above(parent, apex));
        wanted.extend(cut.filter(|_| labels > 1));
    }
    for apex in wanted.into_iter().filter(|apex| !apexes.contains(apex)) {
        drafts.insert(apex.clone(), glue.remove(&apex).unwrap_or_default());
        let mapped =
            map.zones.entry(apex.clone()).or_insert_with(|| MappedZone { is_made: true, ..MappedZone::default() });
        if apex.as_ref().is_root() {
            for server in ROOT_SERVERS {
                let Ok(name) = server.name().parse::<Name>() else { continue };
                let addresses = server.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
                map.addresses.entry(name.clone()).or_default().extend(addresses.clone());
                mapped.servers.extend(addresses);
                mapped.name_servers.insert(name);
            }
        } else if mapped.servers.is_empty() {
            mapped.servers.extend(NOBODYS);
        }
    }
}

/// TTL and name servers for a zone, from the zone above it.
fn delegation_of(drafts: &Drafts, apex: &Name) -> Option<(u32, Vec<Box<[u8]>>)> {
    let stored = drafts.get(above(drafts, apex)?)?.get(apex, Rtype::NS)?;
    Some((stored.ttl, stored.rdatas.clone()))
}

/// Removes name servers whose names are below a DNAME of their zone (RFC 6672 2.4): servers refuse such a zone. If none
/// is left, a name in a zone above replaces them.
fn move_name_servers(drafts: &mut Drafts, map: &Map, report: &mut Report) {
    let apexes: Vec<Name> = drafts.keys().cloned().collect();
    for apex in &apexes {
        let Some(draft) = drafts.get_mut(apex) else { continue };
        let Some(ns) = draft.get(apex, Rtype::NS) else { continue };
        let is_occluded = |rdata: &[u8]| {
            target_of(Rtype::NS, rdata).is_some_and(|target| is_below(&target, apex) && draft.is_below_dname(&target))
        };
        let (ttl, count) = (ns.ttl, ns.rdatas.len());
        let kept: Vec<Box<[u8]>> = ns.rdatas.iter().filter(|rdata| !is_occluded(rdata)).cloned().collect();
        if kept.len() == count {
            continue;
        }
        let occluded = ns.rdatas.iter().filter(|rdata| is_occluded(rdata));
        let seen: BTreeSet<IpAddr> = occluded
            .filter_map(|rdata| map.addresses.get(&target_of(Rtype::NS, rdata)?))
            .flatten()
            .chain(map.zones.get(apex).into_iter().flat_map(|mapped| &mapped.servers))
            .copied()
            .collect();
        // The signatures cover the old RRset.
        draft.remove(apex, Kind::signatures(Rtype::NS));
        if !kept.is_empty() {
            draft.make(apex, Rtype::NS, ttl, kept, "without the name servers below a DNAME");
            continue;
        }
        let Some((zone, name)) = free_name(drafts, apex) else {
            let keys = vec![(apex.clone(), Kind::of(Rtype::DNAME))];
            if let Some(draft) = drafts.get_mut(apex) {
                Repair { apex, draft, report }.drop_all(keys, "has the zone's name servers below it");
            }
            continue;
        };
        if let Some(draft) = drafts.get_mut(&zone) {
            let addresses = if seen.is_empty() { NOBODYS.into() } else { seen };
            let mut repair = Repair { apex: &zone, draft, report };
            repair.make_addresses(&name, ttl, &addresses, "of a name server whose own name is below a DNAME");
        }
        if let Some(draft) = drafts.get_mut(apex) {
            let why = "its name servers are below a DNAME; replaced by a name in a zone above";
            draft.make(apex, Rtype::NS, ttl, vec![name.as_bytes().into()], why);
        }
    }
}

/// Finds a zone above, and a name in it that is not below a DNAME.
fn free_name(drafts: &Drafts, apex: &Name) -> Option<(Name, Name)> {
    let mut zone = above(drafts, apex)?;
    loop {
        let name = server_name(zone, apex);
        if !drafts.get(zone)?.is_below_dname(&name) {
            return Some((zone.clone(), name));
        }
        zone = above(drafts, zone)?;
    }
}

/// Delegates every zone from the one above it. If one server has both, the traffic shows no referral, but a resolver
/// needs one.
fn connect(drafts: &mut Drafts, map: &Map, report: &mut Report) {
    let apexes: Vec<Name> = drafts.keys().cloned().collect();
    for apex in apexes {
        let Some(parent) = above(drafts, &apex).cloned() else { continue };
        let Some(ns) = drafts.get(&apex).and_then(|child| child.get(&apex, Rtype::NS)) else { continue };
        let (ttl, rdatas) = (ns.ttl, ns.rdatas.clone());
        let Some(draft) = drafts.get_mut(&parent) else { continue };
        if draft.cut_above(&parent, &apex).is_some() {
            continue;
        }
        let targets: Vec<Name> = rdatas.iter().filter_map(|rdata| target_of(Rtype::NS, rdata)).collect();
        let mut repair = Repair { apex: &parent, draft, report };
        repair.make(&apex, Rtype::NS, ttl, rdatas, "no referral was seen; NS of the zone itself");
        for target in targets.iter().filter(|target| is_below(target, &apex)) {
            let has = |rtype| repair.draft.get(target, rtype).is_some();
            let of_servers = || map.zones.get(&apex).map(|mapped| &mapped.servers);
            let addresses =
                map.addresses.get(target).or_else(of_servers).filter(|_| !has(Rtype::A) && !has(Rtype::AAAA));
            if let Some(addresses) = addresses {
                repair.make_addresses(target, ttl, addresses, "glue of a referral that was not seen");
            }
        }
    }
}

/// Reports names that were denied and also have records.
fn tell_contradictions(repair: &mut Repair<'_>, conflicts: &mut Vec<Conflict>) {
    let denied = std::mem::take(&mut repair.draft.nxdomain);
    for name in denied {
        if !repair.draft.exists(&name) {
            continue;
        }
        let first = (name.clone(), Kind::of(Rtype(0)));
        let same_owner = repair.draft.rrsets.range(first..).take_while(|((owner, _), _)| *owner == name);
        // A name may exist only because of names below it.
        let records = same_owner.map(|((owner, kind), _)| name_of(owner, *kind)).collect();
        conflicts.push(Conflict {
            zone: repair.apex.to_string(),
            rrset: format!("{name} NXDOMAIN"),
            what: "exists",
            messages: 1,
            kept: KeptAnswer { ttl: None, records },
            others: vec![OtherAnswer { ttl: None, records: vec!["NXDOMAIN".to_owned()], messages: 1 }],
            others_unlisted: 0,
        });
    }
}

fn close(apex: Name, draft: Draft, map: &Map, report: &mut Report) -> BuiltZone {
    let mapped = map.zones.get(&apex);
    let servers = servers_of(&apex, &draft, map, report);
    let is_signed = draft.rrsets.keys().any(|(_, kind)| kind.rtype == Rtype::RRSIG);
    let signatures_hold = signatures_hold(&draft);
    let (missing_proofs, missing_glue) = (missing_proofs(&draft), missing_glue(&apex, &draft));
    let mut records = Vec::new();
    let is_soa = |key: &(Name, Kind)| key.0 == apex && key.1.rtype == Rtype::SOA;
    let (soa, rest): (Vec<_>, Vec<_>) = draft.rrsets.into_iter().partition(|(key, _)| is_soa(key));
    for ((owner, kind), stored) in soa.into_iter().chain(rest) {
        if let Some(why) = &stored.made {
            report.made.add(InventedRrset { zone: apex.to_string(), rrset: name_of(&owner, kind), why: why.clone() });
        }
        for rdata in stored.rdatas {
            let record = Record { owner: owner.clone(), rtype: kind.rtype, ttl: stored.ttl, rdata };
            records.push(BuiltRecord { record, made: stored.made.clone() });
        }
    }
    report.zones.push(ZoneReport {
        name: apex.to_string(),
        records: records.len(),
        servers: servers.clone(),
        is_signed,
        signatures_hold,
        missing_proofs,
        missing_glue,
        is_made: mapped.is_some_and(|mapped| mapped.is_made),
    });
    BuiltZone { apex, records, servers }
}

/// The addresses of a zone: first those that answered, then the others.
fn servers_of(apex: &Name, draft: &Draft, map: &Map, report: &mut Report) -> Vec<IpAddr> {
    let mapped = map.zones.get(apex);
    let mut servers: Vec<IpAddr> = mapped.into_iter().flat_map(|mapped| &mapped.answered).copied().collect();
    let ns = draft.get(apex, Rtype::NS).into_iter().flat_map(|ns| &ns.rdatas);
    let names = ns.filter_map(|rdata| target_of(Rtype::NS, rdata));
    let mut others: BTreeSet<IpAddr> = names.filter_map(|name| map.addresses.get(&name)).flatten().copied().collect();
    others.extend(mapped.into_iter().flat_map(|mapped| &mapped.servers));
    let answered: BTreeSet<IpAddr> = servers.iter().copied().collect();
    servers.extend(others.difference(&answered));
    report.over_bound += servers.len().saturating_sub(SERVERS_OF_ZONE_MAX) as u64;
    servers.truncate(SERVERS_OF_ZONE_MAX);
    servers
}

/// The time in which all signatures are valid.
fn signatures_hold(draft: &Draft) -> Option<[String; 2]> {
    let signatures = draft.rrsets.iter().filter(|((_, kind), _)| kind.rtype == Rtype::RRSIG);
    let mut valid: Option<[String; 2]> = None;
    let mut text = String::new();
    for rdata in signatures.flat_map(|(_, stored)| &stored.rdatas) {
        text.clear();
        zone::text::print_rdata(Rtype::RRSIG, rdata, &mut text);
        // Type, algorithm, labels, TTL, expiration, inception (RFC 4034 3.2). These times can be compared as text.
        let mut fields = text.split(' ').skip(4);
        let (Some(until), Some(from)) = (fields.next(), fields.next()) else { continue };
        let [latest, earliest] = valid.get_or_insert_with(|| [from.to_owned(), until.to_owned()]);
        if from > latest.as_str() {
            from.clone_into(latest);
        }
        if until < earliest.as_str() {
            until.clone_into(earliest);
        }
    }
    valid
}

/// Number of NSEC records whose next name has no NSEC.
fn missing_proofs(draft: &Draft) -> usize {
    let nsec = || draft.rrsets.iter().filter(|((_, kind), _)| kind.rtype == Rtype::NSEC);
    let owners: BTreeSet<&Name> = nsec().map(|((owner, _), _)| owner).collect();
    let next = nsec().filter_map(|(_, stored)| target_of(Rtype::NSEC, stored.rdatas.first()?));
    next.filter(|next| !owners.contains(next)).count()
}

/// Number of delegations whose name servers are all below the cut and have no address.
fn missing_glue(apex: &Name, draft: &Draft) -> usize {
    let cuts = draft.rrsets.iter().filter(|((owner, kind), _)| kind.rtype == Rtype::NS && owner != apex);
    let has_address = |name: &Name| draft.get(name, Rtype::A).is_some() || draft.get(name, Rtype::AAAA).is_some();
    let is_lost = |((owner, _), stored): &(&(Name, Kind), &super::draft::StoredRrset)| {
        let mut targets = stored.rdatas.iter().filter_map(|rdata| target_of(Rtype::NS, rdata));
        targets.all(|target| is_below(&target, owner) && !has_address(&target))
    };
    cuts.filter(is_lost).count()
}
