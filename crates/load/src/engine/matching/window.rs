//! The queries of one connection: those in flight, and those that may get late answers.
//!
//! IDs are assigned in order from 0. Answered queries are removed from the front, so a connection with few queries in
//! flight needs little memory. There may be thousands of connections.

use super::{Arrival, Question, State, Unanswered, is_response_to, rcode};
use crate::limits::CONNECTION_LATE_COUNT_MAX;
use measure::Sent;
use std::collections::VecDeque;
use wire::limits::HEADER_BYTES;

/// IDs of a connection (RFC 7766 6.2.1).
const ID_COUNT: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Entry {
    sent: Sent,
    written_ns: u64,
    question: Question,
    state: State,
}

/// The queries of one connection.
#[derive(Default, Debug)]
pub(in crate::engine) struct Window {
    /// Number of the first entry. Numbers increase from 0, and their lower 16 bits are IDs.
    first: u64,
    entries: VecDeque<Entry>,
    waiting: u32,
    /// Number of the first query that has not been written.
    unwritten: u64,
}

impl Window {
    /// Number of queries in flight.
    pub(in crate::engine) const fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Number of queries so far.
    pub(in crate::engine) fn count(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Whether an ID is free.
    pub(in crate::engine) fn has_room(&self) -> bool {
        self.entries.len() < ID_COUNT
    }

    /// Assigns the next number to a query and writes its ID into the message.
    pub(in crate::engine) fn insert(&mut self, message: &mut [u8], sent: Sent) -> u64 {
        let number = self.count();
        message[..2].copy_from_slice(&(number as u16).to_be_bytes());
        self.push(message, sent);
        number
    }

    /// Assigns the next number to a query with its own stream, whose ID is zero.
    pub(in crate::engine) fn insert_stream(&mut self, message: &mut [u8], sent: Sent) -> u64 {
        message[..2].fill(0);
        self.push(message, sent);
        self.count() - 1
    }

    fn push(&mut self, message: &[u8], sent: Sent) {
        let entry = Entry { sent, written_ns: sent.sent_ns, question: Question::of(message), state: State::Waiting };
        self.entries.push_back(entry);
        self.waiting += 1;
    }

    /// Sets the time at which all queued queries were written.
    pub(in crate::engine) fn written(&mut self, at_ns: u64) {
        let from = self.unwritten.saturating_sub(self.first) as usize;
        self.entries.iter_mut().skip(from).for_each(|entry| entry.written_ns = at_ns.max(entry.sent.sent_ns));
        self.unwritten = self.count();
    }

    /// Classifies a message. For an answer, also returns when its query was written. An answered query is no longer in
    /// flight.
    pub(in crate::engine) fn arrive(&mut self, message: &[u8]) -> (Arrival, u64) {
        let Some(header) = message.first_chunk::<HEADER_BYTES>() else { return (Arrival::Stray, 0) };
        let id = u16::from_be_bytes([header[0], header[1]]);
        let offset = usize::from(id.wrapping_sub(self.first as u16));
        if offset < self.entries.len() {
            return self.arrive_at(offset, header, message);
        }
        let ids_back = u64::from((self.first as u16).wrapping_sub(id));
        // Only answered queries leave from the front, or very old ones that have timed out.
        (if ids_back <= self.first { Arrival::Duplicate } else { Arrival::Stray }, 0)
    }

    /// The same for a message on the stream of query `number`, whose ID is zero (RFC 9250 4.2.1, RFC 8484 4.1).
    pub(in crate::engine) fn arrive_on(&mut self, number: u64, message: &[u8]) -> (Arrival, u64) {
        let Some(header) = message.first_chunk::<HEADER_BYTES>() else { return (Arrival::Stray, 0) };
        match number.checked_sub(self.first).map(|offset| offset as usize) {
            Some(offset) if offset < self.entries.len() && header[..2] == [0, 0] => {
                self.arrive_at(offset, header, message)
            }
            Some(_) => (Arrival::Mismatch, 0),
            None => (Arrival::Duplicate, 0),
        }
    }

    fn arrive_at(&mut self, offset: usize, header: &[u8; HEADER_BYTES], message: &[u8]) -> (Arrival, u64) {
        let is_first = self.first + offset as u64 == 0;
        let entry = &mut self.entries[offset];
        if !is_response_to(entry.question, header, message) {
            return (Arrival::Mismatch, 0);
        }
        let (sent, written_ns) = (entry.sent, entry.written_ns);
        let rcode = rcode(entry.question, header, message);
        let arrival = match entry.state {
            State::TimedOut => Arrival::Late { sent },
            State::Answered | State::Unused => Arrival::Duplicate,
            State::Waiting | State::Skipped => {
                self.waiting -= 1;
                Arrival::Answer { sent, rcode, is_truncated: header[2] & 0x02 != 0, is_first }
            }
        };
        entry.state = State::Answered;
        self.trim();
        (arrival, written_ns)
    }

    /// Times out query `number`. `None` if it has been answered.
    pub(in crate::engine) fn time_out(&mut self, number: u64) -> Option<Unanswered> {
        self.give_up(number, State::TimedOut)
    }

    /// The server has reset the stream of query `number`, so it will never be answered.
    pub(in crate::engine) fn mark_lost(&mut self, number: u64) -> Option<Unanswered> {
        self.give_up(number, State::Answered)
    }

    fn give_up(&mut self, number: u64, state: State) -> Option<Unanswered> {
        let offset = number.checked_sub(self.first)? as usize;
        let entry = self.entries.get_mut(offset).filter(|entry| entry.state == State::Waiting)?;
        entry.state = state;
        let sent = entry.sent;
        self.waiting -= 1;
        self.trim();
        Some(Unanswered { sent, is_first: number == 0 })
    }

    /// Removes all queries in flight, because the connection has ended.
    pub(in crate::engine) fn drain(&mut self) -> impl Iterator<Item = Unanswered> + use<'_> {
        let numbers = self.first..;
        self.first += self.entries.len() as u64;
        self.waiting = 0;
        let entries = numbers.zip(self.entries.drain(..)).filter(|(_, entry)| entry.state == State::Waiting);
        entries.map(|(number, entry)| Unanswered { sent: entry.sent, is_first: number == 0 })
    }

