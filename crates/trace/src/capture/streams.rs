//! All tracked TCP streams: assigns segments to them, and limits how long gaps are waited for.

use super::ip::Packet;
use super::search::{MessageStart, classify};
use super::stream::{FlowKey, Stream, StreamOutput};
use crate::limits::{GAP_LIFE_NS, SEGMENT_BYTES_WAITING_MAX, STREAM_COUNT_MAX};
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, UnreadReason};
use std::collections::{BTreeMap, BTreeSet};

/// All streams.
#[derive(Default)]
pub(super) struct Streams {
    streams: BTreeMap<FlowKey, TrackedStream>,
    /// Streams by the time of their last segment, counted in segments. The first one is dropped to make room.
    by_last_seen: BTreeMap<u64, FlowKey>,
    /// Streams with a gap, by the start of the gap.
    gaps: BTreeSet<(u64, FlowKey)>,
    now: u64,
    /// Memory of all streams, in bytes.
    bytes: usize,
}

struct TrackedStream {
    stream: Stream,
    last_seen: u64,
    since_ns: Option<u64>,
}

/// The relevant fields of a segment.
struct Segment<'s> {
    /// Sequence number of its first byte. A SYN has the number before it.
    first: u32,
    flags: u8,
    payload: &'s [u8],
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

impl Streams {
    /// Adds a segment. Complete messages go to `queue`. A segment with data is counted.
    pub(super) fn take(
        &mut self,
        at_ns: u64,
        flow: FlowKey,
        packet: &Packet<'_>,
        queue: &mut MessageQueue,
        tally: &mut Tally,
    ) -> Result<(), UnreadReason> {
        let Segment { first, flags, payload } = read(packet)?;
        let known = self.streams.get(&flow).map(|tracked| &tracked.stream);
        if flags & SYN != 0 && !known.is_some_and(|stream| stream.begins_at(first)) {
            self.give_up(flow, queue, tally);
            self.open(flow, Stream::from_start(first), queue, tally);
        }
        if payload.is_empty() {
            if flags & (FIN | RST) != 0 {
                self.close(flow);
            }
            return Err(if packet.is_cut { UnreadReason::CutShort } else { UnreadReason::SegmentEmpty });
        }
        if packet.is_cut {
            return Err(UnreadReason::CutShort);
        }
        match self.streams.get(&flow).map(|tracked| tracked.stream.is_near(first)) {
            Some(true) => {}
            // A client may send the length of a message in a separate segment.
            Some(false) if classify(payload, true) == MessageStart::No => return Err(UnreadReason::SegmentUnsynced),
            Some(false) => {
                self.give_up(flow, queue, tally);
                self.open(flow, Stream::mid_stream(first), queue, tally);
            }
            None => self.open(flow, Stream::mid_stream(first), queue, tally),
        }
        tally.count(UnreadReason::SegmentPart);
        self.touch(flow);
        self.change(flow, queue, tally, |stream, out| stream.take(at_ns, first, payload, out));
        if flags & RST != 0 {
            self.close(flow);
        }
        while self.bytes > SEGMENT_BYTES_WAITING_MAX {
            let Some((_, &oldest)) = self.by_last_seen.first_key_value() else { break };
            self.give_up(oldest, queue, tally);
        }
        Ok(())
    }

    /// Advances the time: gaps that have lasted too long are given up.
    pub(super) fn expire(&mut self, now_ns: u64, queue: &mut MessageQueue, tally: &mut Tally) {
        while let Some(&(since_ns, flow)) = self.gaps.first()
            && now_ns.saturating_sub(since_ns) > GAP_LIFE_NS
        {
            self.change(flow, queue, tally, Stream::skip);
        }
    }

