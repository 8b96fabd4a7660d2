//! DNS over QUIC (RFC 9250): one query per stream.
//!
//! Each runtime has its own endpoint for each address (SO_REUSEPORT). The kernel chooses by the addresses and
//! ports of both sides, so a connection's packets reach its endpoint while the client keeps its address. Migration is
//! off: a client whose address changes must reconnect.

mod code;
mod exchange;
mod stream;
#[cfg(test)]
mod tests;
mod unacknowledged;

use super::Responder;
use super::connection_table::ConnectionPermit;
use super::counters::{CloseReason, HandshakeFailure};
use super::handler::{ConnectionUsage, OpenConnection, OutOfMemory, TransportHandler};
use super::handshake_rate::Address;
use super::memory::MemoryReservation;
use super::work_limiter::WorkLimiter;
use crate::limits::QUIC_HALF_OPEN_MAX;
use crate::tls::quic::Handshake;
use exchange::{Ended, Exchange, exchange};
use quinn::{Connection, ConnectionError, Endpoint, Incoming, VarInt};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::task::JoinSet;
use tokio::time::Instant;
use unacknowledged::Unacknowledged;

/// The first QUIC error code of a TLS alert (RFC 9001 4.8).
const CRYPTO_ERROR: u64 = 0x100;
/// The TLS alert for no common protocol (RFC 7301 3.2).
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// The service of one runtime.
pub(crate) struct DoqService<R> {
    handler: Rc<TransportHandler<R>>,
}

impl<R: Responder + 'static> DoqService<R> {
    pub(crate) fn new(handler: TransportHandler<R>) -> Rc<Self> {
        Rc::new(Self { handler: Rc::new(handler) })
    }

    /// Accepts connections on one endpoint until it is closed. Runs in a `LocalSet`.
    pub(crate) async fn accept(self: Rc<Self>, endpoint: Endpoint) {
        while let Some(incoming) = endpoint.accept().await {
            // A panic is a bug. It closes only this connection, and the endpoint continues.
            if catch_unwind(AssertUnwindSafe(|| self.incoming(incoming))).is_err() {
                self.handler.counters.panics.one_shared();
            }
        }
    }

    fn incoming(self: &Rc<Self>, incoming: Incoming) {
        let (connections, limits) = (&self.handler.connections, &self.handler.limits);
        let peer = incoming.remote_address();
        let is_validated = incoming.remote_address_validated();
        let address = if is_validated { Address::Validated } else { Address::Claimed };
        let is_within = limits.handshake_rate.take(peer.ip(), address);
        // RFC 9000 8.1.2: under load a client must first validate its address. Forged addresses take no slot.
        let must_validate = !is_within || limits.handshakes.count() >= QUIC_HALF_OPEN_MAX;
        if must_validate && !is_validated && incoming.may_retry() {
            connections.retries.one_shared();
            // It cannot fail: `may_retry` was checked.
            let _sent = incoming.retry();
            return;
        }
        if !is_within {
            connections.handshake_failed(HandshakeFailure::OverRate);
            return incoming.refuse();
        }
        let Some(handshake) = limits.handshakes.acquire(peer.ip()) else {
            connections.handshake_failed(HandshakeFailure::OverLimit);
            return incoming.refuse();
        };
        let open = match OpenConnection::enter(&self.handler, peer.ip()) {
            Ok(open) => open,
            Err(why) => {
                connections.record_close(why);
                return incoming.refuse();
            }
        };
        let service = self.clone();
        tokio::task::spawn_local(async move {
            // An evicted client gets an error code.
            let current = RefCell::new(None);
            let work = pin!(async {
                if let Some(connection) = service.handshake(incoming, handshake).await {
                    current.replace(Some(connection.clone()));
                    QuicConnection::new(&service.handler, open.reservation(), connection, peer).run().await;
                }
            });
            let is_evicted = open.unless_evicted(work).await;
            if let Some(connection) = current.take().filter(|_| is_evicted) {
                connection.close(code::EXCESSIVE_LOAD, b"");
            }
        });
    }

    async fn handshake(&self, incoming: Incoming, permit: ConnectionPermit) -> Option<Connection> {
        let counters = &self.handler.connections;
        let peer = incoming.remote_address();
        let outcome = match incoming.accept() {
            Ok(connecting) => permit.unless_evicted(pin!(self.handler.limits.with_handshake_timeout(connecting))).await,
            Err(error) => Some(Some(Err(error))),
        };
        let why = match outcome {
            Some(Some(Ok(connection))) => {
                counters.handshakes.one_shared();
                let data = connection.handshake_data().and_then(|data| data.downcast::<Handshake>().ok());
                if data.is_some_and(|data| data.resumed) {
                    counters.resumed.one_shared();
                }
                return Some(connection);
            }
            Some(Some(Err(error))) => {
                tracing::debug!(%peer, %error, "handshake of QUIC failed");
                reason(&error)
            }
            Some(None) => HandshakeFailure::TimedOut,
            None => HandshakeFailure::Evicted,
        };
        counters.handshake_failed(why);
        None
    }
}

fn reason(error: &ConnectionError) -> HandshakeFailure {
    match error {
        ConnectionError::TimedOut => HandshakeFailure::TimedOut,
        ConnectionError::TransportError(error) => {
            let is_alpn = u64::from(error.code) == CRYPTO_ERROR + u64::from(NO_APPLICATION_PROTOCOL);
            if is_alpn { HandshakeFailure::Alpn } else { HandshakeFailure::Unacceptable }
        }
        ConnectionError::VersionMismatch => HandshakeFailure::Unacceptable,
        _ => HandshakeFailure::Broken,
    }
}

