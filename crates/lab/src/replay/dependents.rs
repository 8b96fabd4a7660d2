//! Queries that wait until the one before them, of the same client, is answered or given up.

use super::block::Entry;
use crate::limits::REPLAY_HELD_BYTES;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Bytes that a query takes beside its message.
const QUERY_BYTES_BESIDES: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Dependents {
    /// Clients that wait for an answer.
    is_busy: Vec<bool>,
    /// What each is to send then, in order.
    held: BTreeMap<u32, VecDeque<Held>>,
    held_bytes: usize,
    /// Clients whose turn it is: from when on.
    free: BinaryHeap<Reverse<(u64, u32)>>,
}

#[derive(Debug)]
struct Held {
    planned_ns: u64,
    bytes: Vec<u8>,
}

impl Held {
    fn bytes(&self) -> usize {
        self.bytes.len() + QUERY_BYTES_BESIDES
    }
}

impl Dependents {
    pub(super) fn new(client_count: usize) -> Self {
        Self { is_busy: vec![false; client_count], held: BTreeMap::new(), held_bytes: 0, free: BinaryHeap::new() }
    }

    /// Whether a query of this client is to wait.
    pub(super) fn must_wait(&self, client: u32) -> bool {
        self.is_busy[client as usize] || self.held.contains_key(&client)
    }

    /// Keeps a query that is to wait; `false` when there is no room for it.
    pub(super) fn hold(&mut self, entry: Entry, message: &[u8]) -> bool {
        let held = Held { planned_ns: entry.planned_ns, bytes: message.to_vec() };
        if self.held_bytes + held.bytes() > REPLAY_HELD_BYTES {
            return false;
        }
        self.held_bytes += held.bytes();
        self.held.entry(entry.client).or_default().push_back(held);
        true
    }

    /// A client has sent a query.
    pub(super) fn sent(&mut self, client: u32) {
        self.is_busy[client as usize] = true;
    }

    /// Its query was answered at `at_ns`, or will not be.
    pub(super) fn settled(&mut self, client: u32, at_ns: u64) {
        if !std::mem::take(&mut self.is_busy[client as usize]) {
            return;
        }
        if let Some(next) = self.held.get(&client).and_then(VecDeque::front) {
            self.free.push(Reverse((next.planned_ns.max(at_ns), client)));
        }
    }

    /// The next whose turn it is: from when on, and who.
    pub(super) fn next(&self) -> Option<(u64, u32)> {
        self.free.peek().map(|&Reverse(next)| next)
    }

    /// What it sends.
    pub(super) fn message(&self) -> &[u8] {
        let client = self.next().map(|(_, client)| client);
        let held = client.and_then(|client| self.held.get(&client)?.front());
        held.map_or(&[], |held| &held.bytes)
    }

    /// It has been sent.
    pub(super) fn advance(&mut self) {
        let Some(Reverse((_, client))) = self.free.pop() else { return };
        self.sent(client);
        let Some(queue) = self.held.get_mut(&client) else { return };
        self.held_bytes -= queue.pop_front().map_or(0, |held| held.bytes());
        if queue.is_empty() {
            self.held.remove(&client);
        }
    }

    /// Whether anything waits.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
