//! Decompression, canonical form and equality of rdata (RFC 4034 6.2).

use super::check::{field_end, rdata_check};
use super::error::RdataError;
use super::layout::{Field, layout};
use super::rdata_fields;
use crate::limits::RDATA_BYTES_MAX;
use crate::name_buf::{NameBuf, Steps, read_name};
use crate::number::Rtype;
use core::ops::Range;

/// Appends to `out` the rdata at `range` of a message: names decompressed, case kept, layout checked.
///
/// # Errors
/// [`RdataError`] when it is not well formed. `out` is unchanged then.
pub fn rdata_canonical(message: &[u8], range: Range<usize>, rtype: Rtype, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let start = out.len();
    let result = decompress(message, range, rtype, out).and_then(|()| rdata_check(rtype, &out[start..]));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Copies rdata, and decompresses its names.
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
                // No field after a compressed name depends on bytes before itself, so it can be read in place.
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

/// Lower-cases the names inside well-formed, uncompressed rdata for the canonical form (RFC 4034 6.2, RFC 6840 5.1).
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

/// Whether two rdatas are equal (RFC 2136 1.1.1, 1.1.2; RFC 3597 6): byte by byte, but without case in the names of
/// the types that RFC 4034 6.2 lists.
#[must_use]
pub fn rdata_eq(rtype: Rtype, a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    // Names that are equal without case have the same length, so the fields of equal rdata have the same offsets.
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

/// Whether the field is compared without case.
const fn is_caseless(field: Field) -> bool {
    match field {
        Field::Name(rule) => rule.lowercase,
        Field::A6Name => true,
        _ => false,
    }
}
