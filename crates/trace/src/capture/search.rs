//! Finds the next message in a TCP stream after lost data (RFC 1035 4.2.2).
//!
//! ```text
//!   lost part | rest of a message | length, header, question ... | length, header ...
//!               skipped, counted    the first place that is a message
//! ```

use crate::limits::{HEADER_BYTES, MESSAGE_STARTS_MAX};
use std::collections::VecDeque;
use wire::parse::{FirstQuestion, Message, ParseError};

/// Size of a message's length field and header, the minimum for a first check.
const HEAD_BYTES: usize = 2 + HEADER_BYTES;
/// Memory for a part in addition to its data.
const SEGMENT_BYTES: usize = size_of::<Segment>();

/// Stream data that is searched for a message. Data that cannot begin a message is dropped.
#[derive(Default)]
pub(super) struct Search {
    bytes: Vec<u8>,
    /// Start of each segment in `bytes`.
    parts: VecDeque<Segment>,
    /// Possible message starts in ascending order. Later data decides whether each is a message.
    candidates: VecDeque<usize>,
    /// All positions before this one were checked.
    checked: usize,
}

/// A segment, or its remaining part.
struct Segment {
    at: usize,
    at_ns: u64,
    /// Whether its first bytes were dropped.
    is_rest: bool,
}

/// Result of adding data to a search.
#[derive(Default)]
pub(super) struct SearchResult {
    /// Number of skipped bytes: no message begins in them.
    pub(super) skipped: u64,
    /// Number of segments that were skipped completely. If nothing is kept, this includes the segment added last.
    pub(super) segments: u64,
    /// The message, if the search found it.
    pub(super) found: Option<FoundMessage>,
}

/// Data that begins with a message.
pub(super) struct FoundMessage {
    pub(super) bytes: Vec<u8>,
    /// Capture time of the latest segment in `bytes`.
    pub(super) at_ns: u64,
    /// Number of segments in `bytes` before the segment added last.
    pub(super) earlier_segments: u64,
}

/// Whether a message begins at a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageStart {
    No,
    /// Not known yet: more data is needed.
    Undecided,
    Yes,
}

impl Search {
    /// Whether the search keeps no data.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Memory in use, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.parts.len() * SEGMENT_BYTES
    }

    /// Adds the next data of the stream and continues the search.
    pub(super) fn add(&mut self, at_ns: u64, new: &[u8]) -> SearchResult {
        self.parts.push_back(Segment { at: self.bytes.len(), at_ns, is_rest: false });
        self.bytes.extend_from_slice(new);
        if let Some(at) = self.find() {
            let mut searched = self.drop_before(at);
            let at_ns = self.parts.iter().map(|part| part.at_ns).max().unwrap_or(at_ns);
            let earlier_segments = (self.parts.len() as u64).saturating_sub(1);
            let bytes = std::mem::take(self).bytes;
            searched.found = Some(FoundMessage { bytes, at_ns, earlier_segments });
            return searched;
        }
        self.drop_before(self.candidates.front().map_or(self.checked, |&first| first.min(self.checked)))
    }

    /// Ends the search and skips all data.
    pub(super) fn give_up(&mut self) -> SearchResult {
        self.drop_before(self.bytes.len())
    }

    /// Position of the first message, if it is known.
    fn find(&mut self) -> Option<usize> {
        let mut open = VecDeque::new();
        for at in std::mem::take(&mut self.candidates) {
            match self.classify(at) {
                MessageStart::Yes => return Some(at),
                MessageStart::Undecided => open.push_back(at),
                MessageStart::No => {}
            }
        }
        self.candidates = open;
        while self.checked + HEAD_BYTES <= self.bytes.len() {
            match self.classify(self.checked) {
                MessageStart::Yes => return Some(self.checked),
                MessageStart::Undecided => {
                    if self.candidates.len() == MESSAGE_STARTS_MAX {
                        self.candidates.pop_front();
                    }
                    self.candidates.push_back(self.checked);
                }
                MessageStart::No => {}
            }
            self.checked += 1;
        }
        None
    }

    fn classify(&self, at: usize) -> MessageStart {
        let part = self.parts.binary_search_by_key(&at, |part| part.at);
        let begins_segment = part.is_ok_and(|index| !self.parts[index].is_rest);
        classify(&self.bytes[at..], begins_segment)
    }

    fn drop_before(&mut self, end: usize) -> SearchResult {
        let mut searched = SearchResult { skipped: end as u64, ..SearchResult::default() };
        if end == 0 {
            return searched;
        }
        while !self.parts.is_empty() && self.parts.get(1).map_or(self.bytes.len(), |next| next.at) <= end {
            self.parts.pop_front();
            searched.segments += 1;
        }
        self.bytes.drain(..end);
        for part in &mut self.parts {
            part.is_rest |= part.at < end;
            part.at = part.at.saturating_sub(end);
        }
        self.candidates.iter_mut().for_each(|start| *start = start.saturating_sub(end));
        self.checked = self.checked.saturating_sub(end);
        searched
    }
}

