//! A simple implementation of RFC 2136 on a set of records.
//!
//! It shares no code with the servers, including ours. It is slow, and meant for zones of a few dozen records.

use super::address;
use super::contents::{Contents, serial_of};
use super::message::{Update, WireRecord};
use super::quirk::{Quirk, Quirks};
use super::readable::{self, is_meta, rr};
use crate::response::Rr;
use wire::name::NameRef;
use wire::number::{Class, Rcode, Rtype, Serial};

/// The outcome of an authorized UPDATE: the RCODE and the resulting zone.
#[must_use]
pub fn update(zone: &Contents, update: &Update) -> (Rcode, Contents) {
    update_with(zone, update, Quirks(&[]))
}

/// The outcome of an UPDATE with these quirks.
#[must_use]
pub fn update_with(zone: &Contents, update: &Update, quirks: Quirks<'_>) -> (Rcode, Contents) {
    match outcome(zone, update, quirks) {
        Ok(after) => (Rcode::NOERROR, after),
        Err(rcode) => (rcode, zone.clone()),
    }
}

fn outcome(zone: &Contents, update: &Update, quirks: Quirks<'_>) -> Result<Contents, Rcode> {
    let prescan = || update.steps.iter().try_for_each(|record| scan(record, update, quirks));
    readable::check(update, quirks)?;
    if quirks.has(Quirk::ScanFirst) {
        prescan()?;
    }
    prerequisites(zone, update, quirks)?;
    let in_turn = quirks.has(Quirk::BelowDnameRefused);
    if !in_turn {
        prescan()?;
    }
    let mut after = zone.clone();
    let apex = update.apex.as_bytes().to_ascii_lowercase();
    for record in &update.steps {
        if in_turn {
            scan(record, update, quirks)?;
        }
        execute_step(&mut after, zone.serial(), &apex, record, quirks)?;
    }
    finish(zone, &mut after, update, &apex, quirks)?;
    Ok(after)
}

/// RFC 2136 3.6: increments the serial if something changed and the update did not set it.
fn finish(zone: &Contents, after: &mut Contents, update: &Update, apex: &[u8], quirks: Quirks<'_>) -> Check {
    let is_changed = after != zone;
    let is_case_changed =
        quirks.has(Quirk::CaseCounts) && update.steps.iter().any(|record| adds_existing(zone, record));
    if after.serial() == zone.serial() && (is_changed || is_case_changed) {
        let next = match zone.serial() {
            u32::MAX if quirks.has(Quirk::WrapToZero) => 0,
            serial => Serial(serial).next().0,
        };
        after.set_serial(next);
    }
    if quirks.has(Quirk::OrphanDsGoes) {
        let orphans: Vec<Rr> = after.records.iter().filter(|rr| is_orphan_ds(rr, after, apex)).cloned().collect();
        after.records.retain(|rr| !orphans.contains(rr));
    }
    let lacks_address = is_changed && !address::all_apex_ns_have_one(after, apex);
    fail_if(quirks.has(Quirk::ApexNsNeedsAddress) && lacks_address, Rcode::REFUSED)?;
    // Generated zones have no DNSKEY.
    let lacks_key = is_changed && after.rrset(apex, Rtype::CDS).next().is_some();
    fail_if(quirks.has(Quirk::ApexCdsNeedsKey) && lacks_key, Rcode::REFUSED)
}

/// Whether a step adds an existing record.
fn adds_existing(zone: &Contents, record: &WireRecord) -> bool {
    let wanted = rr(record, Quirks(&[]));
    record.class == Class::IN && zone.records.iter().any(|rr| is_same(rr, &wanted))
}

fn is_orphan_ds(rr: &Rr, zone: &Contents, apex: &[u8]) -> bool {
    rr.rtype == Rtype::DS && rr.owner != apex && zone.rrset(&rr.owner, Rtype::NS).next().is_none()
}

type Check = Result<(), Rcode>;

fn fail_if(condition: bool, rcode: Rcode) -> Check {
    if condition { Err(rcode) } else { Ok(()) }
}

