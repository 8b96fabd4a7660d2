//! Messages that were decoded and not yet returned.

use crate::message::{Message, Transport};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

/// A queue of messages. Their bytes share one buffer, which is reused when the queue is empty.
#[derive(Default)]
pub(crate) struct MessageQueue {
    bytes: Vec<u8>,
    heads: VecDeque<Head>,
}

struct Head {
    at_ns: u64,
    source: SocketAddr,
    destination: SocketAddr,
    transport: Transport,
    range: Range<usize>,
}

impl MessageQueue {
    pub(crate) fn push(&mut self, message: Message<'_>) {
        if self.heads.is_empty() {
            self.bytes.clear();
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message.bytes);
        let Message { at_ns, source, destination, transport, .. } = message;
        self.heads.push_back(Head { at_ns, source, destination, transport, range: start..self.bytes.len() });
    }

    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Time of the first message.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.heads.front().map(|head| head.at_ns)
    }

    pub(crate) fn pop(&mut self) -> Option<Message<'_>> {
        let Head { at_ns, source, destination, transport, range } = self.heads.pop_front()?;
        Some(Message { at_ns, source, destination, transport, bytes: &self.bytes[range] })
    }
}
