//! Evaluates an UPDATE on one version of a zone (RFC 2136 3.2, 3.4.2). The result is a change, or an RCODE without
//! one.
//!
//! Evaluation writes nothing. The outcome is the net difference, which goes through the log and is applied unchanged
//! on all members. Comments name the choices where the RFC leaves something open or is outdated.

use super::prescan::{Parsed, Prerequisite};
use super::serial;
use super::serial::SerialPolicyOption;
use super::working::{LimitReached, Touched, Working, comparable};
use crate::limits::EVALUATION_WORK_RECORD;
use policy::{Permit, Step, ZoneRead};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::name::Name;
use wire::number::{Rcode, Rtype, Serial};
use zone::{Changeset, Record};

/// The outcome of an UPDATE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evaluated {
    /// The RCODE for the requestor.
    pub rcode: Rcode,
    /// The change; `None` if nothing changes and the serial stays.
    pub changeset: Option<Changeset>,
    /// The reason for REFUSED or SERVFAIL, if the RCODE alone does not tell it.
    pub refusal: Option<Refusal>,
    /// The cost of the evaluation: bytes that were read of the zone, and a fixed cost per record.
    pub work: u64,
}

/// Why a well-formed UPDATE was not executed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refusal {
    /// The zone is signed elsewhere, so a change would make it bogus.
    Presigned,
    /// The zone has no SOA, which cannot happen to a loaded zone: SERVFAIL.
    NoSoa,
    /// It would exceed a limit.
    Limit(LimitReached),
}

impl Refusal {
    /// A stable label for metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Presigned => "presigned",
            Self::NoSoa => "no_soa",
            Self::Limit(limit) => limit.label(),
        }
    }
}

impl From<LimitReached> for Verdict {
    /// REFUSED, not SERVFAIL: the limit is permanent (RFC 2136 2.2: "refuses to perform the specified operation for
    /// policy or security reasons"). After SERVFAIL clients would try again.
    fn from(limit: LimitReached) -> Self {
        Self { rcode: Rcode::REFUSED, refusal: Some(Refusal::Limit(limit)) }
    }
}

/// Why there is no change.
struct Verdict {
    rcode: Rcode,
    refusal: Option<Refusal>,
}

impl From<Rcode> for Verdict {
    fn from(rcode: Rcode) -> Self {
        Self { rcode, refusal: None }
    }
}

/// Evaluates an UPDATE that the requestor is allowed to make, on the newest version of its zone. Only
/// [`SerialPolicyOption::UnixTime`] and `Date` use `now_s`, in seconds since 1970.
#[must_use]
pub fn evaluate<Z: ZoneRead>(zone: &Z, parsed: &Parsed, policy: SerialPolicyOption, now_s: u64) -> Evaluated {
    evaluate_within(&Permit::unlimited(), zone, parsed, policy, now_s)
}

/// Like [`evaluate`], with limits from the requestor's rules.
#[must_use]
pub fn evaluate_within<Z: ZoneRead>(
    permit: &Permit,
    zone: &Z,
    parsed: &Parsed,
    policy: SerialPolicyOption,
    now_s: u64,
) -> Evaluated {
    let mut touched = Touched::default();
    let outcome = changeset(permit, zone, parsed, policy, now_s, &mut touched);
    let work = touched.bytes as u64 + touched.records as u64 * EVALUATION_WORK_RECORD;
    match outcome {
        Ok(changeset) => Evaluated { rcode: Rcode::NOERROR, changeset, refusal: None, work },
        Err(Verdict { rcode, refusal }) => Evaluated { rcode, changeset: None, refusal, work },
    }
}

fn changeset<'z, Z: ZoneRead>(
    permit: &Permit,
    zone: &'z Z,
    parsed: &Parsed,
    policy: SerialPolicyOption,
    now_s: u64,
    touched: &'z mut Touched,
) -> Result<Option<Changeset>, Verdict> {
    // Before any prerequisite: no client may update the zone, and this answer reveals nothing about its contents.
    if zone.is_presigned() {
        return Err(Verdict { rcode: Rcode::REFUSED, refusal: Some(Refusal::Presigned) });
    }
    let mut working = Working::new(zone, touched);
    check_prerequisites(&mut working, parsed)?;
    if let Some(rcode) = parsed.step_fault {
        return Err(rcode.into());
    }

    let mut apply = Apply::new(working, zone.apex().to_name())?;
    for step in &parsed.steps {
        apply.step(step)?;
    }
    apply.working.check_permit(permit)?;
    apply.finish(policy, now_s)
}

