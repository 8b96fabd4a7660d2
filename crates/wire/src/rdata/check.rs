//! Checks that rdata is well formed.

use super::error::RdataError;
use super::layout::Field;
use super::value;
use crate::limits::RDATA_BYTES_MAX;
use crate::name::{NameError, NameRef};
use crate::number::Rtype;

/// Checks that uncompressed rdata is well formed. For a type without layout, any bytes are.
///
/// # Errors
/// [`RdataError`] with the problem.
pub fn rdata_check(rtype: Rtype, rdata: &[u8]) -> Result<(), RdataError> {
    if rdata.len() > RDATA_BYTES_MAX {
        return Err(RdataError::Long);
    }
    let Some(fields) = super::layout(rtype) else { return Ok(()) };
    let mut at = 0;
    for &field in fields {
        at = field_end(field, rdata, at)?;
    }
    if at < rdata.len() {
        return Err(RdataError::LeftOver);
    }
    value::check_digest(rtype, rdata)
}

/// The end of the field at `at`. Checks its value.
pub(super) fn field_end(field: Field, rdata: &[u8], at: usize) -> Result<usize, RdataError> {
    let rest = rdata.get(at..).ok_or(RdataError::Short)?;
    let len = field_bytes(field, rdata, rest)?;
    if len <= rest.len() { Ok(at + len) } else { Err(RdataError::Short) }
}

/// The number of bytes that the field needs, which may be more than `rest` has.
fn field_bytes(field: Field, rdata: &[u8], rest: &[u8]) -> Result<usize, RdataError> {
    let valid = |is_valid: bool, len: usize| if is_valid { Ok(len) } else { Err(RdataError::Value(field)) };
    let at_least = |min: u8| if rest.len() >= min.into() { Ok(rest.len()) } else { Err(RdataError::Short) };
    match field {
        Field::U8 | Field::Algorithm | Field::IpProtocol | Field::RelayType => Ok(1),
        Field::U16 | Field::RtypeField | Field::CertType => Ok(2),
        Field::U32 | Field::Ttl | Field::Time32 | Field::Ipv4 => Ok(4),
        Field::Eui48 => Ok(6),
        Field::Eui64 | Field::Locator64 | Field::Ipn => Ok(8),
        Field::Ipv6 => Ok(16),
        Field::Name(_) => Ok(name_bytes(rest)?),
        Field::NamesRest => names_bytes(rest),
        Field::A6Suffix => value::a6_suffix_bytes(rest),
        Field::A6Name if rdata.first() == Some(&0) => Ok(0),
        Field::A6Name => Ok(name_bytes(rest)?),
        Field::Gateway { type_at, type_mask } => {
            match rdata.get(type_at as usize).ok_or(RdataError::Short)? & type_mask {
                0 => Ok(0),
                1 => Ok(4),
                2 => Ok(16),
                3 => Ok(name_bytes(rest)?),
                _ => Err(RdataError::Value(field)),
            }
        }
        Field::CharString | Field::HexLen8 => len8(rest),
        Field::Base32Len8 => valid(rest.first() != Some(&0), len8(rest)?),
        Field::Tag => {
            let len = len8(rest)?;
            valid(len > 1 && rest.iter().take(len).skip(1).all(u8::is_ascii_alphanumeric), len)
        }
        Field::CharStringOptional if rest.is_empty() => Ok(0),
        Field::CharStringOptional => len8(rest),
        Field::CharStringsRest => char_strings_bytes(rest),
        Field::Bytes => Ok(rest.len()),
        Field::HexRest { bytes_min } | Field::Base64Rest { bytes_min } | Field::TextRest { bytes_min } => {
            at_least(bytes_min)
        }
        Field::Nsap => at_least(1),
        Field::Atma => at_least(2),
        Field::Loc => valid(value::is_loc(rest)?, 16),
        Field::Bitmap => valid(value::is_bitmap(rest), rest.len()),
        Field::NxtBitmap => valid(value::is_nxt_bitmap(rest), rest.len()),
        // One bit for each of 65,536 ports (RFC 1035 3.4.2).
        Field::PortBitmap => valid(rest.len() <= 8192, rest.len()),
        Field::Apl => valid(value::is_apl(rest), rest.len()),
        Field::SvcParams => valid(value::is_svc_params(rest), rest.len()),
        Field::HipKeys => value::hip_keys_bytes(rest),
    }
}

/// The length of a name, which must not be compressed here.
fn name_bytes(rest: &[u8]) -> Result<usize, NameError> {
    NameRef::split_from(rest).map(|(name, _)| name.as_bytes().len())
}

fn names_bytes(rest: &[u8]) -> Result<usize, RdataError> {
    let mut at = 0;
    while at < rest.len() {
        at += name_bytes(&rest[at..])?;
    }
    Ok(at)
}

/// A length byte and as many bytes.
fn len8(rest: &[u8]) -> Result<usize, RdataError> {
    rest.first().map(|&len| 1 + len as usize).ok_or(RdataError::Short)
}

/// One character string at least (RFC 1035 3.3.14).
fn char_strings_bytes(rest: &[u8]) -> Result<usize, RdataError> {
    let mut at = len8(rest)?;
    while at < rest.len() {
        at += len8(&rest[at..])?;
    }
    Ok(at)
}
