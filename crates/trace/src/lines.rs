//! Reads lines of limited length.

use crate::error::TraceError;
use crate::limits::LINE_BYTES_MAX;
use std::io::{BufRead, Read};
use std::net::SocketAddr;

/// The lines of a file.
pub(crate) struct Lines {
    bytes: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    /// Number of the current line, from 1.
    pub(crate) number: u64,
}

impl Lines {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self { bytes, line: Vec::new(), number: 0 }
    }

    /// The next line without its end. `None` at the end of the file.
    pub(crate) fn next(&mut self, format: &'static str) -> Result<Option<&[u8]>, TraceError> {
        self.line.clear();
        self.number += 1;
        let most = LINE_BYTES_MAX as u64 + 1;
        if self.bytes.by_ref().take(most).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        if self.line.len() > LINE_BYTES_MAX {
            return Err(TraceError::Format { format, at: self.number, what: "a line longer than 256 KiB".into() });
        }
        Ok(Some(self.line.trim_ascii_end()))
    }
}

/// Converts seconds with a fraction into nanoseconds since 1970.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.get(..fraction.len().min(9))?;
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scale = 10_u64.pow(9 - digits.len() as u32);
    let nanoseconds = if digits.is_empty() { 0 } else { digits.parse::<u64>().ok()? * scale };
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// Parses an address and a port.
pub(crate) fn socket_address(address: &str, port: &str) -> Option<SocketAddr> {
    Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
}

/// Positions of the wanted columns.
pub(crate) fn columns_of<'n, const N: usize>(
    format: &'static str,
    line: u64,
    names: impl Iterator<Item = &'n str> + Clone,
    wanted: [&str; N],
) -> Result<[usize; N], TraceError> {
    let mut columns = [0; N];
    for (column, wanted) in columns.iter_mut().zip(wanted) {
        *column = names.clone().position(|name| name == wanted).ok_or_else(|| TraceError::Format {
            format,
            at: line,
            what: format!("no column {wanted}"),
        })?;
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        assert_eq!(seconds("1521911720.865716"), Some(1_521_911_720_865_716_000));
        assert_eq!(seconds("7"), Some(7_000_000_000));
        assert_eq!(seconds("0.0000000019"), Some(1));
        for wrong in ["", ".5", "-1", "1.x", "99999999999999", "1.5.5"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
