//! One direction of a TCP connection, reassembled to extract its messages (RFC 1035 4.2.2).

use super::search::{FoundMessage, Search};
use crate::limits::{
    HEADER_BYTES, SEGMENTS_WAITING_MAX, SKIPPED_COUNT_MAX, STREAM_WINDOW_BYTES, WAITING_BYTES_BESIDES,
};
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, UnreadReason};
use std::net::SocketAddr;

/// Source and destination. Each direction is a separate stream.
pub(super) type FlowKey = (SocketAddr, SocketAddr);

/// Receives messages and counts segments.
pub(super) struct StreamOutput<'o> {
    pub(super) flow: FlowKey,
    pub(super) queue: &'o mut MessageQueue,
    pub(super) tally: &'o mut Tally,
}

/// A tracked stream.
pub(super) struct Stream {
    /// Sequence number of the first byte of the stream, or of the first byte seen.
    first: u32,
    /// Sequence number of the next byte.
    next: u32,
    position: Position,
    /// The incomplete message, including its length field.
    open: Vec<u8>,
    /// Time of its latest byte.
    open_ns: u64,
    /// Segments in it that were counted as parts.
    open_segments: u64,
    /// Segments after a gap.
    waiting: Vec<PendingSegment>,
    /// Gaps that were given up: first sequence number and length, latest last.
    skipped: Vec<(u32, u32)>,
}

/// Role of the next byte of the stream.
enum Position {
    /// The next byte begins a message or continues the open message.
    Known,
    /// The next byte belongs to a message that lost a part. The number is how many bytes of it are left.
    InLostMessage(usize),
    /// Unknown: the next message is searched for.
    Unknown(Search),
}

/// A segment after a gap.
struct PendingSegment {
    at_ns: u64,
    sequence: u32,
    bytes: Vec<u8>,
}

