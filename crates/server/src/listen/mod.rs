//! The listeners for clients: bytes in, bytes out. `answer` decides what messages mean.
//!
//! ```text
//!   udp (batch, sockets) -------------------+
//!   tcp --+--> connection (framing) --------+
//!         +--> handshake --> connection ----+--> Responder --> Action: Silent | Respond | Defer
//!         +--> handshake --> doh -----------+
//!   doq (quinn) ----------------------------+
//! ```

// Opening sockets.
pub(crate) mod client_sockets;
pub(crate) mod sockets;
// Transports and their counters.
pub(crate) mod counters;
mod transport;
// UDP: batches of datagrams, one thread per core.
pub(crate) mod batch;
pub(crate) mod udp;
// Connections: one runtime per core; what they share, and their limits.
pub(crate) mod connection_table;
pub(crate) mod drain;
pub(crate) mod drops;
#[cfg(test)]
mod echo;
#[cfg(test)]
mod flood;
pub(crate) mod handler;
pub(crate) mod handshake_rate;
mod memory;
mod min_send_rate;
pub(crate) mod trim_memory;
mod work_limiter;
// TCP, and TLS on it.
mod connection;
mod framing;
pub(crate) mod handshake;
pub(crate) mod tcp;
// HTTP/2 on that.
mod doh;
// QUIC.
pub(crate) mod doq;

use crate::combiner::Dispatch;
use crate::limits::{TCP_PIPELINE_MAX, TRANSFER_QUEUE_MAX, TRANSFERS_MAX};
use batch::{BatchSocket, DatagramBatch};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, error::TrySendError};
use wire::parse::DropReason;

pub(crate) use transport::Transport;

/// What to do with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Send no response.
    Silent,
    /// Send the response in the buffer, of this many bytes.
    Respond(usize),
    /// Pass it to an update thread: an UPDATE or a signed message takes too long for a packet worker.
    Defer,
}

/// Makes responses. Each worker has its own responder.
pub(crate) trait Responder {
    /// Answers one batch from a single version of all zones.
    type Pinned<'a>: PinnedResponder
    where
        Self: 'a;

    /// Pins the newest version of all zones.
    fn pin(&mut self) -> Self::Pinned<'_>;

    /// Records that the worker pins no version while it waits for messages.
    fn offline(&mut self);
}

/// See [`Responder::pin`].
pub(crate) trait PinnedResponder {
    /// Handles one message of a connection; a response goes to `out`.
    fn respond(&mut self, bytes: &[u8], peer: SocketAddr, transport: Transport, out: &mut [u8]) -> Action;

    /// Counts a message that the listener drops without a response.
    fn ignore(&mut self, reason: DropReason) {
        let _ = reason;
    }

    /// Handles the datagrams of a batch; responses stay in the batch. It may look up and check all of them together.
    fn respond_batch(&mut self, batch: &mut DatagramBatch) {
        batch.handle_each(batch.answerable(), |_, datagram, out| {
            Some(self.respond(datagram.bytes, datagram.peer, Transport::Udp, out))
        });
    }

    /// Passes a message to an update thread, or runs it inline. If the queue is full the response is SERVFAIL.
    fn defer(&mut self, bytes: &[u8], reply: Reply, dispatch: Dispatch, out: &mut [u8]) -> Action;
}

/// Maximum deferred responses of one connection: one per deferred request, and the parts of transfers.
pub(crate) const DEFERRED_RESPONSES_MAX: usize = TCP_PIPELINE_MAX + TRANSFERS_MAX * TRANSFER_QUEUE_MAX;

/// The destination of the response to a deferred message.
#[derive(Clone)]
pub(crate) enum Reply {
    /// To the sender of the datagram, from the address that it was sent to.
    Udp { socket: Arc<BatchSocket>, peer: SocketAddr, local: Option<IpAddr> },
    /// To the connection or stream of the request. Only some may carry zone transfers.
    Stream { peer: SocketAddr, transport: Transport, transfers: bool, connection: Sender<DeferredResponse> },
}

/// A response that reaches its connection later.
#[derive(Debug)]
pub(crate) enum DeferredResponse {
    /// A whole response.
    Message(Vec<u8>),
    /// One message of several, with its permit of the queue; the last one is a [`DeferredResponse::Message`].
    Part(Vec<u8>, OwnedSemaphorePermit),
    /// There is no response: the connection closes.
    Close,
}

impl Reply {
    pub(crate) const fn peer(&self) -> SocketAddr {
        match self {
            Self::Udp { peer, .. } | Self::Stream { peer, .. } => *peer,
        }
    }

    pub(crate) const fn transport(&self) -> Transport {
        match self {
            Self::Udp { .. } => Transport::Udp,
            Self::Stream { transport, .. } => *transport,
        }
    }

    /// Whether a response of many messages is possible.
    pub(crate) const fn takes_transfers(&self) -> bool {
        matches!(self, Self::Stream { transfers: true, .. })
    }

    /// Sends a whole response. It is lost if the client is gone or the kernel's buffer is full.
    pub(crate) fn send(self, response: Vec<u8>) {
        match self {
            Self::Udp { socket, peer, local } => {
                if let Err(error) = socket.send_one(&response, peer, local) {
                    tracing::debug!(%peer, %error, "response not sent");
                }
            }
            Self::Stream { connection, .. } => give(&connection, DeferredResponse::Message(response)),
        }
    }

    /// Ends a request without a response: a UDP client retries, and a stream is closed.
    pub(crate) fn give_up(self) {
        if let Self::Stream { connection, .. } = self {
            give(&connection, DeferredResponse::Close);
        }
    }
}

fn give(connection: &Sender<DeferredResponse>, late: DeferredResponse) {
    match connection.try_send(late) {
        // The client closed the connection.
        Ok(()) | Err(TrySendError::Closed(_)) => {}
        // The queue has room for every request in flight. Only a panic after a response adds one entry.
        Err(TrySendError::Full(late)) => {
            debug_assert!(matches!(late, DeferredResponse::Close), "more responses than requests")
        }
    }
}
