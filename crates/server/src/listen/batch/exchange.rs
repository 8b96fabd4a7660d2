//! The datagrams of a batch and their responses, for the code that answers them.

use super::runs::Response;
use super::{DatagramBatch, IndexSet, RECEIVE_STRIDE, Route};
use crate::limits::UDP_BATCH_COUNT;
use crate::listen::Action;
use config::limits::UDP_RESPONSE_BYTES_MAX;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A received datagram: its bytes, its sender, and its destination address if the socket reports it.
#[derive(Clone, Copy)]
pub(crate) struct Datagram<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) peer: SocketAddr,
    pub(crate) local: Option<IpAddr>,
}

impl DatagramBatch {
    /// The number of datagrams of the last receive.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// The datagrams of the last receive.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let datagrams = self.received.chunks(RECEIVE_STRIDE).zip(&self.lengths[..self.count]);
        datagrams.map(|(bytes, &len)| &bytes[..len])
    }

    /// The datagrams that may get a response: they were sent to this host alone, from a known address.
    pub(crate) const fn answerable(&self) -> IndexSet {
        self.answerable
    }

    /// The number of datagrams that were sent to a multicast group or a broadcast address.
    pub(crate) const fn multicast_count(&self) -> usize {
        self.multicast_count
    }

    /// A datagram, and the slot for its response. `None` if the address of its sender is unknown.
    pub(super) fn exchange(&mut self, index: usize) -> Option<(Datagram<'_>, &mut [u8])> {
        assert!(index < self.count);
        let Route { peer, local } = self.routes[index];
        let bytes = &self.received[index * RECEIVE_STRIDE..][..self.lengths[index]];
        let out = &mut self.sent[index * UDP_RESPONSE_BYTES_MAX..][..UDP_RESPONSE_BYTES_MAX];
        Some((Datagram { bytes, peer: peer?, local }, out))
    }

    /// Records that the slot of datagram `index` holds a response of `len` bytes.
    pub(super) fn respond(&mut self, index: usize, len: usize) {
        assert!(index < self.count && len <= UDP_RESPONSE_BYTES_MAX && self.response_count < UDP_BATCH_COUNT);
        self.responses[self.response_count] = Response { index, bytes: len };
        self.response_count += 1;
    }

    /// Calls `handle` for each of these datagrams, with its index and the slot for its response, and records the
    /// actions. Returns the datagrams without an action.
    pub(crate) fn handle_each(
        &mut self,
        indexes: IndexSet,
        mut handle: impl FnMut(usize, Datagram<'_>, &mut [u8]) -> Option<Action>,
    ) -> IndexSet {
        let mut undecided = IndexSet::default();
        for index in indexes {
            let Some((datagram, out)) = self.exchange(index) else { continue };
            // A panic is a bug. It costs this message its response, and the worker continues.
            match catch_unwind(AssertUnwindSafe(|| handle(index, datagram, out))) {
                Ok(Some(Action::Respond(len))) => self.respond(index, len),
                Ok(Some(Action::Defer)) => self.deferred.insert(index),
                Ok(Some(Action::Silent)) => {}
                Ok(None) => undecided.insert(index),
                Err(_) => self.panic_count += 1,
            }
        }
        undecided
    }

    /// Calls `prepare` for the whole batch. A panic is counted, and the batch is answered without the preparation.
    pub(crate) fn prepare(&mut self, prepare: impl FnOnce(&Self)) {
        if catch_unwind(AssertUnwindSafe(|| prepare(self))).is_err() {
            self.panic_count += 1;
        }
    }

    /// The datagrams that were deferred since the last call.
    pub(crate) fn take_deferred(&mut self) -> IndexSet {
        std::mem::take(&mut self.deferred)
    }

    /// The number of panics since the last receive.
    pub(crate) const fn panic_count(&self) -> usize {
        self.panic_count
    }
}

#[cfg(test)]
impl DatagramBatch {
    /// A batch of these datagrams from one client.
    pub(crate) fn of(datagrams: &[&[u8]], peer: SocketAddr) -> Self {
        let mut batch = Self::new();
        for (index, bytes) in datagrams.iter().enumerate() {
            batch.received[index * RECEIVE_STRIDE..][..bytes.len()].copy_from_slice(bytes);
            batch.lengths[index] = bytes.len();
            batch.routes[index] = Route { peer: Some(peer), local: None };
            batch.answerable.insert(index);
        }
        batch.count = datagrams.len();
        batch
    }

    /// The action for datagram `index`, and the whole slot for its response.
    pub(crate) fn outcome(&self, index: usize) -> (Action, &[u8]) {
        let out = &self.sent[index * UDP_RESPONSE_BYTES_MAX..][..UDP_RESPONSE_BYTES_MAX];
        let mut responses = self.responses[..self.response_count].iter();
        let action = match responses.find(|response| response.index == index) {
            Some(response) => Action::Respond(response.bytes),
            None if self.deferred.contains(index) => Action::Defer,
            None => Action::Silent,
        };
        (action, out)
    }
}
