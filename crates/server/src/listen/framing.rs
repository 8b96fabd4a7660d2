//! Messages on a stream. Each follows its length in two bytes (RFC 1035 4.2.2, RFC 7766 8).

use crate::limits::MESSAGE_PREFIX_BYTES;
use std::ops::Range;

/// Received bytes that are not yet consumed as messages. After [`Inbound::release`] an empty buffer holds no memory.
#[derive(Default)]
pub(crate) struct Inbound {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbound {
    /// Appends bytes. Memory grows with the bytes received: a length prefix alone does not allocate 64 KiB.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let message = self.find()?;
        self.start = message.end;
        Some(&self.bytes[message])
    }

    /// Whether a whole message has arrived.
    pub(crate) fn has_message(&self) -> bool {
        self.find().is_some()
    }

    /// The range of the next message, if it is complete.
    fn find(&self) -> Option<Range<usize>> {
        let (prefix, body) = self.bytes[self.start..].split_first_chunk::<MESSAGE_PREFIX_BYTES>()?;
        let len = usize::from(u16::from_be_bytes(*prefix));
        let message = self.start + MESSAGE_PREFIX_BYTES;
        (body.len() >= len).then_some(message..message + len)
    }

    /// Frees the buffer if all of it has been consumed.
    pub(crate) fn release(&mut self) {
        if self.start == self.bytes.len() {
            *self = Self::default();
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) const fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Bytes that are to be sent.
#[derive(Default)]
pub(crate) struct Outbound {
    bytes: Vec<u8>,
    start: usize,
}

impl Outbound {
    /// Appends a message after its length. Both leave in one segment if they fit (RFC 7766 8).
    pub(crate) fn push(&mut self, message: &[u8]) {
        let len = u16::try_from(message.len()).expect("a response is at most 65,535 bytes");
        self.bytes.extend(len.to_be_bytes());
        self.bytes.extend(message);
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Bytes of memory that it holds.
    pub(crate) const fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Records that this many bytes were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.bytes.len());
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            // An idle connection holds no buffer.
            self.bytes.shrink_to(0);
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_the_bytes_arrive() {
        let messages = [vec![1; 30], vec![], vec![2; 65_535], vec![3; 1]];
        let mut outbound = Outbound::default();
        messages.iter().for_each(|message| outbound.push(message));
        let stream = outbound.waiting().to_vec();
        for piece in [1, 2, 3, 1_000, 100_000] {
            let mut inbound = Inbound::default();
            let mut seen = Vec::new();
            for bytes in stream.chunks(piece) {
                inbound.extend(bytes);
                while inbound.has_message() {
                    seen.push(inbound.next().unwrap().to_vec());
                }
                assert!(inbound.next().is_none());
            }
            assert_eq!(seen, messages, "pieces of {piece}");
            inbound.release();
            assert_eq!(inbound.memory(), 0, "an idle buffer holds no memory");
        }
    }

    #[test]
    fn a_prefix_alone_allocates_next_to_nothing() {
        let mut inbound = Inbound::default();
        inbound.extend(&[0xFF, 0xFF]);
        assert!(inbound.next().is_none());
        inbound.release();
        assert!((2..64).contains(&inbound.memory()));
    }

    #[test]
    fn bytes_go_out_in_order() {
        let mut outbound = Outbound::default();
        outbound.push(b"abc");
        outbound.sent(1);
        outbound.push(b"de");
        assert_eq!(outbound.waiting(), b"\x03abc\0\x02de");
        outbound.sent(4);
        assert_eq!(outbound.waiting(), b"\0\x02de");
        outbound.sent(4);
        assert!(outbound.waiting().is_empty() && outbound.bytes.capacity() == 0);
    }
}
