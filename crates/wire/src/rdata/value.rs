//! Checks of structured values: coordinates, bitmaps, prefixes, parameters.

use super::error::RdataError;
use super::layout::Field;
use crate::integers::{u16_at, u32_at};
use crate::number::Rtype;

/// Offset of the ZONEMD scheme, after the serial (RFC 8976 2.2).
const ZONEMD_SCHEME_AT: usize = 4;

/// The length of a digest of this kind, for types with digests; `None` if the kind is not registered. For ZONEMD it is
/// the length under scheme 1 (RFC 4034 5.1.3, RFC 4509 2.1, RFC 6605 3, RFC 8976 2.2.3).
#[must_use]
pub const fn digest_bytes(rtype: Rtype, kind: u8) -> Option<usize> {
    match (rtype, kind) {
        (Rtype::ZONEMD, 1) => Some(48),
        (Rtype::ZONEMD, 2) => Some(64),
        (Rtype::DS | Rtype::CDS | Rtype::TA | Rtype::DLV, 1) => Some(20),
        (Rtype::DS | Rtype::CDS | Rtype::TA | Rtype::DLV, 2 | 3) => Some(32),
        (Rtype::DS | Rtype::CDS | Rtype::TA | Rtype::DLV, 4) => Some(48),
        _ => None,
    }
}

/// Digests of a registered kind have its length (RFC 4034 5.1.3, RFC 4509 2.1, RFC 6605 3, RFC 8976 2.2.3).
pub(super) fn check_digest(rtype: Rtype, rdata: &[u8]) -> Result<(), RdataError> {
    let (kind_at, digest_at) = match rtype {
        Rtype::DS | Rtype::CDS | Rtype::TA | Rtype::DLV => (3, 4),
        Rtype::ZONEMD => (5, 6),
        _ => return Ok(()),
    };
    let kind = rdata.get(kind_at).ok_or(RdataError::Short)?;
    let len = rdata.len() - digest_at;
    // RFC 8976 2.2.2: the scheme defines the digest and therefore its length. Only scheme 1 is registered.
    let is_registered = rtype != Rtype::ZONEMD || rdata.get(ZONEMD_SCHEME_AT) == Some(&1);
    let is_valid = match digest_bytes(rtype, *kind).filter(|_| is_registered) {
        Some(expected) => len == expected,
        // RFC 8976 2.2.4: "MUST NOT be shorter than 12 octets".
        None => rtype != Rtype::ZONEMD || len >= 12,
    };
    if is_valid { Ok(()) } else { Err(RdataError::Value(Field::HexRest { bytes_min: 1 })) }
}

/// LOC, version 0: sizes are a digit and a power of ten, coordinates are on the globe (RFC 1876 2).
pub(super) fn is_loc(rest: &[u8]) -> Result<bool, RdataError> {
    const THOUSANDTHS_A_DEGREE: u32 = 3_600_000;
    let bytes: &[u8; 16] = rest.first_chunk().ok_or(RdataError::Short)?;
    let is_size = |byte: u8| byte == 0 || (matches!(byte >> 4, 1..=9) && byte & 0x0F <= 9);
    let is_within = |at: usize, degrees: u32| {
        let coordinate = u32_at(bytes, at).unwrap_or_default();
        coordinate.abs_diff(1 << 31) <= degrees * THOUSANDTHS_A_DEGREE
    };
    Ok(bytes[0] == 0 && bytes[1..4].iter().all(|&byte| is_size(byte)) && is_within(4, 90) && is_within(8, 180))
}

/// Windows ascend, none is empty, no trailing zero byte (RFC 4034 4.1.2).
pub(super) fn is_bitmap(mut rest: &[u8]) -> bool {
    let mut window_min = 0u16;
    while let [window, len, after @ ..] = rest {
        let Some((bits, after)) = after.split_at_checked(*len as usize) else { return false };
        if u16::from(*window) < window_min || bits.len() > 32 || bits.last().is_none_or(|&last| last == 0) {
            return false;
        }
        window_min = u16::from(*window) + 1;
        rest = after;
    }
    rest.is_empty()
}

/// The bitmap of NXT for types below 128; with its first bit set it has another format (RFC 2535 5.2).
pub(super) fn is_nxt_bitmap(rest: &[u8]) -> bool {
    match rest {
        [] => false,
        [first, ..] if first & 0x80 != 0 => true,
        [.., last] => rest.len() <= 16 && *last != 0,
    }
}

