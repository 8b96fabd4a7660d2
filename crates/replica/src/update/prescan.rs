//! The form of an UPDATE: what can be said of its prerequisites (RFC 2136 3.2) and of its update section (3.4.1)
//! without looking at the zone.
//!
//! **Which RCODE wins.** RFC 2136 handles prerequisites first, one record after the other (3.2.5), then the right to
//! update (3.3), then the prescan of the whole update section (3.4.1.3). A record of the update section outside the
//! zone therefore gives NOTZONE only when all prerequisites hold: BIND scans first and says NOTZONE, Knot says what the
//! prerequisite says, and the RFC is with Knot. So a fault found here is kept with its place, and the verdict is
//! pronounced where the zone is at hand; [`Parsed::verdict_without_zone`] is the short way where no prerequisite can
//! come before it. Rdata that cannot be read is another matter: the message as a whole cannot be interpreted, which is
//! FORMERR before any of its sections means something (RFC 1035 4.1.1).

use super::limits::UPDATE_RECORDS_MAX;
use policy::{Step, is_never_written};
use wire::name::Name;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{RecordView, Request, Section};

/// A prerequisite (RFC 2136 2.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prerequisite {
    /// At least one record of this owner and type exists (2.4.1).
    RrsetExists(Name, Rtype),
    /// This record is one of an RRset; all that are named for the RRset, and no others, exist (2.4.2).
    RrsetExistsValue(Name, Rtype, Box<[u8]>),
    /// No record of this owner and type exists (2.4.3).
    RrsetDoesNotExist(Name, Rtype),
    /// The owner has at least one record (2.4.4).
    NameInUse(Name),
    /// The owner has no record; descendants do not matter (2.4.5).
    NameNotInUse(Name),
}

/// An UPDATE in our terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// The zone, as the client wrote it.
    pub apex: Name,
    /// The prerequisites in their order, up to the first that is malformed.
    pub prerequisites: Vec<Prerequisite>,
    /// The RCODE of the first malformed prerequisite.
    pub prerequisite_fault: Option<Rcode>,
    /// The update section in its order, up to the first record that is malformed.
    pub steps: Vec<Step>,
    /// The RCODE of the first malformed record of the update section.
    pub step_fault: Option<Rcode>,
}

impl Parsed {
    /// The RCODE that is certain whatever the zone holds. The caller has checked before that the zone is served and
    /// that the requestor may update it.
    #[must_use]
    pub fn verdict_without_zone(&self) -> Option<Rcode> {
        if self.prerequisites.is_empty() { self.prerequisite_fault.or(self.step_fault) } else { None }
    }
}

/// Reads an UPDATE.
///
/// # Errors
/// - NOTAUTH: the class of the zone is not IN, so it is none of ours (RFC 2136 3.1.2).
/// - FORMERR: rdata that is malformed, or a message that is no UPDATE.
/// - REFUSED: more than [`UPDATE_RECORDS_MAX`] records; it is our limit, not a fault of the message (RFC 2136 2.2 "for
///   policy or security reasons").
pub fn prescan(request: &Request<'_>) -> Result<Parsed, Rcode> {
    let zone = request.question.as_ref().ok_or(Rcode::FORMERR)?;
    if zone.qclass != Class::IN {
        return Err(Rcode::NOTAUTH);
    }
    let records = [Section::PREREQUISITE, Section::UPDATE].map(|section| usize::from(request.record_count(section)));
    if records.iter().sum::<usize>() > UPDATE_RECORDS_MAX {
        return Err(Rcode::REFUSED);
    }
    let mut parsed = Parsed {
        apex: zone.qname.to_name(),
        prerequisites: Vec::with_capacity(records[0]),
        prerequisite_fault: None,
        steps: Vec::with_capacity(records[1]),
        step_fault: None,
    };
    let mut buffer = Vec::new();
    for record in request.records(Section::PREREQUISITE) {
        let record = record.map_err(|_| Rcode::FORMERR)?;
        let rdata = read_rdata(&record, &mut buffer)?;
        if parsed.prerequisite_fault.is_none() {
            match prerequisite(&record, &parsed.apex, rdata) {
                Ok(prerequisite) => parsed.prerequisites.push(prerequisite),
                Err(rcode) => parsed.prerequisite_fault = Some(rcode),
            }
        }
    }
    for record in request.records(Section::UPDATE) {
        let record = record.map_err(|_| Rcode::FORMERR)?;
        let rdata = read_rdata(&record, &mut buffer)?;
        if parsed.step_fault.is_none() {
            match step(&record, &parsed.apex, rdata) {
                Ok(step) => parsed.steps.push(step),
                Err(rcode) => parsed.step_fault = Some(rcode),
            }
        }
    }
    Ok(parsed)
}

