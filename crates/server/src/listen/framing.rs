//! Messages on a stream: each behind its length in two octets (RFC 1035 4.2.2, RFC 7766 8).

use crate::limits::{CONNECTION_SPARE_BYTES, MESSAGE_PREFIX_OCTETS};
use std::cell::Cell;

/// The whole message that octets of a stream begin with, and how many octets it takes with its length.
pub(crate) fn first_message(octets: &[u8]) -> Option<(&[u8], usize)> {
    let (prefix, body) = octets.split_first_chunk::<MESSAGE_PREFIX_OCTETS>()?;
    let len = usize::from(u16::from_be_bytes(*prefix));
    Some((body.get(..len)?, MESSAGE_PREFIX_OCTETS + len))
}

/// Octets that came in and are not yet messages. Empty, it holds no memory.
#[derive(Default)]
pub(crate) struct Inbound {
    octets: Vec<u8>,
    start: usize,
}

impl Inbound {
    /// Takes octets in. Memory follows what the client has really sent: a prefix alone makes nobody allocate 64 KiB.
    pub(crate) fn extend(&mut self, octets: &[u8]) {
        self.octets.drain(..self.start);
        self.start = 0;
        self.octets.extend_from_slice(octets);
    }

    /// What has not been taken.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.octets[self.start..]
    }

    /// Takes note that so many octets were messages.
    pub(crate) fn taken(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.octets.len());
    }

    /// Gives back the memory of what has been taken, where nothing else is waiting.
    pub(crate) fn release(&mut self) {
        if self.start == self.octets.len() {
            *self = Self::default();
        }
    }

    /// Octets of memory that it holds.
    pub(crate) const fn memory(&self) -> usize {
        self.octets.capacity()
    }
}

/// A buffer that connections of one runtime pass on: what is to go out on one has mostly gone before another has
/// anything, so there is no allocation for each turn of each.
#[derive(Default)]
pub(crate) struct Spare(Cell<Vec<u8>>);

impl Spare {
    /// One that has grown to what is usual; a new one while another connection has it.
    fn lend(&self) -> Vec<u8> {
        self.0.take()
    }

    /// Takes it back, unless what was unusual has made it large.
    fn take_back(&self, mut octets: Vec<u8>) {
        let other = self.0.take();
        let is_better = octets.capacity() > other.capacity() && octets.capacity() <= CONNECTION_SPARE_BYTES;
        octets.clear();
        self.0.set(if is_better { octets } else { other });
    }
}

/// Octets that are to go out. Empty, it holds no memory.
#[derive(Default)]
pub(crate) struct Outbound {
    octets: Vec<u8>,
    start: usize,
}

impl Outbound {
    /// Appends a message behind its length, in one piece: both leave in one segment where they fit (RFC 7766 8).
    pub(crate) fn push(&mut self, message: &[u8], spare: &Spare) {
        let len = u16::try_from(message.len()).expect("no response is longer than a message may be");
        if self.octets.capacity() == 0 {
            self.octets = spare.lend();
        }
        self.octets.reserve(MESSAGE_PREFIX_OCTETS + message.len());
        self.octets.extend_from_slice(&len.to_be_bytes());
        self.octets.extend_from_slice(message);
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.octets[self.start..]
    }

    /// Octets of memory that it holds.
    pub(crate) const fn memory(&self) -> usize {
        self.octets.capacity()
    }

    /// Takes note that so many octets went out.
    pub(crate) fn sent(&mut self, count: usize, spare: &Spare) {
        self.start += count;
        debug_assert!(self.start <= self.octets.len());
        if self.start == self.octets.len() {
            self.start = 0;
            spare.take_back(std::mem::take(&mut self.octets));
        } else if self.start > self.octets.len() / 2 {
            self.octets.drain(..self.start);
            self.start = 0;
        }
    }

    /// Keeps no more memory for what goes on waiting than it needs: the rest of the spare one is for others.
    pub(crate) fn release(&mut self, spare: &Spare) {
        let waiting = self.octets.len() - self.start;
        if waiting > 0 && self.octets.capacity() <= CONNECTION_SPARE_BYTES && waiting <= self.octets.capacity() / 2 {
            let rest = self.waiting().to_vec();
            self.start = 0;
            spare.take_back(std::mem::replace(&mut self.octets, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_the_octets_arrive() {
        let messages = [vec![1; 30], vec![], vec![2; 65_535], vec![3; 1]];
        let mut outbound = Outbound::default();
        let spare = Spare::default();
        messages.iter().for_each(|message| outbound.push(message, &spare));
        let stream = outbound.waiting().to_vec();
        for piece in [1, 2, 3, 1_000, 100_000] {
            let mut inbound = Inbound::default();
            let mut seen = Vec::new();
            for octets in stream.chunks(piece) {
                inbound.extend(octets);
                while let Some((message, count)) = first_message(inbound.waiting()) {
                    seen.push(message.to_vec());
                    inbound.taken(count);
                }
            }
            assert_eq!(seen, messages, "pieces of {piece}");
            inbound.release();
            assert_eq!(inbound.memory(), 0, "what is idle holds nothing");
        }
    }

    #[test]
    fn a_prefix_alone_allocates_next_to_nothing() {
        let mut inbound = Inbound::default();
        inbound.extend(&[0xFF, 0xFF]);
        assert!(first_message(inbound.waiting()).is_none());
        inbound.release();
        assert!((2..64).contains(&inbound.memory()));
    }

    #[test]
    fn octets_go_out_in_order() {
        let (mut outbound, spare) = (Outbound::default(), Spare::default());
        outbound.push(b"abc", &spare);
        outbound.sent(1, &spare);
        outbound.push(b"de", &spare);
        assert_eq!(outbound.waiting(), b"\x03abc\0\x02de");
        outbound.sent(4, &spare);
        assert_eq!(outbound.waiting(), b"\0\x02de");
        outbound.sent(4, &spare);
        assert!(outbound.waiting().is_empty() && outbound.octets.capacity() == 0);
    }

    #[test]
    fn a_buffer_goes_from_one_connection_to_the_next_and_stays_with_none() {
        let (mut one, mut other, spare) = (Outbound::default(), Outbound::default(), Spare::default());
        let message = [7; 1_000];
        (0..4).for_each(|_| one.push(&message, &spare));
        let (at, grown) = (one.octets.as_ptr(), one.memory());
        one.sent(4 * 1_002, &spare);
        assert_eq!(one.memory(), 0);
        other.push(b"abc", &spare);
        assert_eq!((other.octets.as_ptr(), other.memory()), (at, grown));
        // Who comes while it is lent makes a buffer of its own.
        one.push(b"de", &spare);
        assert!(one.octets.as_ptr() != at && one.memory() < 64);
        // A client that does not read keeps what it is owed, and no more.
        other.release(&spare);
        assert_eq!(other.waiting(), b"\0\x03abc");
        assert!(other.memory() < 64);
        one.sent(4, &spare);
        // What is large is nobody's.
        other.sent(5, &spare);
        (0..CONNECTION_SPARE_BYTES / 500).for_each(|_| other.push(&message, &spare));
        assert!(other.memory() > CONNECTION_SPARE_BYTES);
        other.sent(other.waiting().len(), &spare);
        one.push(b"de", &spare);
        assert!(one.memory() <= CONNECTION_SPARE_BYTES);
    }
}
