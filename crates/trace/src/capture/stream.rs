//! One direction of a TCP connection, put together far enough to cut messages out of it (RFC 1035 4.2.2).

use super::search::{Found, Search};
use crate::limits::{
    HEADER_BYTES, SEGMENTS_WAITING_MAX, SKIPPED_COUNT_MAX, STREAM_WINDOW_BYTES, WAITING_BYTES_BESIDES,
};
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, Unread};
use std::net::SocketAddr;

/// From whom to whom: each direction is a stream of its own.
pub(super) type Way = (SocketAddr, SocketAddr);

/// Where messages go, and what becomes of segments.
pub(super) struct Out<'o> {
    pub(super) way: Way,
    pub(super) queue: &'o mut MessageQueue,
    pub(super) tally: &'o mut Tally,
}

/// One that is followed.
pub(super) struct Stream {
    /// The number of its first byte, if it was captured from its beginning on, or from where it was first seen.
    first: u32,
    /// The number of the byte that comes next.
    next: u32,
    step: Step,
    /// Of the message that is open, its length too.
    open: Vec<u8>,
    /// When the latest of its bytes was seen.
    open_ns: u64,
    /// Segments that are in it and were counted as parts.
    open_segments: u64,
    /// What came ahead of its time.
    waiting: Vec<Waiting>,
    /// What was not waited for any longer: number of the first byte, and how many. The latest last.
    skipped: Vec<(u32, u32)>,
}

/// Role of the next byte of the stream.
enum Step {
    /// The next byte begins a message or continues the open message.
    Known,
    /// The next byte belongs to a message that lost a part. The number is how many bytes of it are left.
    InLost(usize),
    /// Unknown: the next message is searched for.
    Unknown(Search),
}

/// A segment that came before one that is missing.
struct Waiting {
    at_ns: u64,
    sequence: u32,
    bytes: Vec<u8>,
}

impl Stream {
    /// One whose beginning was captured, at this number.
    pub(super) const fn begun(first: u32) -> Self {
        Self {
            first,
            next: first,
            step: Step::Known,
            open: Vec::new(),
            open_ns: 0,
            open_segments: 0,
            waiting: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// One that is seen from somewhere on: what is before that never was.
    pub(super) fn adrift(first: u32) -> Self {
        let skipped = vec![(first.wrapping_sub(STREAM_WINDOW_BYTES), STREAM_WINDOW_BYTES)];
        Self { step: Step::Unknown(Search::default()), skipped, ..Self::begun(first) }
    }

    /// Whether it is the one whose first byte has this number: its SYN is seen again, or after its data.
    pub(super) const fn begins_at(&self, first: u32) -> bool {
        self.first == first
    }

    /// Whether bytes with this number belong to it, and not to a later connection between the same ports.
    pub(super) const fn is_near(&self, sequence: u32) -> bool {
        (sequence.wrapping_sub(self.next) as i32).unsigned_abs() <= STREAM_WINDOW_BYTES
    }

    /// What it keeps.
    pub(super) fn bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|waiting| waiting.bytes.len() + WAITING_BYTES_BESIDES);
        let searched = if let Step::Unknown(search) = &self.step { search.kept() } else { 0 };
        self.open.len() + searched + waiting.sum::<usize>()
    }

    /// Since when something is missing.
    pub(super) fn waits_since(&self) -> Option<u64> {
        self.waiting.iter().map(|waiting| waiting.at_ns).min()
    }

    /// Takes a segment that was counted as a part, and what waited for it.
    pub(super) fn take(&mut self, at_ns: u64, sequence: u32, payload: &[u8], out: &mut Out<'_>) {
        // How far the segment begins before the byte that comes next: less than zero is ahead of it.
        let behind = self.next.wrapping_sub(sequence) as i32;
        if behind < 0 {
            let again = |waiting: &Waiting| waiting.sequence == sequence && waiting.bytes.len() >= payload.len();
            if self.waiting.iter().any(again) {
                return out.tally.settle(Unread::SegmentPart, Err(Unread::SegmentAgain));
            }
            self.waiting.push(Waiting { at_ns, sequence, bytes: payload.to_vec() });
            if self.waiting.len() > SEGMENTS_WAITING_MAX {
                self.skip(out);
            }
            return;
        }
        self.append_new(at_ns, sequence, payload, out);
        self.take_waiting(out);
    }

    /// Gives up on missing data and continues at the next message after the gap.
    pub(super) fn skip(&mut self, out: &mut Out<'_>) {
        let ahead = |waiting: &Waiting| waiting.sequence.wrapping_sub(self.next);
        let Some(bytes) = self.waiting.iter().map(ahead).min() else { return };
        // If a message lost a part, its length still shows where the next message begins.
        let in_lost = match self.step {
            Step::Known => self.to_come(),
            Step::InLost(to_come) => Some(to_come),
            Step::Unknown(_) => None,
        };
        self.let_go(out.tally);
        if let Some(to_come) = in_lost.and_then(|to_come| to_come.checked_sub(bytes as usize)) {
            self.step = Step::InLost(to_come);
        }
        out.tally.bytes_missing += u64::from(bytes);
        if self.skipped.len() == SKIPPED_COUNT_MAX {
            self.skipped.remove(0);
        }
        self.skipped.push((self.next, bytes));
        self.next = self.next.wrapping_add(bytes);
        self.take_waiting(out);
    }

