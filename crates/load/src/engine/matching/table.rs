//! A table of 65,536 IDs for each socket.
//!
//! IDs are assigned in order, so queries time out in order, and neighbours in time are neighbours in memory. An ID that
//! is still in flight when its turn comes is skipped, so a lost answer only blocks its own ID. An entry keeps its state
//! until its ID is reused. This detects late and duplicate answers.

use super::{Arrival, Question, State, is_response_to, rcode};
use measure::Sent;
use std::collections::VecDeque;
use wire::limits::HEADER_BYTES;

/// IDs of a socket (RFC 1035 4.1.1).
const ID_COUNT: usize = 1 << 16;
/// A query and its state.
#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    sent: Sent,
    question: Question,
    state: State,
}

/// The queries of one socket.
pub(in crate::engine) struct InFlight {
    entries: Box<[Entry]>,
    /// Number of IDs assigned or skipped so far. The lower 16 bits are the next ID.
    next: u64,
    /// The oldest query that may be in flight, except skipped ones.
    oldest: u64,
    /// Number of queries in flight.
    waiting: usize,
    /// Skipped IDs with the times of their queries, oldest first.
    skipped: VecDeque<(u16, u64)>,
}

impl InFlight {
    pub(in crate::engine) fn new() -> Self {
        Self {
            entries: vec![Entry::default(); ID_COUNT].into_boxed_slice(),
            next: 0,
            oldest: 0,
            waiting: 0,
            skipped: VecDeque::new(),
        }
    }

    /// Number of queries in flight.
    pub(in crate::engine) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of free IDs.
    pub(in crate::engine) fn free_ids(&self) -> usize {
        ID_COUNT - self.waiting
    }

    /// Takes the next ID for a query and writes it into the message.
    pub(in crate::engine) fn insert(&mut self, message: &mut [u8], sent: Sent) {
        debug_assert!(self.free_ids() > 0);
        self.skip_used_ids();
        let id = self.next as u16;
        message[..2].copy_from_slice(&id.to_be_bytes());
        self.entries[usize::from(id)] = Entry { sent, question: Question::of(message), state: State::Waiting };
        self.next += 1;
        self.waiting += 1;
    }

    /// Advances to the next ID that is not in flight.
    fn skip_used_ids(&mut self) {
        loop {
            let id = self.next as u16;
            let entry = &mut self.entries[usize::from(id)];
            if self.next - self.oldest == ID_COUNT as u64 {
                // After a full round, this is the oldest query.
                self.oldest += 1;
                if entry.state == State::Waiting {
                    entry.state = State::Skipped;
                    self.skipped.push_back((id, entry.sent.sent_ns));
                }
            }
            if entry.state != State::Skipped {
                return;
            }
            self.next += 1;
        }
    }

    /// The oldest skipped query that is still in flight.
    fn oldest_skipped(&mut self) -> Option<(u16, u64)> {
        while let Some(&(id, sent_ns)) = self.skipped.front() {
            let entry = &self.entries[usize::from(id)];
            // Its query may have been answered, and the ID skipped again for another query.
            if entry.state == State::Skipped && entry.sent.sent_ns == sent_ns {
                return Some((id, sent_ns));
            }
            self.skipped.pop_front();
        }
        None
    }

    /// Takes back the newest query, if any, because the kernel did not send it.
    pub(in crate::engine) fn take_back(&mut self) -> Option<Sent> {
        loop {
            self.next = self.next.checked_sub(1)?;
            if self.entries[usize::from(self.next as u16)].state != State::Skipped {
                break;
            }
        }
        let entry = &mut self.entries[usize::from(self.next as u16)];
        entry.state = State::Unused;
        self.waiting -= 1;
        Some(entry.sent)
    }

    /// Takes back the query with this ID, which need not be the newest. The ID is reused in its turn.
    pub(in crate::engine) fn forget(&mut self, id: u16) -> Option<Sent> {
        let entry = &mut self.entries[usize::from(id)];
        if entry.state != State::Waiting {
            return None;
        }
        entry.state = State::Unused;
        self.waiting -= 1;
        Some(entry.sent)
    }

