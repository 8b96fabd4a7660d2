//! TCP streams, put together far enough to cut messages out of them (RFC 1035 4.2.2).

use super::ip::Packet;
use crate::held::Held;
use crate::limits::{
    HEADER_OCTETS, SEGMENT_OCTETS_WAITING_MAX, SEGMENTS_WAITING_MAX, STREAM_COUNT_MAX, WAITING_OCTETS_BESIDES,
};
use crate::message::{Message, Transport};
use crate::tally::{Tally, Unread};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// From whom to whom: each direction is a stream of its own.
type Way = (SocketAddr, SocketAddr);

/// The streams that are followed.
#[derive(Default)]
pub(super) struct Streams {
    streams: BTreeMap<Way, Stream>,
    /// When each was last heard of, counted in segments; the first is given up for another.
    quiet: BTreeMap<u64, Way>,
    now: u64,
    /// What all of them keep.
    octets: usize,
}

struct Stream {
    /// The number of the octet that comes next.
    next: u32,
    /// Whether that octet is known to begin a message, or to continue the one that is open.
    is_in_step: bool,
    /// Of the message that is open, its length too.
    open: Vec<u8>,
    /// Segments that are in it and were counted as parts.
    open_segments: u64,
    /// What came ahead of its time.
    waiting: Vec<(u32, Vec<u8>)>,
    heard: u64,
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

impl Streams {
    /// Takes a segment; whole messages go to `held`.
    pub(super) fn take(
        &mut self,
        at_ns: u64,
        way: Way,
        packet: &Packet<'_>,
        held: &mut Held,
        tally: &mut Tally,
    ) -> Result<(), Unread> {
        let short = if packet.is_cut { Unread::CutShort } else { Unread::HeaderMalformed };
        let header = packet.payload.first_chunk::<20>().ok_or(short)?;
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let (header_octets, flags) = (usize::from(header[12] >> 4) * 4, header[13]);
        if header_octets < 20 {
            return Err(Unread::HeaderMalformed);
        }
        let payload = packet.payload.get(header_octets..).ok_or(short)?;
        if flags & SYN != 0 {
            self.give_up(way, tally);
            self.open(way, Stream::new(sequence.wrapping_add(1), true), tally);
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
        let first = if flags & SYN == 0 { sequence } else { sequence.wrapping_add(1) };
        if !self.streams.contains_key(&way) {
            self.open(way, Stream::new(first, false), tally);
        }
        self.now += 1;
        let stream = self.streams.get_mut(&way).ok_or(Unread::SegmentAdrift)?;
        self.quiet.remove(&stream.heard);
        stream.heard = self.now;
        self.quiet.insert(self.now, way);
        let before = stream.octets();
        let found = stream.take(first, payload, tally, |octets| {
            let (source, destination) = way;
            held.push(Message { at_ns, source, destination, transport: Transport::Tcp, octets });
        });
        self.octets = self.octets + stream.octets() - before;
        if flags & RST != 0 {
            self.close(way);
        }
        while self.octets > SEGMENT_OCTETS_WAITING_MAX {
            let Some((_, &oldest)) = self.quiet.first_key_value() else { break };
            self.give_up(oldest, tally);
        }
        found
    }

    /// There will be no more.
    pub(super) fn end(&mut self, tally: &mut Tally) {
        while let Some((&way, _)) = self.streams.first_key_value() {
            self.give_up(way, tally);
        }
    }

    fn open(&mut self, way: Way, mut stream: Stream, tally: &mut Tally) {
        if self.streams.len() >= STREAM_COUNT_MAX
            && let Some((_, &oldest)) = self.quiet.first_key_value()
        {
            self.give_up(oldest, tally);
        }
        self.now += 1;
        stream.heard = self.now;
        self.quiet.insert(self.now, way);
        self.streams.insert(way, stream);
    }

    /// Forgets a stream that is at its end, if nothing is missing; otherwise what is missing may yet come.
    fn close(&mut self, way: Way) {
        if let Some(stream) = self.streams.get(&way).filter(|stream| stream.octets() == 0) {
            self.quiet.remove(&stream.heard);
            self.streams.remove(&way);
        }
    }

    fn give_up(&mut self, way: Way, tally: &mut Tally) {
        if let Some(stream) = self.streams.remove(&way) {
            self.quiet.remove(&stream.heard);
            self.octets -= stream.octets();
            tally.recount(
                Unread::SegmentPart,
                Unread::SegmentAdrift,
                stream.open_segments + stream.waiting.len() as u64,
            );
        }
    }
}

impl Stream {
    const fn new(next: u32, is_in_step: bool) -> Self {
        Self { next, is_in_step, open: Vec::new(), open_segments: 0, waiting: Vec::new(), heard: 0 }
    }

