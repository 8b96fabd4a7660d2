//! Which query an answer belongs to: one table of 65,536 IDs for each socket.
//!
//! IDs are given out in order, so that queries time out in order and neighbours in time are neighbours in memory. An
//! entry stays as it ended until its ID is needed again; that is how late and second answers are known.

use crate::measure::Sent;

/// IDs of a socket (RFC 1035 4.1.1).
const ID_COUNT: usize = 1 << 16;
/// Octets of a message header.
const HEADER_OCTETS: usize = 12;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum State {
    #[default]
    Unused,
    Waiting,
    Answered,
    TimedOut,
}

/// A query on its way.
#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    planned_ns: u64,
    sent_ns: u64,
    question: u32,
    question_octets: u16,
    state: State,
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

/// The queries of one socket.
pub(super) struct InFlight {
    entries: Box<[Entry]>,
    /// Queries sent so far: the next ID is its lower 16 bits.
    next: u64,
    /// The oldest that may still wait.
    oldest: u64,
    waiting: usize,
}

impl InFlight {
    pub(super) fn new() -> Self {
        Self { entries: vec![Entry::default(); ID_COUNT].into_boxed_slice(), next: 0, oldest: 0, waiting: 0 }
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many IDs are free.
    pub(super) fn room(&self) -> usize {
        ID_COUNT - (self.next - self.oldest) as usize
    }

    /// Takes the next ID for a query and writes it into the message.
    pub(super) fn enter(&mut self, message: &mut [u8], sent: Sent) {
        debug_assert!(self.room() > 0);
        let id = self.next as u16;
        message[..2].copy_from_slice(&id.to_be_bytes());
        let question_octets = question_octets(message);
        self.entries[usize::from(id)] = Entry {
            planned_ns: sent.planned_ns,
            sent_ns: sent.sent_ns,
            question: hash(&message[HEADER_OCTETS..HEADER_OCTETS + question_octets]),
            question_octets: question_octets as u16,
            state: State::Waiting,
        };
        self.next += 1;
        self.waiting += 1;
    }

    /// Takes back the newest `count` queries: the kernel did not send them.
    pub(super) fn take_back(&mut self, count: usize) {
        for _ in 0..count {
            self.next -= 1;
            self.entries[usize::from(self.next as u16)].state = State::Unused;
            self.waiting -= 1;
        }
    }

    /// Says what a message is. The query of an answer waits no more.
    pub(super) fn arrive(&mut self, message: &[u8]) -> Arrival {
        let Some(header) = message.first_chunk::<HEADER_OCTETS>() else { return Arrival::Stray };
        let id = usize::from(u16::from_be_bytes([header[0], header[1]]));
        let entry = &mut self.entries[id];
        if entry.state == State::Unused {
            return Arrival::Stray;
        }
        if !is_response_to(entry, header, message) {
            return Arrival::Mismatch;
        }
        match entry.state {
            State::TimedOut => return Arrival::Late,
            State::Answered => return Arrival::Duplicate,
            State::Unused | State::Waiting => {}
        }
        entry.state = State::Answered;
        self.waiting -= 1;
        Arrival::Answer {
            sent: Sent { planned_ns: entry.planned_ns, sent_ns: entry.sent_ns },
            rcode: header[3] & 0x0F,
            is_truncated: header[2] & 0x02 != 0,
        }
    }

    /// Gives the next query, in order of sending, that was sent before `before_ns` and still waits; it has timed out.
    pub(super) fn expire(&mut self, before_ns: u64) -> Option<Sent> {
        while self.oldest < self.next {
            let entry = &mut self.entries[usize::from(self.oldest as u16)];
            if entry.state != State::Waiting {
                self.oldest += 1;
                continue;
            }
            if entry.sent_ns >= before_ns {
                return None;
            }
            entry.state = State::TimedOut;
            self.oldest += 1;
            self.waiting -= 1;
            return Some(Sent { planned_ns: entry.planned_ns, sent_ns: entry.sent_ns });
        }
        None
    }

    /// When the oldest query that waits was sent.
    pub(super) fn oldest_sent_ns(&mut self) -> Option<u64> {
        while self.oldest < self.next {
            let entry = &self.entries[usize::from(self.oldest as u16)];
            if entry.state == State::Waiting {
                return Some(entry.sent_ns);
            }
            self.oldest += 1;
        }
        None
    }
}

/// QR, and the question octet for octet; a server that could not read the question may leave it out.
fn is_response_to(entry: &Entry, header: &[u8; HEADER_OCTETS], message: &[u8]) -> bool {
    if header[2] & 0x80 == 0 {
        return false;
    }
    if header[4..6] == [0, 0] {
        return header[3] & 0x0F != 0;
    }
    let question = message.get(HEADER_OCTETS..HEADER_OCTETS + usize::from(entry.question_octets));
    question.is_some_and(|question| hash(question) == entry.question)
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

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Sent = Sent { planned_ns: 5, sent_ns: 7 };

    fn query() -> Vec<u8> {
        b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01".to_vec()
    }

    /// The answer to a query that was sent.
    fn answer(query: &[u8]) -> Vec<u8> {
        let mut answer = query.to_vec();
        answer[2] |= 0x80;
        answer[3] = 3;
        answer
    }

    #[test]
    fn an_answer_counts_once() {
        let mut table = InFlight::new();
        let mut sent = query();
        table.enter(&mut sent, SENT);
        let expected = Arrival::Answer { sent: SENT, rcode: 3, is_truncated: false };
        assert_eq!(table.arrive(&answer(&sent)), expected);
        assert_eq!(table.arrive(&answer(&sent)), Arrival::Duplicate);
        assert_eq!((table.waiting(), table.expire(u64::MAX)), (0, None));
    }

    #[test]
    fn what_is_not_the_answer_leaves_the_query_waiting() {
        let mut table = InFlight::new();
        let mut sent = query();
        table.enter(&mut sent, SENT);
        assert_eq!(table.arrive(&sent), Arrival::Mismatch);
        let mut other = answer(&sent);
        other[14] = b'x';
        assert_eq!(table.arrive(&other), Arrival::Mismatch);
        assert_eq!(table.arrive(&answer(&sent)[..20]), Arrival::Mismatch);
        assert_eq!(table.arrive(&[0; 11]), Arrival::Stray);
        let mut unsent = answer(&sent);
        unsent[1] = 9;
        assert_eq!(table.arrive(&unsent), Arrival::Stray);
        assert_eq!(table.waiting(), 1);
    }

    #[test]
    fn a_refusal_may_come_without_the_question() {
        let mut table = InFlight::new();
        let mut sent = query();
        table.enter(&mut sent, SENT);
        let formerr = [sent[0], sent[1], 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(matches!(table.arrive(&formerr), Arrival::Answer { rcode: 1, .. }));
    }

    #[test]
    fn time_outs_come_in_order_and_late_answers_are_known() {
        let mut table = InFlight::new();
        let mut queries: Vec<_> = (0..3).map(|_| query()).collect();
        for (at, query) in queries.iter_mut().enumerate() {
            table.enter(query, Sent { planned_ns: 0, sent_ns: at as u64 * 10 });
        }
        assert!(matches!(table.arrive(&answer(&queries[0])), Arrival::Answer { .. }));
        assert_eq!(table.oldest_sent_ns(), Some(10));
        assert_eq!(table.expire(15).map(|sent| sent.sent_ns), Some(10));
        assert_eq!(table.expire(15), None);
        assert_eq!(table.arrive(&answer(&queries[1])), Arrival::Late);
        assert_eq!(table.waiting(), 1);
    }

    #[test]
    fn ids_run_out_and_come_back() {
        let mut table = InFlight::new();
        let mut first = query();
        table.enter(&mut first, SENT);
        for _ in 1..ID_COUNT {
            table.enter(&mut query(), SENT);
        }
        assert_eq!((table.room(), table.waiting()), (0, ID_COUNT));
        assert!(table.expire(u64::MAX).is_some());
        assert_eq!(table.room(), 1);
        table.enter(&mut query(), SENT);
        table.take_back(1);
        assert_eq!((table.room(), table.waiting()), (1, ID_COUNT - 1));
    }
}
