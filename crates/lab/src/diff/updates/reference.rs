//! What RFC 2136 says, in the plainest way that there is: a set of records, gone through for each question.
//!
//! Written apart from the servers' code, ours included; slow, and meant for zones of some dozens of records.

use super::address;
use super::contents::{Contents, serial_of};
use super::message::{Raw, Update};
use super::quirk::{Quirk, Quirks};
use super::readable::{self, is_meta, rr};
use crate::diff::response::Rr;
use wire::name::NameRef;
use wire::number::{Class, Rcode, Rtype, Serial};

/// What comes of an UPDATE by a requestor who may make it: the RCODE, and the zone after it.
#[must_use]
pub fn update(zone: &Contents, update: &Update) -> (Rcode, Contents) {
    update_with(zone, update, Quirks(&[]))
}

/// What comes of an UPDATE where some things are done another way.
#[must_use]
pub fn update_with(zone: &Contents, update: &Update, quirks: Quirks<'_>) -> (Rcode, Contents) {
    match outcome(zone, update, quirks) {
        Ok(after) => (Rcode::NOERROR, after),
        Err(rcode) => (rcode, zone.clone()),
    }
}

fn outcome(zone: &Contents, update: &Update, quirks: Quirks<'_>) -> Result<Contents, Rcode> {
    let prescan = || update.steps.iter().try_for_each(|raw| scan(raw, update, quirks));
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
    for raw in &update.steps {
        if in_turn {
            scan(raw, update, quirks)?;
        }
        carry_out(&mut after, zone.serial(), &apex, raw, quirks)?;
    }
    finish(zone, &mut after, update, &apex, quirks)?;
    Ok(after)
}

/// RFC 2136 3.6: the serial steps, when something changed and the update has not stepped it.
fn finish(zone: &Contents, after: &mut Contents, update: &Update, apex: &[u8], quirks: Quirks<'_>) -> Check {
    let is_changed = after != zone;
    let is_case_changed = quirks.has(Quirk::CaseCounts) && update.steps.iter().any(|raw| writes_again(zone, raw));
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

/// Whether a step adds a record that is there.
fn writes_again(zone: &Contents, raw: &Raw) -> bool {
    let wanted = rr(raw, Quirks(&[]));
    raw.class == Class::IN && zone.records.iter().any(|rr| is_same(rr, &wanted))
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
    for raw in &update.prerequisites {
        let wanted = rr(raw, Quirks(&[]));
        fail_if(raw.ttl != 0, Rcode::FORMERR)?;
        fail_if(!is_in_zone(raw, update), Rcode::NOTZONE)?;
        if raw.class == Class::IN {
            values.push(wanted);
            continue;
        }
        fail_if(![Class::ANY, Class::NONE].contains(&raw.class) || !raw.rdata.is_empty(), Rcode::FORMERR)?;
        let wants_it = raw.class == Class::ANY;
        let (exists, missing, present) = match raw.rtype {
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

/// RFC 2136 3.4.1.3, for one step, and the types that only a signer makes (RFC 3007 3.1.1 has their predecessors).
fn scan(raw: &Raw, update: &Update, quirks: Quirks<'_>) -> Check {
    const OF_SIGNER: &[Rtype] = &[Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::DNSKEY];
    fail_if(!is_in_zone(raw, update), Rcode::NOTZONE)?;
    let has_ttl = raw.ttl != 0;
    let is_meta = is_meta(raw.rtype, quirks);
    let is_malformed = match raw.class {
        Class::IN => is_meta,
        Class::ANY => {
            has_ttl && !quirks.has(Quirk::TtlOfDeletionUnchecked)
                || !raw.rdata.is_empty()
                || is_meta && raw.rtype != Rtype::ANY
        }
        Class::NONE => has_ttl || is_meta,
        _ => true,
    };
    fail_if(is_malformed, Rcode::FORMERR)?;
    // RFC 4035 2.4: DS "MUST NOT appear at a zone's apex". An existing DS may be deleted.
    let is_apex_ds = raw.rtype == Rtype::DS && raw.class == Class::IN && raw.owner == update.apex;
    let takes_ds = quirks.has(Quirk::ApexDsTaken) || quirks.has(Quirk::OrphanDsGoes);
    fail_if(is_apex_ds && !takes_ds, Rcode::REFUSED)?;
    let is_apex_rrsig = raw.rtype == Rtype::RRSIG && raw.owner == update.apex;
    let is_taken = quirks.has(Quirk::SignerTypesTaken) || (is_apex_rrsig && quirks.has(Quirk::ApexRrsigTaken));
    fail_if(OF_SIGNER.contains(&raw.rtype) && !is_taken, Rcode::REFUSED)
}

/// RFC 2136 3.4.2.7, for one step.
fn carry_out(zone: &mut Contents, serial_before: u32, apex: &[u8], raw: &Raw, quirks: Quirks<'_>) -> Check {
    let wanted = rr(raw, quirks);
    let at_apex = wanted.owner == apex;
    let stays = |rtype: Rtype| at_apex && [Rtype::SOA, Rtype::NS].contains(&rtype);
    match (raw.class, raw.rtype) {
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

/// RFC 2136 3.4.2.2 with 1.1.5, RFC 2181 10.1 (what may stand beside a CNAME), RFC 6672 2.4 (one DNAME), RFC 2181 5.2
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

/// RFC 2136 3.4.2.2: newer than that of the zone as it is by now; and as it was, or three long steps would lead back.
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
        let labels = |name| NameRef::from_octets(name).ok();
        let (Some(owner), Some(above)) = (labels(owner), labels(above)) else { return false };
        owner != above && owner.is_at_or_below(above)
    };
    let dname_above = zone.records.iter().any(|rr| rr.rtype == Rtype::DNAME && is_below(&wanted.owner, &rr.owner));
    dname_above || (wanted.rtype == Rtype::DNAME && zone.records.iter().any(|rr| is_below(&rr.owner, &wanted.owner)))
}

fn is_same(a: &Rr, b: &Rr) -> bool {
    a.owner == b.owner && a.rtype == b.rtype && a.rdata == b.rdata
}

fn is_in_zone(raw: &Raw, update: &Update) -> bool {
    raw.owner.as_ref().is_at_or_below(update.apex.as_ref())
}
