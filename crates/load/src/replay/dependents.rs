//! Queries that wait until the previous query of the same client was answered or has timed out.

use super::block::Entry;
use crate::limits::REPLAY_HELD_BYTES;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Memory per query besides its message.
const QUERY_BYTES_BESIDES: usize = 64;

/// The queued queries of all clients.
#[derive(Debug)]
pub(super) struct DependentQueries {
    /// Clients with a query in flight.
    is_busy: Vec<bool>,
    /// The queued queries of each client, in order.
    queued: BTreeMap<u32, VecDeque<QueuedQuery>>,
    queued_bytes: usize,
    /// Clients that may send, and since when.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
}

#[derive(Debug)]
struct QueuedQuery {
    planned_ns: u64,
    bytes: Vec<u8>,
}

impl QueuedQuery {
    fn bytes(&self) -> usize {
        self.bytes.len() + QUERY_BYTES_BESIDES
    }
}

impl DependentQueries {
    pub(super) fn new(client_count: usize) -> Self {
        Self { is_busy: vec![false; client_count], queued: BTreeMap::new(), queued_bytes: 0, ready: BinaryHeap::new() }
    }

    /// Whether a query of this client must wait.
    pub(super) fn must_wait(&self, client: u32) -> bool {
        self.is_busy[client as usize] || self.queued.contains_key(&client)
    }

    /// Queues a query. Returns `false` if there is no room.
    pub(super) fn enqueue(&mut self, entry: Entry, message: &[u8]) -> bool {
        let queued = QueuedQuery { planned_ns: entry.planned_ns, bytes: message.to_vec() };
        if self.queued_bytes + queued.bytes() > REPLAY_HELD_BYTES {
            return false;
        }
        self.queued_bytes += queued.bytes();
        self.queued.entry(entry.client).or_default().push_back(queued);
        true
    }

    /// A client has sent a query.
    pub(super) fn sent(&mut self, client: u32) {
        self.is_busy[client as usize] = true;
    }

    /// A query was answered at `at_ns`, or will not be.
    pub(super) fn query_done(&mut self, client: u32, at_ns: u64) {
        if !std::mem::take(&mut self.is_busy[client as usize]) {
            return;
        }
        if let Some(next) = self.queued.get(&client).and_then(VecDeque::front) {
            self.ready.push(Reverse((next.planned_ns.max(at_ns), client)));
        }
    }

    /// The next client that may send, and since when.
    pub(super) fn next(&self) -> Option<(u64, u32)> {
        self.ready.peek().map(|&Reverse(next)| next)
    }

    /// Its message.
    pub(super) fn message(&self) -> &[u8] {
        let client = self.next().map(|(_, client)| client);
        let queued = client.and_then(|client| self.queued.get(&client)?.front());
        queued.map_or(&[], |queued| &queued.bytes)
    }

    /// The message was sent.
    pub(super) fn advance(&mut self) {
        let Some(Reverse((_, client))) = self.ready.pop() else { return };
        self.sent(client);
        let Some(queue) = self.queued.get_mut(&client) else { return };
        self.queued_bytes -= queue.pop_front().map_or(0, |queued| queued.bytes());
        if queue.is_empty() {
            self.queued.remove(&client);
        }
    }

    /// Whether no query is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }
}
