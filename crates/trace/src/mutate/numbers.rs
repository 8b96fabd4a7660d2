//! Numbers the queries of a trace. A response gets the number of its query.

use crate::limits::UNANSWERED_MAX;
use crate::message::Message;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Client, server and ID of a query.
type Question = (SocketAddr, SocketAddr, u16);

#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: u64,
    /// Whether numbers of responses are needed. Otherwise nothing is stored.
    are_kept: bool,
    unanswered: BTreeMap<Question, u64>,
    /// The same, oldest first. Some may have been reused since.
    order: VecDeque<(Question, u64)>,
}

impl Numbers {
    pub(super) fn new(are_kept: bool) -> Self {
        Self { are_kept, ..Self::default() }
    }

    /// The number of a query, from 0. A response gets the number of its query or, if that is unknown, of the next
    /// query.
    pub(super) fn of(&mut self, message: &Message<'_>) -> u64 {
        let id = u16::from_be_bytes([message.bytes[0], message.bytes[1]]);
        let question = (message.client(), message.server(), id);
        if message.is_response() {
            return self.unanswered.get(&question).copied().unwrap_or(self.next);
        }
        let number = self.next;
        self.next += 1;
        if self.are_kept {
            self.unanswered.insert(question, number);
            self.order.push_back((question, number));
            if self.order.len() > UNANSWERED_MAX
                && let Some((oldest, number)) = self.order.pop_front()
                && self.unanswered.get(&oldest) == Some(&number)
            {
                self.unanswered.remove(&oldest);
            }
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Transport;

    fn number(numbers: &mut Numbers, port: u16, bytes: [u8; 12]) -> u64 {
        let client = SocketAddr::new([192, 0, 2, 1].into(), port);
        let server = SocketAddr::new([192, 0, 2, 53].into(), 53);
        let is_response = bytes[2] & 0x80 != 0;
        let (source, destination) = if is_response { (server, client) } else { (client, server) };
        numbers.of(&Message { at_ns: 0, source, destination, transport: Transport::Udp, bytes: &bytes })
    }

    const fn bytes(id: u8, is_response: bool) -> [u8; 12] {
        [0, id, (is_response as u8) << 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    }

    #[test]
    fn a_response_has_the_number_of_its_query() {
        let mut numbers = Numbers::new(true);
        assert_eq!(number(&mut numbers, 1, bytes(7, false)), 0);
        assert_eq!(number(&mut numbers, 1, bytes(8, false)), 1);
        assert_eq!(number(&mut numbers, 2, bytes(7, false)), 2);
        assert_eq!(number(&mut numbers, 1, bytes(7, true)), 0);
        assert_eq!(number(&mut numbers, 2, bytes(7, true)), 2);
        assert_eq!(number(&mut numbers, 3, bytes(7, true)), 3);
        // The same question again is another query.
        assert_eq!(number(&mut numbers, 1, bytes(7, false)), 3);
        assert_eq!(number(&mut numbers, 1, bytes(7, true)), 3);
    }

    #[test]
    fn the_number_of_kept_queries_is_bounded() {
        let mut numbers = Numbers::new(true);
        for query in 0..UNANSWERED_MAX + 10 {
            number(&mut numbers, (query % 60_000) as u16, bytes((query / 60_000) as u8, false));
        }
        assert_eq!((numbers.unanswered.len(), numbers.order.len()), (UNANSWERED_MAX, UNANSWERED_MAX));
        assert_eq!(number(&mut numbers, 0, bytes(0, true)), UNANSWERED_MAX as u64 + 10);
        assert_eq!(number(&mut numbers, 10, bytes(0, true)), 10);
    }
}