    fn octets(&self) -> usize {
        let waiting = self.waiting.iter().map(|(_, octets)| octets.len() + WAITING_OCTETS_BESIDES);
        self.open.len() + waiting.sum::<usize>()
    }

    /// Takes a segment, and what waited for it.
    fn take(
        &mut self,
        sequence: u32,
        payload: &[u8],
        tally: &mut Tally,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Unread> {
        // How far the segment begins before the octet that comes next: less than zero is ahead of it.
        let behind = self.next.wrapping_sub(sequence) as i32;
        if behind < 0 {
            if self.waiting.iter().any(|(waiting, octets)| *waiting == sequence && octets.len() >= payload.len()) {
                return Err(Unread::SegmentAgain);
            }
            self.waiting.push((sequence, payload.to_vec()));
            if self.waiting.len() > SEGMENTS_WAITING_MAX {
                self.skip(tally, &mut each);
            }
            return Err(Unread::SegmentPart);
        }
        let Some(new) = payload.get(behind as usize..).filter(|new| !new.is_empty()) else {
            return Err(Unread::SegmentAgain);
        };
        let found = self.append(new, tally, &mut each);
        self.take_waiting(tally, &mut each);
        found
    }

    fn take_waiting(&mut self, tally: &mut Tally, each: &mut impl FnMut(&[u8])) {
        let is_due = |next: u32| move |(sequence, _): &(u32, Vec<u8>)| next.wrapping_sub(*sequence) as i32 >= 0;
        while let Some(index) = self.waiting.iter().position(is_due(self.next)) {
            let (sequence, octets) = self.waiting.swap_remove(index);
            let behind = self.next.wrapping_sub(sequence) as usize;
            match octets.get(behind..).filter(|new| !new.is_empty()) {
                Some(new) => {
                    // It was counted when it came.
                    if self.append(new, tally, each) == Err(Unread::SegmentAdrift) {
                        tally.recount(Unread::SegmentPart, Unread::SegmentAdrift, 1);
                    }
                }
                None => tally.recount(Unread::SegmentPart, Unread::SegmentAgain, 1),
            }
        }
    }

    /// What is missing never came: goes on behind it.
    fn skip(&mut self, tally: &mut Tally, each: &mut impl FnMut(&[u8])) {
        let ahead = |(sequence, _): &(u32, Vec<u8>)| sequence.wrapping_sub(self.next);
        let Some(next) = self.waiting.iter().min_by_key(|waiting| ahead(waiting)).map(|(sequence, _)| *sequence) else {
            return;
        };
        self.let_go(tally);
        self.next = next;
        self.take_waiting(tally, each);
    }

    /// The message that is open never ends.
    fn let_go(&mut self, tally: &mut Tally) {
        tally.recount(Unread::SegmentPart, Unread::SegmentAdrift, self.open_segments);
        (self.is_in_step, self.open_segments) = (false, 0);
        self.open.clear();
    }

    /// Adds what comes next, and cuts off the messages that are whole.
    fn append(&mut self, new: &[u8], tally: &mut Tally, each: &mut impl FnMut(&[u8])) -> Result<(), Unread> {
        self.next = self.next.wrapping_add(new.len() as u32);
        if !self.is_in_step {
            if !begins_message(new) {
                return Err(Unread::SegmentAdrift);
            }
            self.is_in_step = true;
        }
        self.open.extend_from_slice(new);
        let (mut used, mut found) = (0, 0);
        while let Some((length, rest)) = self.open[used..].split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if length < HEADER_OCTETS {
                // What follows is as likely to be no message.
                self.let_go(tally);
                return if found == 0 { Err(Unread::TooShort) } else { Ok(()) };
            }
            let Some(message) = rest.get(..length) else { break };
            each(message);
            (used, found) = (used + 2 + length, found + 1);
        }
        self.open.drain(..used);
        if found > 0 {
            // The segment is counted by its messages; what it leaves open is carried on by others.
            self.open_segments = 0;
            return Ok(());
        }
        self.open_segments += 1;
        Err(Unread::SegmentPart)
    }
}

/// Whether a message seems to begin here: where nothing is known of a stream, that is all there is to go by.
fn begins_message(octets: &[u8]) -> bool {
    let Some((length, rest)) = octets.split_first_chunk::<2>() else { return false };
    let length = usize::from(u16::from_be_bytes(*length));
    let Some(header) = rest.first_chunk::<HEADER_OCTETS>() else { return false };
    // Opcodes that are assigned (RFC 6895 2.2), one question at most, and the bit that is zero.
    let is_assigned = matches!(header[2] >> 3 & 0x0F, 0 | 2 | 4 | 5 | 6);
    let has_question_at_most = header[4] == 0 && header[5] <= 1;
    length >= HEADER_OCTETS && is_assigned && has_question_at_most && header[3] & 0x40 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x00\x11\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01";

    /// Segments by number and payload, into a stream that begins at 100; what came out, and what was counted.
    fn run(stream: Stream, segments: &[(u32, &[u8])]) -> (Vec<Vec<u8>>, Tally) {
        let (mut stream, mut tally, mut found) = (stream, Tally::default(), Vec::new());
        for &(sequence, payload) in segments {
            let before = found.len();
            if let Err(unread) = stream.take(sequence, payload, &mut tally, |octets| found.push(octets.to_vec()))
                && found.len() == before
            {
                tally.count(unread);
            }
        }
        (found, tally)
    }

    #[test]
    fn a_message_over_many_segments_in_any_order_comes_once() {
        let parts: Vec<_> = QUERY.chunks(5).enumerate().map(|(at, part)| (100 + 5 * at as u32, part)).collect();
        let (found, tally) = run(Stream::new(100, true), &[parts[0], parts[2], parts[2], parts[1], parts[3], parts[0]]);
        assert_eq!(found, [&QUERY[2..]]);
        assert_eq!((tally.unread(Unread::SegmentPart), tally.unread(Unread::SegmentAgain)), (3, 2));
    }

    #[test]
    fn many_messages_in_one_segment_come_apart() {
        let (found, _) = run(Stream::new(u32::MAX - 3, true), &[(u32::MAX - 3, &[QUERY, QUERY, QUERY].concat())]);
        assert_eq!(found, [&QUERY[2..]; 3]);
    }

    #[test]
    fn without_a_beginning_the_next_message_is_found() {
        let (found, tally) = run(Stream::new(100, false), &[(100, &QUERY[7..]), (112, QUERY), (131, QUERY)]);
        assert_eq!(found, [&QUERY[2..]; 2]);
        assert_eq!(tally.unread(Unread::SegmentAdrift), 1);
    }

    /// Segments of one octet take more room beside it than for it.
    #[test]
    fn however_small_segments_are_what_waits_is_bounded() {
        const PER_STREAM: usize = 200;
        let (mut streams, mut held, mut tally) = (Streams::default(), Held::default(), Tally::default());
        let server = SocketAddr::from(([192, 0, 2, 53], 53));
        let most = SEGMENT_OCTETS_WAITING_MAX / (1 + WAITING_OCTETS_BESIDES);
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
                let taken = streams.take(0, (client, server), &packet, &mut held, &mut tally);
                taken.inspect_err(|unread| tally.count(*unread)).unwrap_err();
            }
        }
        let waiting: usize = streams.streams.values().map(|stream| stream.waiting.len()).sum();
        assert!(waiting <= most && waiting > most - PER_STREAM, "{waiting} of {most}");
        let given_up = (stream_count * (PER_STREAM - 1) - waiting) as u64;
        assert_eq!(tally.unread(Unread::SegmentAdrift), given_up);
    }

    #[test]
    fn what_never_comes_is_skipped_in_the_end() {
        let mut segments = vec![(100, &QUERY[..9])];
        // The rest of the first is missing, and then come whole ones.
        segments.extend((1..=SEGMENTS_WAITING_MAX as u32 + 1).map(|at| (100 + 19 * at, QUERY)));
        let (found, tally) = run(Stream::new(100, true), &segments);
        assert_eq!(found.len(), SEGMENTS_WAITING_MAX + 1);
        assert_eq!(tally.unread(Unread::SegmentAdrift), 1);
    }
}