    /// Classifies a message. An answered query is no longer in flight.
    pub(in crate::engine) fn arrive(&mut self, message: &[u8]) -> Arrival {
        let Some(header) = message.first_chunk::<HEADER_BYTES>() else { return Arrival::Stray };
        let id = usize::from(u16::from_be_bytes([header[0], header[1]]));
        let entry = &mut self.entries[id];
        if entry.state == State::Unused {
            return Arrival::Stray;
        }
        if !is_response_to(entry.question, header, message) {
            return Arrival::Mismatch;
        }
        match entry.state {
            State::TimedOut => return Arrival::Late { sent: entry.sent },
            State::Answered => return Arrival::Duplicate,
            State::Unused | State::Waiting | State::Skipped => {}
        }
        entry.state = State::Answered;
        self.waiting -= 1;
        let rcode = rcode(entry.question, header, message);
        Arrival::Answer { sent: entry.sent, rcode, is_truncated: header[2] & 0x02 != 0, is_first: false }
    }

    /// The next query in order of sending that was sent before `before_ns` and is still in flight. It has timed out.
    pub(in crate::engine) fn expire(&mut self, before_ns: u64) -> Option<Sent> {
        if let Some((id, sent_ns)) = self.oldest_skipped() {
            if sent_ns >= before_ns {
                return None;
            }
            let entry = &mut self.entries[usize::from(id)];
            entry.state = State::TimedOut;
            self.waiting -= 1;
            return Some(entry.sent);
        }
        while self.oldest < self.next {
            let entry = &mut self.entries[usize::from(self.oldest as u16)];
            if entry.state != State::Waiting {
                self.oldest += 1;
                continue;
            }
            if entry.sent.sent_ns >= before_ns {
                return None;
            }
            entry.state = State::TimedOut;
            self.oldest += 1;
            self.waiting -= 1;
            return Some(entry.sent);
        }
        None
    }

