//! Service parameters in presentation format (RFC 9460 2.1, appendix A).

use super::TextError;
use super::addresses::{ipv4, ipv6, print_ipv4, print_ipv6};
use super::bytes::{print_base64, print_text, scan_base64};
use super::names::{print_decimal_escape, unescape};
use super::numbers::{number_u16, print, separate};
use super::token::Word;
use super::words::Words;

/// The registered keys, by number.
const KEYS: [&str; 11] = [
    "mandatory",
    "alpn",
    "no-default-alpn",
    "port",
    "ipv4hint",
    "ech",
    "ipv6hint",
    "dohpath",
    "ohttp",
    "tls-supported-groups",
    "docpath",
];
const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6HINT: u16 = 6;
const DOHPATH: u16 = 7;
const OHTTP: u16 = 8;
const TLS_SUPPORTED_GROUPS: u16 = 9;
const DOCPATH: u16 = 10;

/// `key`, `key=value`, `key="value"`, in any order.
pub(super) fn scan_parameters(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    // The third field is the index of the word.
    let mut params: Vec<(u16, Vec<u8>, usize)> = Vec::new();
    while let Some(word) = words.take() {
        let at = words.read_count() - 1;
        if word.is_quoted() {
            return Err(TextError::Parameter);
        }
        let text = word.as_bytes();
        let (key, mut value) = match text.iter().position(|&byte| byte == b'=') {
            None => (text, None),
            Some(at) => {
                let mut value = Vec::new();
                unescape_all(&text[at + 1..], &mut value)?;
                (&text[..at], Some(value))
            }
        };
        // A quoted value is the word directly after `key=`.
        if let Some(value) = value.as_mut().filter(|_| text.ends_with(b"="))
            && let Some(quoted) = words.peek().filter(|next| next.is_quoted() && next.is_joined())
        {
            words.take();
            words.set_fault(at);
            unescape_all(quoted.as_bytes(), value)?;
        }
        words.set_fault(at);
        if words.peek().is_some_and(Word::is_joined) {
            return Err(TextError::Parameter);
        }
        let (key, is_named) = scan_key(key)?;
        let mut bytes = Vec::new();
        if is_named {
            scan_value(key, value, &mut bytes)?
        } else {
            bytes = value.unwrap_or_default()
        }
        params.push((key, bytes, at));
        words.clear_fault();
    }
    // RFC 9460 2.2: on the wire the keys ascend.
    params.sort_by_key(|param| param.0);
    if let Some(pair) = params.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        words.set_fault(pair[1].2);
        return Err(TextError::ParameterTwice);
    }
    if let Some((at, error)) = contradiction(&params) {
        words.set_fault(at);
        return Err(error);
    }
    for (key, value, at) in params {
        out.extend_from_slice(&key.to_be_bytes());
        let len = u16::try_from(value.len()).map_err(|_| {
            words.set_fault(at);
            TextError::BytesMany
        })?;
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&value);
    }
    Ok(())
}

/// Finds a parameter that contradicts the others: the number of its word, and why.
fn contradiction(params: &[(u16, Vec<u8>, usize)]) -> Option<(usize, TextError)> {
    let has = |key: u16| params.iter().any(|param| param.0 == key);
    params.iter().find_map(|(key, value, at)| match *key {
        // RFC 9460 8: `mandatory` does not list itself, and every key it lists is present.
        MANDATORY => {
            let is_wrong = |key: u16| key == MANDATORY || !has(key);
            let mut keys = value.chunks_exact(2).map(|key| u16::from_be_bytes([key[0], key[1]]));
            keys.any(is_wrong).then_some((*at, TextError::ParameterMandatory))
        }
        NO_DEFAULT_ALPN if !has(ALPN) => Some((*at, TextError::ParameterAlpn)),
        _ => None,
    })
}

fn unescape_all(text: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut at = 0;
    while at < text.len() {
        let (byte, next) = unescape(text, at)?;
        out.push(byte);
        at = next;
    }
    Ok(())
}

/// A key, and whether it was written by name. The value of `keyN` is not interpreted (RFC 9460 2.1).
fn scan_key(text: &[u8]) -> Result<(u16, bool), TextError> {
    if let Some(at) = KEYS.iter().position(|key| key.as_bytes() == text) {
        return Ok((at as u16, true));
    }
    match text.strip_prefix(b"key") {
        Some(digits) if digits.first() != Some(&b'0') || digits.len() == 1 => {
            // 65535 is reserved as "Invalid key" but is written and read like others (RFC 9460 14.3.2).
            Ok((number_u16(digits).map_err(|_| TextError::ParameterUnknown)?, false))
        }
        _ => Err(TextError::ParameterUnknown),
    }
}