/// RFC 2136 3.2.5, the part of each turn of its loop that does not look at the zone, in its order.
fn prerequisite(record: &RecordView<'_>, apex: &Name, rdata: &[u8]) -> Result<Prerequisite, Rcode> {
    if record.ttl != 0 {
        return Err(Rcode::FORMERR);
    }
    let owner = owner_in_zone(record, apex)?;
    let is_empty = record.rdata_at.is_empty();
    match (record.class, record.rtype) {
        (Class::ANY | Class::NONE, _) if !is_empty => Err(Rcode::FORMERR),
        (Class::ANY, Rtype::ANY) => Ok(Prerequisite::NameInUse(owner)),
        (Class::ANY, rtype) => Ok(Prerequisite::RrsetExists(owner, rtype)),
        (Class::NONE, Rtype::ANY) => Ok(Prerequisite::NameNotInUse(owner)),
        (Class::NONE, rtype) => Ok(Prerequisite::RrsetDoesNotExist(owner, rtype)),
        // A meta type has no RRset in any zone, so such a prerequisite fails with NXRRSET by itself: 3.2.5 asks for no
        // other check.
        (Class::IN, rtype) => Ok(Prerequisite::RrsetExistsValue(owner, rtype, rdata.into())),
        _ => Err(Rcode::FORMERR),
    }
}

/// RFC 2136 3.4.1.3, one turn of its loop.
fn step(record: &RecordView<'_>, apex: &Name, rdata: &[u8]) -> Result<Step, Rcode> {
    let owner = owner_in_zone(record, apex)?;
    let rtype = record.rtype;
    let step = match record.class {
        Class::IN if !is_meta(rtype) => {
            // RFC 2181 8: a TTL with the most significant bit set is taken as zero.
            let ttl = if record.ttl > i32::MAX as u32 { 0 } else { record.ttl };
            Step::Add { owner, rtype, ttl, rdata: rdata.into() }
        }
        Class::ANY if record.ttl == 0 && record.rdata_at.is_empty() => match rtype {
            Rtype::ANY => Step::DeleteName(owner),
            _ if !is_meta(rtype) => Step::DeleteRrset(owner, rtype),
            _ => return Err(Rcode::FORMERR),
        },
        Class::NONE if record.ttl == 0 && !is_meta(rtype) => Step::DeleteRecord(owner, rtype, rdata.into()),
        _ => return Err(Rcode::FORMERR),
    };
    // Not a matter of form, but decided at the same place as in BIND, so that the first fault in order wins.
    // RFC 4035 2.4: DS "MUST NOT appear at a zone's apex". A DS that an older build accepted can still be deleted.
    let is_ds_of_parent = rtype == Rtype::DS && record.class == Class::IN && record.owner.as_ref() == apex.as_ref();
    if is_never_written(rtype) || is_ds_of_parent { Err(Rcode::REFUSED) } else { Ok(step) }
}

/// RFC 2136 3.2.5, 3.4.1.3: the owner must be in the zone. Names below a zone cut are taken: glue is updated so.
fn owner_in_zone(record: &RecordView<'_>, apex: &Name) -> Result<Name, Rcode> {
    if record.owner.as_ref().is_at_or_below(apex.as_ref()) { Ok(record.owner.to_name()) } else { Err(Rcode::NOTZONE) }
}

/// Types that no zone holds: QTYPEs and meta types (RFC 6895 3.1: 128 to 255 and OPT), and 0, which is reserved.
const fn is_meta(rtype: Rtype) -> bool {
    matches!(rtype.0, 0 | 41 | 128..=255)
}

/// The rdata, checked and decompressed, in `out`; empty where there is none, as in most prerequisites and deletions.
fn read_rdata<'o>(record: &RecordView<'_>, out: &'o mut Vec<u8>) -> Result<&'o [u8], Rcode> {
    out.clear();
    // "Delete this record" without rdata is well formed for the prescan (RFC 2136 3.4.1.3) and matches nothing.
    let has_no_value = record.rdata_at.is_empty() && record.class != Class::IN;
    // The rdata of a meta type is not looked at: the type is wrong already.
    if !has_no_value && !is_meta(record.rtype) {
        record.rdata_canonical(out).map_err(|_| Rcode::FORMERR)?;
    }
    Ok(out)
}
