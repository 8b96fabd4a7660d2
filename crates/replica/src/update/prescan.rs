//! The form of an UPDATE: checks of its prerequisites (RFC 2136 3.2) and of its update section (3.4.1) that do not
//! need the zone.
//!
//! **Which RCODE wins.** RFC 2136 handles prerequisites first, one record after the other (3.2.5), then the right to
//! update (3.3), then the prescan of the whole update section (3.4.1.3). So a record of the update section outside
//! the zone gives NOTZONE only if all prerequisites hold. BIND scans first and answers NOTZONE; Knot answers by the
//! prerequisite, as the RFC says. Therefore an error found here is stored with its position, and the RCODE is chosen
//! when the zone is available. [`Parsed::verdict_without_zone`] is the shortcut if no prerequisite can come first.
//! Unreadable rdata is different: the message as a whole cannot be interpreted, which is FORMERR before any section
//! counts (RFC 1035 4.1.1).

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
    /// This record is in an RRset that has exactly the records named for it (2.4.2).
    RrsetExistsValue(Name, Rtype, Box<[u8]>),
    /// No record of this owner and type exists (2.4.3).
    RrsetDoesNotExist(Name, Rtype),
    /// The owner has at least one record (2.4.4).
    NameInUse(Name),
    /// The owner has no record; its descendants do not matter (2.4.5).
    NameNotInUse(Name),
}

/// A parsed UPDATE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// The zone, as the client wrote it.
    pub apex: Name,
    /// The prerequisites in order, up to the first malformed one.
    pub prerequisites: Vec<Prerequisite>,
    /// The RCODE of the first malformed prerequisite.
    pub prerequisite_fault: Option<Rcode>,
    /// The update section in order, up to the first malformed record.
    pub steps: Vec<Step>,
    /// The RCODE of the first malformed record of the update section.
    pub step_fault: Option<Rcode>,
}

impl Parsed {
    /// The RCODE that is certain for any contents of the zone. The caller has checked that the zone is served and
    /// that the requestor may update it.
    #[must_use]
    pub fn verdict_without_zone(&self) -> Option<Rcode> {
        if self.prerequisites.is_empty() { self.prerequisite_fault.or(self.step_fault) } else { None }
    }
}

/// Reads an UPDATE.
///
/// # Errors
/// - NOTAUTH: the class of the zone is not IN, so this server does not serve it (RFC 2136 3.1.2).
/// - FORMERR: malformed rdata, or a message that is not an UPDATE.
/// - REFUSED: more than [`UPDATE_RECORDS_MAX`] records. It is a limit of this server, not an error in the message
///   (RFC 2136 2.2 "for policy or security reasons").
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

/// One turn of the loop in RFC 2136 3.2.5, without the checks that need the zone.
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
        // A meta type has no RRset in any zone, so such a prerequisite fails with NXRRSET. 3.2.5 requires no other
        // check.
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
            // RFC 2181 8: a TTL with the most significant bit set counts as zero.
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
    // This is no check of form, but BIND makes it at the same place, so that the first fault in order wins. RFC 4035
    // 2.4: DS "MUST NOT appear at a zone's apex". A DS that an older build accepted can still be deleted.
    let is_ds_of_parent = rtype == Rtype::DS && record.class == Class::IN && record.owner.as_ref() == apex.as_ref();
    if is_never_written(rtype) || is_ds_of_parent { Err(Rcode::REFUSED) } else { Ok(step) }
}

/// RFC 2136 3.2.5, 3.4.1.3: the owner must be in the zone. Names below a zone cut are accepted, because glue is
/// updated this way.
fn owner_in_zone(record: &RecordView<'_>, apex: &Name) -> Result<Name, Rcode> {
    if record.owner.as_ref().is_at_or_below(apex.as_ref()) { Ok(record.owner.to_name()) } else { Err(Rcode::NOTZONE) }
}

/// Types that no zone contains: QTYPEs and meta types (RFC 6895 3.1: 128 to 255 and OPT), and the reserved type 0.
const fn is_meta(rtype: Rtype) -> bool {
    matches!(rtype.0, 0 | 41 | 128..=255)
}

/// The rdata, checked and decompressed, in `out`; empty if there is none, as in most prerequisites and deletions.
fn read_rdata<'o>(record: &RecordView<'_>, out: &'o mut Vec<u8>) -> Result<&'o [u8], Rcode> {
    out.clear();
    // "Delete this record" without rdata passes the prescan (RFC 2136 3.4.1.3) and matches no record.
    let has_no_value = record.rdata_at.is_empty() && record.class != Class::IN;
    // The rdata of a meta type is not read, because the type is an error already.
    if !has_no_value && !is_meta(record.rtype) {
        record.rdata_canonical(out).map_err(|_| Rcode::FORMERR)?;
    }
    Ok(out)
}