/// RFC 2136 3.2.5.
fn prerequisites(zone: &Contents, update: &Update, quirks: Quirks<'_>) -> Check {
    let mut values: Vec<Rr> = Vec::new();
    for record in &update.prerequisites {
        let wanted = rr(record, Quirks(&[]));
        fail_if(record.ttl != 0, Rcode::FORMERR)?;
        fail_if(!is_in_zone(record, update), Rcode::NOTZONE)?;
        if record.class == Class::IN {
            values.push(wanted);
            continue;
        }
        fail_if(![Class::ANY, Class::NONE].contains(&record.class) || !record.rdata.is_empty(), Rcode::FORMERR)?;
        let wants_it = record.class == Class::ANY;
        let (exists, missing, present) = match record.rtype {
            Rtype::ANY => (zone.at(&wanted.owner).next().is_some(), Rcode::NXDOMAIN, Rcode::YXDOMAIN),
            rtype => (zone.rrset(&wanted.owner, rtype).next().is_some(), Rcode::NXRRSET, Rcode::YXRRSET),
        };
        fail_if(exists != wants_it, if wants_it { missing } else { present })?;
    }
    for value in &values {
        let found: Vec<_> = zone.rrset(&value.owner, value.rtype).collect();
        let of_rrset = || values.iter().filter(|other| other.owner == value.owner && other.rtype == value.rtype);
        let all_exist = of_rrset().all(|value| found.iter().any(|found| found.rdata == value.rdata));
        let no_other = found.iter().all(|found| of_rrset().any(|value| found.rdata == value.rdata));
        let too_many = quirks.has(Quirk::ValuesAreCounted) && of_rrset().count() > found.len();
        fail_if(!all_exist || !no_other || too_many, Rcode::NXRRSET)?;
    }
    Ok(())
}

/// RFC 2136 3.4.1.3 for one step, and types that only a signer creates (RFC 3007 3.1.1 has their predecessors).
fn scan(record: &WireRecord, update: &Update, quirks: Quirks<'_>) -> Check {
    const OF_SIGNER: &[Rtype] = &[Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::DNSKEY];
    fail_if(!is_in_zone(record, update), Rcode::NOTZONE)?;
    let has_ttl = record.ttl != 0;
    let is_meta = is_meta(record.rtype, quirks);
    let is_malformed = match record.class {
        Class::IN => is_meta,
        Class::ANY => {
            has_ttl && !quirks.has(Quirk::TtlOfDeletionUnchecked)
                || !record.rdata.is_empty()
                || is_meta && record.rtype != Rtype::ANY
        }
        Class::NONE => has_ttl || is_meta,
        _ => true,
    };
    fail_if(is_malformed, Rcode::FORMERR)?;
    // RFC 4035 2.4: DS "MUST NOT appear at a zone's apex". An existing DS may be deleted.
    let is_apex_ds = record.rtype == Rtype::DS && record.class == Class::IN && record.owner == update.apex;
    let takes_ds = quirks.has(Quirk::ApexDsTaken) || quirks.has(Quirk::OrphanDsGoes);
    fail_if(is_apex_ds && !takes_ds, Rcode::REFUSED)?;
    let is_apex_rrsig = record.rtype == Rtype::RRSIG && record.owner == update.apex;
    let is_taken = quirks.has(Quirk::SignerTypesTaken) || (is_apex_rrsig && quirks.has(Quirk::ApexRrsigTaken));
    fail_if(OF_SIGNER.contains(&record.rtype) && !is_taken, Rcode::REFUSED)
}

/// RFC 2136 3.4.2.7, for one step.
fn execute_step(
    zone: &mut Contents,
    serial_before: u32,
    apex: &[u8],
    record: &WireRecord,
    quirks: Quirks<'_>,
) -> Check {
    let wanted = rr(record, quirks);
    let at_apex = wanted.owner == apex;
    let stays = |rtype: Rtype| at_apex && [Rtype::SOA, Rtype::NS].contains(&rtype);
    match (record.class, record.rtype) {
        (Class::IN, _) => add(zone, serial_before, at_apex, wanted, quirks)?,
        (Class::ANY, Rtype::ANY) => zone.records.retain(|rr| rr.owner != wanted.owner || stays(rr.rtype)),
        (Class::ANY, rtype) if stays(rtype) => {}
        (Class::ANY, rtype) => zone.records.retain(|rr| rr.owner != wanted.owner || rr.rtype != rtype),
        (_, Rtype::SOA) if at_apex => {}
        (_, Rtype::NS) if at_apex && zone.rrset(apex, Rtype::NS).count() == 1 => {}
        _ => zone.records.retain(|rr| !is_same(rr, &wanted)),
    }
    Ok(())
}