    /// There will be no more of it.
    pub(super) fn end(&mut self, out: &mut Out<'_>) {
        while !self.waiting.is_empty() {
            self.skip(out);
        }
        self.let_go(out.tally);
    }

    fn take_waiting(&mut self, out: &mut Out<'_>) {
        let is_due = |next: u32| move |waiting: &Waiting| next.wrapping_sub(waiting.sequence) as i32 >= 0;
        while let Some(index) = self.waiting.iter().position(is_due(self.next)) {
            let Waiting { at_ns, sequence, bytes } = self.waiting.swap_remove(index);
            self.append_new(at_ns, sequence, &bytes, out);
        }
    }

    /// Adds what is new of a segment that begins no later than the byte that comes next.
    fn append_new(&mut self, at_ns: u64, sequence: u32, bytes: &[u8], out: &mut Out<'_>) {
        let behind = self.next.wrapping_sub(sequence) as usize;
        let read = match bytes.get(behind..).filter(|new| !new.is_empty()) {
            Some(new) => self.append(at_ns, new, out),
            // It came when it was waited for no longer.
            None if self.is_skipped(sequence, bytes.len() as u32) => Err(Unread::SegmentAdrift),
            None => Err(Unread::SegmentAgain),
        };
        out.tally.settle(Unread::SegmentPart, read);
    }

    fn is_skipped(&self, sequence: u32, bytes: u32) -> bool {
        let overlaps = |&(first, skipped): &(u32, u32)| {
            sequence.wrapping_sub(first) < skipped || first.wrapping_sub(sequence) < bytes
        };
        self.skipped.iter().any(overlaps)
    }

    /// Bytes missing from the open message, if its length is known.
    fn to_come(&self) -> Option<usize> {
        let length = self.open.first_chunk::<2>()?;
        (2 + usize::from(u16::from_be_bytes(*length))).checked_sub(self.open.len())
    }

    /// The message that is open never ends.
    fn let_go(&mut self, tally: &mut Tally) {
        if let Step::Unknown(search) = &mut self.step {
            let searched = search.give_up();
            tally.bytes_skipped += searched.skipped;
            tally.recount(Unread::SegmentPart, Unread::SegmentAdrift, searched.segments);
        }
        tally.bytes_skipped += self.open.len() as u64;
        tally.recount(Unread::SegmentPart, Unread::SegmentAdrift, self.open_segments);
        (self.step, self.open_segments) = (Step::Unknown(Search::default()), 0);
        self.open.clear();
    }

    /// Adds what comes next, and cuts off the messages that are whole: how many.
    fn append(&mut self, at_ns: u64, mut new: &[u8], out: &mut Out<'_>) -> Result<u64, Unread> {
        self.next = self.next.wrapping_add(new.len() as u32);
        if let Step::InLost(to_come) = &mut self.step {
            let lost = new.len().min(*to_come);
            out.tally.bytes_skipped += lost as u64;
            *to_come -= lost;
            new = &new[lost..];
            if *to_come == 0 {
                self.step = Step::Known;
            }
            if new.is_empty() {
                return Err(Unread::SegmentAdrift);
            }
        }
        match &mut self.step {
            Step::Unknown(search) => {
                let searched = search.add(at_ns, new);
                out.tally.bytes_skipped += searched.skipped;
                let is_kept = searched.found.is_some() || !search.is_empty();
                // The caller counts the segment added last.
                let earlier = searched.segments.saturating_sub(u64::from(!is_kept));
                out.tally.recount(Unread::SegmentPart, Unread::SegmentAdrift, earlier);
                let unread = if is_kept { Unread::SegmentPart } else { Unread::SegmentAdrift };
                let Found { bytes, at_ns, earlier_segments } = searched.found.ok_or(unread)?;
                self.step = Step::Known;
                (self.open, self.open_ns, self.open_segments) = (bytes, at_ns, earlier_segments);
            }
            _ => {
                self.open_ns = if self.open.is_empty() { at_ns } else { self.open_ns.max(at_ns) };
                self.open.extend_from_slice(new);
            }
        }
        self.cut(at_ns, out)
    }

