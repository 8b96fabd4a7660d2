//! Matches answers to queries.

// For sockets without connections: all IDs.
mod table;
// For connections: recent queries.
mod window;

pub(super) use table::InFlight;
pub(super) use window::Window;

use measure::{RCODE_COUNT, Sent};
use wire::limits::HEADER_BYTES;

/// The lower byte of the type OPT (RFC 6891 6.1.1).
const OPT: u8 = 41;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum State {
    #[default]
    Unused,
    Waiting,
    /// In flight, and skipped when its ID came round again.
    Skipped,
    Answered,
    TimedOut,
}

/// Identifies a question by a hash and a length.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Question {
    hash: u32,
    bytes: u16,
}

impl Question {
    fn of(message: &[u8]) -> Self {
        let bytes = question_bytes(message);
        Self { hash: hash(&message[HEADER_BYTES..HEADER_BYTES + bytes]), bytes: bytes as u16 }
    }
}

/// The meaning of a received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// The answer to a query in flight.
    Answer {
        /// The query.
        sent: Sent,
        /// The RCODE of the answer.
        rcode: u8,
        /// Whether TC is set.
        is_truncated: bool,
        /// Whether the query was the first of its connection.
        is_first: bool,
    },
    /// An answer to a query that has timed out.
    Late { sent: Sent },
    /// Another answer to an answered query.
    Duplicate,
    /// The ID is in flight, but this is not a response, or it has another question.
    Mismatch,
    /// Not a message, or an ID that was never used.
    Stray,
}

/// A query that was not answered in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unanswered {
    /// The query.
    pub(super) sent: Sent,
    /// Whether it was the first of its connection, or had no connection.
    pub(super) is_first: bool,
}

impl From<Sent> for Unanswered {
    /// A UDP query, which has no connection.
    fn from(sent: Sent) -> Self {
        Self { sent, is_first: false }
    }
}

/// Checks QR and the question byte for byte. A server that could not parse the question may leave it out.
fn is_response_to(question: Question, header: &[u8; HEADER_BYTES], message: &[u8]) -> bool {
    if header[2] & 0x80 == 0 {
        return false;
    }
    if header[4..6] == [0, 0] {
        return header[3] & 0x0F != 0;
    }
    let bytes = message.get(HEADER_BYTES..HEADER_BYTES + usize::from(question.bytes));
    bytes.is_some_and(|bytes| hash(bytes) == question.hash)
}

/// The RCODE with its upper bits, if an OPT record directly follows the question (RFC 6891 6.1.3). This holds for all
/// answers with such an RCODE (BADVERS and BADCOOKIE), so the rest need not be parsed.
fn rcode(question: Question, header: &[u8; HEADER_BYTES], message: &[u8]) -> u8 {
    let low = header[3] & 0x0F;
    if header[6..10] != [0; 4] || header[10..12] == [0; 2] {
        return low;
    }
    let question_bytes = if header[4..6] == [0, 0] { 0 } else { usize::from(question.bytes) };
    match message.get(HEADER_BYTES + question_bytes..) {
        Some(&[0, 0, OPT, _, _, upper, ..]) if usize::from(upper) < RCODE_COUNT.div_ceil(16) => {
            (upper << 4 | low).min(RCODE_COUNT as u8 - 1)
        }
        _ => low,
    }
}

/// Length of the first question: its name, and four bytes.
fn question_bytes(message: &[u8]) -> usize {
    let mut at = HEADER_BYTES;
    loop {
        match message.get(at) {
            Some(0) => return (at + 5).min(message.len()) - HEADER_BYTES,
            Some(&length) if length < 0x40 => at += 1 + usize::from(length),
            // An invalid question is compared up to the end of the message.
            _ => return message.len().min(at) - HEADER_BYTES.min(message.len()),
        }
    }
}

/// The bytes of the first question of a message, if it is complete.
#[must_use]
pub fn question_of(message: &[u8]) -> Option<&[u8]> {
    let bytes = message.get(HEADER_BYTES..HEADER_BYTES + question_bytes(message))?;
    (bytes.len() > 4).then_some(bytes)
}

/// A fast hash for questions.
fn hash(bytes: &[u8]) -> u32 {
    let state = crate::byte_hash::of(bytes);
    (state >> 32) as u32 ^ state as u32
}
