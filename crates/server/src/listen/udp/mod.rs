//! UDP: one thread for each core, each with its own sockets, in batches, without a lock or an allocation for a query.

use super::batch::{Batch, BatchSocket, ReceiveResult, wait};
use super::counters::ListenCounters;
use super::{Action, PinnedResponder, Reply, Responder};
use crate::combiner::Dispatch;
use crate::limits::{DATAGRAM_AT_ONCE_MAX, UDP_BATCH_COUNT, UDP_WAIT_MS};
use crate::stop::Stop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wire::parse::DropReason;

/// One worker.
pub(crate) struct UdpWorker<R> {
    sockets: Vec<Arc<BatchSocket>>,
    responder: R,
    counters: Arc<ListenCounters>,
}

impl<R: Responder> UdpWorker<R> {
    pub(crate) fn new(sockets: Vec<BatchSocket>, responder: R, counters: Arc<ListenCounters>) -> Self {
        Self { sockets: sockets.into_iter().map(Arc::new).collect(), responder, counters }
    }

    /// Works until told to stop.
    pub(crate) fn run(mut self, stop: &Stop) {
        let mut batch = Batch::new();
        while !stop.is_ordered() {
            self.responder.offline();
            let mut ready = match wait(&self.sockets, UDP_WAIT_MS) {
                Ok(ready) => ready,
                Err(error) => {
                    crate::error_limited!(%error, "cannot wait for datagrams");
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    continue;
                }
            };
            // Sockets are served in turn, a batch each, until none has anything: no socket starves another.
            while ready != 0 {
                for index in 0..self.sockets.len() {
                    if ready & 1 << index != 0 && !self.serve(&mut batch, index, ready == 1 << index) {
                        ready &= !(1 << index);
                    }
                }
                if stop.is_ordered() {
                    return;
                }
            }
        }
    }

    /// Serves one batch of a socket, which may be the only one that has any; says whether it may have more.
    fn serve(&mut self, batch: &mut Batch, index: usize, is_only: bool) -> bool {
        let socket = &self.sockets[index];
        let ReceiveResult { count, may_have_more } = match batch.receive(socket) {
            Ok(taken) => taken,
            Err(error) => {
                // An ICMP error of an earlier response, most likely: the socket goes on.
                tracing::debug!(%error, "datagrams not received");
                return false;
            }
        };
        let mut pinned = self.responder.pin();
        if count > 1 && catch_unwind(AssertUnwindSafe(|| pinned.prepare(batch.datagrams()))).is_err() {
            self.counters.panics.one();
        }
        let mut undecided = 0u64;
        for at in 0..count {
            // A panic is a bug of ours; it costs the message that met it, never the worker.
            let action = catch_unwind(AssertUnwindSafe(|| {
                let Some((received, out)) = batch.exchange(at) else { return Some(Action::Silent) };
                if received.is_multicast {
                    // Every server that hears it would answer, and an address of many is none to answer from.
                    pinned.ignore(DropReason::Multicast);
                    return Some(Action::Silent);
                }
                match pinned.respond_prepared(at, received.bytes, received.peer, out)? {
                    Action::Defer => {
                        let reply = Reply::Udp { socket: socket.clone(), peer: received.peer, local: received.local };
                        let is_alone = is_only && count == 1 && received.bytes.len() <= DATAGRAM_AT_ONCE_MAX;
                        Some(pinned.defer(received.bytes, reply, Dispatch::inline_if(is_alone), out))
                    }
                    action => Some(action),
                }
            }));
            match action {
                Ok(Some(Action::Respond(len))) => batch.respond(at, len),
                Ok(Some(Action::Silent | Action::Defer)) => {}
                Ok(None) => undecided |= 1 << at,
                Err(_) => self.counters.panics.one(),
            }
        }
        apply_limit(&mut pinned, batch, undecided, &self.counters);
        drop(pinned);
        self.counters.udp_not_sent.add(batch.send(socket) as u64);
        may_have_more
    }
}

/// Decides about responses that were left undecided: a bit for each.
fn apply_limit(pinned: &mut impl PinnedResponder, batch: &mut Batch, mut undecided: u64, counters: &ListenCounters) {
    const { assert!(UDP_BATCH_COUNT <= u64::BITS as usize, "a bit for each datagram") };
    if undecided == 0 {
        return;
    }
    pinned.prefetch_limits(undecided);
    while undecided != 0 {
        let at = undecided.trailing_zeros() as usize;
        undecided &= undecided - 1;
        let action = catch_unwind(AssertUnwindSafe(|| {
            let (received, out) = batch.exchange(at)?;
            Some(pinned.apply_limit(at, received.bytes, received.peer, out))
        }));
        match action {
            Ok(Some(Action::Respond(len))) => batch.respond(at, len),
            Ok(_) => {}
            Err(_) => counters.panics.one(),
        }
    }
}

#[cfg(test)]
mod multicast;
#[cfg(test)]
mod steady;
