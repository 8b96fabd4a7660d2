//! From what was put together to zones that servers load.

use super::assembly::Assembly;
use super::draft::{Draft, Rank};
use super::map::{Map, Place};
use super::repair::{Repair, name_of, server_name};
use super::report::{Conflict, KeptAnswer, Made, OtherAnswer, Report, ZoneReport};
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

/// Addresses for the servers of zones that nobody answered for: nobody's (RFC 5737, RFC 3849). One server may have
/// several zones, as long as none of them is above another.
const NOBODYS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 53)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0x53))];

/// Why an RRset is marked that was sent, only in no place that makes it an answer.
pub(super) const ELSEWHERE: &str = "seen only beside answers of other zones";

pub(super) fn finish(assembly: Assembly) -> Built {
    let Assembly { mut map, drafts, mut report, conflicts, behaviors, .. } = assembly;
    // Glue that nobody asked for is not worth a zone.
    let (mut drafts, mut glue): (Drafts, Drafts) = drafts.into_iter().partition(|(_, draft)| draft.is_zone());
    complete_ancestors(&mut drafts, &mut glue, &mut map);
    let mut all_conflicts = Vec::new();
    for ((zone, owner, kind), contradiction) in conflicts {
        if let Some(draft) = drafts.get(&zone) {
            let (kept, rrset) = (draft.rrsets.get(&(owner.clone(), kind)), name_of(&owner, kind));
            all_conflicts.push(contradiction.told(zone.to_string(), rrset, kind, kept));
        }
    }
    for held in drafts.values_mut().flat_map(|draft| draft.rrsets.values_mut()) {
        if held.rank == Rank::Elsewhere {
            held.made = Some(ELSEWHERE.into());
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
    // Addresses that serve no zone are none of the hierarchy's.
    let mut behaviors = behaviors.finish();
    let servers: BTreeSet<IpAddr> = report.zones.iter().flat_map(|zone| &zone.servers).copied().collect();
    behaviors.retain(|server, _| servers.contains(server));
    all_conflicts.iter().for_each(|conflict| report.conflicts.add(conflict.clone()));
    Built { zones, behaviors, report, conflicts: all_conflicts }
}

fn each(drafts: &mut Drafts, report: &mut Report, mut work: impl FnMut(Repair<'_>)) {
    for (apex, draft) in drafts {
        work(Repair { apex, draft, report });
    }
}

/// The nearest of the zones above one.
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

/// A resolver begins at the root and follows referrals; one that had done so before the trace began did not ask there
/// again. So the zones above those that answered are made where nobody answered for them: the root, top-level domains,
/// and what a referral in between leads to. [`connect`] delegates to them and from them.
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
        let place = map.places.entry(apex.clone()).or_insert_with(|| Place { is_made: true, ..Place::default() });
        if apex.as_ref().is_root() {
            for server in ROOT_SERVERS {
                let Ok(name) = server.name().parse::<Name>() else { continue };
                let addresses = server.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
                map.addresses.entry(name.clone()).or_default().extend(addresses.clone());
                place.servers.extend(addresses);
                place.name_servers.insert(name);
            }
        } else if place.servers.is_empty() {
            place.servers.extend(NOBODYS);
        }
    }
}

/// TTL and name servers that the zone above has for a zone.
fn delegation_of(drafts: &Drafts, apex: &Name) -> Option<(u32, Vec<Box<[u8]>>)> {
    let held = drafts.get(above(drafts, apex)?)?.get(apex, Rtype::NS)?;
    Some((held.ttl, held.rdatas.clone()))
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
            .chain(map.places.get(apex).into_iter().flat_map(|place| &place.servers))
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

/// Every zone is delegated from the one above it, so that a resolver that begins at the top finds it: where one server
/// has both, no referral is ever sent.
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
            let of_servers = || map.places.get(&apex).map(|place| &place.servers);
            let addresses =
                map.addresses.get(target).or_else(of_servers).filter(|_| !has(Rtype::A) && !has(Rtype::AAAA));
            if let Some(addresses) = addresses {
                repair.make_addresses(target, ttl, addresses, "glue of a referral that was not seen");
            }
        }
    }
}

