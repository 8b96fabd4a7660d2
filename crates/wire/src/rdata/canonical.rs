//! One form for equal rdata: names decompressed, and where RFC 4034 6.2 says so, without case.

use super::check::{RdataError, field_end, rdata_check};
use super::layout::{Field, layout};
use super::rdata_fields;
use crate::limits::RDATA_BYTES_MAX;
use crate::number::Rtype;
use crate::parse::{NameBuf, Steps, read_name};
use core::ops::Range;

/// Appends to `out` the rdata that stands at `range` of a message: names decompressed, case kept, layout checked.
///
/// # Errors
/// [`RdataError`] when it is not well formed; `out` is then as it was.
pub fn rdata_canonical(message: &[u8], range: Range<usize>, rtype: Rtype, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let start = out.len();
    let result = decompress(message, range, rtype, out).and_then(|()| rdata_check(rtype, &out[start..]));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Copies rdata, its compressed names whole.
fn decompress(message: &[u8], range: Range<usize>, rtype: Rtype, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let rdata = message.get(range.clone()).ok_or(RdataError::Short)?;
    let fields = layout(rtype).unwrap_or_default();
    if !fields.iter().any(|field| matches!(field, Field::Name(rule) if rule.pointer_accepted)) {
        out.extend_from_slice(rdata);
        return Ok(());
    }
    // The names of a record may end only where its rdata ends (RFC 9267 4).
    let message = &message[..range.end];
    let (mut at, mut steps, mut name) = (range.start, Steps::new(), NameBuf::root());
    let start = out.len();
    for &field in fields {
        match field {
            Field::Name(rule) if rule.pointer_accepted => {
                at = read_name(message, at, &mut steps, &mut name)?;
                out.extend_from_slice(name.as_bytes());
            }
            _ => {
                // No field behind a compressed name looks at bytes before itself, so it may be read where it stands.
                let end = field_end(field, message, at)?;
                out.extend_from_slice(&message[at..end]);
                at = end;
            }
        }
    }
    if at < message.len() {
        return Err(RdataError::LeftOver);
    }
    if out.len() - start > RDATA_BYTES_MAX { Err(RdataError::Long) } else { Ok(()) }
}

/// Lower-cases the names inside well-formed, uncompressed rdata, as canonical form has it (RFC 4034 6.2, RFC 6840 5.1).
pub fn rdata_lowercase(rtype: Rtype, rdata: &mut [u8]) {
    let mut at = 0;
    for &field in layout(rtype).unwrap_or_default() {
        let Ok(end) = field_end(field, rdata, at) else { return };
        if is_caseless(field) {
            rdata[at..end].make_ascii_lowercase();
        }
        at = end;
    }
}

/// Whether rdata is equal as RRs are compared (RFC 2136 1.1.1, 1.1.2; RFC 3597 6): byte for byte, but without case
/// in the names of the types that RFC 4034 6.2 lists.
#[must_use]
pub fn rdata_eq(rtype: Rtype, a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    // Names that are equal without case have the same length, so the fields of equal rdata stand at the same places.
    if a.len() != b.len() || !a.eq_ignore_ascii_case(b) {
        return false;
    }
    let mut at = 0;
    rdata_fields(rtype, a).all(|field| {
        let Ok((field, bytes)) = field else { return false };
        let others = &b[at..at + bytes.len()];
        at += bytes.len();
        bytes == others || is_caseless(field)
    })
}

/// Whether case does not count in the field.
const fn is_caseless(field: Field) -> bool {
    match field {
        Field::Name(rule) => rule.lowercase,
        Field::A6Name => true,
        _ => false,
    }
}
