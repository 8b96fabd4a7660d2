//! Messages that were found and not yet taken.

use crate::message::{Message, Transport};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

/// In the order in which they were found; their octets lie in one buffer, which is used again when all are taken.
#[derive(Default)]
pub(crate) struct Held {
    octets: Vec<u8>,
    heads: VecDeque<Head>,
}

struct Head {
    at_ns: u64,
    source: SocketAddr,
    destination: SocketAddr,
    transport: Transport,
    range: Range<usize>,
}

impl Held {
    pub(crate) fn push(&mut self, message: Message<'_>) {
        if self.heads.is_empty() {
            self.octets.clear();
        }
        let start = self.octets.len();
        self.octets.extend_from_slice(message.octets);
        let Message { at_ns, source, destination, transport, .. } = message;
        self.heads.push_back(Head { at_ns, source, destination, transport, range: start..self.octets.len() });
    }

    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// When the first of them was seen.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.heads.front().map(|head| head.at_ns)
    }

    pub(crate) fn pop(&mut self) -> Option<Message<'_>> {
        let Head { at_ns, source, destination, transport, range } = self.heads.pop_front()?;
        Some(Message { at_ns, source, destination, transport, octets: &self.octets[range] })
    }
}
