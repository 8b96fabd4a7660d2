//! Where the next message begins in a stream of which something is missing (RFC 1035 4.2.2).
//!
//! ```text
//!   lost part | rest of a message | length, header, question ... | length, header ...
//!               skipped, counted    the first place that is a message
//! ```

use crate::limits::{HEADER_OCTETS, MESSAGE_STARTS_MAX};
use std::collections::VecDeque;
use wire::parse::{FirstQuestion, Message, ParseError};

/// Octets that a place is judged by first: the length and the header.
const HEAD_OCTETS: usize = 2 + HEADER_OCTETS;
/// What a piece takes beside its octets.
const PIECE_OCTETS: usize = size_of::<Piece>();

/// The octets in which a message is searched for. What cannot begin one is not kept.
#[derive(Default)]
pub(super) struct Search {
    octets: Vec<u8>,
    /// Where each segment begins in them.
    pieces: VecDeque<Piece>,
    /// Places that may begin a message: octets that are still to come decide. In their order.
    starts: VecDeque<usize>,
    /// Places before this one were judged.
    judged: usize,
}

/// A segment, or the rest of one.
struct Piece {
    at: usize,
    at_ns: u64,
    /// Whether its first octets are dropped.
    is_rest: bool,
}

/// What became of octets that were added.
#[derive(Default)]
pub(super) struct Searched {
    /// Octets that are skipped: no message begins in them.
    pub(super) skipped: u64,
    /// Segments that are skipped as a whole. The segment that was added last is one of them if none is kept.
    pub(super) segments: u64,
    /// The message, if one was found.
    pub(super) found: Option<Found>,
}

/// A message that begins at the first octet.
pub(super) struct Found {
    pub(super) octets: Vec<u8>,
    /// When the latest segment was seen that has octets of it.
    pub(super) at_ns: u64,
    /// Segments before the one that was added last.
    pub(super) earlier_segments: u64,
}

/// Whether a message begins at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    No,
    /// Octets that are still to come decide.
    Open,
    Yes,
}

impl Search {
    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// What it keeps, in octets.
    pub(super) fn kept(&self) -> usize {
        self.octets.len() + self.pieces.len() * PIECE_OCTETS
    }

    /// Adds what comes next, and searches on.
    pub(super) fn add(&mut self, at_ns: u64, new: &[u8]) -> Searched {
        self.pieces.push_back(Piece { at: self.octets.len(), at_ns, is_rest: false });
        self.octets.extend_from_slice(new);
        if let Some(at) = self.find() {
            let mut searched = self.drop_before(at);
            let at_ns = self.pieces.iter().map(|piece| piece.at_ns).max().unwrap_or(at_ns);
            let earlier_segments = (self.pieces.len() as u64).saturating_sub(1);
            let octets = std::mem::take(self).octets;
            searched.found = Some(Found { octets, at_ns, earlier_segments });
            return searched;
        }
        self.drop_before(self.starts.front().map_or(self.judged, |&first| first.min(self.judged)))
    }

    /// Gives up: all that is kept is skipped.
    pub(super) fn give_up(&mut self) -> Searched {
        self.drop_before(self.octets.len())
    }

    /// The first place that is known to begin a message.
    fn find(&mut self) -> Option<usize> {
        let mut open = VecDeque::new();
        for at in std::mem::take(&mut self.starts) {
            match self.judge(at) {
                Start::Yes => return Some(at),
                Start::Open => open.push_back(at),
                Start::No => {}
            }
        }
        self.starts = open;
        while self.judged + HEAD_OCTETS <= self.octets.len() {
            match self.judge(self.judged) {
                Start::Yes => return Some(self.judged),
                Start::Open => {
                    if self.starts.len() == MESSAGE_STARTS_MAX {
                        self.starts.pop_front();
                    }
                    self.starts.push_back(self.judged);
                }
                Start::No => {}
            }
            self.judged += 1;
        }
        None
    }

    fn judge(&self, at: usize) -> Start {
        let piece = self.pieces.binary_search_by_key(&at, |piece| piece.at);
        let begins_segment = piece.is_ok_and(|index| !self.pieces[index].is_rest);
        judge(&self.octets[at..], begins_segment)
    }

    fn drop_before(&mut self, end: usize) -> Searched {
        let mut searched = Searched { skipped: end as u64, ..Searched::default() };
        if end == 0 {
            return searched;
        }
        while !self.pieces.is_empty() && self.pieces.get(1).map_or(self.octets.len(), |next| next.at) <= end {
            self.pieces.pop_front();
            searched.segments += 1;
        }
        self.octets.drain(..end);
        for piece in &mut self.pieces {
            piece.is_rest |= piece.at < end;
            piece.at = piece.at.saturating_sub(end);
        }
        self.starts.iter_mut().for_each(|start| *start = start.saturating_sub(end));
        self.judged = self.judged.saturating_sub(end);
        searched
    }
}

