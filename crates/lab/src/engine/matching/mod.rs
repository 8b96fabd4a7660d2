//! Which query an answer belongs to, and whether it is one.

// Of a socket without connections: every ID.
mod table;
// Of a connection: what was sent lately.
mod window;

pub(super) use table::InFlight;
pub(super) use window::Window;

use crate::measure::{RCODE_COUNT, Sent};

/// The lower byte of the type OPT (RFC 6891 6.1.1).
const OPT: u8 = 41;
/// Bytes of a message header (RFC 1035 4.1.1).
pub(super) const HEADER_BYTES: usize = 12;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum State {
    #[default]
    Unused,
    Waiting,
    /// Waits, and its ID's turn has come again since.
    Passed,
    Answered,
    TimedOut,
}

/// What tells one question from another: a hash, and how many bytes it is of.
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

/// What a datagram or message turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// The answer to a query that waits.
    Answer {
        /// The query.
        sent: Sent,
        /// Of the answer.
        rcode: u8,
        /// With TC.
        is_truncated: bool,
        /// Whether the query was the first of its connection.
        is_first: bool,
    },
    /// The answer to a query that has timed out.
    Late { sent: Sent },
    /// The query has been answered already.
    Duplicate,
    /// The ID waits, but this is no response, or one to another question.
    Mismatch,
    /// No message, or an ID that was never sent.
    Stray,
}

/// A query that waits, and will have no answer in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unanswered {
    /// The query.
    pub(super) sent: Sent,
    /// Whether it was the first of its connection, or found none.
    pub(super) is_first: bool,
}

impl From<Sent> for Unanswered {
    /// A datagram, which has no connection.
    fn from(sent: Sent) -> Self {
        Self { sent, is_first: false }
    }
}

/// QR, and the question byte for byte; a server that could not read the question may leave it out.
fn is_response_to(asked: Question, header: &[u8; HEADER_BYTES], message: &[u8]) -> bool {
    if header[2] & 0x80 == 0 {
        return false;
    }
    if header[4..6] == [0, 0] {
        return header[3] & 0x0F != 0;
    }
    let question = message.get(HEADER_BYTES..HEADER_BYTES + usize::from(asked.bytes));
    question.is_some_and(|question| hash(question) == asked.hash)
}

/// The RCODE, with its upper bits where an OPT record follows the question at once (RFC 6891 6.1.3): so it is in every
/// answer that has such an RCODE, BADVERS and BADCOOKIE, and the rest of a message need not be read.
fn rcode(asked: Question, header: &[u8; HEADER_BYTES], message: &[u8]) -> u8 {
    let low = header[3] & 0x0F;
    if header[6..10] != [0; 4] || header[10..12] == [0; 2] {
        return low;
    }
    let question = if header[4..6] == [0, 0] { 0 } else { usize::from(asked.bytes) };
    match message.get(HEADER_BYTES + question..) {
        Some(&[0, 0, OPT, _, _, upper, ..]) if usize::from(upper) < RCODE_COUNT.div_ceil(16) => {
            (upper << 4 | low).min(RCODE_COUNT as u8 - 1)
        }
        _ => low,
    }
}

/// Bytes of the first question: its name, and four.
fn question_bytes(message: &[u8]) -> usize {
    let mut at = HEADER_BYTES;
    loop {
        match message.get(at) {
            Some(0) => return (at + 5).min(message.len()) - HEADER_BYTES,
            Some(&length) if length < 0x40 => at += 1 + usize::from(length),
            // What is no question is compared as far as it goes.
            _ => return message.len().min(at) - HEADER_BYTES.min(message.len()),
        }
    }
}

/// The bytes of the first question of a message, if it is whole.
pub(crate) fn question_of(message: &[u8]) -> Option<&[u8]> {
    let bytes = message.get(HEADER_BYTES..HEADER_BYTES + question_bytes(message))?;
    (bytes.len() > 4).then_some(bytes)
}

/// Enough to tell questions apart.
fn hash(bytes: &[u8]) -> u32 {
    let state = crate::byte_hash::of(bytes);
    (state >> 32) as u32 ^ state as u32
}
