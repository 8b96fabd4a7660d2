//! UDP workers: one thread per core with its own sockets. A query costs no lock and no allocation.

use super::batch::{BatchSocket, DatagramBatch, wait};
use super::counters::ListenCounters;
use super::{PinnedResponder, Reply, Responder};
use crate::combiner::Dispatch;
use crate::limits::DATAGRAM_AT_ONCE_MAX;
use process::stop::Stop;
use std::sync::Arc;
use wire::parse::DropReason;

/// Longest sleep of a UDP worker between checks for the stop order.
const UDP_WAIT_MS: i32 = 100;

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

    /// Answers datagrams until it is ordered to stop.
    pub(crate) fn run(mut self, stop: &Stop) {
        let mut batch = DatagramBatch::new();
        while !stop.is_ordered() {
            self.responder.offline();
            let mut ready = match wait(&self.sockets, UDP_WAIT_MS) {
                Ok(ready) => ready,
                Err(error) => {
                    process::error_limited!(%error, "cannot wait for datagrams");
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    continue;
                }
            };
            // Sockets take turns, one batch each, until all are empty. So no socket starves another.
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

    /// Serves one batch of a socket; returns whether the socket may have more. `is_only`: no other socket is readable.
    fn serve(&mut self, batch: &mut DatagramBatch, index: usize, is_only: bool) -> bool {
        let socket = &self.sockets[index];
        let may_have_more = match batch.receive(socket) {
            Ok(may_have_more) => may_have_more,
            Err(error) => {
                // Most likely an ICMP error of an earlier response. The socket still works.
                tracing::debug!(%error, "datagrams not received");
                return false;
            }
        };
        let is_alone = is_only && batch.len() == 1;
        let mut pinned = self.responder.pin();
        pinned.respond_batch(batch);
        let deferred = batch.take_deferred();
        batch.handle_each(deferred, |_, datagram, out| {
            let reply = Reply::Udp { socket: socket.clone(), peer: datagram.peer, local: datagram.local };
            let is_inline = is_alone && datagram.bytes.len() <= DATAGRAM_AT_ONCE_MAX;
            Some(pinned.defer(datagram.bytes, reply, Dispatch::inline_if(is_inline), out))
        });
        // Multicast gets no response: every server of the group would answer, and none from the group's address.
        (0..batch.multicast_count()).for_each(|_| pinned.ignore(DropReason::Multicast));
        drop(pinned);
        self.counters.panics.add(batch.panic_count() as u64);
        self.counters.udp_not_sent.add(batch.send(socket) as u64);
        may_have_more
    }
}

#[cfg(test)]
mod multicast;
#[cfg(test)]
mod steady;
