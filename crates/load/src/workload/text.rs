//! Text query files: a name, a type, and a third column that differs between tools.
//!
//! | dialect | third column |
//! |---|---|
//! | dnsperf | none |
//! | kxdpgun | flags: `E` for EDNS, `D` for EDNS with DO |
//! | flamethrower | client subnet of ECS (RFC 7871): `192.0.2.0/24` |
//! | calidns | the same, or a single address |
//!
//! The last three are detected by the content of the column. `;` and `#` start comments.

use super::error::{Skip, WorkloadError};
use super::extras::Extras;
use super::messages::Messages;
use super::skipped::{NoQuery, excerpt};
use std::net::IpAddr;
use std::path::Path;
use trace::rtype;
use wire::name::Name;

/// The tool that defines the third column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// No third column.
    Dnsperf,
    /// The flags `E` and `D`.
    Kxdpgun,
    /// A subnet.
    Flamethrower,
    /// A subnet or an address.
    Calidns,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] = [Self::Dnsperf, Self::Kxdpgun, Self::Flamethrower, Self::Calidns];

    /// The name in options.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Dnsperf => "dnsperf",
            Self::Kxdpgun => "kxdpgun",
            Self::Flamethrower => "flamethrower",
            Self::Calidns => "calidns",
        }
    }
}

pub(super) fn read(
    path: &Path,
    bytes: &[u8],
    (dialect, extras): (Option<Dialect>, &Extras),
    skip: Skip<'_>,
) -> Result<Messages, WorkloadError> {
    let mut messages = Messages::default();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        match read_line(&line, dialect, extras) {
            Ok(Some(message)) => messages.push(&message),
            Ok(None) => {}
            Err((no_query, reason)) => {
                skip(no_query, WorkloadError::Line { file: path.to_owned(), line: index + 1, reason })?;
            }
        }
    }
    Ok(messages)
}

/// The query of a line. `None` for an empty line or a comment.
fn read_line(line: &str, dialect: Option<Dialect>, extras: &Extras) -> Result<Option<Vec<u8>>, (NoQuery, String)> {
    let mut columns = line.split_whitespace();
    let Some(qname) = columns.next().filter(|column| !column.starts_with([';', '#'])) else { return Ok(None) };
    let qtype = columns
        .next()
        .ok_or_else(|| (NoQuery::NoType, format!("no type after {}; a line is NAME TYPE", excerpt(qname))))?;
    let no_type =
        |column| (NoQuery::UnknownType, format!("{} is not a type; write its mnemonic or TYPE123", excerpt(column)));
    let qtype = rtype(qtype).ok_or_else(|| no_type(qtype))?;
    let bad_name = |error| (NoQuery::BadName, format!("{} is not a name: {error}", excerpt(qname)));
    let qname: Name = qname.parse().map_err(bad_name)?;
    let mut column_extras = None;
    if let Some(column) = columns.next().filter(|column| !column.starts_with([';', '#'])) {
        column_extras =
            Some(third_column(column, dialect, extras.clone()).map_err(|reason| (NoQuery::BadColumn, reason))?);
    }
    let extras = column_extras.as_ref().unwrap_or(extras);
    extras.query(qname.as_ref(), qtype).map(Some).map_err(|error| (NoQuery::TooLong, error.to_string()))
}

fn third_column(column: &str, dialect: Option<Dialect>, extras: Extras) -> Result<Extras, String> {
    let is_flags = column.bytes().all(|byte| matches!(byte, b'E' | b'D'));
    let column_shown = excerpt(column);
    let subnet = || read_subnet(column).ok_or_else(|| format!("{column_shown} is not an address or subnet"));
    match dialect {
        Some(Dialect::Dnsperf) => Err(format!("unexpected third column {column_shown}; dnsperf files have two")),
        Some(Dialect::Kxdpgun) if !is_flags => Err(format!("{column_shown} is neither E nor D")),
        Some(Dialect::Flamethrower | Dialect::Calidns) => Ok(extras.with_subnet(subnet()?)),
        _ if is_flags => Ok(extras.with_edns(column.contains('D'))),
        _ => Ok(extras.with_subnet(subnet().map_err(|reason| format!("{reason}, nor kxdpgun's E or D"))?)),
    }
}

/// Parses `192.0.2.0/24`. An address without a prefix length has its full length.
#[must_use]
pub fn read_subnet(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Some(whole), |length| length.parse().ok().filter(|&length| length <= whole))?;
    Some((address, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, dialect: Option<Dialect>) -> Result<Option<Vec<u8>>, String> {
        read_line(text, dialect, &Extras::default()).map_err(|(_, reason)| reason)
    }

    #[test]
    fn two_columns_are_a_plain_query() {
        let query = line("a.b A", None).unwrap().unwrap();
        assert_eq!(query, b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\x01b\0\0\x01\0\x01");
        assert_eq!(line("; comment", None), Ok(None));
        assert_eq!(line("", None), Ok(None));
    }

    #[test]
    fn the_third_column_shows_the_dialect() {
        let flags = line("a.b A D", None).unwrap().unwrap();
        // ARCOUNT, and the DO bit (RFC 3225 3) of the OPT record at the end of the message.
        assert_eq!((flags[11], flags[flags.len() - 4] & 0x80), (1, 0x80));
        let subnet = line("a.b A 192.0.2.77/24", None).unwrap().unwrap();
        // FAMILY 1, SOURCE 24, SCOPE 0, and three bytes (RFC 7871 6).
        assert!(subnet.ends_with(&[0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2]));
        assert!(line("a.b A 192.0.2.0/24", Some(Dialect::Dnsperf)).is_err());
        assert!(line("a.b A 192.0.2.0/24", Some(Dialect::Kxdpgun)).is_err());
    }

    #[test]
    fn errors_name_the_problem() {
        assert_eq!(line("a.b", None).unwrap_err(), "no type after a.b; a line is NAME TYPE");
        assert_eq!(line("a..b A", None).unwrap_err(), "a..b is not a name: it has an empty label or a bad escape");
        assert_eq!(line("a.b QQ", None).unwrap_err(), "QQ is not a type; write its mnemonic or TYPE123");
        assert_eq!(
            line("a.b A 192.0.2.0/33", None).unwrap_err(),
            "192.0.2.0/33 is not an address or subnet, nor kxdpgun's E or D"
        );
        let calidns = line("a.b A E", Some(Dialect::Calidns)).unwrap_err();
        assert_eq!(calidns, "E is not an address or subnet");
    }
}
