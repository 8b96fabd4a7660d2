//! Names in presentation format (RFC 1035 5.1, RFC 4343 2.1).

use super::TextError;
use super::token::Word;
use wire::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};
use wire::name::{NameError, NameRef};

/// Appends the wire form of a name to `out`. A relative name is completed with `origin`; `@` means the origin itself.
///
/// # Errors
/// [`TextError`]. The bytes appended to `out` are then invalid.
pub fn scan_name(word: Word<'_>, origin: Option<NameRef<'_>>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let text = word.as_bytes();
    if word.is_quoted() {
        return Err(TextError::NotPlain);
    }
    if text == b"@" {
        out.extend_from_slice(origin.ok_or(TextError::OriginMissing)?.as_bytes());
        return Ok(());
    }
    if text == b"." {
        out.push(0);
        return Ok(());
    }
    let start = out.len();
    let is_absolute = if word.is_escaped() { escaped_labels(text, out)? } else { plain_labels(text, out)? };
    if is_absolute {
        out.push(0);
    } else {
        out.extend_from_slice(origin.ok_or(TextError::OriginMissing)?.as_bytes());
    }
    if out.len() - start > NAME_BYTES_MAX { Err(NameError::Long.into()) } else { Ok(()) }
}

/// Whether a name ends with the origin twice, such as `www.example.org` in the zone example.org. Then its trailing dot
/// is probably missing. A single label equal to the origin is accepted as written.
pub(crate) fn is_undotted(text: &[u8], name: &[u8], origin: Option<NameRef<'_>>) -> bool {
    if text.ends_with(b".") || text == b"@" {
        return false;
    }
    let Some(origin) = origin.map(|origin| origin.as_bytes()).filter(|origin| origin.len() > 1) else { return false };
    let labels = &origin[..origin.len() - 1];
    let Some(rest) = name.len().checked_sub(labels.len() + origin.len()) else { return false };
    let (first, second) = name[rest..].split_at(labels.len());
    if !first.eq_ignore_ascii_case(labels) || !second.eq_ignore_ascii_case(origin) {
        return false;
    }
    // The matching bytes could begin inside a label, so the bytes before them must be whole labels.
    let mut at = 0;
    while at < rest {
        at += 1 + usize::from(name[at]);
    }
    at == rest && (rest > 0 || labels.len() > 1 + usize::from(labels[0]))
}

/// Scans labels without escapes. Returns whether the last one ends with a dot.
fn plain_labels(text: &[u8], out: &mut Vec<u8>) -> Result<bool, TextError> {
    let mut rest = text;
    loop {
        let len = rest.iter().position(|&byte| byte == b'.').unwrap_or(rest.len());
        push_label(&rest[..len], out)?;
        match rest.get(len + 1..) {
            None => return Ok(false),
            Some([]) => return Ok(true),
            Some(behind) => rest = behind,
        }
    }
}

fn escaped_labels(text: &[u8], out: &mut Vec<u8>) -> Result<bool, TextError> {
    let mut label = [0u8; LABEL_BYTES_MAX];
    let (mut len, mut at) = (0, 0);
    while at < text.len() {
        if text[at] == b'.' {
            push_label(&label[..len], out)?;
            (len, at) = (0, at + 1);
            continue;
        }
        let (byte, next) = unescape(text, at)?;
        *label.get_mut(len).ok_or(NameError::Label)? = byte;
        (len, at) = (len + 1, next);
    }
    if len == 0 {
        return Ok(true);
    }
    push_label(&label[..len], out)?;
    Ok(false)
}

fn push_label(label: &[u8], out: &mut Vec<u8>) -> Result<(), NameError> {
    match label.len() {
        0 => Err(NameError::Text),
        len @ 1..=LABEL_BYTES_MAX => {
            out.push(len as u8);
            out.extend_from_slice(label);
            Ok(())
        }
        _ => Err(NameError::Label),
    }
}

/// The character at `at`, with an escape resolved, and the offset of the next one.
pub(super) fn unescape(text: &[u8], at: usize) -> Result<(u8, usize), TextError> {
    if text[at] != b'\\' {
        return Ok((text[at], at + 1));
    }
    match text.get(at + 1) {
        None | Some(b'\n') => Err(TextError::Escape),
        Some(digit) if digit.is_ascii_digit() => {
            let digits = text.get(at + 1..at + 4).ok_or(TextError::Escape)?;
            let value = digits
                .iter()
                .try_fold(0u16, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u16::from(digit - b'0')));
            Ok((value.and_then(|value| u8::try_from(value).ok()).ok_or(TextError::Escape)?, at + 4))
        }
        Some(&byte) => Ok((byte, at + 2)),
    }
}

/// Appends an absolute name to `out`.
pub fn print_name(name: NameRef<'_>, out: &mut String) {
    if name.is_root() {
        out.push('.');
    }
    for label in name.labels() {
        for &byte in label {
            match byte {
                b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
                    out.push('\\');
                    out.push(byte as char);
                }
                0x21..=0x7E => out.push(byte as char),
                _ => print_decimal_escape(byte, out),
            }
        }
        out.push('.');
    }
}

/// Appends `\DDD`.
pub(super) fn print_decimal_escape(byte: u8, out: &mut String) {
    out.push('\\');
    for digit in [byte / 100, byte / 10 % 10, byte % 10] {
        out.push((b'0' + digit) as char);
    }
}