    /// Ends the capture. Gives up the oldest gap; returns false when there is none left.
    pub(super) fn end(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> bool {
        if let Some(&(_, flow)) = self.gaps.first() {
            self.change(flow, queue, tally, Stream::skip);
            return true;
        }
        while let Some((&flow, _)) = self.streams.first_key_value() {
            self.give_up(flow, queue, tally);
        }
        false
    }

    fn open(&mut self, flow: FlowKey, stream: Stream, queue: &mut MessageQueue, tally: &mut Tally) {
        if self.streams.len() >= STREAM_COUNT_MAX
            && let Some((_, &oldest)) = self.by_last_seen.first_key_value()
        {
            self.give_up(oldest, queue, tally);
        }
        self.now += 1;
        self.by_last_seen.insert(self.now, flow);
        self.streams.insert(flow, TrackedStream { stream, last_seen: self.now, since_ns: None });
    }

    fn touch(&mut self, flow: FlowKey) {
        if let Some(tracked) = self.streams.get_mut(&flow) {
            self.now += 1;
            self.by_last_seen.remove(&tracked.last_seen);
            tracked.last_seen = self.now;
            self.by_last_seen.insert(self.now, flow);
        }
    }

    /// Changes a stream, then updates its memory and its gap.
    fn change(
        &mut self,
        flow: FlowKey,
        queue: &mut MessageQueue,
        tally: &mut Tally,
        change_stream: impl FnOnce(&mut Stream, &mut StreamOutput<'_>),
    ) {
        let Some(TrackedStream { stream, since_ns, .. }) = self.streams.get_mut(&flow) else { return };
        let before = stream.bytes();
        change_stream(stream, &mut StreamOutput { flow, queue, tally });
        self.bytes = self.bytes + stream.bytes() - before;
        let since = stream.gap_since();
        if since != *since_ns {
            since_ns.map(|since_ns| self.gaps.remove(&(since_ns, flow)));
            since.map(|since| self.gaps.insert((since, flow)));
            *since_ns = since;
        }
    }

    /// Forgets a stream at its end if it has no gap. Otherwise the missing data may still arrive.
    fn close(&mut self, flow: FlowKey) {
        if let Some(TrackedStream { last_seen, .. }) = self.streams.get(&flow).filter(|known| known.stream.bytes() == 0)
        {
            self.by_last_seen.remove(last_seen);
            self.streams.remove(&flow);
        }
    }

    fn give_up(&mut self, flow: FlowKey, queue: &mut MessageQueue, tally: &mut Tally) {
        self.change(flow, queue, tally, Stream::end);
        self.close(flow);
    }
}

/// RFC 9293 3.1.
fn read<'s>(packet: &Packet<'s>) -> Result<Segment<'s>, UnreadReason> {
    let short = if packet.is_cut { UnreadReason::CutShort } else { UnreadReason::HeaderMalformed };
    let header = packet.payload.first_chunk::<20>().ok_or(short)?;
    let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let (header_bytes, flags) = (usize::from(header[12] >> 4) * 4, header[13]);
    if header_bytes < 20 {
        return Err(UnreadReason::HeaderMalformed);
    }
    let payload = packet.payload.get(header_bytes..).ok_or(short)?;
    let first = sequence.wrapping_add(u32::from(flags & SYN != 0));
    Ok(Segment { first, flags, payload })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::WAITING_BYTES_BESIDES;
    use std::net::SocketAddr;

    /// Segments of one byte take more memory than their data.
    #[test]
    fn waiting_data_is_bounded_for_small_segments() {
        const PER_STREAM: usize = 200;
        let (mut streams, mut queue, mut tally) = (Streams::default(), MessageQueue::default(), Tally::default());
        let server = SocketAddr::from(([192, 0, 2, 53], 53));
        let most = SEGMENT_BYTES_WAITING_MAX / (1 + WAITING_BYTES_BESIDES);
        let stream_count = most / PER_STREAM + 500;
        for number in 0..stream_count as u32 {
            let client = SocketAddr::from((std::net::Ipv4Addr::from(number), 4_000));
            for sequence in 0..PER_STREAM as u32 {
                // The stream begins at 1, but that byte never arrives.
                let mut segment = [0; 21];
                segment[4..8].copy_from_slice(&(2 * sequence).to_be_bytes());
                (segment[12], segment[13]) = (5 << 4, if sequence == 0 { SYN } else { 0 });
                let payload = if sequence == 0 { &segment[..20] } else { &segment[..] };
                let (source, destination) = (client.ip(), server.ip());
                let packet = Packet { source, destination, protocol: 6, payload, is_cut: false, fragment: None };
                if let Err(unread) = streams.take(0, (client, server), &packet, &mut queue, &mut tally) {
                    tally.count(unread);
                }
            }
        }
        let waiting = tally.unread(UnreadReason::SegmentPart) as usize;
        assert!(waiting <= most && waiting > most - PER_STREAM, "{waiting} of {most}");
        let given_up = (stream_count * (PER_STREAM - 1) - waiting) as u64;
        assert_eq!(tally.unread(UnreadReason::SegmentUnsynced), given_up);
        assert_eq!((streams.bytes, queue.len()), (waiting * (1 + WAITING_BYTES_BESIDES), 0));
        // Each stream has one segment less than the limit, and all of them end.
        while streams.end(&mut queue, &mut tally) {}
        assert_eq!(tally.unread(UnreadReason::SegmentPart), 0);
        assert!(streams.bytes == 0 && streams.gaps.is_empty() && streams.by_last_seen.is_empty());
    }
}