/// One connection.
struct QuicConnection<'d, R> {
    handler: &'d Rc<TransportHandler<R>>,
    connection: Connection,
    peer: SocketAddr,
    usage: Rc<ConnectionUsage>,
    limiter: Rc<WorkLimiter>,
    /// Queries that have their own tasks.
    waiting: JoinSet<Ended>,
    unacknowledged: Unacknowledged,
    /// When the last query arrived, or the last response was sent or acknowledged.
    active_at: Instant,
}

impl<'d, R: Responder + 'static> QuicConnection<'d, R> {
    fn new(
        handler: &'d Rc<TransportHandler<R>>,
        reservation: MemoryReservation,
        connection: Connection,
        peer: SocketAddr,
    ) -> Self {
        let usage = ConnectionUsage::new(reservation, handler.limits.idle);
        let unacknowledged = Unacknowledged::new(usage.clone());
        let (limiter, waiting, active_at) = (Rc::default(), JoinSet::new(), Instant::now());
        Self { handler, connection, peer, usage, limiter, waiting, unacknowledged, active_at }
    }

    /// Answers queries until the client closes the connection, is idle for too long, or breaks a rule.
    async fn run(mut self) {
        let (connection, drain) = (self.connection.clone(), self.handler.drain.clone());
        let _guard = poll_fn(|context| Poll::Ready(drain.register(context))).await;
        let mut accept = Box::pin(connection.accept_bi());
        let mut timer = pin!(tokio::time::sleep_until(self.handler.limits.next_check(self.deadline())));
        let end = poll_fn(|context| {
            // Packets without a query keep QUIC alive, but do not keep the connection.
            while timer.as_mut().poll(context).is_ready() {
                if self.deadline() <= Instant::now() {
                    self.connection.close(code::NO_ERROR, b"");
                    return Poll::Ready(Some(CloseReason::Idle));
                }
                timer.as_mut().reset(self.handler.limits.next_check(self.deadline()));
            }
            loop {
                while let Poll::Ready(Some(ended)) = self.waiting.poll_join_next(context) {
                    if let Err(reason) = self.ended(ended.ok()) {
                        return Poll::Ready(Some(reason));
                    }
                }
                match accept.as_mut().poll(context) {
                    Poll::Pending => {
                        if self.unacknowledged.poll(context) {
                            self.active_at = Instant::now();
                        }
                        if drain.is_started() && self.waiting.is_empty() && self.unacknowledged.is_over() {
                            self.connection.close(code::NO_ERROR, b"");
                            return Poll::Ready(None);
                        }
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok((send, receive))) => {
                        accept.set(connection.accept_bi());
                        if let Err(reason) = self.query(send, receive, context) {
                            return Poll::Ready(Some(reason));
                        }
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(close_reason(&error)),
                }
            }
        })
        .await;
        if let Some(why) = end {
            self.handler.connections.record_close(why);
        }
    }

    /// When the idle connection closes. While a response is pending the deadline moves on, because the response has its
    /// own time limit.
    fn deadline(&self) -> Instant {
        let since = if self.waiting.is_empty() { self.active_at } else { Instant::now() };
        since + self.handler.limits.idle_timeout()
    }

    fn query(
        &mut self,
        send: quinn::SendStream,
        receive: quinn::RecvStream,
        context: &mut Context<'_>,
    ) -> Result<(), CloseReason> {
        let (handler, usage, limiter) = (self.handler.clone(), self.usage.clone(), self.limiter.clone());
        let mut exchange = Box::pin(exchange(handler, usage, limiter, self.peer, send, receive));
        match exchange.as_mut().poll(context) {
            Poll::Ready(ended) => self.ended(Some(ended)),
            Poll::Pending => {
                self.waiting.spawn_local(exchange);
                Ok(())
            }
        }
    }

    /// Handles the end of an exchange; `None` if its task panicked.
    fn ended(&mut self, ended: Option<Ended>) -> Result<(), CloseReason> {
        self.active_at = Instant::now();
        let Some(Ended { how, stream, unacknowledged_bytes }) = ended else { return Ok(()) };
        let close = |code: VarInt, why: &str| self.connection.close(code, why.as_bytes());
        match how {
            Exchange::Done if unacknowledged_bytes == 0 => Ok(()),
            Exchange::Done => self.unacknowledged.add(stream, unacknowledged_bytes).map_err(|OutOfMemory| {
                close(code::EXCESSIVE_LOAD, "");
                CloseReason::Memory
            }),
            Exchange::Slow => {
                close(code::EXCESSIVE_LOAD, "too slow");
                Err(CloseReason::SlowReader)
            }
            Exchange::Broken(rule) => {
                close(code::PROTOCOL_ERROR, rule);
                Err(CloseReason::Protocol)
            }
            Exchange::OutOfMemory => {
                close(code::EXCESSIVE_LOAD, "");
                Err(CloseReason::Memory)
            }
            Exchange::Lost => {
                close(code::INTERNAL_ERROR, "");
                // It was already counted as a panic.
                Ok(())
            }
        }
    }
}

/// Why the server closed a connection; `None` if the client did.
const fn close_reason(error: &ConnectionError) -> Option<CloseReason> {
    match error {
        ConnectionError::TimedOut => Some(CloseReason::Idle),
        ConnectionError::TransportError(_) => Some(CloseReason::Protocol),
        _ => None,
    }
}