/// Items whose prefix and address fit the family; no trailing zero byte (RFC 3123 4).
pub(super) fn is_apl(mut rest: &[u8]) -> bool {
    while let [family_high, family_low, prefix, len, after @ ..] = rest {
        let Some((address, after)) = after.split_at_checked((len & 0x7F) as usize) else { return false };
        let is_fitting = match u16::from_be_bytes([*family_high, *family_low]) {
            1 => *prefix <= 32 && address.len() <= 4,
            2 => *prefix <= 128 && address.len() <= 16,
            _ => true,
        };
        if !is_fitting || address.last() == Some(&0) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Keys strictly ascend, values of registered keys are well formed, and the set is consistent (RFC 9460 2.2, 7, 8).
pub(super) fn is_svc_params(params: &[u8]) -> bool {
    let (mut rest, mut key_min) = (params, 0u32);
    let (mut has_alpn, mut no_default_alpn, mut mandatory) = (false, false, &[][..]);
    while !rest.is_empty() {
        let (Some(key), Some(len)) = (u16_at(rest, 0), u16_at(rest, 2)) else { return false };
        let Some(value) = rest.get(4..4 + len as usize) else { return false };
        if u32::from(key) < key_min || !is_svc_value(key, value) {
            return false;
        }
        match key {
            0 => mandatory = value,
            1 => has_alpn = true,
            2 => no_default_alpn = true,
            _ => {}
        }
        key_min = u32::from(key) + 1;
        rest = &rest[4 + value.len()..];
    }
    (has_alpn || !no_default_alpn) && has_keys(params, mandatory)
}

/// Whether every key of `mandatory` is among `params`; both ascend, so one pass is enough (RFC 9460 8).
fn has_keys(params: &[u8], mandatory: &[u8]) -> bool {
    let mut mandatory_keys = mandatory.chunks_exact(2).map(|key| u16::from_be_bytes([key[0], key[1]])).peekable();
    let mut rest = params;
    while let (Some(key), Some(len)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        mandatory_keys.next_if_eq(&key);
        rest = rest.get(4 + len as usize..).unwrap_or_default();
    }
    mandatory_keys.peek().is_none()
}

fn is_svc_value(key: u16, value: &[u8]) -> bool {
    match key {
        // mandatory: ascending, not empty, not itself
        0 => {
            let mut key_min = 1u32;
            !value.is_empty()
                && value.len().is_multiple_of(2)
                && value.chunks_exact(2).all(|chunk| {
                    let key = u32::from(u16::from_be_bytes([chunk[0], chunk[1]]));
                    let ascends = key >= key_min;
                    key_min = key + 1;
                    ascends
                })
        }
        // alpn
        1 => !value.is_empty() && are_svc_items(value),
        // no-default-alpn, ohttp
        2 | 8 => value.is_empty(),
        // port
        3 => value.len() == 2,
        // ipv4hint, ipv6hint
        4 => !value.is_empty() && value.len().is_multiple_of(4),
        6 => !value.is_empty() && value.len().is_multiple_of(16),
        // dohpath
        7 => core::str::from_utf8(value).is_ok(),
        // docpath (10) too: older software accepted any bytes there, and zones with such values must stay readable.
        _ => true,
    }
}

/// Whether a value is a list of non-empty items, each after its length (RFC 9460 7.1.1).
fn are_svc_items(value: &[u8]) -> bool {
    let mut rest = value;
    while let [len, after @ ..] = rest {
        match after.get(*len as usize..) {
            Some(after) if *len > 0 => rest = after,
            _ => return false,
        }
    }
    true
}

/// HIT and key, both present (RFC 8005 5).
pub(super) fn hip_keys_bytes(rest: &[u8]) -> Result<usize, RdataError> {
    let [hit_len, _, key_high, key_low, ..] = rest else { return Err(RdataError::Short) };
    let key_len = u16::from_be_bytes([*key_high, *key_low]) as usize;
    if *hit_len == 0 || key_len == 0 {
        return Err(RdataError::Value(Field::HipKeys));
    }
    Ok(4 + *hit_len as usize + key_len)
}

/// The prefix length and the rest of the address, its pad bits zero (RFC 2874 3.1).
pub(super) fn a6_suffix_bytes(rest: &[u8]) -> Result<usize, RdataError> {
    let &prefix = rest.first().ok_or(RdataError::Short)?;
    let Some(bits) = 128u8.checked_sub(prefix) else { return Err(RdataError::Value(Field::A6Suffix)) };
    let bytes = bits.div_ceil(8) as usize;
    let pad = if bits.is_multiple_of(8) { 0 } else { 0xFFu8 << (bits % 8) };
    match rest.get(1) {
        Some(first) if bytes > 0 && first & pad != 0 => Err(RdataError::Value(Field::A6Suffix)),
        _ => Ok(1 + bytes),
    }
}
