//! Bytes and strings: hexadecimal, base64, base32hex, character strings.

use super::TextError;
use super::names::{print_decimal_escape, unescape};
use super::token::Word;
use super::words::Words;
use data_encoding::{BASE32HEX_NOPAD, BASE64, Encoding, HEXLOWER, HEXLOWER_PERMISSIVE};

/// Scans hexadecimal up to the end of the record. Blanks between digits are allowed.
pub(super) fn scan_hex_rest(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    scan_rest(words, &HEXLOWER_PERMISSIVE, TextError::Hex, out)
}

/// Scans base64 up to the end of the record. Blanks between digits are allowed (RFC 4034 2.2).
pub(super) fn scan_base64_rest(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    scan_rest(words, &BASE64, TextError::Base64, out)
}

fn scan_rest(words: &mut Words<'_>, encoding: &Encoding, error: TextError, out: &mut Vec<u8>) -> Result<(), TextError> {
    let start = words.read_count();
    let Some(first) = words.take() else { return Ok(()) };
    let first = first.plain()?;
    if words.is_empty() {
        return decode(first, encoding, error, out).map_err(|(error, _)| error);
    }
    let mut digits = first.to_vec();
    let mut ends = vec![digits.len()];
    while let Some(word) = words.take() {
        digits.extend_from_slice(word.plain()?);
        ends.push(digits.len());
    }
    decode(&digits, encoding, error, out).map_err(|(error, at)| {
        words.set_fault(start + ends.partition_point(|&end| end <= at).min(ends.len() - 1));
        error
    })
}

/// The error contains the index of the digit at fault.
fn decode(digits: &[u8], encoding: &Encoding, error: TextError, out: &mut Vec<u8>) -> Result<(), (TextError, usize)> {
    let start = out.len();
    let decoded = encoding.decode_len(digits.len()).map_err(|_| ()).and_then(|len| {
        out.resize(start + len, 0);
        encoding.decode_mut(digits, &mut out[start..]).map_err(|_| ())
    });
    let Ok(len) = decoded else { return Err(why_undecoded(digits, error)) };
    out.truncate(start + len);
    Ok(())
}

/// Finds the first invalid digit. If all digits are valid, their number is wrong.
fn why_undecoded(digits: &[u8], error: TextError) -> (TextError, usize) {
    let is_digit = |digit: &u8| match error {
        TextError::Hex => digit.is_ascii_hexdigit(),
        TextError::Base64 => digit.is_ascii_alphanumeric() || b"+/=".contains(digit),
        _ => true,
    };
    match (digits.iter().position(|digit| !is_digit(digit)), error) {
        (Some(at), error) => (error, at),
        (None, TextError::Hex) => (TextError::HexOdd, digits.len()),
        (None, TextError::Base64) => (TextError::Base64Length, digits.len()),
        (None, error) => (error, digits.len()),
    }
}

/// Scans one word of hexadecimal.
pub(super) fn scan_hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    decode(text, &HEXLOWER_PERMISSIVE, TextError::Hex, out).map_err(|(error, _)| error)
}

/// Scans one word of base64.
pub(super) fn scan_base64(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    decode(text, &BASE64, TextError::Base64, out).map_err(|(error, _)| error)
}

/// Scans hexadecimal with a length byte before it; `-` means none (RFC 5155 3.3).
pub(super) fn scan_hex_len8(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    len8(out, TextError::BytesMany, |out| if text == b"-" { Ok(()) } else { scan_hex(text, out) })
}

/// Scans base32hex without padding, with a length byte before it (RFC 5155 3.3).
pub(super) fn scan_base32_len8(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let upper = text.to_ascii_uppercase();
    len8(out, TextError::BytesMany, |out| {
        decode(&upper, &BASE32HEX_NOPAD, TextError::Base32, out).map_err(|(error, _)| error)
    })
}

/// Writes a length byte before the bytes that `scan` appends.
fn len8(
    out: &mut Vec<u8>,
    long: TextError,
    scan: impl FnOnce(&mut Vec<u8>) -> Result<(), TextError>,
) -> Result<(), TextError> {
    let start = out.len();
    out.push(0);
    scan(out)?;
    out[start] = u8::try_from(out.len() - start - 1).map_err(|_| long)?;
    Ok(())
}

/// Scans a character string: a length byte and the bytes (RFC 1035 3.3).
pub(super) fn scan_string(word: Word<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    len8(out, TextError::StringLong, |out| scan_text(word, out))
}

/// Scans the bytes of a word, quoted or not, and resolves escapes.
pub(super) fn scan_text(word: Word<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let text = word.as_bytes();
    if !word.is_escaped() {
        out.extend_from_slice(text);
        return Ok(());
    }
    let mut at = 0;
    while at < text.len() {
        let (byte, next) = unescape(text, at)?;
        out.push(byte);
        at = next;
    }
    Ok(())
}

/// Appends bytes in hexadecimal.
pub(super) fn print_hex(bytes: &[u8], out: &mut String) {
    HEXLOWER.encode_append(bytes, out);
}

/// Appends bytes in base64.
pub(super) fn print_base64(bytes: &[u8], out: &mut String) {
    BASE64.encode_append(bytes, out);
}

/// Appends bytes in base32hex, in lower case as most software prints it.
pub(super) fn print_base32(bytes: &[u8], out: &mut String) {
    out.push_str(&BASE32HEX_NOPAD.encode(bytes).to_ascii_lowercase());
}

/// Appends bytes as a quoted string.
pub(super) fn print_text(bytes: &[u8], out: &mut String) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(byte as char);
            }
            0x20..=0x7E => out.push(byte as char),
            _ => print_decimal_escape(byte, out),
        }
    }
    out.push('"');
}