/// Whether a message with its length begins here. Where a segment begins, its question is enough; elsewhere the whole
/// message must be there and be one.
pub(super) fn judge(octets: &[u8], begins_segment: bool) -> Start {
    let Some((length, rest)) = octets.split_first_chunk::<2>() else { return Start::Open };
    let length = usize::from(u16::from_be_bytes(*length));
    if length < HEADER_OCTETS {
        return Start::No;
    }
    let Some(header) = rest.first_chunk::<HEADER_OCTETS>() else { return Start::Open };
    if !is_plausible(header, length) {
        return Start::No;
    }
    let (has_question, whole) = (header[5] == 1, rest.get(..length));
    if has_question {
        match FirstQuestion::read(&rest[..length.min(rest.len())]) {
            Ok(question) if !matches!(question.qclass.0, 1 | 3 | 4 | 254 | 255) => return Start::No,
            Ok(_) if begins_segment => return Start::Yes,
            Err(ParseError::Short) if whole.is_none() => return Start::Open,
            Ok(_) => {}
            Err(_) => return Start::No,
        }
    }
    match whole {
        None => Start::Open,
        Some(message) if is_message(header, message) => Start::Yes,
        Some(_) => Start::No,
    }
}

/// Opcodes that are assigned (RFC 6895 2.2), one question at most, the bit that is zero, and no more records than have
/// room: each has 11 octets at least (RFC 1035 4.1.3).
fn is_plausible(header: &[u8; HEADER_OCTETS], length: usize) -> bool {
    let is_assigned = matches!(header[2] >> 3 & 0x0F, 0 | 2 | 4 | 5 | 6);
    let has_question_at_most = header[4] == 0 && header[5] <= 1;
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let records = count(6) + count(8) + count(10);
    is_assigned && has_question_at_most && header[3] & 0x40 == 0 && records * 11 <= length - HEADER_OCTETS
}

fn is_message(header: &[u8; HEADER_OCTETS], message: &[u8]) -> bool {
    let is_error = header[2] & 0x80 != 0 && header[3] & 0x0F != 0;
    let has_counts = header[4..].iter().any(|&octet| octet != 0);
    // RFC 8490 5.4: a DSO message has no counts, and TLVs behind the header.
    let is_dso = header[2] >> 3 & 0x0F == 6 && !has_counts && are_tlvs(&message[HEADER_OCTETS..]);
    is_dso || ((has_counts || is_error) && Message::parse(message).is_ok())
}

fn are_tlvs(mut octets: &[u8]) -> bool {
    while let Some((&[_, _, a, b], rest)) = octets.split_first_chunk::<4>() {
        let Some(rest) = rest.get(usize::from(u16::from_be_bytes([a, b]))..) else { return false };
        octets = rest;
    }
    octets.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x00\x00\x01\x00\x01";

    fn framed() -> Vec<u8> {
        [&(QUERY.len() as u16).to_be_bytes()[..], QUERY].concat()
    }

    #[test]
    fn a_message_without_its_length_begins_nothing() {
        // Its ID would be the length, and its name the count of records.
        assert_eq!(judge(&framed()[2..], true), Start::No);
        assert_eq!(judge(&framed(), true), Start::Yes);
        assert_eq!((judge(&framed()[..1], true), judge(&framed()[..15], true)), (Start::Open, Start::Open));
    }

    #[test]
    fn a_message_is_found_at_any_place_and_only_when_it_is_whole() {
        for lost in 1..framed().len() {
            let octets = [&framed()[lost..], &framed(), &framed()[..4]].concat();
            let mut search = Search::default();
            let searched = search.add(1, &octets);
            let found = searched.found.expect("a message");
            assert_eq!((found.octets, found.at_ns), ([&framed()[..], &framed()[..4]].concat(), 1), "{lost}");
            assert_eq!(searched.skipped, (framed().len() - lost) as u64);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        // Each place may begin a message of 65,535 octets with records.
        let start = [&[0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 6]].concat();
        let mut search = Search::default();
        for _ in 0..5_000 {
            assert!(search.add(0, &start).found.is_none());
            assert!(search.starts.len() <= MESSAGE_STARTS_MAX && search.octets.len() <= 2 + 65_535 + start.len());
        }
    }

    #[test]
    fn dso_is_known_by_its_tlvs() {
        let dso = [&[0, 20][..], &[0, 1, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 0, 4, 0, 0, 0, 9]].concat();
        assert_eq!(judge(&dso, false), Start::Yes);
        let other = [&dso[..17], &[5], &dso[18..]].concat();
        assert_eq!(judge(&other, false), Start::No);
    }
}
