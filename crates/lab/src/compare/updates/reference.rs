//! What RFC 2136 says, in the plainest way that there is: a set of records, gone through for each question.
//!
//! Written apart from the servers' code, ours included; slow, and meant for zones of some dozens of records.

use super::address;
use super::contents::{Contents, serial_of};
use super::message::{Raw, Update};
use crate::compare::response::Rr;
use wire::name::NameRef;
use wire::number::{Class, Rcode, Rtype, Serial};
use wire::rdata::{rdata_check, rdata_lowercase};

/// Another way to do one thing, that some server goes. [`super::predicates`] says which and why.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quirk {
    /// The update section is scanned before the prerequisites are looked at.
    ScanFirst,
    /// A DS without NS beside it, or at the apex, is deleted, whoever brought it; the serial steps all the same.
    OrphanDsGoes,
    /// An NS of the apex whose target is in the zone and has no address makes the update be REFUSED.
    ApexNsNeedsAddress,
    /// A record named twice among the prerequisites has to exist twice.
    ValuesAreCounted,
    /// A record that is there and comes in another case is a change, and the serial steps.
    CaseCounts,
    /// RRSIG is added and deleted at the apex.
    ApexRrsigTaken,
    /// A record of class IN whose type is of no record makes the message unreadable.
    MetaTypesUnreadable,
    /// What deletes a record without rdata, and what deletes an RRset with rdata, makes the message unreadable.
    RdataHasToFit,
    /// Each SOA of an update is compared with that of the zone, not with the one before it.
    SoaAgainstZone,
    /// The rdata of CAA and DS is not looked into.
    RdataUnchecked,
    /// MAILA and MAILB are types of records.
    MailTypesTaken,
    /// An SOA whose serial is half the circle away is taken for newer, and then the update fails.
    HalfCircleFails,
    /// The TTL of what deletes an RRset or a name is not looked at.
    TtlOfDeletionUnchecked,
    /// A TTL of more than 31 bits is kept as it is.
    HugeTtlKept,
    /// A record that exists is not added again, whatever its TTL.
    TtlOfExistingStays,
    /// Adding a record below a DNAME, or a DNAME above records, is REFUSED.
    BelowDnameRefused,
    /// NSEC and RRSIG are added and deleted as other types are.
    SignerTypesTaken,
    /// Nothing stands beside a CNAME, KEY neither.
    NothingBesideCname,
    /// A WKS of the same address and protocol is added, not put in the place of the other.
    WksAdds,
    /// 4294967295 is followed by 0.
    WrapToZero,
}

/// What comes of an UPDATE by a requestor who may make it: the RCODE, and the zone after it.
#[must_use]
pub fn update(zone: &Contents, update: &Update) -> (Rcode, Contents) {
    update_with(zone, update, &[])
}

/// What comes of an UPDATE where some things are done another way.
#[must_use]
pub fn update_with(zone: &Contents, update: &Update, quirks: &[Quirk]) -> (Rcode, Contents) {
    let apex = update.apex.octets().to_ascii_lowercase();
    let (first, second): (&dyn Fn() -> Check, &dyn Fn() -> Check) =
        (&|| prerequisites(zone, update, quirks), &|| prescan(update, quirks));
    let (first, second) = if quirks.contains(&Quirk::ScanFirst) { (second, first) } else { (first, second) };
    if let Err(rcode) = readable(update, quirks).and_then(|()| first()).and_then(|()| second()) {
        return (rcode, zone.clone());
    }
    let mut after = zone.clone();
    for step in &update.steps {
        if let Err(rcode) = carry_out(&mut after, zone.serial(), &apex, step, quirks) {
            return (rcode, zone.clone());
        }
    }
    let is_case_changed = quirks.contains(&Quirk::CaseCounts) && update.steps.iter().any(|raw| writes_again(zone, raw));
    if after.serial() == zone.serial() && (after != *zone || is_case_changed) {
        let next = match zone.serial() {
            u32::MAX if quirks.contains(&Quirk::WrapToZero) => 0,
            serial => Serial(serial).next().0,
        };
        after.set_serial(next);
    }
    if quirks.contains(&Quirk::OrphanDsGoes) {
        let orphans: Vec<Rr> = after.records.iter().filter(|rr| is_orphan_ds(rr, &after, &apex)).cloned().collect();
        after.records.retain(|rr| !orphans.contains(rr));
    }
    if quirks.contains(&Quirk::ApexNsNeedsAddress) && after != *zone && !address::all_apex_ns_have_one(&after, &apex) {
        return (Rcode::REFUSED, zone.clone());
    }
    (Rcode::NOERROR, after)
}