/// RFC 2136 3.2.5: in order. Prerequisites with values are collected and compared at the end, by RRset.
fn check_prerequisites<Z: ZoneRead>(working: &mut Working<'_, Z>, parsed: &Parsed) -> Result<(), Verdict> {
    let mut values: BTreeMap<(&Name, Rtype), BTreeSet<Arc<[u8]>>> = BTreeMap::new();
    for prerequisite in &parsed.prerequisites {
        let failed = match prerequisite {
            // RFC 2136 3.2.1
            Prerequisite::RrsetExists(owner, rtype) => (!exists(working, owner, *rtype)?).then_some(Rcode::NXRRSET),
            // RFC 2136 3.2.2
            Prerequisite::RrsetDoesNotExist(owner, rtype) => exists(working, owner, *rtype)?.then_some(Rcode::YXRRSET),
            // RFC 2136 3.2.3: empty non-terminals do not count (2.4.4).
            Prerequisite::NameInUse(owner) => (!is_in_use(working, owner)?).then_some(Rcode::NXDOMAIN),
            // RFC 2136 3.2.4
            Prerequisite::NameNotInUse(owner) => is_in_use(working, owner)?.then_some(Rcode::YXDOMAIN),
            Prerequisite::RrsetExistsValue(owner, rtype, rdata) => {
                values.entry((owner, *rtype)).or_default().insert(comparable(*rtype, rdata));
                None
            }
        };
        if let Some(rcode) = failed {
            return Err(rcode.into());
        }
    }
    if let Some(rcode) = parsed.prerequisite_fault {
        return Err(rcode.into());
    }
    for ((owner, rtype), rdatas) in &values {
        // The whole RRset, not single records (RFC 2136 3.2.3).
        if !working.owner(owner)?.equals(*rtype, rdatas) {
            return Err(Rcode::NXRRSET.into());
        }
    }
    Ok(())
}

fn is_in_use<Z: ZoneRead>(working: &mut Working<'_, Z>, owner: &Name) -> Result<bool, LimitReached> {
    Ok(working.owner(owner)?.rtypes().next().is_some())
}

fn exists<Z: ZoneRead>(working: &mut Working<'_, Z>, owner: &Name, rtype: Rtype) -> Result<bool, LimitReached> {
    Ok(working.owner(owner)?.rtypes().any(|other| other == rtype))
}

/// Executes the update section.
struct Apply<'z, Z> {
    working: Working<'z, Z>,
    apex: Name,
    serial_before: Serial,
    /// The serial of an SOA in the update.
    serial_carried: Option<Serial>,
}

impl<'z, Z: ZoneRead> Apply<'z, Z> {
    fn new(mut working: Working<'z, Z>, apex: Name) -> Result<Self, Verdict> {
        let soa = working.rrset(&apex, Rtype::SOA)?.rdatas().next().and_then(|rdata| serial::of_soa(rdata));
        let no_soa = Verdict { rcode: Rcode::SERVFAIL, refusal: Some(Refusal::NoSoa) };
        let serial_before = soa.ok_or(no_soa)?;
        Ok(Self { working, apex, serial_before, serial_carried: None })
    }

    fn step(&mut self, step: &Step) -> Result<(), LimitReached> {
        match step {
            Step::Add { owner, rtype, ttl, rdata } => self.add(owner, *rtype, *ttl, rdata),
            Step::DeleteRrset(owner, rtype) => {
                // RFC 2136 3.4.2.3: at the apex "neither SOA or NS RRs will be deleted".
                if !(*owner == self.apex && is_kept_at_apex(*rtype)) {
                    self.working.rrset(owner, *rtype)?.clear();
                }
                Ok(())
            }
            Step::DeleteName(owner) => {
                let at_apex = *owner == self.apex;
                for (rtype, rrset) in self.working.owner(owner)?.rrsets_mut() {
                    // RFC 2136 3.4.2.3: "only those RRs whose TYPE is other than SOA or NS".
                    if !(at_apex && is_kept_at_apex(rtype)) {
                        rrset.clear();
                    }
                }
                Ok(())
            }
            Step::DeleteRecord(owner, rtype, rdata) => self.delete_record(owner, *rtype, rdata),
        }
    }

