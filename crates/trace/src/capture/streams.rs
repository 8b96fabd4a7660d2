//! The TCP streams that are followed: which segment belongs to which, and how long what is missing is waited for.

use super::ip::Packet;
use super::search::{Start, judge};
use super::stream::{Out, Stream, Way};
use crate::limits::{GAP_LIFE_NS, SEGMENT_BYTES_WAITING_MAX, STREAM_COUNT_MAX};
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, Unread};
use std::collections::{BTreeMap, BTreeSet};

/// All of them.
#[derive(Default)]
pub(super) struct Streams {
    streams: BTreeMap<Way, TrackedStream>,
    /// When each was last last_seen of, counted in segments; the first is given up for another.
    quiet: BTreeMap<u64, Way>,
    /// Those in which something is missing, by the time since when.
    gaps: BTreeSet<(u64, Way)>,
    now: u64,
    /// What all of them keep.
    bytes: usize,
}

struct TrackedStream {
    stream: Stream,
    last_seen: u64,
    since_ns: Option<u64>,
}

/// What matters of a segment.
struct Segment<'s> {
    /// The number of its first byte; a SYN has the one before it.
    first: u32,
    flags: u8,
    payload: &'s [u8],
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

impl Streams {
    /// Takes a segment; whole messages go to `queue`. One with data is counted here.
    pub(super) fn take(
        &mut self,
        at_ns: u64,
        way: Way,
        packet: &Packet<'_>,
        queue: &mut MessageQueue,
        tally: &mut Tally,
    ) -> Result<(), Unread> {
        let Segment { first, flags, payload } = read(packet)?;
        let known = self.streams.get(&way).map(|followed| &followed.stream);
        if flags & SYN != 0 && !known.is_some_and(|stream| stream.begins_at(first)) {
            self.give_up(way, queue, tally);
            self.open(way, Stream::begun(first), queue, tally);
        }
        if payload.is_empty() {
            if flags & (FIN | RST) != 0 {
                self.close(way);
            }
            return Err(if packet.is_cut { Unread::CutShort } else { Unread::SegmentEmpty });
        }
        if packet.is_cut {
            return Err(Unread::CutShort);
        }
        match self.streams.get(&way).map(|followed| followed.stream.is_near(first)) {
            Some(true) => {}
            // A client may send the length of a message in a separate segment.
            Some(false) if judge(payload, true) == Start::No => return Err(Unread::SegmentAdrift),
            Some(false) => {
                self.give_up(way, queue, tally);
                self.open(way, Stream::adrift(first), queue, tally);
            }
            None => self.open(way, Stream::adrift(first), queue, tally),
        }
        tally.count(Unread::SegmentPart);
        self.touch(way);
        self.change(way, queue, tally, |stream, out| stream.take(at_ns, first, payload, out));
        if flags & RST != 0 {
            self.close(way);
        }
        while self.bytes > SEGMENT_BYTES_WAITING_MAX {
            let Some((_, &oldest)) = self.quiet.first_key_value() else { break };
            self.give_up(oldest, queue, tally);
        }
        Ok(())
    }

    /// So late is it: what was missing for too long is not waited for any longer.
    pub(super) fn expire(&mut self, now_ns: u64, queue: &mut MessageQueue, tally: &mut Tally) {
        while let Some(&(since_ns, way)) = self.gaps.first()
            && now_ns.saturating_sub(since_ns) > GAP_LIFE_NS
        {
            self.change(way, queue, tally, Stream::skip);
        }
    }

    /// There will be no more: goes on behind what has been missing longest; false when nothing waits any more.
    pub(super) fn end(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> bool {
        if let Some(&(_, way)) = self.gaps.first() {
            self.change(way, queue, tally, Stream::skip);
            return true;
        }
        while let Some((&way, _)) = self.streams.first_key_value() {
            self.give_up(way, queue, tally);
        }
        false
    }

    fn open(&mut self, way: Way, stream: Stream, queue: &mut MessageQueue, tally: &mut Tally) {
        if self.streams.len() >= STREAM_COUNT_MAX
            && let Some((_, &oldest)) = self.quiet.first_key_value()
        {
            self.give_up(oldest, queue, tally);
        }
        self.now += 1;
        self.quiet.insert(self.now, way);
        self.streams.insert(way, TrackedStream { stream, last_seen: self.now, since_ns: None });
    }

    fn touch(&mut self, way: Way) {
        if let Some(followed) = self.streams.get_mut(&way) {
            self.now += 1;
            self.quiet.remove(&followed.last_seen);
            followed.last_seen = self.now;
            self.quiet.insert(self.now, way);
        }
    }

    /// Does something with a stream, and notes what it keeps and since when it waits.
    fn change(
        &mut self,
        way: Way,
        queue: &mut MessageQueue,
        tally: &mut Tally,
        what: impl FnOnce(&mut Stream, &mut Out<'_>),
    ) {
        let Some(TrackedStream { stream, since_ns, .. }) = self.streams.get_mut(&way) else { return };
        let before = stream.bytes();
        what(stream, &mut Out { way, queue, tally });
        self.bytes = self.bytes + stream.bytes() - before;
        let since = stream.waits_since();
        if since != *since_ns {
            since_ns.map(|since_ns| self.gaps.remove(&(since_ns, way)));
            since.map(|since| self.gaps.insert((since, way)));
            *since_ns = since;
        }
    }

    /// Forgets a stream that is at its end, if nothing is missing; otherwise what is missing may yet come.
    fn close(&mut self, way: Way) {
        if let Some(TrackedStream { last_seen, .. }) = self.streams.get(&way).filter(|known| known.stream.bytes() == 0)
        {
            self.quiet.remove(last_seen);
            self.streams.remove(&way);
        }
    }

    fn give_up(&mut self, way: Way, queue: &mut MessageQueue, tally: &mut Tally) {
        self.change(way, queue, tally, Stream::end);
        self.close(way);
    }
}

/// RFC 9293 3.1.
fn read<'s>(packet: &Packet<'s>) -> Result<Segment<'s>, Unread> {
    let short = if packet.is_cut { Unread::CutShort } else { Unread::HeaderMalformed };
    let header = packet.payload.first_chunk::<20>().ok_or(short)?;
    let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let (header_bytes, flags) = (usize::from(header[12] >> 4) * 4, header[13]);
    if header_bytes < 20 {
        return Err(Unread::HeaderMalformed);
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

    /// Segments of one byte take more room beside it than for it.
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
                // It begins at 1, of which nothing comes.
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
        let waiting = tally.unread(Unread::SegmentPart) as usize;
        assert!(waiting <= most && waiting > most - PER_STREAM, "{waiting} of {most}");
        let given_up = (stream_count * (PER_STREAM - 1) - waiting) as u64;
        assert_eq!(tally.unread(Unread::SegmentAdrift), given_up);
        assert_eq!((streams.bytes, queue.len()), (waiting * (1 + WAITING_BYTES_BESIDES), 0));
        // Each has one segment less than it waits for, and all come to their end.
        while streams.end(&mut queue, &mut tally) {}
        assert_eq!(tally.unread(Unread::SegmentPart), 0);
        assert!(streams.bytes == 0 && streams.gaps.is_empty() && streams.quiet.is_empty());
    }
}