    /// When the oldest query in flight was sent.
    pub(in crate::engine) fn oldest_sent_ns(&mut self) -> Option<u64> {
        if let Some((_, sent_ns)) = self.oldest_skipped() {
            return Some(sent_ns);
        }
        while self.oldest < self.next {
            let entry = &self.entries[usize::from(self.oldest as u16)];
            if entry.state == State::Waiting {
                return Some(entry.sent.sent_ns);
            }
            self.oldest += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Sent = Sent { planned_ns: 5, sent_ns: 7, client: 3, row: 0 };

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
        table.insert(&mut sent, SENT);
        let expected = Arrival::Answer { sent: SENT, rcode: 3, is_truncated: false, is_first: false };
        assert_eq!(table.arrive(&answer(&sent)), expected);
        assert_eq!(table.arrive(&answer(&sent)), Arrival::Duplicate);
        assert_eq!((table.waiting(), table.expire(u64::MAX)), (0, None));
    }

    #[test]
    fn a_mismatch_leaves_the_query_in_flight() {
        let mut table = InFlight::new();
        let mut sent = query();
        table.insert(&mut sent, SENT);
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
        table.insert(&mut sent, SENT);
        let formerr = [sent[0], sent[1], 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(matches!(table.arrive(&formerr), Arrival::Answer { rcode: 1, .. }));
    }

    #[test]
    fn extended_rcodes_are_read() {
        for (rcode, upper, low) in [(0, 0, 0), (16, 1, 0), (23, 1, 7), (7, 200, 7)] {
            let mut table = InFlight::new();
            let mut sent = query();
            table.insert(&mut sent, SENT);
            let mut badcookie = answer(&sent);
            badcookie.extend_from_slice(&[0, 0, 41, 4, 208, upper, 0, 0, 0, 0, 0]);
            (badcookie[3], badcookie[11]) = (low, 1);
            assert!(matches!(table.arrive(&badcookie), Arrival::Answer { rcode: got, .. } if got == rcode), "{rcode}");
        }
    }

    #[test]
    fn timeouts_are_in_order_and_late_answers_are_recognized() {
        let mut table = InFlight::new();
        let mut queries: Vec<_> = (0..3).map(|_| query()).collect();
        for (at, query) in queries.iter_mut().enumerate() {
            table.insert(query, Sent { planned_ns: 0, sent_ns: at as u64 * 10, client: 0, row: 0 });
        }
        assert!(matches!(table.arrive(&answer(&queries[0])), Arrival::Answer { .. }));
        assert_eq!(table.oldest_sent_ns(), Some(10));
        assert_eq!(table.expire(15).map(|sent| sent.sent_ns), Some(10));
        assert_eq!(table.expire(15), None);
        assert!(matches!(table.arrive(&answer(&queries[1])), Arrival::Late { .. }));
        assert_eq!(table.waiting(), 1);
    }

    #[test]
    fn unsent_queries_are_removed_from_any_position() {
        let mut table = InFlight::new();
        let mut queries: Vec<_> = (0..3).map(|_| query()).collect();
        queries.iter_mut().for_each(|query| table.insert(query, SENT));
        assert_eq!((table.forget(1), table.forget(1), table.forget(9), table.waiting()), (Some(SENT), None, None, 2));
        assert_eq!(table.arrive(&answer(&queries[1])), Arrival::Stray);
        assert!(matches!(table.arrive(&answer(&queries[0])), Arrival::Answer { .. }));
        assert!(matches!(table.arrive(&answer(&queries[2])), Arrival::Answer { .. }));
        assert_eq!((table.waiting(), table.oldest_sent_ns(), table.free_ids()), (0, None, ID_COUNT));
    }

    #[test]
    fn a_lost_answer_does_not_block_other_queries() {
        let mut table = InFlight::new();
        let sent_at = |at: u64| Sent { planned_ns: at, sent_ns: at, client: 0, row: 0 };
        // Four rounds. Some queries of the first two rounds are not answered, and one is answered late.
        let (mut lost, mut late) = (Vec::new(), None);
        for at in 0..4 * ID_COUNT as u64 {
            let mut message = query();
            table.insert(&mut message, sent_at(at));
            match at {
                100 => late = Some(message),
                // The second round loses other IDs, and skips the lost IDs of the first.
                200 | 201 | 70_000 => lost.push((at, message)),
                _ => assert!(matches!(table.arrive(&answer(&message)), Arrival::Answer { .. })),
            }
        }
        assert_eq!((table.waiting(), table.free_ids(), table.oldest_sent_ns()), (4, ID_COUNT - 4, Some(100)));
        assert!(matches!(table.arrive(&answer(&late.unwrap())), Arrival::Answer { sent, .. } if sent.sent_ns == 100));
        assert_eq!((table.oldest_sent_ns(), table.expire(200)), (Some(200), None));
        let expired: Vec<_> = std::iter::from_fn(|| table.expire(u64::MAX)).map(|sent| sent.sent_ns).collect();
        assert_eq!(expired, [200, 201, 70_000]);
        assert!(lost.iter().all(|(at, message)| {
            matches!(table.arrive(&answer(message)), Arrival::Late { sent } if sent.sent_ns == *at)
        }));
        assert_eq!((table.waiting(), table.oldest_sent_ns()), (0, None));
    }

    #[test]
    fn take_back_skips_used_ids() {
        let mut table = InFlight::new();
        let mut insert = |at: u64, is_answered: bool| {
            let mut message = query();
            table.insert(&mut message, Sent { planned_ns: at, sent_ns: at, client: 0, row: 0 });
            if is_answered {
                table.arrive(&answer(&message));
            }
        };
        insert(0, true);
        insert(1, false);
        (2..ID_COUNT as u64).for_each(|at| insert(at, true));
        (0..2).for_each(|at| insert(100_000 + at, false));
        // The second query has the ID after the skipped one.
        assert_eq!(table.take_back().map(|sent| sent.sent_ns), Some(100_001));
        assert_eq!(table.take_back().map(|sent| sent.sent_ns), Some(100_000));
        assert_eq!((table.waiting(), table.oldest_sent_ns()), (1, Some(1)));
    }

    #[test]
    fn exhausted_ids_become_free_again() {
        let mut table = InFlight::new();
        let mut first = query();
        table.insert(&mut first, SENT);
        for _ in 1..ID_COUNT {
            table.insert(&mut query(), SENT);
        }
        assert_eq!((table.free_ids(), table.waiting()), (0, ID_COUNT));
        assert!(table.expire(u64::MAX).is_some());
        assert_eq!(table.free_ids(), 1);
        table.insert(&mut query(), SENT);
        assert_eq!(table.take_back(), Some(SENT));
        assert_eq!((table.free_ids(), table.waiting()), (1, ID_COUNT - 1));
    }
}
