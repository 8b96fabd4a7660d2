//! Addresses of all kinds: IP, prefixes, NSAP, ATM, EUI, ILNP, A6.

use super::TextError;
use super::bytes::print_hex;
use super::numbers::{number, number_u8, print, separate};
use super::words::Words;
use core::net::{Ipv4Addr, Ipv6Addr};

/// A dotted quad without leading zeros, because `010` means 8 to some software and 10 to other.
pub(super) fn ipv4(text: &[u8]) -> Result<[u8; 4], TextError> {
    let mut quad = [0u8; 4];
    let mut parts = text.split(|&byte| byte == b'.');
    for byte in &mut quad {
        let part = parts.next().ok_or(TextError::Ipv4)?;
        if part.len() > 1 && part[0] == b'0' {
            return Err(TextError::Ipv4);
        }
        *byte = number_u8(part).map_err(|_| TextError::Ipv4)?;
    }
    if parts.next().is_some() { Err(TextError::Ipv4) } else { Ok(quad) }
}

/// An IPv6 address (RFC 4291 2.2).
pub(super) fn ipv6(text: &[u8]) -> Result<[u8; 16], TextError> {
    let text = core::str::from_utf8(text).map_err(|_| TextError::Ipv6)?;
    text.parse::<Ipv6Addr>().map(|address| address.octets()).map_err(|_| TextError::Ipv6)
}

pub(super) fn print_ipv4(bytes: &[u8], out: &mut String) {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        print(format_args!("{}", Ipv4Addr::from(bytes)), out);
    }
}

/// Appends an IPv6 address in the form of RFC 5952 4.
pub(super) fn print_ipv6(bytes: &[u8], out: &mut String) {
    if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        print(format_args!("{}", Ipv6Addr::from(bytes)), out);
    }
}

/// `[!]family:address/prefix` (RFC 3123 5). Bits after the prefix are kept.
pub(super) fn scan_prefixes(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    while let Some(word) = words.take() {
        let text = word.plain()?;
        let (negated, text) = text.strip_prefix(b"!").map_or((0, text), |text| (0x80, text));
        let colon = text.iter().position(|&byte| byte == b':').ok_or(TextError::Prefix)?;
        let slash = text.iter().rposition(|&byte| byte == b'/').ok_or(TextError::Prefix)?;
        let bad = |_| TextError::Prefix;
        let address = text.get(colon + 1..slash).ok_or(TextError::Prefix)?;
        let (family, address, prefix_max) = match &text[..colon] {
            b"1" => (1, ipv4(address).map_err(bad)?.to_vec(), 32),
            b"2" => (2, ipv6(address).map_err(bad)?.to_vec(), 128),
            _ => return Err(TextError::Prefix),
        };
        let prefix = number(&text[slash + 1..], prefix_max).map_err(bad)? as u8;
        // RFC 3123 4: trailing zero bytes are omitted.
        let len = address.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        out.extend_from_slice(&[0, family, prefix, negated | len as u8]);
        out.extend_from_slice(&address[..len]);
    }
    Ok(())
}

/// Prints APL rdata. Returns false if a family has no text form.
pub(super) fn print_prefixes(mut rdata: &[u8], out: &mut String) -> bool {
    let start = out.len();
    while let [high, low, prefix, len, rest @ ..] = rdata {
        separate(start, out);
        let (address, behind) = rest.split_at_checked(usize::from(len & 0x7F)).unwrap_or((rest, &[]));
        let family = u16::from_be_bytes([*high, *low]);
        print(format_args!("{}{family}:", if len & 0x80 != 0 { "!" } else { "" }), out);
        let mut whole = [0u8; 16];
        let (Some(start), 1..=2) = (whole.get_mut(..address.len()), family) else { return false };
        start.copy_from_slice(address);
        if family == 1 {
            print_ipv4(&whole[..4], out)
        } else {
            print_ipv6(&whole, out)
        }
        print(format_args!("/{prefix}"), out);
        rdata = behind;
    }
    true
}

/// Hexadecimal digits, with dots allowed between them.
fn dotted_hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let digits: Vec<u8> = text.iter().copied().filter(|&byte| byte != b'.').collect();
    super::bytes::scan_hex(&digits, out).map_err(|_| TextError::Address)
}