impl Stream {
    /// A stream whose start was captured, at this sequence number.
    pub(super) const fn from_start(first: u32) -> Self {
        Self {
            first,
            next: first,
            position: Position::Known,
            open: Vec::new(),
            open_ns: 0,
            open_segments: 0,
            waiting: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// A stream whose start was not captured. Earlier bytes are ignored.
    pub(super) fn mid_stream(first: u32) -> Self {
        let skipped = vec![(first.wrapping_sub(STREAM_WINDOW_BYTES), STREAM_WINDOW_BYTES)];
        Self { position: Position::Unknown(Search::default()), skipped, ..Self::from_start(first) }
    }

    /// Whether the stream starts at this sequence number: its SYN was repeated, or came after data.
    pub(super) const fn begins_at(&self, first: u32) -> bool {
        self.first == first
    }

    /// Whether this sequence number belongs to the stream, not to a later connection between the same ports.
    pub(super) const fn is_near(&self, sequence: u32) -> bool {
        (sequence.wrapping_sub(self.next) as i32).unsigned_abs() <= STREAM_WINDOW_BYTES
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|waiting| waiting.bytes.len() + WAITING_BYTES_BESIDES);
        let searched = if let Position::Unknown(search) = &self.position { search.memory_bytes() } else { 0 };
        self.open.len() + searched + waiting.sum::<usize>()
    }

    /// Since when data has been missing.
    pub(super) fn gap_since(&self) -> Option<u64> {
        self.waiting.iter().map(|waiting| waiting.at_ns).min()
    }

    /// Adds a segment that was counted as a part, and the segments that waited for it.
    pub(super) fn take(&mut self, at_ns: u64, sequence: u32, payload: &[u8], out: &mut StreamOutput<'_>) {
        // How many bytes before the expected position the segment begins. Negative: after a gap.
        let overlap = self.next.wrapping_sub(sequence) as i32;
        if overlap < 0 {
            let is_repeat =
                |waiting: &PendingSegment| waiting.sequence == sequence && waiting.bytes.len() >= payload.len();
            if self.waiting.iter().any(is_repeat) {
                return out.tally.resolve_waiting(UnreadReason::SegmentPart, Err(UnreadReason::SegmentRepeated));
            }
            self.waiting.push(PendingSegment { at_ns, sequence, bytes: payload.to_vec() });
            if self.waiting.len() > SEGMENTS_WAITING_MAX {
                self.skip(out);
            }
            return;
        }
        self.append_new(at_ns, sequence, payload, out);
        self.take_waiting(out);
    }

    /// Gives up on missing data and continues at the next message after the gap.
    pub(super) fn skip(&mut self, out: &mut StreamOutput<'_>) {
        let ahead = |waiting: &PendingSegment| waiting.sequence.wrapping_sub(self.next);
        let Some(bytes) = self.waiting.iter().map(ahead).min() else { return };
        // If a message lost a part, its length still shows where the next message begins.
        let in_lost = match self.position {
            Position::Known => self.bytes_left(),
            Position::InLostMessage(bytes_left) => Some(bytes_left),
            Position::Unknown(_) => None,
        };
        self.drop_open_message(out.tally);
        if let Some(bytes_left) = in_lost.and_then(|bytes_left| bytes_left.checked_sub(bytes as usize)) {
            self.position = Position::InLostMessage(bytes_left);
        }
        out.tally.bytes_missing += u64::from(bytes);
        if self.skipped.len() == SKIPPED_COUNT_MAX {
            self.skipped.remove(0);
        }
        self.skipped.push((self.next, bytes));
        self.next = self.next.wrapping_add(bytes);
        self.take_waiting(out);
    }

    /// Ends the stream.
    pub(super) fn end(&mut self, out: &mut StreamOutput<'_>) {
        while !self.waiting.is_empty() {
            self.skip(out);
        }
        self.drop_open_message(out.tally);
    }

    fn take_waiting(&mut self, out: &mut StreamOutput<'_>) {
        let is_due = |next: u32| move |waiting: &PendingSegment| next.wrapping_sub(waiting.sequence) as i32 >= 0;
        while let Some(index) = self.waiting.iter().position(is_due(self.next)) {
            let PendingSegment { at_ns, sequence, bytes } = self.waiting.swap_remove(index);
            self.append_new(at_ns, sequence, &bytes, out);
        }
    }

    /// Adds the new bytes of a segment that begins at or before the expected position.
    fn append_new(&mut self, at_ns: u64, sequence: u32, bytes: &[u8], out: &mut StreamOutput<'_>) {
        let overlap = self.next.wrapping_sub(sequence) as usize;
        let read = match bytes.get(overlap..).filter(|new| !new.is_empty()) {
            Some(new) => self.append(at_ns, new, out),
            // It arrived after its gap was given up.
            None if self.is_skipped(sequence, bytes.len() as u32) => Err(UnreadReason::SegmentUnsynced),
            None => Err(UnreadReason::SegmentRepeated),
        };
        out.tally.resolve_waiting(UnreadReason::SegmentPart, read);
    }

    fn is_skipped(&self, sequence: u32, bytes: u32) -> bool {
        let overlaps = |&(first, skipped): &(u32, u32)| {
            sequence.wrapping_sub(first) < skipped || first.wrapping_sub(sequence) < bytes
        };
        self.skipped.iter().any(overlaps)
    }

    /// Bytes missing from the open message, if its length is known.
    fn bytes_left(&self) -> Option<usize> {
        let length = self.open.first_chunk::<2>()?;
        (2 + usize::from(u16::from_be_bytes(*length))).checked_sub(self.open.len())
    }

    /// Drops the incomplete message.
    fn drop_open_message(&mut self, tally: &mut Tally) {
        if let Position::Unknown(search) = &mut self.position {
            let searched = search.give_up();
            tally.bytes_skipped += searched.skipped;
            tally.recount(UnreadReason::SegmentPart, UnreadReason::SegmentUnsynced, searched.segments);
        }
        tally.bytes_skipped += self.open.len() as u64;
        tally.recount(UnreadReason::SegmentPart, UnreadReason::SegmentUnsynced, self.open_segments);
        (self.position, self.open_segments) = (Position::Unknown(Search::default()), 0);
        self.open.clear();
    }

    /// Adds the next bytes and extracts complete messages. Returns their number.
    fn append(&mut self, at_ns: u64, mut new: &[u8], out: &mut StreamOutput<'_>) -> Result<u64, UnreadReason> {
        self.next = self.next.wrapping_add(new.len() as u32);
        if let Position::InLostMessage(bytes_left) = &mut self.position {
            let lost = new.len().min(*bytes_left);
            out.tally.bytes_skipped += lost as u64;
            *bytes_left -= lost;
            new = &new[lost..];
            if *bytes_left == 0 {
                self.position = Position::Known;
            }
            if new.is_empty() {
                return Err(UnreadReason::SegmentUnsynced);
            }
        }
        match &mut self.position {
            Position::Unknown(search) => {
                let searched = search.add(at_ns, new);
                out.tally.bytes_skipped += searched.skipped;
                let is_kept = searched.found.is_some() || !search.is_empty();
                // The caller counts the segment added last.
                let earlier = searched.segments.saturating_sub(u64::from(!is_kept));
                out.tally.recount(UnreadReason::SegmentPart, UnreadReason::SegmentUnsynced, earlier);
                let unread = if is_kept { UnreadReason::SegmentPart } else { UnreadReason::SegmentUnsynced };
                let FoundMessage { bytes, at_ns, earlier_segments } = searched.found.ok_or(unread)?;
                self.position = Position::Known;
                (self.open, self.open_ns, self.open_segments) = (bytes, at_ns, earlier_segments);
            }
            _ => {
                self.open_ns = if self.open.is_empty() { at_ns } else { self.open_ns.max(at_ns) };
                self.open.extend_from_slice(new);
            }
        }
        self.extract_messages(at_ns, out)
    }

    /// Extracts the complete messages.
    fn extract_messages(&mut self, at_ns: u64, out: &mut StreamOutput<'_>) -> Result<u64, UnreadReason> {
        let (mut used, mut found) = (0, 0);
        while let Some((length, rest)) = self.open[used..].split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if length < HEADER_BYTES {
                // The following bytes are probably no message either.
                self.open.drain(..used);
                self.drop_open_message(out.tally);
                return if found == 0 { Err(UnreadReason::TooShort) } else { Ok(found) };
            }
            let Some(bytes) = rest.get(..length) else { break };
            let (source, destination) = out.flow;
            let message = Message { at_ns: self.open_ns, source, destination, transport: Transport::Tcp, bytes };
            out.queue.push(message);
            // Messages after the first one are only in this segment.
            self.open_ns = at_ns;
            (used, found) = (used + 2 + length, found + 1);
        }
        self.open.drain(..used);
        if found > 0 {
            // The segment is counted by its messages. Others continue the message that it leaves incomplete.
            self.open_segments = 0;
            return Ok(found);
        }
        self.open_segments += 1;
        Err(UnreadReason::SegmentPart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x00\x11\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01";

    /// Feeds segments (sequence number and payload), one per nanosecond. Returns the messages with their times, and the
    /// tally.
    fn run(mut stream: Stream, segments: &[(u32, &[u8])]) -> (Vec<(u64, Vec<u8>)>, Tally) {
        let flow = (([192, 0, 2, 1], 4_000).into(), ([192, 0, 2, 53], 53).into());
        let (mut queue, mut tally, mut found) = (MessageQueue::default(), Tally::default(), Vec::new());
        for (at_ns, &(sequence, payload)) in (0..).zip(segments) {
            tally.records += 1;
            tally.count(UnreadReason::SegmentPart);
            stream.take(at_ns, sequence, payload, &mut StreamOutput { flow, queue: &mut queue, tally: &mut tally });
        }
        while let Some(message) = queue.pop() {
            found.push((message.at_ns, message.bytes.to_vec()));
        }
        let unread: u64 = tally.all_unread().map(|(_, count)| count).sum();
        assert_eq!(tally.records, tally.messages - tally.further_messages + unread, "{tally:?}");
        (found, tally)
    }

    /// The query at each of these times.
    fn queries(times: impl IntoIterator<Item = u64>) -> Vec<(u64, Vec<u8>)> {
        times.into_iter().map(|at_ns| (at_ns, QUERY[2..].to_vec())).collect()
    }

    #[test]
    fn a_message_over_reordered_segments_is_read_once() {
        let parts: Vec<_> = QUERY.chunks(5).enumerate().map(|(at, part)| (100 + 5 * at as u32, part)).collect();
        let (found, tally) =
            run(Stream::from_start(100), &[parts[0], parts[2], parts[2], parts[1], parts[3], parts[0]]);
        assert_eq!(found, queries([4]));
        assert_eq!((tally.unread(UnreadReason::SegmentPart), tally.unread(UnreadReason::SegmentRepeated)), (3, 2));
    }

    #[test]
    fn several_messages_in_one_segment_are_separated() {
        let all = [QUERY, QUERY, QUERY].concat();
        let (found, tally) = run(Stream::from_start(u32::MAX - 3), &[(u32::MAX - 3, &all)]);
        assert_eq!((found, tally.further_messages), (queries([0; 3]), 2));
    }

    #[test]
    fn the_next_message_is_found_without_a_stream_start() {
        let segments: [(u32, &[u8]); 4] = [(100, &QUERY[7..]), (112, QUERY), (131, QUERY), (81, QUERY)];
        let (found, tally) = run(Stream::mid_stream(100), &segments);
        assert_eq!(found, queries([1, 2]));
        // The last segment is older than the first byte seen.
        assert_eq!(tally.unread(UnreadReason::SegmentUnsynced), 2);
    }

    #[test]
    fn a_message_has_the_time_of_its_last_byte() {
        // Part of the second message and the third message arrive before the end of the first.
        let segments: [(u32, &[u8]); 4] =
            [(100, &QUERY[..9]), (119, &QUERY[..9]), (128, &[&QUERY[9..], QUERY].concat()), (109, &QUERY[9..])];
        let (found, tally) = run(Stream::from_start(100), &segments);
        assert_eq!(found, queries([3, 2, 2]));
        assert_eq!((tally.further_messages, tally.unread(UnreadReason::SegmentPart)), (1, 2));
    }

    #[test]
    fn missing_data_is_eventually_skipped() {
        let mut segments = vec![(100, &QUERY[..9])];
        // The rest of the first message is missing. Complete messages follow.
        segments.extend((1..=SEGMENTS_WAITING_MAX as u32 + 1).map(|at| (100 + 19 * at, QUERY)));
        // Two more gaps than are remembered.
        let gaps = SKIPPED_COUNT_MAX as u32 + 2;
        let (found, tally) = run(Stream::from_start(100), &segments);
        assert_eq!(found, queries(1..=SEGMENTS_WAITING_MAX as u64 + 1));
        assert_eq!((tally.unread(UnreadReason::SegmentUnsynced), tally.unread(UnreadReason::SegmentPart)), (1, 0));
        let (mut stream, mut queue, mut tally) = (Stream::from_start(0), MessageQueue::default(), Tally::default());
        let flow = (([192, 0, 2, 1], 4_000).into(), ([192, 0, 2, 53], 53).into());
        let mut out = StreamOutput { flow, queue: &mut queue, tally: &mut tally };
        for at in 1..=gaps {
            out.tally.count(UnreadReason::SegmentPart);
            stream.take(0, 38 * at, QUERY, &mut out);
        }
        stream.end(&mut out);
        assert_eq!((stream.skipped.len(), out.tally.messages), (SKIPPED_COUNT_MAX, u64::from(gaps)));
    }
}