    /// Extracts the complete messages.
    fn cut(&mut self, at_ns: u64, out: &mut Out<'_>) -> Result<u64, Unread> {
        let (mut used, mut found) = (0, 0);
        while let Some((length, rest)) = self.open[used..].split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if length < HEADER_BYTES {
                // What follows is as likely to be no message.
                self.open.drain(..used);
                self.let_go(out.tally);
                return if found == 0 { Err(Unread::TooShort) } else { Ok(found) };
            }
            let Some(bytes) = rest.get(..length) else { break };
            let (source, destination) = out.way;
            let message = Message { at_ns: self.open_ns, source, destination, transport: Transport::Tcp, bytes };
            out.queue.push(message);
            // Those that follow are in this segment alone.
            self.open_ns = at_ns;
            (used, found) = (used + 2 + length, found + 1);
        }
        self.open.drain(..used);
        if found > 0 {
            // The segment is counted by its messages; what it leaves open is carried on by others.
            self.open_segments = 0;
            return Ok(found);
        }
        self.open_segments += 1;
        Err(Unread::SegmentPart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x00\x11\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01";

    /// Segments by number and payload, one each nanosecond, into a stream; what came out and when, and what was
    /// counted.
    fn run(mut stream: Stream, segments: &[(u32, &[u8])]) -> (Vec<(u64, Vec<u8>)>, Tally) {
        let way = (([192, 0, 2, 1], 4_000).into(), ([192, 0, 2, 53], 53).into());
        let (mut queue, mut tally, mut found) = (MessageQueue::default(), Tally::default(), Vec::new());
        for (at_ns, &(sequence, payload)) in (0..).zip(segments) {
            tally.records += 1;
            tally.count(Unread::SegmentPart);
            stream.take(at_ns, sequence, payload, &mut Out { way, queue: &mut queue, tally: &mut tally });
        }
        while let Some(message) = queue.pop() {
            found.push((message.at_ns, message.bytes.to_vec()));
        }
        let unread: u64 = tally.all_unread().map(|(_, count)| count).sum();
        assert_eq!(tally.records, tally.messages - tally.further_messages + unread, "{tally:?}");
        (found, tally)
    }

    /// The query, at each of these times.
    fn queries(times: impl IntoIterator<Item = u64>) -> Vec<(u64, Vec<u8>)> {
        times.into_iter().map(|at_ns| (at_ns, QUERY[2..].to_vec())).collect()
    }

    #[test]
    fn a_message_over_many_segments_in_any_order_comes_once() {
        let parts: Vec<_> = QUERY.chunks(5).enumerate().map(|(at, part)| (100 + 5 * at as u32, part)).collect();
        let (found, tally) = run(Stream::begun(100), &[parts[0], parts[2], parts[2], parts[1], parts[3], parts[0]]);
        assert_eq!(found, queries([4]));
        assert_eq!((tally.unread(Unread::SegmentPart), tally.unread(Unread::SegmentAgain)), (3, 2));
    }

    #[test]
    fn many_messages_in_one_segment_come_apart() {
        let all = [QUERY, QUERY, QUERY].concat();
        let (found, tally) = run(Stream::begun(u32::MAX - 3), &[(u32::MAX - 3, &all)]);
        assert_eq!((found, tally.further_messages), (queries([0; 3]), 2));
    }

    #[test]
    fn without_a_beginning_the_next_message_is_found() {
        let segments: [(u32, &[u8]); 4] = [(100, &QUERY[7..]), (112, QUERY), (131, QUERY), (81, QUERY)];
        let (found, tally) = run(Stream::adrift(100), &segments);
        assert_eq!(found, queries([1, 2]));
        // The last is from before the stream was seen, and nobody saw it before.
        assert_eq!(tally.unread(Unread::SegmentAdrift), 2);
    }

    #[test]
    fn a_message_has_the_time_of_the_byte_that_came_last() {
        // The first part of the second message, and the third message, come before the end of the first.
        let segments: [(u32, &[u8]); 4] =
            [(100, &QUERY[..9]), (119, &QUERY[..9]), (128, &[&QUERY[9..], QUERY].concat()), (109, &QUERY[9..])];
        let (found, tally) = run(Stream::begun(100), &segments);
        assert_eq!(found, queries([3, 2, 2]));
        assert_eq!((tally.further_messages, tally.unread(Unread::SegmentPart)), (1, 2));
    }

    #[test]
    fn missing_data_is_skipped_in_the_end() {
        let mut segments = vec![(100, &QUERY[..9])];
        // The rest of the first is missing, and then come whole ones.
        segments.extend((1..=SEGMENTS_WAITING_MAX as u32 + 1).map(|at| (100 + 19 * at, QUERY)));
        // Two gaps more than are remembered.
        let gaps = SKIPPED_COUNT_MAX as u32 + 2;
        let (found, tally) = run(Stream::begun(100), &segments);
        assert_eq!(found, queries(1..=SEGMENTS_WAITING_MAX as u64 + 1));
        assert_eq!((tally.unread(Unread::SegmentAdrift), tally.unread(Unread::SegmentPart)), (1, 0));
        let (mut stream, mut queue, mut tally) = (Stream::begun(0), MessageQueue::default(), Tally::default());
        let way = (([192, 0, 2, 1], 4_000).into(), ([192, 0, 2, 53], 53).into());
        let mut out = Out { way, queue: &mut queue, tally: &mut tally };
        for at in 1..=gaps {
            out.tally.count(Unread::SegmentPart);
            stream.take(0, 38 * at, QUERY, &mut out);
        }
        stream.end(&mut out);
        assert_eq!((stream.skipped.len(), out.tally.messages), (SKIPPED_COUNT_MAX, u64::from(gaps)));
    }
}
