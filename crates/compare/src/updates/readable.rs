//! Records of a message: whether they can be parsed, and their compared form.

use super::message::{Update, WireRecord};
use super::quirk::{Quirk, Quirks};
use crate::response::Rr;
use wire::number::{Class, Rcode, Rtype};
use wire::rdata::{rdata_check, rdata_lowercase};

/// Rdata that cannot be read makes the whole message unreadable.
pub(super) fn check(update: &Update, quirks: Quirks<'_>) -> Result<(), Rcode> {
    let has_misfit = quirks.has(Quirk::RdataHasToFit)
        && (update.steps.iter().any(step_misfits) || update.prerequisites.iter().any(prerequisite_misfits));
    let all = update.prerequisites.iter().chain(&update.steps);
    if has_misfit || all.into_iter().any(|raw| is_bad(raw, quirks)) { Err(Rcode::FORMERR) } else { Ok(()) }
}

fn is_bad(raw: &WireRecord, quirks: Quirks<'_>) -> bool {
    const UNCHECKED: &[Rtype] =
        &[Rtype::CAA, Rtype::CDS, Rtype::DS, Rtype::HINFO, Rtype::HTTPS, Rtype::TXT, Rtype::ZONEMD];
    // RFC 6891 6.1.1, RFC 8945 5.2: they belong in the additional section.
    if matches!(raw.rtype, Rtype::OPT | Rtype::TSIG) {
        return true;
    }
    // RFC 5933 6: digest type 3, in the fourth byte of the rdata.
    let is_gost = matches!(raw.rtype, Rtype::DS | Rtype::CDS) && raw.rdata.len() > 4 && raw.rdata[3] == 3;
    if is_meta(raw.rtype, quirks) {
        return raw.class == Class::IN && quirks.has(Quirk::MetaTypesUnreadable);
    }
    let has_no_value = raw.class != Class::IN && raw.rdata.is_empty();
    let is_unchecked = quirks.has(Quirk::RdataUnchecked) && UNCHECKED.contains(&raw.rtype)
        || quirks.has(Quirk::GostUnchecked) && is_gost;
    !has_no_value && !is_unchecked && rdata_check(raw.rtype, &raw.rdata).is_err()
}

fn step_misfits(raw: &WireRecord) -> bool {
    match raw.class {
        Class::NONE => raw.rdata.is_empty() && rdata_check(raw.rtype, &[]).is_err(),
        Class::ANY => !raw.rdata.is_empty(),
        _ => raw.rtype == Rtype::TKEY && raw.rdata.is_empty(),
    }
}

fn prerequisite_misfits(raw: &WireRecord) -> bool {
    match raw.class {
        Class::ANY => !raw.rdata.is_empty(),
        Class::NONE => raw.rtype == Rtype::ANY && !raw.rdata.is_empty(),
        _ => raw.rtype == Rtype::TKEY && raw.rdata.is_empty(),
    }
}

/// QTYPEs and types of messages only (RFC 6895 3.1).
pub(super) fn is_meta(rtype: Rtype, quirks: Quirks<'_>) -> bool {
    let is_taken = matches!(rtype.0, 0 | 128..=248 | 253 | 254) && quirks.has(Quirk::MetaTypesTaken);
    let is_deleted = rtype.0 == 0 && quirks.has(Quirk::TypeZeroDeleted);
    matches!(rtype.0, 0 | 41 | 128..=255) && !is_taken && !is_deleted
}

/// A record in the compared form. RFC 2181 8: a TTL of more than 31 bits is zero.
pub(super) fn rr(raw: &WireRecord, quirks: Quirks<'_>) -> Rr {
    let mut rdata = raw.rdata.clone();
    if rdata_check(raw.rtype, &rdata).is_ok() {
        rdata_lowercase(raw.rtype, &mut rdata);
    }
    let is_huge = raw.ttl > i32::MAX as u32 && !quirks.has(Quirk::HugeTtlKept);
    let ttl = if is_huge { 0 } else { raw.ttl };
    Rr { owner: raw.owner.as_bytes().to_ascii_lowercase(), rtype: raw.rtype, class: Class::IN, ttl, rdata }
}
