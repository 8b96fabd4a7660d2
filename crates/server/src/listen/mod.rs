//! What clients talk to: octets in, octets out. What a message means is the business of `service`.
//!
//! ```text
//!   udp (batch, sockets) --+
//!                          +--> Responder --> Action: nothing | a response | for the update threads
//!   tcp (framing, limits) -+
//! ```

// Getting sockets.
pub(crate) mod sockets;
// UDP: batches of datagrams, a thread for each core.
pub(crate) mod batch;
pub(crate) mod udp;
// TCP: a runtime for each core.
pub(crate) mod clients;
pub(crate) mod framing;
pub(crate) mod tcp;

use crate::limits::{TCP_PIPELINE_MAX, TRANSFER_QUEUE_MAX, TRANSFERS_MAX};
use crate::metrics::Gauge;
use batch::BatchSocket;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, error::TrySendError};

pub(crate) use replica::io::Transport;

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// It gets no response.
    Silent,
    /// The response is in the buffer, so many octets of it.
    Respond(usize),
    /// It takes longer than a packet worker may take: UPDATE, or signed.
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
    fn respond(&mut self, octets: &[u8], peer: SocketAddr, transport: Transport, out: &mut [u8]) -> Action;

    /// Takes a message over for the update threads; gives the response that says it could not (SERVFAIL).
    fn defer(&mut self, octets: &[u8], reply: Reply, out: &mut [u8]) -> Action;

    /// These come next, one by one: what their responses are made from may be fetched for all of them at once.
    fn prepare<'m>(&mut self, messages: impl Iterator<Item = &'m [u8]>);
}

/// Responses that may wait for one connection: one for each deferred request, and the parts of transfers.
pub(crate) const LATE_MAX: usize = TCP_PIPELINE_MAX + TRANSFERS_MAX * TRANSFER_QUEUE_MAX;

/// Where the response to a deferred message goes.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Back to where the datagram came from, from the address that it was sent to.
    Udp { socket: Arc<BatchSocket>, peer: SocketAddr, local: Option<IpAddr> },
    /// To the connection that it came on.
    Tcp { peer: SocketAddr, connection: Sender<Late> },
}

/// A response that comes to a connection later.
#[derive(Debug)]
pub(crate) enum Late {
    /// One that is whole.
    Message(Vec<u8>),
    /// One of several, with its share of the queue; the last follows as [`Late::Message`].
    Part(Vec<u8>, OwnedSemaphorePermit),
    /// None ever comes: the connection is closed.
    Close,
}

impl Reply {
    pub(crate) const fn peer(&self) -> SocketAddr {
        match self {
            Self::Udp { peer, .. } | Self::Tcp { peer, .. } => *peer,
        }
    }

    pub(crate) const fn transport(&self) -> Transport {
        match self {
            Self::Udp { .. } => Transport::Udp,
            Self::Tcp { .. } => Transport::Tcp,
        }
    }

    /// Sends a whole response. It is lost when the client is gone, or the kernel's buffer is full.
    pub(crate) fn send(self, response: Vec<u8>) {
        match self {
            Self::Udp { socket, peer, local } => {
                if let Err(error) = socket.send_one(&response, peer, local) {
                    tracing::debug!(%peer, %error, "response not sent");
                }
            }
            Self::Tcp { connection, .. } => give(&connection, Late::Message(response)),
        }
    }

    /// Says that no response will come: silence makes a client over UDP repeat its octets, over TCP it would wait.
    pub(crate) fn give_up(self) {
        if let Self::Tcp { connection, .. } = self {
            give(&connection, Late::Close);
        }
    }
}

fn give(connection: &Sender<Late>, late: Late) {
    match connection.try_send(late) {
        // The client hung up.
        Ok(()) | Err(TrySendError::Closed(_)) => {}
        // The queue has room for every request that a connection may have in flight.
        Err(TrySendError::Full(_)) => debug_assert!(false, "more responses than requests"),
    }
}

/// What the listeners count beside what messages mean.
#[derive(Default, Debug)]
pub(crate) struct ListenCounters {
    /// Datagrams that the kernel did not take.
    pub(crate) udp_not_sent: crate::metrics::Counter,
    /// Panics that were caught; each is a bug.
    pub(crate) panics: crate::metrics::Counter,
    /// Connections accepted.
    pub(crate) tcp_accepted: crate::metrics::Counter,
    /// Connections refused because of a limit.
    pub(crate) tcp_over_limit: crate::metrics::Counter,
    /// Connections closed for silence.
    pub(crate) tcp_idle: crate::metrics::Counter,
    /// Connections closed because the client did not read.
    pub(crate) tcp_slow_reader: crate::metrics::Counter,
    /// Connections open now.
    pub(crate) tcp_open: Gauge,
}