/// Names that were said not to exist, and have records.
fn tell_contradictions(repair: &mut Repair<'_>, conflicts: &mut Vec<Conflict>) {
    let denied = std::mem::take(&mut repair.draft.nxdomain);
    for name in denied {
        if !repair.draft.exists(&name) {
            continue;
        }
        let first = (name.clone(), Kind::of(Rtype(0)));
        let here = repair.draft.rrsets.range(first..).take_while(|((owner, _), _)| *owner == name);
        // A name may exist because of those below it alone.
        let records = here.map(|((owner, kind), _)| name_of(owner, *kind)).collect();
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
    let place = map.places.get(&apex);
    let servers = servers_of(&apex, &draft, map, report);
    let is_signed = draft.rrsets.keys().any(|(_, kind)| kind.rtype == Rtype::RRSIG);
    let signatures_hold = signatures_hold(&draft);
    let (missing_proofs, missing_glue) = (missing_proofs(&draft), missing_glue(&apex, &draft));
    let mut records = Vec::new();
    let is_soa = |key: &(Name, Kind)| key.0 == apex && key.1.rtype == Rtype::SOA;
    let (soa, rest): (Vec<_>, Vec<_>) = draft.rrsets.into_iter().partition(|(key, _)| is_soa(key));
    for ((owner, kind), held) in soa.into_iter().chain(rest) {
        if let Some(why) = &held.made {
            report.made.add(Made { zone: apex.to_string(), rrset: name_of(&owner, kind), why: why.clone() });
        }
        for rdata in held.rdatas {
            let record = Record { owner: owner.clone(), rtype: kind.rtype, ttl: held.ttl, rdata };
            records.push(BuiltRecord { record, made: held.made.clone() });
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
        is_made: place.is_some_and(|place| place.is_made),
    });
    BuiltZone { apex, records, servers }
}

/// The addresses of a zone: those that were seen to answer, then the others.
fn servers_of(apex: &Name, draft: &Draft, map: &Map, report: &mut Report) -> Vec<IpAddr> {
    let place = map.places.get(apex);
    let mut servers: Vec<IpAddr> = place.into_iter().flat_map(|place| &place.answered).copied().collect();
    let ns = draft.get(apex, Rtype::NS).into_iter().flat_map(|ns| &ns.rdatas);
    let names = ns.filter_map(|rdata| target_of(Rtype::NS, rdata));
    let mut others: BTreeSet<IpAddr> = names.filter_map(|name| map.addresses.get(&name)).flatten().copied().collect();
    others.extend(place.into_iter().flat_map(|place| &place.servers));
    let answered: BTreeSet<IpAddr> = servers.iter().copied().collect();
    servers.extend(others.difference(&answered));
    report.over_bound += servers.len().saturating_sub(SERVERS_OF_ZONE_MAX) as u64;
    servers.truncate(SERVERS_OF_ZONE_MAX);
    servers
}

/// From when until when all signatures hold.
fn signatures_hold(draft: &Draft) -> Option<[String; 2]> {
    let signatures = draft.rrsets.iter().filter(|((_, kind), _)| kind.rtype == Rtype::RRSIG);
    let mut hold: Option<[String; 2]> = None;
    let mut text = String::new();
    for rdata in signatures.flat_map(|(_, held)| &held.rdatas) {
        text.clear();
        zone::text::print_rdata(Rtype::RRSIG, rdata, &mut text);
        // Type, algorithm, labels, TTL, expiration, inception (RFC 4034 3.2); such times compare as text.
        let mut words = text.split(' ').skip(4);
        let (Some(until), Some(from)) = (words.next(), words.next()) else { continue };
        let [latest, earliest] = hold.get_or_insert_with(|| [from.to_owned(), until.to_owned()]);
        if from > latest.as_str() {
            from.clone_into(latest);
        }
        if until < earliest.as_str() {
            until.clone_into(earliest);
        }
    }
    hold
}

/// NSEC records whose next name has none.
fn missing_proofs(draft: &Draft) -> usize {
    let nsec = || draft.rrsets.iter().filter(|((_, kind), _)| kind.rtype == Rtype::NSEC);
    let owners: BTreeSet<&Name> = nsec().map(|((owner, _), _)| owner).collect();
    let next = nsec().filter_map(|(_, held)| target_of(Rtype::NSEC, held.rdatas.first()?));
    next.filter(|next| !owners.contains(next)).count()
}

/// Delegations that nobody can follow: each of their name servers is below them, and none has an address.
fn missing_glue(apex: &Name, draft: &Draft) -> usize {
    let cuts = draft.rrsets.iter().filter(|((owner, kind), _)| kind.rtype == Rtype::NS && owner != apex);
    let has_address = |name: &Name| draft.get(name, Rtype::A).is_some() || draft.get(name, Rtype::AAAA).is_some();
    let is_lost = |((owner, _), held): &(&(Name, Kind), &super::draft::Held)| {
        let mut targets = held.rdatas.iter().filter_map(|rdata| target_of(Rtype::NS, rdata));
        targets.all(|target| is_below(&target, owner) && !has_address(&target))
    };
    cuts.filter(is_lost).count()
}