fn scan_value(key: u16, value: Option<Vec<u8>>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let non_empty = value.as_deref().filter(|value| !value.is_empty());
    let list = |value: Option<&[u8]>| value.map(split_list).ok_or(TextError::ParameterValueMissing);
    match key {
        MANDATORY => {
            let mut keys =
                list(non_empty)?.iter().map(|key| Ok(scan_key(key)?.0)).collect::<Result<Vec<u16>, TextError>>()?;
            keys.sort_unstable();
            if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(TextError::ParameterTwice);
            }
            out.extend(keys.into_iter().flat_map(u16::to_be_bytes));
        }
        ALPN => push_items(&list(non_empty)?, out)?,
        // RFC 9953 3.2: "The root path "/" is represented by 0 docpath-segments".
        DOCPATH => push_items(&non_empty.map(split_list).unwrap_or_default(), out)?,
        NO_DEFAULT_ALPN | OHTTP if non_empty.is_none() => {}
        NO_DEFAULT_ALPN | OHTTP => return Err(TextError::ParameterValueExtra),
        PORT => out.extend_from_slice(&number_u16(non_empty.ok_or(TextError::ParameterValueMissing)?)?.to_be_bytes()),
        IPV4HINT => {
            for address in list(non_empty)? {
                out.extend_from_slice(&ipv4(&address)?);
            }
        }
        ECH => scan_base64(non_empty.ok_or(TextError::ParameterValueMissing)?, out)?,
        IPV6HINT => {
            for address in list(non_empty)? {
                out.extend_from_slice(&ipv6(&address)?);
            }
        }
        DOHPATH => out.extend_from_slice(non_empty.ok_or(TextError::ParameterValueMissing)?),
        TLS_SUPPORTED_GROUPS => {
            for group in list(non_empty)? {
                out.extend_from_slice(&number_u16(&group)?.to_be_bytes());
            }
        }
        _ => out.extend_from_slice(non_empty.unwrap_or_default()),
    }
    Ok(())
}

/// Appends non-empty items, each after its length (RFC 9460 7.1.1, RFC 9953 3.2).
fn push_items(items: &[Vec<u8>], out: &mut Vec<u8>) -> Result<(), TextError> {
    for item in items {
        out.push(u8::try_from(item.len()).ok().filter(|&len| len > 0).ok_or(TextError::ParameterId)?);
        out.extend_from_slice(item);
    }
    Ok(())
}

/// Items separated by commas. A comma or backslash within an item is escaped with a backslash (RFC 9460 A.1).
fn split_list(value: &[u8]) -> Vec<Vec<u8>> {
    let mut items = vec![Vec::new()];
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b',' => items.push(Vec::new()),
            b'\\' => items.last_mut().expect("one item at least").extend(bytes.next()),
            byte => items.last_mut().expect("one item at least").push(byte),
        }
    }
    items
}

/// Prints well-formed parameters.
pub(super) fn print_parameters(mut params: &[u8], out: &mut String) {
    let start = out.len();
    while let [key_high, key_low, len_high, len_low, rest @ ..] = params {
        let key = u16::from_be_bytes([*key_high, *key_low]);
        let len = usize::from(u16::from_be_bytes([*len_high, *len_low]));
        let (value, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        separate(start, out);
        print_parameter(key, value, out);
        params = behind;
    }
}

fn print_key(key: u16, out: &mut String) {
    match KEYS.get(usize::from(key)) {
        Some(name) => out.push_str(name),
        None => print(format_args!("key{key}"), out),
    }
}

fn print_parameter(key: u16, value: &[u8], out: &mut String) {
    // A value that the form of its key cannot express is printed in the generic form.
    let has_form = match key {
        ECH | DOHPATH => !value.is_empty(),
        DOCPATH => are_segments(value),
        TLS_SUPPORTED_GROUPS => !value.is_empty() && value.len().is_multiple_of(2),
        _ => true,
    };
    if has_form {
        print_key(key, out)
    } else {
        print(format_args!("key{key}"), out)
    }
    if value.is_empty() {
        return;
    }
    out.push('=');
    if !has_form {
        return print_text(value, out);
    }
    let comma = |at: usize, out: &mut String| {
        if at > 0 {
            out.push(',')
        }
    };
    match key {
        MANDATORY => {
            for (at, key) in value.chunks_exact(2).enumerate() {
                comma(at, out);
                print_key(u16::from_be_bytes([key[0], key[1]]), out);
            }
        }
        ALPN | DOCPATH => print_items(value, out),
        PORT => print(format_args!("{}", u16::from_be_bytes([value[0], value[1]])), out),
        IPV4HINT => {
            for (at, address) in value.chunks_exact(4).enumerate() {
                comma(at, out);
                print_ipv4(address, out);
            }
        }
        ECH => print_base64(value, out),
        TLS_SUPPORTED_GROUPS => {
            for (at, group) in value.chunks_exact(2).enumerate() {
                comma(at, out);
                print(format_args!("{}", u16::from_be_bytes([group[0], group[1]])), out);
            }
        }
        IPV6HINT => {
            for (at, address) in value.chunks_exact(16).enumerate() {
                comma(at, out);
                print_ipv6(address, out);
            }
        }
        _ => print_text(value, out),
    }
}

/// Whether a path is a list of non-empty segments, each after its length. A path without segments is the root (RFC 9953
/// 3.2).
fn are_segments(mut value: &[u8]) -> bool {
    while let [len, rest @ ..] = value {
        match rest.split_at_checked(usize::from(*len)) {
            Some((_, behind)) if *len > 0 => value = behind,
            _ => return false,
        }
    }
    true
}

/// Prints items or path segments in quotes. They are escaped twice, as items of a list and as a string (RFC 9460 A.1).
fn print_items(mut value: &[u8], out: &mut String) {
    out.push('"');
    let mut is_first = true;
    while let [len, rest @ ..] = value {
        let (id, behind) = rest.split_at_checked(usize::from(*len)).unwrap_or((rest, &[]));
        if !core::mem::take(&mut is_first) {
            out.push(',');
        }
        for &byte in id {
            match byte {
                b',' => out.push_str("\\\\,"),
                b'\\' => out.push_str("\\\\\\\\"),
                b'"' => out.push_str("\\\""),
                0x20..=0x7E => out.push(byte as char),
                _ => print_decimal_escape(byte, out),
            }
        }
        value = behind;
    }
    out.push('"');
}
