//! The messages in which members ask each other for entries of a damaged log. Numbers are big-endian.
//!
//! ```text
//!   ask:     version (1) first (8) last (8), then twice: is known (1) index (8) term (8)
//!   answer:  version (1) commit (8) has the entry before (1) has the entry after (1) entries (4), each:
//!            term (8) kind (1) length of the context (4) length of the data (4) context data
//! ```

use super::super::Position;
use super::super::limits::{REPAIR_ANSWER_BYTES_MAX, REPAIR_ANSWER_ENTRIES_MAX};
use super::super::record::{ENTRY_FIXED_BYTES, entry_bytes, parse_entry, put_entry};
use crate::bytes::Cursor;
use raft::eraftpb::Entry;
use zone::codec::{DecodeError, Decoder, Encoder};

const VERSION: u8 = 1;
/// Number of bytes in a question.
const ASK_BYTES: usize = 1 + 8 + 8 + 2 * (1 + 8 + 8);

/// A question for entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntriesRequest {
    /// The first entry that is missing.
    pub first: u64,
    /// The last entry that is missing.
    pub last: u64,
    /// The entry directly before them, if the asking log has it.
    pub before: Option<Position>,
    /// The first entry after them that the asking log has.
    pub after: Option<Position>,
}

/// A member's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct EntriesResponse {
    /// The member knows that all entries up to this index are committed.
    pub commit: u64,
    /// Whether the member's log has the entry before.
    pub has_before: bool,
    /// Whether it has the entry after.
    pub has_after: bool,
    /// The member's entries from the first missing one on, without a gap, as many as fit.
    pub entries: Vec<Entry>,
}

impl EntriesRequest {
    /// Encodes the question.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(VERSION);
        out.u64(self.first);
        out.u64(self.last);
        for neighbour in [self.before, self.after] {
            out.bool(neighbour.is_some());
            let Position { index, term } = neighbour.unwrap_or_default();
            out.u64(index);
            out.u64(term);
        }
        out.finish()
    }

    /// Reads what [`EntriesRequest::encode`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() != ASK_BYTES {
            return Err(DecodeError::Unknown);
        }
        let mut from = Decoder::new(bytes);
        if from.u8()? != VERSION {
            return Err(DecodeError::Unknown);
        }
        let (first, last) = (from.u64()?, from.u64()?);
        let mut neighbour = || -> Result<Option<Position>, DecodeError> {
            let is_known = from.bool()?;
            let position = Position { index: from.u64()?, term: from.u64()? };
            Ok(is_known.then_some(position))
        };
        let (before, after) = (neighbour()?, neighbour()?);
        if first == 0 || first > last {
            return Err(DecodeError::Unknown);
        }
        Ok(Self { first, last, before, after })
    }
}

impl EntriesResponse {
    /// Whether the answer has room for another entry.
    pub(super) fn has_room(&self, bytes: usize, entry: &Entry) -> bool {
        self.entries.is_empty()
            || (self.entries.len() < REPAIR_ANSWER_ENTRIES_MAX && bytes + entry_bytes(entry) <= REPAIR_ANSWER_BYTES_MAX)
    }

    /// Encodes the answer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(VERSION);
        out.u64(self.commit);
        out.bool(self.has_before);
        out.bool(self.has_after);
        out.u32(self.entries.len() as u32);
        let mut bytes = out.finish();
        for entry in &self.entries {
            put_entry(entry, &mut |part| bytes.extend_from_slice(part));
        }
        bytes
    }

    /// Reads what [`EntriesResponse::encode`] wrote for a question about entries from `first` on.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8], first: u64) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(bytes);
        if from.u8()? != VERSION {
            return Err(DecodeError::Unknown);
        }
        let (commit, has_before, has_after) = (from.u64()?, from.bool()?, from.bool()?);
        let count = from.count(REPAIR_ANSWER_ENTRIES_MAX, ENTRY_FIXED_BYTES)?;
        let head = 1 + 8 + 2 + 4;
        let mut at = Cursor::new(bytes.get(head..).ok_or(DecodeError::Unknown)?);
        let mut entries = Vec::with_capacity(count);
        for index in (first..).take(count) {
            entries.push(parse_entry(index, &mut at).ok_or(DecodeError::Unknown)?.to_entry());
        }
        let answer = Self { commit, has_before, has_after, entries };
        if at.is_at_end() { Ok(answer) } else { Err(DecodeError::Trailing) }
    }
}
