//! Reads the messages of a chunk, column by column.
//!
//! ```text
//!   six numbers    four bytes each: IPv4 addresses, IPv6 addresses, bytes of times, sources, destinations, lengths
//!   addresses      4 bytes for each of IPv4, then 16 for each of IPv6, every address once
//!   times          difference to the message before; for the first one, to the earliest of the chunk
//!   transports     one byte each: udp 0, tcp 1, dot 2, doh 3, doq 4
//!   sources        twice the index of the address in its family, plus one for IPv6
//!   destinations   the same
//!   source ports, destination ports    two bytes each
//!   IDs            two bytes each, as in the message
//!   lengths        bytes of each message
//!   messages       without their IDs, one after the other
//! ```
//!
//! Times, indexes and lengths are varints: groups of seven bits, lowest first. The eighth bit is set if more follow.
//! Differences of times are zigzag-encoded: 0, -1, 1, -2.

use super::chunk::Head;
use super::u32_at;
use crate::limits::HEADER_BYTES;
use crate::message::{Message, Transport};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Size of the numbers at the beginning.
pub(super) const SIZES_BYTES: usize = 24;
const CONTRADICTION: &str = "the columns of a chunk are inconsistent";

/// The columns of one chunk.
#[derive(Default)]
pub(super) struct Columns {
    bytes: Vec<u8>,
    count: usize,
    read_count: usize,
    earliest_ns: u64,
    latest_ns: u64,
    at_ns: u64,
    /// Position of each column. Columns without a fixed width start at the first value that was not read yet.
    v4: Range<usize>,
    v6: Range<usize>,
    times: Range<usize>,
    transports: Range<usize>,
    sources: Range<usize>,
    destinations: Range<usize>,
    source_ports: Range<usize>,
    destination_ports: Range<usize>,
    ids: Range<usize>,
    lengths: Range<usize>,
    bodies: Range<usize>,
    message: Vec<u8>,
}

impl Columns {
    /// A buffer for the bytes of a chunk, to be filled before [`Columns::begin`]. Unread values are lost.
    pub(super) fn buffer(&mut self, bytes: usize) -> &mut [u8] {
        (self.count, self.read_count) = (0, 0);
        self.bytes.resize(bytes, 0);
        &mut self.bytes
    }

    /// Finds the columns of the chunk with this head.
    pub(super) fn begin(&mut self, head: &Head) -> Result<(), &'static str> {
        if self.bytes.len() < SIZES_BYTES {
            return Err(CONTRADICTION);
        }
        let [v4, v6, times, sources, destinations, lengths] =
            [0, 4, 8, 12, 16, 20].map(|at| u32_at(&self.bytes, at) as usize);
        let mut at = SIZES_BYTES;
        let mut column = |bytes: usize| {
            let start = at;
            at = at.saturating_add(bytes);
            start..at
        };
        let count = head.messages;
        self.v4 = column(v4.saturating_mul(4));
        self.v6 = column(v6.saturating_mul(16));
        self.times = column(times);
        self.transports = column(count);
        self.sources = column(sources);
        self.destinations = column(destinations);
        self.source_ports = column(2 * count);
        self.destination_ports = column(2 * count);
        self.ids = column(2 * count);
        self.lengths = column(lengths);
        if at > self.bytes.len() {
            return Err(CONTRADICTION);
        }
        self.bodies = at..self.bytes.len();
        (self.count, self.read_count) = (count, 0);
        (self.earliest_ns, self.latest_ns, self.at_ns) = (head.earliest_ns, head.latest_ns, head.earliest_ns);
        Ok(())
    }

    /// Returns the next message, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Message<'_>>, &'static str> {
        if self.read_count == self.count {
            return Ok(None);
        }
        self.take().map(Some).ok_or(CONTRADICTION)
    }

    fn take(&mut self) -> Option<Message<'_>> {
        let number = self.read_count;
        self.read_count += 1;
        let bytes = &self.bytes;
        let difference = varint(bytes, &mut self.times)?;
        self.at_ns = self.at_ns.wrapping_add(unzigzag(difference));
        let transport = *Transport::ALL.get(usize::from(bytes[self.transports.start + number]))?;
        let pair = |column: &Range<usize>| [bytes[column.start + 2 * number], bytes[column.start + 2 * number + 1]];
        let endpoint = |address_index: u64, ports: &Range<usize>| {
            Some(SocketAddr::new(address(bytes, (&self.v4, &self.v6), address_index)?, u16::from_le_bytes(pair(ports))))
        };
        let source = endpoint(varint(bytes, &mut self.sources)?, &self.source_ports)?;
        let destination = endpoint(varint(bytes, &mut self.destinations)?, &self.destination_ports)?;
        let length = usize::try_from(varint(bytes, &mut self.lengths)?).ok()?;
        if length < HEADER_BYTES || length - 2 > self.bodies.len() {
            return None;
        }
        let start = self.bodies.start;
        self.bodies.start += length - 2;
        self.message.clear();
        self.message.extend_from_slice(&pair(&self.ids));
        self.message.extend_from_slice(&bytes[start..self.bodies.start]);
        let is_in_time = (self.earliest_ns..=self.latest_ns).contains(&self.at_ns);
        let rest = [&self.times, &self.sources, &self.destinations, &self.lengths, &self.bodies];
        let is_used_up = self.read_count < self.count || rest.iter().all(|column| column.is_empty());
        let message = Message { at_ns: self.at_ns, source, destination, transport, bytes: &self.message };
        Some(message).filter(|_| is_in_time && is_used_up)
    }
}

fn address(bytes: &[u8], (v4, v6): (&Range<usize>, &Range<usize>), address_index: u64) -> Option<IpAddr> {
    let at = usize::try_from(address_index >> 1).ok()?;
    if address_index & 1 == 0 {
        let found: [u8; 4] = *bytes[v4.clone()].get(at.checked_mul(4)?..)?.first_chunk()?;
        Some(found.into())
    } else {
        let found: [u8; 16] = *bytes[v6.clone()].get(at.checked_mul(16)?..)?.first_chunk()?;
        Some(found.into())
    }
}

/// Reads a number from the start of a column, and moves the start.
fn varint(bytes: &[u8], column: &mut Range<usize>) -> Option<u64> {
    let mut value = 0;
    for position in 0..10 {
        let byte = bytes[column.next()?];
        value |= u64::from(byte & 0x7F) << (7 * position);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Writes a number as [`varint`] reads it.
pub(super) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Encodes a difference modulo 2^64, so that small differences of either sign become small numbers.
pub(super) const fn zigzag(difference: u64) -> u64 {
    let sign = (difference as i64 >> 63) as u64;
    difference << 1 ^ sign
}

const fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_round_trip() {
        for number in (0..64).flat_map(|bit| [0, 1, 2, u64::MAX].map(|more| (1_u64 << bit).wrapping_sub(more))) {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, number);
            let mut column = 0..bytes.len();
            assert_eq!((varint(&bytes, &mut column), column.is_empty()), (Some(number), true), "{number}");
            assert_eq!(unzigzag(zigzag(number)), number);
        }
        assert_eq!([0, u64::MAX, 1, u64::MAX - 1].map(zigzag), [0, 1, 2, 3]);
        assert_eq!(varint(&[0x80; 20], &mut (0..20)), None);
        assert_eq!(varint(&[0x80], &mut (0..1)), None);
    }
}
