//! Sets of numbers as bitmaps: the types of NSEC and NXT, the ports of WKS.

use super::TextError;
use super::mnemonic::{port, print_rtype, scan_rtype};
use super::numbers::{number_u16, print, separate};
use super::words::Words;
use wire::number::Rtype;

/// Scans the mnemonic of a type that may be covered or signed. Meta types have mnemonics too.
pub(super) fn scan_bit_rtype(text: &[u8]) -> Result<Rtype, TextError> {
    let meta = || {
        (249..=255)
            .chain([41])
            .map(Rtype)
            .find(|rtype| rtype.mnemonic().is_some_and(|m| m.as_bytes().eq_ignore_ascii_case(text)))
    };
    scan_rtype(text).or_else(meta).ok_or(TextError::Rtype)
}

/// Types in windows of 256 (RFC 4034 4.1.2).
pub(super) fn scan_windows(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut rtypes = Vec::new();
    while let Some(word) = words.take() {
        rtypes.push(scan_bit_rtype(word.plain()?)?.0);
    }
    rtypes.sort_unstable();
    for window in rtypes.chunk_by(|a, b| a >> 8 == b >> 8) {
        let mut bits = [0u8; 32];
        let mut len = 0;
        for rtype in window {
            let at = usize::from(rtype & 0xFF) / 8;
            bits[at] |= 0x80 >> (rtype & 7);
            len = at + 1;
        }
        out.extend_from_slice(&[(window[0] >> 8) as u8, len as u8]);
        out.extend_from_slice(&bits[..len]);
    }
    Ok(())
}

/// Prints the types of all windows.
pub(super) fn print_windows(mut bytes: &[u8], out: &mut String) {
    let start = out.len();
    while let [window, len, rest @ ..] = bytes {
        let (bits, behind) = rest.split_at_checked(usize::from(*len)).unwrap_or((rest, &[]));
        print_bits(bits, |bit| {
            separate(start, out);
            print_rtype(Rtype(u16::from(*window) << 8 | bit), out);
        });
        bytes = behind;
    }
}

/// Types below 128, one bit each (RFC 2535 5.2).
pub(super) fn scan_nxt(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut rtypes = Vec::new();
    while let Some(word) = words.take() {
        // RFC 2535 5.4: a mnemonic or a number.
        let text = word.plain()?;
        rtypes.push(number_u16(text).or_else(|_| scan_bit_rtype(text).map(|rtype| rtype.0))?);
    }
    rtypes.sort_unstable();
    // Bit 0 means that the rest has another format, so type 0 cannot be written.
    if rtypes.iter().any(|rtype| !(1..128).contains(rtype)) {
        return Err(TextError::Rtype);
    }
    push_bits(&rtypes, out);
    Ok(())
}

/// Prints the types of a bitmap of NXT.
pub(super) fn print_nxt(bits: &[u8], out: &mut String) {
    let start = out.len();
    print_bits(bits, |bit| {
        separate(start, out);
        print_rtype(Rtype(bit), out);
    });
}

/// Ports, one bit each (RFC 1035 3.4.2).
pub(super) fn scan_ports(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut ports = Vec::new();
    while let Some(word) = words.take() {
        ports.push(port(word.plain()?)?);
    }
    ports.sort_unstable();
    push_bits(&ports, out);
    Ok(())
}

/// Prints ports.
pub(super) fn print_ports(bits: &[u8], out: &mut String) {
    let start = out.len();
    print_bits(bits, |bit| {
        separate(start, out);
        print(format_args!("{bit}"), out);
    });
}

/// Appends as many bytes as the greatest of the sorted numbers needs.
fn push_bits(numbers: &[u16], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + numbers.last().map_or(0, |&last| usize::from(last) / 8 + 1), 0);
    for &number in numbers {
        out[start + usize::from(number) / 8] |= 0x80 >> (number & 7);
    }
}

fn print_bits(bits: &[u8], mut each: impl FnMut(u16)) {
    for (at, byte) in bits.iter().enumerate() {
        for bit in (0..8).filter(|bit| byte & (0x80 >> bit) != 0) {
            each((at * 8) as u16 + bit);
        }
    }
}