/// `0x` and hexadecimal digits with dots (RFC 1706 6).
pub(super) fn scan_nsap(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    dotted_hex(text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).ok_or(TextError::Address)?, out)
}

/// An E.164 number after `+`, or an address in hexadecimal. Both may have dots.
pub(super) fn scan_atma(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let Some(digits) = text.strip_prefix(b"+") else {
        out.push(0);
        return dotted_hex(text, out);
    };
    out.push(1);
    let start = out.len();
    out.extend(digits.iter().filter(|&&byte| byte != b'.'));
    if out[start..].iter().all(u8::is_ascii_digit) { Ok(()) } else { Err(TextError::Address) }
}

/// Prints ATMA rdata. Returns false if it has no text form.
pub(super) fn print_atma(rdata: &[u8], out: &mut String) -> bool {
    match rdata {
        [0, address @ ..] => print_hex(address, out),
        [1, digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
            out.push('+');
            out.extend(digits.iter().map(|&digit| digit as char));
        }
        _ => return false,
    }
    true
}

/// `count` pairs of hexadecimal digits with hyphens between (RFC 7043 3.2, 4.2).
pub(super) fn scan_eui(text: &[u8], count: usize, out: &mut Vec<u8>) -> Result<(), TextError> {
    let pairs: Vec<&[u8]> = text.split(|&byte| byte == b'-').collect();
    if pairs.len() != count || pairs.iter().any(|pair| pair.len() != 2) {
        return Err(TextError::Address);
    }
    pairs.into_iter().try_for_each(|pair| super::bytes::scan_hex(pair, out)).map_err(|_| TextError::Address)
}

pub(super) fn print_eui(bytes: &[u8], out: &mut String) {
    for (at, byte) in bytes.iter().enumerate() {
        print(format_args!("{}{byte:02x}", if at > 0 { "-" } else { "" }), out);
    }
}

/// Four groups of hexadecimal digits with colons between (RFC 6742 2.1.2, 2.3.2).
pub(super) fn scan_locator(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut count = 0;
    for group in text.split(|&byte| byte == b':') {
        if !(1..=4).contains(&group.len()) {
            return Err(TextError::Address);
        }
        let value = group.iter().try_fold(0u16, |value, &byte| {
            (byte as char).to_digit(16).map(|digit| value << 4 | digit as u16).ok_or(TextError::Address)
        })?;
        out.extend_from_slice(&value.to_be_bytes());
        count += 1;
    }
    if count == 4 { Ok(()) } else { Err(TextError::Address) }
}

pub(super) fn print_locator(bytes: &[u8], out: &mut String) {
    for (at, group) in bytes.chunks_exact(2).enumerate() {
        print(format_args!("{}{:02x}{:02x}", if at > 0 { ":" } else { "" }, group[0], group[1]), out);
    }
}

/// Eight bytes as one number, or as two halves with a dot between.
pub(super) fn scan_ipn(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let bad = |_| TextError::Address;
    let value = match text.iter().position(|&byte| byte == b'.') {
        None => number(text, u64::MAX).map_err(bad)?,
        Some(dot) => {
            let half = |text| number(text, u32::MAX.into()).map_err(bad);
            half(&text[..dot])? << 32 | half(&text[dot + 1..])?
        }
    };
    out.extend_from_slice(&value.to_be_bytes());
    Ok(())
}

/// The prefix length, then the address unless the length is 128 (RFC 2874 3.1). Bytes that the prefix covers are
/// omitted.
pub(super) fn scan_a6_suffix(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let prefix = number(words.plain()?, 128)? as u8;
    out.push(prefix);
    if prefix == 128 {
        return Ok(());
    }
    let mut address = ipv6(words.plain()?)?;
    let (start, bits) = (usize::from(prefix / 8), prefix % 8);
    address[start] &= 0xFF >> bits;
    out.extend_from_slice(&address[start..]);
    Ok(())
}

pub(super) fn print_a6_suffix(bytes: &[u8], out: &mut String) {
    let Some((&prefix, suffix)) = bytes.split_first() else { return };
    print(format_args!("{prefix}"), out);
    if prefix < 128 {
        let mut address = [0u8; 16];
        address[16 - suffix.len().min(16)..].copy_from_slice(&suffix[..suffix.len().min(16)]);
        out.push(' ');
        print_ipv6(&address, out);
    }
}
