//! Numbers, periods and times.

use super::TextError;
use crate::limits::{CALENDAR_S_MAX, TIME_YEAR_MAX};
use core::fmt::Write;

/// A decimal number of at most `max`, digits only.
pub(super) fn number(text: &[u8], max: u64) -> Result<u64, TextError> {
    if text.is_empty() || text.len() > 20 {
        return Err(TextError::Number);
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(TextError::Number);
        }
        value = value.checked_mul(10).and_then(|v| v.checked_add(digit.into())).ok_or(TextError::Number)?;
    }
    if value > max { Err(TextError::Number) } else { Ok(value) }
}

pub(super) fn number_u8(text: &[u8]) -> Result<u8, TextError> {
    number(text, u8::MAX.into()).map(|value| value as u8)
}

pub(super) fn number_u16(text: &[u8]) -> Result<u16, TextError> {
    number(text, u16::MAX.into()).map(|value| value as u16)
}

pub(super) fn number_u32(text: &[u8]) -> Result<u32, TextError> {
    number(text, u32::MAX.into()).map(|value| value as u32)
}

/// A period in seconds: a number, or numbers with the units `s m h d w`, such as `1h30m`. The units are BIND's; RFC
/// 1035 has numbers only.
///
/// # Errors
/// [`TextError::Period`].
pub fn scan_period(text: &[u8]) -> Result<u32, TextError> {
    if let Ok(seconds) = number_u32(text) {
        return Ok(seconds);
    }
    let mut rest = text;
    let mut seconds = 0u64;
    if rest.is_empty() {
        return Err(TextError::Period);
    }
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let count = number(&rest[..digits], u32::MAX.into()).map_err(|_| TextError::Period)?;
        let unit = match rest.get(digits).map(u8::to_ascii_lowercase) {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3_600,
            Some(b'd') => 86_400,
            Some(b'w') => 604_800,
            _ => return Err(TextError::Period),
        };
        seconds += count * unit;
        if seconds > u32::MAX.into() {
            return Err(TextError::Period);
        }
        rest = &rest[digits + 1..];
    }
    Ok(seconds as u32)
}

/// A time of RRSIG: `YYYYMMDDHHmmSS`, or seconds since 1970 (RFC 4034 3.2).
pub(super) fn time32(text: &[u8]) -> Result<u32, TextError> {
    if text.len() <= 10 {
        return number_u32(text).map_err(|_| TextError::Time);
    }
    if text.len() != 14 {
        return Err(TextError::Time);
    }
    let part = |from: usize, to: usize, min: u64, max: u64| match number(&text[from..to], max) {
        Ok(value) if value >= min => Ok(value),
        _ => Err(TextError::Time),
    };
    let (year, month) = (part(0, 4, 1970, TIME_YEAR_MAX)?, part(4, 6, 1, 12)?);
    let day = part(6, 8, 1, month_days(year, month))?;
    // A leap second counts as the next one.
    let seconds = part(8, 10, 0, 23)? * 3600 + part(10, 12, 0, 59)? * 60 + part(12, 14, 0, 60)?;
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).map(|month| month_days(year, month)).sum();
    Ok(((years + months + day - 1) * 86_400 + seconds) as u32)
}

/// Prints seconds since 1970 as `YYYYMMDDHHmmSS`, for the years 1970 to 2106.
pub(super) fn print_time32(time: u32, out: &mut String) {
    let seconds = time % 86_400;
    let (year, month, day) = calendar_date(time.into());
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    print(format_args!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"), out);
}

/// Year, month and day in UTC of a time in seconds since 1970. Later times than [`CALENDAR_S_MAX`] count as that time.
#[must_use]
pub fn calendar_date(time_s: u64) -> (u64, u64, u64) {
    let mut days = time_s.min(CALENDAR_S_MAX) / 86_400;
    let (mut year, mut month) = (1970, 1);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    while days >= month_days(year, month) {
        days -= month_days(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn month_days(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + is_leap(year) as u64,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Appends formatted text. Writing to a `String` cannot fail.
pub(super) fn print(text: core::fmt::Arguments<'_>, out: &mut String) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

/// Appends a space between items of a list, which starts at `start`.
pub(super) fn separate(start: usize, out: &mut String) {
    if out.len() > start {
        out.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods() {
        for (text, seconds) in [("0", 0), ("3600", 3600), ("1h30m", 5400), ("1W2d", 777_600), ("4294967295s", u32::MAX)]
        {
            assert_eq!(scan_period(text.as_bytes()), Ok(seconds), "{text}");
        }
        for text in ["", "h", "1h30", "1y", "-1", "4294967296", "8000w", "1 h", "1.5h"] {
            assert!(scan_period(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, time) in [("19700101000000", 0), ("20040229000000", 1_078_012_800), ("21060207062815", u32::MAX)] {
            assert_eq!(time32(text.as_bytes()), Ok(time));
            let mut printed = String::new();
            print_time32(time, &mut printed);
            assert_eq!(printed, text);
        }
        for text in
            ["20030229000000", "19691231235959", "20041301000000", "20040100000000", "200401010000", "20040101240000"]
        {
            assert!(time32(text.as_bytes()).is_err(), "{text}");
        }
    }
}
