//! TCP streams of a capture, put together far enough to cut messages out of them.

use super::{Observed, Recorded, Transport};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Streams that are followed at once; the oldest address is forgotten first.
const STREAM_COUNT_MAX: usize = 65_536;
/// Segments of one stream that wait for an earlier one.
const WAITING_COUNT_MAX: usize = 256;

/// Every stream from clients, or every stream to them, by the client's address and port.
#[derive(Default)]
pub(super) struct Streams(BTreeMap<(IpAddr, u16), Stream>);

struct Stream {
    next: u32,
    waiting: Vec<(u32, Vec<u8>)>,
    octets: Vec<u8>,
}

impl Streams {
    /// Takes one segment of a client's stream; whole messages go to `messages`.
    pub(super) fn segment(
        &mut self,
        (client, port): (IpAddr, u16),
        at: Duration,
        segment: &[u8],
        messages: &mut Vec<Observed>,
    ) {
        if segment.len() < 20 {
            return;
        }
        let sequence = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]);
        let header = usize::from(segment[12] >> 4) * 4;
        let is_syn = segment[13] & 0x02 != 0;
        let payload = segment.get(header..).unwrap_or_default();
        if self.0.len() >= STREAM_COUNT_MAX {
            self.0.pop_first();
        }
        let key = (client, port);
        if is_syn {
            self.0.insert(key, Stream { next: sequence.wrapping_add(1), waiting: Vec::new(), octets: Vec::new() });
            return;
        }
        if payload.is_empty() {
            return;
        }
        // A stream whose start was not captured begins with its first segment.
        let stream =
            self.0.entry(key).or_insert_with(|| Stream { next: sequence, waiting: Vec::new(), octets: Vec::new() });
        stream.take(sequence, payload);
        stream.cut(|recorded| messages.push(Observed { at, client, port, recorded }));
    }
}

impl Stream {
    fn take(&mut self, sequence: u32, payload: &[u8]) {
        if self.waiting.len() < WAITING_COUNT_MAX {
            self.waiting.push((sequence, payload.to_vec()));
        }
        while let Some(index) = self.waiting.iter().position(|(sequence, payload)| {
            let behind = self.next.wrapping_sub(*sequence);
            behind <= payload.len() as u32
        }) {
            let (sequence, payload) = self.waiting.swap_remove(index);
            let seen = self.next.wrapping_sub(sequence) as usize;
            self.octets.extend_from_slice(&payload[seen..]);
            self.next = self.next.wrapping_add((payload.len() - seen) as u32);
        }
    }

    /// Cuts whole messages off the front (RFC 1035 4.2.2).
    fn cut(&mut self, mut each: impl FnMut(Recorded)) {
        while let Some((length, rest)) = self.octets.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some(message) = rest.get(..length) else { return };
            each(Recorded { transport: Transport::Tcp, octets: message.to_vec() });
            self.octets.drain(..2 + length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut octets = vec![0x30, 0x39, 0, 53];
        octets.extend_from_slice(&sequence.to_be_bytes());
        octets.extend_from_slice(&[0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        octets.extend_from_slice(payload);
        octets
    }

    #[test]
    fn segments_out_of_order_and_sent_twice_give_the_messages_once() {
        let mut streams = Streams::default();
        let mut messages = Vec::new();
        let client = IpAddr::from([192, 0, 2, 1]);
        let parts =
            [(9, 2, &b""[..]), (15, 0x18, b"e\x00\x01z"), (10, 0x18, b"\x00\x04abc"), (10, 0x18, b"\x00\x04abc")];
        for (sequence, flags, payload) in parts {
            streams.segment((client, 12_345), Duration::ZERO, &segment(sequence, flags, payload), &mut messages);
        }
        let octets: Vec<_> = messages.iter().map(|message| message.recorded.octets.as_slice()).collect();
        assert_eq!(octets, [&b"abce"[..], b"z"]);
    }
}