/// Whether a message with its length begins here. At the start of a segment, a valid question is enough. Elsewhere the
/// whole message must be present and valid.
pub(super) fn classify(bytes: &[u8], begins_segment: bool) -> MessageStart {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return MessageStart::Undecided };
    let length = usize::from(u16::from_be_bytes(*length));
    if length < HEADER_BYTES {
        return MessageStart::No;
    }
    let Some(header) = rest.first_chunk::<HEADER_BYTES>() else { return MessageStart::Undecided };
    if !is_plausible(header, length) {
        return MessageStart::No;
    }
    let (has_question, whole) = (header[5] == 1, rest.get(..length));
    if has_question {
        match FirstQuestion::read(&rest[..length.min(rest.len())]) {
            Ok(question) if !matches!(question.qclass.0, 1 | 3 | 4 | 254 | 255) => return MessageStart::No,
            Ok(_) if begins_segment => return MessageStart::Yes,
            Err(ParseError::Short) if whole.is_none() => return MessageStart::Undecided,
            Ok(_) => {}
            Err(_) => return MessageStart::No,
        }
    }
    match whole {
        None => MessageStart::Undecided,
        Some(message) if is_message(header, message) => MessageStart::Yes,
        Some(_) => MessageStart::No,
    }
}

/// Whether the header is plausible: an assigned opcode (RFC 6895 2.2), at most one question, and the Z bit is zero. The
/// records must fit in the message: each has at least 11 bytes (RFC 1035 4.1.3).
fn is_plausible(header: &[u8; HEADER_BYTES], length: usize) -> bool {
    let is_assigned = matches!(header[2] >> 3 & 0x0F, 0 | 2 | 4 | 5 | 6);
    let has_question_at_most = header[4] == 0 && header[5] <= 1;
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let records = count(6) + count(8) + count(10);
    is_assigned && has_question_at_most && header[3] & 0x40 == 0 && records * 11 <= length - HEADER_BYTES
}

fn is_message(header: &[u8; HEADER_BYTES], message: &[u8]) -> bool {
    let is_error = header[2] & 0x80 != 0 && header[3] & 0x0F != 0;
    let has_counts = header[4..].iter().any(|&byte| byte != 0);
    // RFC 8490 5.4: in a DSO message all counts are zero and TLVs follow the header.
    let is_dso = header[2] >> 3 & 0x0F == 6 && !has_counts && are_tlvs(&message[HEADER_BYTES..]);
    is_dso || ((has_counts || is_error) && Message::parse(message).is_ok())
}

fn are_tlvs(mut bytes: &[u8]) -> bool {
    while let Some((&[_, _, a, b], rest)) = bytes.split_first_chunk::<4>() {
        let Some(rest) = rest.get(usize::from(u16::from_be_bytes([a, b]))..) else { return false };
        bytes = rest;
    }
    bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x00\x00\x01\x00\x01";

    fn framed() -> Vec<u8> {
        [&(QUERY.len() as u16).to_be_bytes()[..], QUERY].concat()
    }

    #[test]
    fn a_message_without_its_length_is_not_found() {
        // The ID is read as the length and the name as record counts.
        assert_eq!(classify(&framed()[2..], true), MessageStart::No);
        assert_eq!(classify(&framed(), true), MessageStart::Yes);
        assert_eq!(
            (classify(&framed()[..1], true), classify(&framed()[..15], true)),
            (MessageStart::Undecided, MessageStart::Undecided)
        );
    }

    #[test]
    fn complete_messages_are_found_at_any_offset() {
        for lost in 1..framed().len() {
            let bytes = [&framed()[lost..], &framed(), &framed()[..4]].concat();
            let mut search = Search::default();
            let searched = search.add(1, &bytes);
            let found = searched.found.expect("a message");
            assert_eq!((found.bytes, found.at_ns), ([&framed()[..], &framed()[..4]].concat(), 1), "{lost}");
            assert_eq!(searched.skipped, (framed().len() - lost) as u64);
        }
    }

    #[test]
    fn kept_data_is_bounded() {
        // Each position may begin a message of 65,535 bytes.
        let start = [&[0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 6]].concat();
        let mut search = Search::default();
        for _ in 0..5_000 {
            assert!(search.add(0, &start).found.is_none());
            assert!(search.candidates.len() <= MESSAGE_STARTS_MAX && search.bytes.len() <= 2 + 65_535 + start.len());
        }
    }

    #[test]
    fn dso_is_recognized_by_its_tlvs() {
        let dso = [&[0, 20][..], &[0, 1, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 0, 4, 0, 0, 0, 9]].concat();
        assert_eq!(classify(&dso, false), MessageStart::Yes);
        let other = [&dso[..17], &[5], &dso[18..]].concat();
        assert_eq!(classify(&other, false), MessageStart::No);
    }
}