/// Whether a step adds a record that is there.
fn writes_again(zone: &Contents, raw: &Raw) -> bool {
    let wanted = rr(raw, &[]);
    raw.class == Class::IN && zone.records.iter().any(|rr| is_same(rr, &wanted))
}

fn is_orphan_ds(rr: &Rr, zone: &Contents, apex: &[u8]) -> bool {
    rr.rtype == Rtype::DS && rr.owner != apex && zone.rrset(&rr.owner, Rtype::NS).next().is_none()
}

type Check = Result<(), Rcode>;

fn fail_if(condition: bool, rcode: Rcode) -> Check {
    if condition { Err(rcode) } else { Ok(()) }
}

/// Rdata that cannot be read makes the whole message unreadable.
fn readable(update: &Update, quirks: &[Quirk]) -> Check {
    let opaque = [Rtype::CAA, Rtype::DS];
    let is_unchecked = |raw: &Raw| opaque.contains(&raw.rtype) && quirks.contains(&Quirk::RdataUnchecked);
    let has_misfit = |raw: &Raw| match raw.class {
        Class::NONE => raw.rdata.is_empty() && rdata_check(raw.rtype, &[]).is_err(),
        _ => raw.class == Class::ANY && !raw.rdata.is_empty(),
    };
    let misfit = quirks.contains(&Quirk::RdataHasToFit) && update.steps.iter().any(has_misfit);
    let misfit = misfit
        || (quirks.contains(&Quirk::RdataHasToFit)
            && update.prerequisites.iter().any(|raw| raw.class == Class::ANY && !raw.rdata.is_empty()));
    fail_if(misfit, Rcode::FORMERR)?;
    let is_bad = |raw: &Raw| match is_meta(raw.rtype, quirks) {
        true => raw.class == Class::IN && quirks.contains(&Quirk::MetaTypesUnreadable),
        false if raw.class != Class::IN && raw.rdata.is_empty() => false,
        false => !is_unchecked(raw) && rdata_check(raw.rtype, &raw.rdata).is_err(),
    };
    fail_if(update.prerequisites.iter().chain(&update.steps).any(is_bad), Rcode::FORMERR)
}

/// RFC 2136 3.2.5.
fn prerequisites(zone: &Contents, update: &Update, quirks: &[Quirk]) -> Check {
    let mut values: Vec<Rr> = Vec::new();
    for raw in &update.prerequisites {
        let wanted = rr(raw, &[]);
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
        let too_many = quirks.contains(&Quirk::ValuesAreCounted) && of_rrset().count() > found.len();
        fail_if(!all_exist || !no_other || too_many, Rcode::NXRRSET)?;
    }
    Ok(())
}

/// RFC 2136 3.4.1.3, and the types that only a signer makes (RFC 3007 3.1.1 has their predecessors).
fn prescan(update: &Update, quirks: &[Quirk]) -> Check {
    let has_ttl = |raw: &Raw| raw.ttl != 0 && !quirks.contains(&Quirk::TtlOfDeletionUnchecked);
    for raw in &update.steps {
        fail_if(!is_in_zone(raw, update), Rcode::NOTZONE)?;
        let is_malformed = match raw.class {
            Class::IN => is_meta(raw.rtype, quirks),
            Class::ANY => {
                has_ttl(raw) || !raw.rdata.is_empty() || (is_meta(raw.rtype, quirks) && raw.rtype != Rtype::ANY)
            }
            Class::NONE => raw.ttl != 0 || is_meta(raw.rtype, quirks),
            _ => true,
        };
        fail_if(is_malformed, Rcode::FORMERR)?;
        let of_signer = [Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::DNSKEY];
        let is_apex_rrsig = raw.rtype == Rtype::RRSIG && raw.owner == update.apex;
        let is_taken =
            quirks.contains(&Quirk::SignerTypesTaken) || (is_apex_rrsig && quirks.contains(&Quirk::ApexRrsigTaken));
        let is_refused = of_signer.contains(&raw.rtype) && !is_taken;
        fail_if(is_refused, Rcode::REFUSED)?;
    }
    Ok(())
}

