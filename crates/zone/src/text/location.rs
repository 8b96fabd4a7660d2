//! LOC in presentation format (RFC 1876 3).

use super::TextError;
use super::numbers::{number, print};
use super::words::Words;
use crate::limits::LOC_CENTIMETRES_MAX;

/// The zero of coordinates: the equator and the prime meridian (RFC 1876 2).
const COORDINATE_ZERO: u32 = 1 << 31;
/// The zero of altitudes in centimetres: 100 km below the spheroid.
const ALTITUDE_ZERO: i64 = 10_000_000;

pub(super) fn scan_location(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let latitude = coordinate(words, 90, b'N', b'S')?;
    let longitude = coordinate(words, 180, b'E', b'W')?;
    let altitude = altitude(words.plain()?)?;
    // RFC 1876 3: the defaults are a size of 1 m and precisions of 10,000 m and 10 m.
    let mut sizes = [0x12, 0x16, 0x13];
    for size in &mut sizes {
        if let Some(word) = words.take() {
            *size = scan_size(word.plain()?)?;
        }
    }
    out.push(0);
    out.extend_from_slice(&sizes);
    for value in [latitude, longitude, altitude] {
        out.extend_from_slice(&value.to_be_bytes());
    }
    Ok(())
}

/// `d1 [m1 [s1]] {"N"|"S"}` in thousandths of a second of arc.
fn coordinate(words: &mut Words<'_>, degrees_max: u64, plus: u8, minus: u8) -> Result<u32, TextError> {
    let bad = |_| TextError::Location;
    let mut milliarcseconds = number(words.plain()?, degrees_max).map_err(bad)? * 3_600_000;
    for part in 0..3 {
        let text = words.plain()?;
        match *text {
            [letter] if letter.eq_ignore_ascii_case(&plus) => return Ok(COORDINATE_ZERO + milliarcseconds as u32),
            [letter] if letter.eq_ignore_ascii_case(&minus) => return Ok(COORDINATE_ZERO - milliarcseconds as u32),
            _ if part == 0 => milliarcseconds += number(text, 59).map_err(bad)? * 60_000,
            _ if part == 1 => {
                let value = decimal(text, 3)?;
                milliarcseconds += if value < 60_000 { value } else { return Err(TextError::Location) };
            }
            _ => break,
        }
        if milliarcseconds > degrees_max * 3_600_000 {
            break;
        }
    }
    Err(TextError::Location)
}

/// A number with up to `places` decimal places, times ten to the `places`.
fn decimal(text: &[u8], places: usize) -> Result<u64, TextError> {
    let (integer, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b"0"[..]),
    };
    if fraction.is_empty() || fraction.len() > places {
        return Err(TextError::Location);
    }
    let bad = |_| TextError::Location;
    let integer = number(integer, u32::MAX.into()).map_err(bad)? * 10u64.pow(places as u32);
    Ok(integer + number(fraction, 999).map_err(bad)? * 10u64.pow((places - fraction.len()) as u32))
}

fn metres(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"m").or_else(|| text.strip_suffix(b"M")).unwrap_or(text)
}

fn altitude(text: &[u8]) -> Result<u32, TextError> {
    let text = metres(text);
    let centimetres = match text.strip_prefix(b"-") {
        Some(text) => ALTITUDE_ZERO - decimal(text, 2)? as i64,
        None => ALTITUDE_ZERO + decimal(text, 2)? as i64,
    };
    u32::try_from(centimetres).map_err(|_| TextError::Location)
}

/// A size in centimetres as one digit and a power of ten. Further digits are cut off.
fn scan_size(text: &[u8]) -> Result<u8, TextError> {
    let mut centimetres = decimal(metres(text), 2)?;
    if centimetres > LOC_CENTIMETRES_MAX {
        return Err(TextError::Location);
    }
    let mut exponent = 0;
    while centimetres > 9 {
        centimetres /= 10;
        exponent += 1;
    }
    Ok((centimetres as u8) << 4 | exponent)
}

/// Prints well-formed LOC rdata of version 0.
pub(super) fn print_location(rdata: &[u8], out: &mut String) {
    let Some(rdata) = rdata.first_chunk::<16>() else { return };
    let value = |at: usize| u32::from_be_bytes([rdata[at], rdata[at + 1], rdata[at + 2], rdata[at + 3]]);
    for (at, plus, minus) in [(4, 'N', 'S'), (8, 'E', 'W')] {
        let (letter, angle) = if value(at) >= COORDINATE_ZERO {
            (plus, value(at) - COORDINATE_ZERO)
        } else {
            (minus, COORDINATE_ZERO - value(at))
        };
        let (degrees, minutes) = (angle / 3_600_000, angle / 60_000 % 60);
        let (seconds, milliseconds) = (angle / 1000 % 60, angle % 1000);
        print(format_args!("{degrees} {minutes} {seconds}.{milliseconds:03} {letter} "), out);
    }
    let altitude = i64::from(value(12)) - ALTITUDE_ZERO;
    let sign = if altitude < 0 { "-" } else { "" };
    print(format_args!("{sign}{}.{:02}m", altitude.abs() / 100, altitude.abs() % 100), out);
    for &size in &rdata[1..4] {
        let centimetres = u64::from(size >> 4) * 10u64.pow(u32::from(size & 0x0F));
        print(format_args!(" {}.{:02}m", centimetres / 100, centimetres % 100), out);
    }
}