    fn trim(&mut self) {
        let is_full = |entries: &VecDeque<Entry>| entries.len() > CONNECTION_LATE_COUNT_MAX;
        while let Some(front) = self.entries.front() {
            match front.state {
                State::Answered => {}
                State::TimedOut if is_full(&self.entries) => {}
                _ => break,
            }
            self.entries.pop_front();
            self.first += 1;
        }
        if self.entries.is_empty() && self.entries.capacity() > 64 {
            self.entries = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> Vec<u8> {
        b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01".to_vec()
    }

    fn answer(query: &[u8]) -> Vec<u8> {
        let mut answer = query.to_vec();
        answer[2] |= 0x80;
        answer
    }

    fn sent(sent_ns: u64) -> Sent {
        Sent { planned_ns: sent_ns, sent_ns, client: 0, row: 0 }
    }

    fn entered(window: &mut Window, count: u64) -> Vec<Vec<u8>> {
        (0..count)
            .map(|at| {
                let mut message = query();
                window.insert(&mut message, sent(at));
                message
            })
            .collect()
    }

    #[test]
    fn answers_come_out_of_order_and_once() {
        let mut window = Window::default();
        let queries = entered(&mut window, 3);
        window.written(10);
        for index in [2, 0, 1] {
            let sent = sent(index as u64);
            let expected = Arrival::Answer { sent, rcode: 0, is_truncated: false, is_first: index == 0 };
            assert_eq!(window.arrive(&answer(&queries[index])), (expected, 10));
            assert_eq!(window.arrive(&answer(&queries[index])).0, Arrival::Duplicate);
        }
        assert_eq!((window.waiting(), window.entries.len(), window.count()), (0, 0, 3));
        let mut unsent = answer(&queries[0]);
        unsent[1] = 77;
        assert_eq!(window.arrive(&unsent).0, Arrival::Stray);
    }

    #[test]
    fn late_answers_and_mismatches_are_distinguished() {
        let mut window = Window::default();
        let queries = entered(&mut window, 2);
        let mut other = answer(&queries[1]);
        other[14] ^= 1;
        assert_eq!(window.arrive(&other).0, Arrival::Mismatch);
        assert_eq!(window.time_out(0), Some(Unanswered { sent: sent(0), is_first: true }));
        assert_eq!(window.time_out(0), None);
        assert!(matches!(window.arrive(&answer(&queries[0])).0, Arrival::Late { .. }));
        assert_eq!(window.arrive(&answer(&queries[0])).0, Arrival::Duplicate);
        assert_eq!(window.drain().collect::<Vec<_>>(), [Unanswered { sent: sent(1), is_first: false }]);
        assert_eq!((window.waiting(), window.count()), (0, 2));
    }

    #[test]
    fn ids_wrap_around() {
        let mut window = Window::default();
        for round in 0..140_000u64 {
            let mut message = query();
            assert!(window.has_room());
            assert_eq!(window.insert(&mut message, sent(round)), round);
            assert!(matches!(window.arrive(&answer(&message)).0, Arrival::Answer { .. }));
        }
        let queries = entered(&mut window, ID_COUNT as u64);
        assert!(!window.has_room());
        assert!(matches!(window.arrive(&answer(&queries[0])).0, Arrival::Answer { .. }));
        assert!(window.has_room());
    }

    #[test]
    fn a_stream_has_the_id_zero() {
        let mut window = Window::default();
        let mut message = query();
        window.insert(&mut message, sent(0));
        let number = window.insert_stream(&mut message, sent(5));
        assert_eq!((number, &message[..2]), (1, &[0, 0][..]));
        let mut wrong = answer(&message);
        wrong[1] = 1;
        assert_eq!(window.arrive_on(1, &wrong).0, Arrival::Mismatch);
        assert!(matches!(window.arrive_on(1, &answer(&message)).0, Arrival::Answer { .. }));
        assert_eq!(window.mark_lost(1), None);
    }
}