    /// RFC 2136 3.4.2.2. An occluded owner, below a zone cut or a DNAME, accepts records like any other: glue is such
    /// a record, and data may be added before the cut is removed. A different TTL becomes the TTL of the whole RRset,
    /// because its TTLs must be equal (RFC 2181 5.2).
    fn add(&mut self, owner: &Name, rtype: Rtype, ttl: u32, rdata: &[u8]) -> Result<(), LimitReached> {
        // "In the case of a CNAME Update RR and a non-CNAME Zone RRset or vice versa, ignore".
        let at_odds = |other: Rtype| match rtype {
            Rtype::CNAME => other != Rtype::CNAME && !may_stand_beside_cname(other),
            _ => other == Rtype::CNAME && !may_stand_beside_cname(rtype),
        };
        if self.working.owner(owner)?.rtypes().any(at_odds) {
            return Ok(());
        }
        if rtype == Rtype::SOA {
            return self.add_soa(owner, ttl, rdata);
        }
        let rrset = self.working.rrset_to_write(owner, rtype)?;
        match rtype {
            // "Only one": RFC 2136 1.1.5 for CNAME, RFC 6672 2.4 for DNAME.
            Rtype::CNAME | Rtype::DNAME if !rrset.contains(rdata) => rrset.clear(),
            // RFC 2136 1.1.5: WKS compares only ADDRESS and PROTOCOL, the first five bytes.
            Rtype::WKS if !rrset.contains(rdata) => rrset.remove_prefix(rdata.get(..5).unwrap_or(rdata)),
            _ => {}
        }
        rrset.put(ttl, rdata);
        Ok(())
    }

    /// RFC 2136 3.4.2.2: ignored if the zone has no SOA, or the serial is not newer. After an earlier SOA in the same
    /// update, it must also be newer than the zone's: three steps of nearly half the circle would end up behind it.
    fn add_soa(&mut self, owner: &Name, ttl: u32, rdata: &[u8]) -> Result<(), LimitReached> {
        let current = self.serial_carried.unwrap_or(self.serial_before);
        let newer = serial::of_soa(rdata).filter(|serial| {
            planted!(SoaStepsBack) || serial.is_newer_than(current) && serial.is_newer_than(self.serial_before)
        });
        if let (true, Some(serial)) = (*owner == self.apex, newer) {
            let rrset = self.working.rrset(owner, Rtype::SOA)?;
            rrset.clear();
            rrset.put(ttl, rdata);
            self.serial_carried = Some(serial);
        }
        Ok(())
    }

    /// RFC 2136 3.4.2.4.
    fn delete_record(&mut self, owner: &Name, rtype: Rtype, rdata: &[u8]) -> Result<(), LimitReached> {
        let at_apex = *owner == self.apex;
        let rrset = self.working.rrset(owner, rtype)?;
        let is_last_ns = rtype == Rtype::NS && rrset.len() == 1;
        if !(at_apex && (rtype == Rtype::SOA || is_last_ns)) {
            rrset.remove(rdata);
        }
        Ok(())
    }

    /// The net difference including the new serial; `None` if nothing changed.
    fn finish(mut self, policy: SerialPolicyOption, now_s: u64) -> Result<Option<Changeset>, Verdict> {
        if !self.working.is_changed() {
            return Ok(None);
        }
        let serial_to = match self.serial_carried {
            Some(serial) => serial,
            None => {
                // RFC 2136 3.6: the server increments the serial if the update does not.
                let serial_to = if planted!(SerialNotStepped) && now_s.is_multiple_of(7) {
                    self.serial_before
                } else {
                    serial::step(self.serial_before, policy, now_s)
                };
                let apex = self.apex.clone();
                let rrset = self.working.rrset(&apex, Rtype::SOA)?;
                let soa = rrset.rdatas().next().and_then(|rdata| serial::with_serial(rdata, serial_to));
                if let Some(soa) = soa {
                    rrset.replace(&soa);
                }
                serial_to
            }
        };
        let mut difference = self.working.difference()?;
        // The order of an IXFR difference sequence (RFC 1995 4): each half starts with its SOA.
        for half in [&mut difference.deleted, &mut difference.added] {
            half.sort_by_key(|record: &Record| record.rtype != Rtype::SOA);
        }
        Ok(Some(Changeset {
            serial_from: Some(self.serial_before),
            serial_to,
            deleted: difference.deleted,
            added: difference.added,
        }))
    }
}

const fn is_kept_at_apex(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::SOA | Rtype::NS)
}

/// Types newer than RFC 2136 and its rule that a CNAME stands alone: those of DNSSEC, old and new (RFC 2181 10.1, RFC
/// 4034 3 and 4).
const fn may_stand_beside_cname(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::SIG | Rtype::KEY | Rtype::NXT | Rtype::RRSIG | Rtype::NSEC)
}
