//! Which query an answer belongs to, and whether it is one.

// Of a socket without connections: every ID.
mod table;
// Of a connection: what was sent lately.
mod window;

pub(super) use table::InFlight;
pub(super) use window::Window;

use crate::measure::Sent;

/// Octets of a message header (RFC 1035 4.1.1).
pub(super) const HEADER_OCTETS: usize = 12;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum State {
    #[default]
    Unused,
    Waiting,
    Answered,
    TimedOut,
}

/// What tells one question from another: a hash, and how many octets it is of.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Question {
    hash: u32,
    octets: u16,
}

impl Question {
    fn of(message: &[u8]) -> Self {
        let octets = question_octets(message);
        Self { hash: hash(&message[HEADER_OCTETS..HEADER_OCTETS + octets]), octets: octets as u16 }
    }
}

/// What a datagram or message turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// The answer to a query that waits.
    Answer { sent: Sent, rcode: u8, is_truncated: bool },
    /// The answer to a query that has timed out.
    Late,
    /// The query has been answered already.
    Duplicate,
    /// The ID waits, but this is no response, or one to another question.
    Mismatch,
    /// No message, or an ID that was never sent.
    Stray,
}

/// QR, and the question octet for octet; a server that could not read the question may leave it out.
fn is_response_to(asked: Question, header: &[u8; HEADER_OCTETS], message: &[u8]) -> bool {
    if header[2] & 0x80 == 0 {
        return false;
    }
    if header[4..6] == [0, 0] {
        return header[3] & 0x0F != 0;
    }
    let question = message.get(HEADER_OCTETS..HEADER_OCTETS + usize::from(asked.octets));
    question.is_some_and(|question| hash(question) == asked.hash)
}

/// Octets of the first question: its name, and four.
fn question_octets(message: &[u8]) -> usize {
    let mut at = HEADER_OCTETS;
    loop {
        match message.get(at) {
            Some(0) => return (at + 5).min(message.len()) - HEADER_OCTETS,
            Some(&length) if length < 0x40 => at += 1 + usize::from(length),
            // What is no question is compared as far as it goes.
            _ => return message.len().min(at) - HEADER_OCTETS.min(message.len()),
        }
    }
}

/// Enough to tell questions apart; not for hash tables that strangers fill.
fn hash(octets: &[u8]) -> u32 {
    let mut state = octets.len() as u64;
    let mut chunks = octets.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight octets"));
        state = (state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    for &octet in chunks.remainder() {
        state = (state ^ u64::from(octet)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    (state >> 32) as u32 ^ state as u32
}