/// RFC 2136 3.4.2.2 with 1.1.5, RFC 2181 10.1 (types allowed beside a CNAME), RFC 6672 2.4 (one DNAME), RFC 2181 5.2
/// (one TTL for an RRset).
fn add(zone: &mut Contents, serial_before: u32, at_apex: bool, wanted: Rr, quirks: Quirks<'_>) -> Check {
    let beside_cname = |rtype: Rtype| match rtype {
        Rtype::KEY | Rtype::SIG | Rtype::NXT => !quirks.has(Quirk::NothingBesideCname),
        Rtype::RRSIG | Rtype::NSEC => !quirks.has(Quirk::SignerTypesTaken),
        _ => false,
    };
    let is_ignored = match wanted.rtype {
        Rtype::CNAME => zone.at(&wanted.owner).any(|rr| rr.rtype != Rtype::CNAME && !beside_cname(rr.rtype)),
        rtype => !beside_cname(rtype) && zone.rrset(&wanted.owner, Rtype::CNAME).next().is_some(),
    };
    fail_if(quirks.has(Quirk::BelowDnameRefused) && is_below_dname(zone, &wanted), Rcode::REFUSED)?;
    let is_apex_ds = at_apex && wanted.rtype == Rtype::DS && quirks.has(Quirk::OrphanDsGoes);
    if is_ignored || is_apex_ds {
        return Ok(());
    }
    let is_there = zone.records.iter().any(|rr| is_same(rr, &wanted));
    if is_there && wanted.rtype != Rtype::CNAME && quirks.has(Quirk::TtlOfExistingStays) {
        return Ok(());
    }
    if wanted.rtype == Rtype::SOA && !(at_apex && is_newer_soa(zone, serial_before, &wanted, quirks)?) {
        return Ok(());
    }
    let is_replaced = |rr: &Rr| {
        rr.owner == wanted.owner
            && rr.rtype == wanted.rtype
            && match wanted.rtype {
                Rtype::SOA | Rtype::CNAME | Rtype::DNAME => true,
                Rtype::WKS if !quirks.has(Quirk::WksAdds) => rr.rdata.get(..5) == wanted.rdata.get(..5),
                _ => rr.rdata == wanted.rdata,
            }
    };
    let replaces = zone.records.iter().any(is_replaced);
    zone.records.retain(|rr| !is_replaced(rr));
    if wanted.rtype == Rtype::DNAME && replaces && !is_there && quirks.has(Quirk::DnameReplacedIsLost) {
        return Ok(());
    }
    let of_rrset: Vec<Rr> = zone.rrset(&wanted.owner, wanted.rtype).cloned().collect();
    for mut rr in of_rrset {
        zone.records.remove(&rr);
        rr.ttl = wanted.ttl;
        zone.records.insert(rr);
    }
    zone.records.insert(wanted);
    Ok(())
}

/// RFC 2136 3.4.2.2: the SOA must be newer than the current one in this update and the one before it. Otherwise three
/// large increments would wrap around.
fn is_newer_soa(zone: &Contents, serial_before: u32, soa: &Rr, quirks: Quirks<'_>) -> Result<bool, Rcode> {
    let serial = Serial(serial_of(&soa.rdata).unwrap_or_default());
    let is_half_circle = |old: u32| serial.0.wrapping_sub(old) == 1 << 31;
    let is_newer_than_last = serial.is_newer_than(Serial(zone.serial()));
    let is_newer_than_first = serial.is_newer_than(Serial(serial_before));
    let is_long_way = is_half_circle(zone.serial()) || (is_newer_than_last && !is_newer_than_first);
    fail_if(is_long_way && quirks.has(Quirk::LongWayFails), Rcode::SERVFAIL)?;
    Ok(is_newer_than_first && (is_newer_than_last || quirks.has(Quirk::SoaAgainstZone)))
}

fn is_below_dname(zone: &Contents, wanted: &Rr) -> bool {
    let is_below = |owner: &[u8], above: &[u8]| {
        let labels = |name| NameRef::from_bytes(name).ok();
        let (Some(owner), Some(above)) = (labels(owner), labels(above)) else { return false };
        owner != above && owner.is_at_or_below(above)
    };
    let dname_above = zone.records.iter().any(|rr| rr.rtype == Rtype::DNAME && is_below(&wanted.owner, &rr.owner));
    dname_above || (wanted.rtype == Rtype::DNAME && zone.records.iter().any(|rr| is_below(&rr.owner, &wanted.owner)))
}

fn is_same(a: &Rr, b: &Rr) -> bool {
    a.owner == b.owner && a.rtype == b.rtype && a.rdata == b.rdata
}

fn is_in_zone(record: &WireRecord, update: &Update) -> bool {
    record.owner.as_ref().is_at_or_below(update.apex.as_ref())
}