/// RFC 2136 3.4.2.7, for one step.
fn carry_out(zone: &mut Contents, serial_before: u32, apex: &[u8], raw: &Raw, quirks: &[Quirk]) -> Check {
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

/// RFC 2136 3.4.2.2 with 1.1.5, RFC 2181 10.1 (what may stand beside a CNAME), RFC 6672 2.4 (one DNAME), RFC 2181 5.2 (one
/// TTL for an RRset).
fn add(zone: &mut Contents, serial_before: u32, at_apex: bool, wanted: Rr, quirks: &[Quirk]) -> Check {
    let has = |quirk: Quirk| quirks.contains(&quirk);
    let beside_cname = |rtype: Rtype| match rtype {
        Rtype::KEY | Rtype::SIG | Rtype::NXT => !has(Quirk::NothingBesideCname),
        Rtype::RRSIG | Rtype::NSEC => !has(Quirk::SignerTypesTaken),
        _ => false,
    };
    let is_ignored = match wanted.rtype {
        Rtype::CNAME => zone.at(&wanted.owner).any(|rr| rr.rtype != Rtype::CNAME && !beside_cname(rr.rtype)),
        rtype => !beside_cname(rtype) && zone.rrset(&wanted.owner, Rtype::CNAME).next().is_some(),
    };
    fail_if(has(Quirk::BelowDnameRefused) && is_below_dname(zone, &wanted), Rcode::REFUSED)?;
    let is_apex_ds = at_apex && wanted.rtype == Rtype::DS && has(Quirk::OrphanDsGoes);
    if is_ignored || is_apex_ds {
        return Ok(());
    }
    if has(Quirk::TtlOfExistingStays) && zone.records.iter().any(|rr| is_same(rr, &wanted)) {
        return Ok(());
    }
    if wanted.rtype == Rtype::SOA {
        let serial = Serial(serial_of(&wanted.rdata).unwrap_or_default());
        let is_newer_than_last = serial.is_newer_than(Serial(zone.serial())) || has(Quirk::SoaAgainstZone);
        let is_newer = is_newer_than_last && serial.is_newer_than(Serial(serial_before));
        let is_half_circle =
            at_apex && [zone.serial(), serial_before].iter().any(|old| serial.0.wrapping_sub(*old) == 1 << 31);
        fail_if(is_half_circle && has(Quirk::HalfCircleFails), Rcode::SERVFAIL)?;
        if !at_apex || !is_newer {
            return Ok(());
        }
    }
    let is_replaced = |rr: &Rr| {
        rr.owner == wanted.owner
            && rr.rtype == wanted.rtype
            && match wanted.rtype {
                Rtype::SOA | Rtype::CNAME | Rtype::DNAME => true,
                Rtype::WKS if !has(Quirk::WksAdds) => rr.rdata.get(..5) == wanted.rdata.get(..5),
                _ => rr.rdata == wanted.rdata,
            }
    };
    zone.records.retain(|rr| !is_replaced(rr));
    let of_rrset: Vec<Rr> = zone.rrset(&wanted.owner, wanted.rtype).cloned().collect();
    for mut rr in of_rrset {
        zone.records.remove(&rr);
        rr.ttl = wanted.ttl;
        zone.records.insert(rr);
    }
    zone.records.insert(wanted);
    Ok(())
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

/// QTYPEs and types of messages only (RFC 6895 3.1).
fn is_meta(rtype: Rtype, quirks: &[Quirk]) -> bool {
    let is_mail = matches!(rtype, Rtype::MAILA | Rtype::MAILB) && quirks.contains(&Quirk::MailTypesTaken);
    matches!(rtype.0, 0 | 41 | 128..=255) && !is_mail
}

/// In the form in which it is compared. RFC 2181 8: a TTL of more than 31 bits is zero.
fn rr(raw: &Raw, quirks: &[Quirk]) -> Rr {
    let mut rdata = raw.rdata.clone();
    if rdata_check(raw.rtype, &rdata).is_ok() {
        rdata_lowercase(raw.rtype, &mut rdata);
    }
    let is_huge = raw.ttl > i32::MAX as u32 && !quirks.contains(&Quirk::HugeTtlKept);
    let ttl = if is_huge { 0 } else { raw.ttl };
    Rr { owner: raw.owner.octets().to_ascii_lowercase(), rtype: raw.rtype, class: Class::IN, ttl, rdata }
}
