//! What clients talk to: bytes in, bytes out. What a message means is the business of `service`.
//!
//! ```text
//!   udp (batch, sockets) -------------------+
//!   tcp --+--> connection (framing) --------+
//!         +--> handshake --> connection ----+--> Responder --> Action: nothing | a response | for the update threads
//!         +--> handshake --> doh -----------+
//!   doq (quinn) ----------------------------+
//! ```

// Getting sockets.
pub(crate) mod sockets;
// What carries messages, and what is counted of it.
pub(crate) mod counters;
mod transport;
// UDP: batches of datagrams, a thread for each core.
pub(crate) mod batch;
pub(crate) mod udp;
// Connections: a runtime for each core; what they share, and how many there may be.
pub(crate) mod connection_table;
pub(crate) mod drain;
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
use batch::BatchSocket;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, error::TrySendError};
use wire::parse::DropReason;

pub(crate) use transport::Transport;

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// It gets no response.
    Silent,
    /// The response is in the buffer, so many bytes of it.
    Respond(usize),
    /// It takes longer than a packet worker may take while others wait: UPDATE, or signed.
    Defer,
}

/// Makes responses. Each worker has its own.
pub(crate) trait Responder {
    /// One that answers from a single version of all zones, for one batch.
    type Pinned<'a>: PinnedResponder
    where
        Self: 'a;

    /// Looks at the newest version.
    fn pin(&mut self) -> Self::Pinned<'_>;

    /// Says that the worker is about to wait and holds on to nothing.
    fn offline(&mut self);
}

/// See [`Responder::pin`].
pub(crate) trait PinnedResponder {
    /// Decides about one message; a response goes to `out`.
    fn respond(&mut self, bytes: &[u8], peer: SocketAddr, transport: Transport, out: &mut [u8]) -> Action;

    /// Counts a message that its listener keeps to itself: it gets no response.
    fn ignore(&mut self, reason: DropReason) {
        let _ = reason;
    }

    /// As [`PinnedResponder::respond`], for the datagram that was the `index`th of [`PinnedResponder::prepare`]. `None`
    /// says that there is a response, and that what becomes of it is known once those of the whole batch are there.
    fn respond_prepared(&mut self, index: usize, bytes: &[u8], peer: SocketAddr, out: &mut [u8]) -> Option<Action> {
        let _ = index;
        Some(self.respond(bytes, peer, Transport::Udp, out))
    }

    /// The responses of the batch are there; these were left undecided, a bit for each.
    fn prefetch_limits(&mut self, undecided: u64) {
        let _ = undecided;
    }

    /// Decides about the response to the `index`th datagram, which was left undecided and is still in `out`.
    fn apply_limit(&mut self, index: usize, bytes: &[u8], peer: SocketAddr, out: &mut [u8]) -> Action {
        let _ = (index, bytes, peer, out);
        Action::Silent
    }

    /// Takes a message over for the update threads, or carries it out where it is alone; gives the response that says
    /// it could not (SERVFAIL).
    fn defer(&mut self, bytes: &[u8], reply: Reply, dispatch: Dispatch, out: &mut [u8]) -> Action;

    /// These datagrams come next: what their responses are made from may be looked up for all of them at once.
    fn prepare<'m>(&mut self, messages: impl Iterator<Item = &'m [u8]>);
}

/// Responses that may wait for one connection: one for each deferred request, and the parts of transfers.
pub(crate) const DEFERRED_RESPONSES_MAX: usize = TCP_PIPELINE_MAX + TRANSFERS_MAX * TRANSFER_QUEUE_MAX;

/// Where the response to a deferred message goes.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Back to where the datagram came from, from the address that it was sent to.
    Udp { socket: Arc<BatchSocket>, peer: SocketAddr, local: Option<IpAddr> },
    /// To the connection, or the stream of one, that it came on; a zone may be transferred over some.
    Stream { peer: SocketAddr, transport: Transport, transfers: bool, connection: Sender<DeferredResponse> },
}

/// A response that comes to a connection later.
#[derive(Debug)]
pub(crate) enum DeferredResponse {
    /// One that is whole.
    Message(Vec<u8>),
    /// One of several, with its share of the queue; the last follows as [`DeferredResponse::Message`].
    Part(Vec<u8>, OwnedSemaphorePermit),
    /// None ever comes: the connection is closed.
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

    /// Whether a response of many messages may go there.
    pub(crate) const fn takes_transfers(&self) -> bool {
        matches!(self, Self::Stream { transfers: true, .. })
    }

    /// Sends a whole response. It is lost when the client is gone, or the kernel's buffer is full.
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

    /// Says that no response will come: silence makes a client over UDP repeat its bytes, on a stream it would wait.
    pub(crate) fn give_up(self) {
        if let Self::Stream { connection, .. } = self {
            give(&connection, DeferredResponse::Close);
        }
    }
}

fn give(connection: &Sender<DeferredResponse>, late: DeferredResponse) {
    match connection.try_send(late) {
        // The client hung up.
        Ok(()) | Err(TrySendError::Closed(_)) => {}
        // The queue has room for every request that a connection may have in flight. Who panics behind a response says
        // one word more.
        Err(TrySendError::Full(late)) => {
            debug_assert!(matches!(late, DeferredResponse::Close), "more responses than requests")
        }
    }
}
