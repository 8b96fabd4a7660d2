//! DNS over HTTPS (RFC 8484) on one connection of HTTP/2 (RFC 9113).
//!
//! ```text
//!   stalls    the stream below, which notes since when nothing can be written
//!   request   which message a request carries, or which status it gets
//!   exchange  one request, from its headers to the end of its response
//!   freshness how long a response may be kept
//! ```
//! What answers at once is answered at once; what waits for a body, for the replica or for the client's window has a
//! task of its own, and all of these end with the connection.

mod exchange;
mod freshness;
mod request;
mod stalls;

use super::Responder;
use super::counters::CloseReason;
use super::handler::{ConnectionUsage, TransportHandler};
use super::memory::MemoryReservation;
use super::work_limiter::WorkLimiter;
use crate::limits::{
    HTTP_DRAIN_MS, HTTP_HEADERS_BYTES_MAX, HTTP_LOCAL_RESETS_MAX, HTTP_PENDING_RESETS_MAX, HTTP_RESETS_MAX,
    HTTP_SEND_BUFFER_BYTES, HTTP_STREAMS_MAX, HTTP_WINDOW_BYTES,
};
use bytes::Bytes;
use exchange::{Asked, Exchange, exchange};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use stalls::{Stalls, Watched};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

#[cfg(test)]
mod tests;

/// Serves one connection until it ends, and counts why it did.
pub(super) async fn serve<R, S>(
    handler: Rc<TransportHandler<R>>,
    reservation: MemoryReservation,
    stream: S,
    peer: SocketAddr,
) where
    R: Responder + 'static,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let usage = ConnectionUsage::new(reservation, handler.limits.idle);
    let stalls = Stalls::new(usage.clone());
    let limiter = Rc::<WorkLimiter>::default();
    let greeting = builder().handshake(Watched::new(stream, stalls.clone(), limiter.clone()));
    let connections = handler.connections.clone();
    let connection = match tokio::time::timeout(handler.limits.idle, greeting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            if let Some(why) = close_reason(&error) {
                connections.record_close(why);
            }
            return;
        }
        Err(_) => return connections.record_close(CloseReason::Idle),
    };
    if let Some(why) = Http::new(handler, connection, stalls, limiter, usage, peer).run().await {
        connections.record_close(why);
    }
}

/// Every limit that HTTP/2 knows; h2 has bounds of its own for CONTINUATION and for empty DATA.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(HTTP_STREAMS_MAX)
        .max_header_list_size(HTTP_HEADERS_BYTES_MAX)
        .initial_window_size(HTTP_WINDOW_BYTES)
        .initial_connection_window_size(HTTP_WINDOW_BYTES)
        .max_send_buffer_size(HTTP_SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(HTTP_PENDING_RESETS_MAX)
        .max_local_error_reset_streams(Some(HTTP_LOCAL_RESETS_MAX))
        .max_concurrent_reset_streams(HTTP_PENDING_RESETS_MAX)
        .reset_stream_duration(Duration::from_secs(1));
    builder
}

/// Which counter the end of a connection belongs to, if the client did not want it. What it did wrong it has been told,
/// with GOAWAY.
fn close_reason(error: &h2::Error) -> Option<CloseReason> {
    if error.is_io() || error.is_remote() {
        return None;
    }
    // h2 has budgets of its own, for requests that it has not yet handed out, and for frames that carry nothing.
    let is_too_much = error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
    Some(if is_too_much { CloseReason::Excess } else { CloseReason::Protocol })
}

/// One connection.
struct Http<R, S> {
    handler: Rc<TransportHandler<R>>,
    connection: Connection<Watched<S>, Bytes>,
    stalls: Rc<Stalls>,
    peer: SocketAddr,
    /// Requests that wait for something.
    waiting: JoinSet<Exchange>,
    usage: Rc<ConnectionUsage>,
    limiter: Rc<WorkLimiter>,
    /// Why it has to end: one of its requests was reason enough.
    close_reason: Option<CloseReason>,
    request_count: u64,
    reset_count: u64,
    /// When the last request came or the last response was done.
    active_at: Instant,
    /// Until when a client that was told that nothing more is taken may take what it has asked for.
    drain_until: Option<Instant>,
}

impl<R: Responder + 'static, S: AsyncRead + AsyncWrite + Unpin> Http<R, S> {
    fn new(
        handler: Rc<TransportHandler<R>>,
        connection: Connection<Watched<S>, Bytes>,
        stalls: Rc<Stalls>,
        limiter: Rc<WorkLimiter>,
        usage: Rc<ConnectionUsage>,
        peer: SocketAddr,
    ) -> Self {
        Self {
            handler,
            connection,
            stalls,
            peer,
            waiting: JoinSet::new(),
            usage,
            limiter,
            close_reason: None,
            request_count: 0,
            reset_count: 0,
            active_at: Instant::now(),
            drain_until: None,
        }
    }

    async fn run(mut self) -> Option<CloseReason> {
        let handler = self.handler.clone();
        let _guard = poll_fn(|context| Poll::Ready(handler.drain.register(context))).await;
        let mut alarm = pin!(tokio::time::sleep_until(self.handler.limits.next_check(self.deadline())));
        poll_fn(|context| self.poll(context, alarm.as_mut())).await
    }

    /// Does what can be done; ready with the reason when the connection is over: `None` when its client ended it.
    fn poll(&mut self, context: &mut Context<'_>, mut alarm: Pin<&mut Sleep>) -> Poll<Option<CloseReason>> {
        if self.handler.drain.is_started() && self.drain_until.is_none() {
            self.start_drain();
        }
        loop {
            while let Poll::Ready(Some(ended)) = self.waiting.poll_join_next(context) {
                self.ended(ended.unwrap_or(Exchange::Done));
            }
            if self.has_too_many_resets() {
                self.close_reason = Some(CloseReason::Excess);
            }
            if self.close_reason.is_some() {
                self.tell(context);
                return Poll::Ready(self.close_reason);
            }
            let accepted = self.connection.poll_accept(context);
            self.limiter.done_reading();
            match accepted {
                Poll::Ready(Some(Ok((request, respond)))) => self.request(request, respond, context),
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(close_reason(&error));
                }
                Poll::Ready(None) => {
                    let was_silent = self.drain_until.is_some() && !self.handler.drain.is_started();
                    return Poll::Ready(was_silent.then_some(CloseReason::Idle));
                }
                Poll::Pending => break,
            }
        }
        self.stalls.wake_waiting();
        while alarm.as_mut().poll(context).is_ready() {
            if let Some(reason) = self.overdue(context) {
                return Poll::Ready(Some(reason));
            }
            alarm.as_mut().reset(self.handler.limits.next_check(self.deadline()));
        }
        Poll::Pending
    }

    /// Takes a request, whether or not there is room for its response: HTTP/2 would keep its whole head meanwhile.
    fn request(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>, context: &mut Context<'_>) {
        self.request_count += 1;
        self.active_at = Instant::now();
        let (handler, usage, stalls, limiter) =
            (self.handler.clone(), self.usage.clone(), self.stalls.clone(), self.limiter.clone());
        let exchange = exchange(handler, usage, stalls, limiter, self.peer, Asked::new(request), respond);
        let mut exchange = Box::pin(exchange);
        match exchange.as_mut().poll(context) {
            Poll::Ready(ended) => self.ended(ended),
            Poll::Pending => drop(self.waiting.spawn_local(exchange)),
        }
    }

    fn ended(&mut self, ended: Exchange) {
        self.active_at = Instant::now();
        match ended {
            Exchange::Done => {}
            Exchange::Reset => self.reset_count += 1,
            Exchange::Slow => self.close_reason = Some(CloseReason::SlowReader),
            Exchange::OutOfMemory => self.close_reason = Some(CloseReason::Memory),
        }
    }

    /// Tells the client that it is cut off, behind what else there is to say; no more than it takes at once.
    fn tell(&mut self, context: &mut Context<'_>) {
        if self.connection.poll_closed(context).is_pending() {
            // RFC 9113 10.5: what a peer does that costs more than it is worth may be an error.
            self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            let _told = self.connection.poll_closed(context);
        }
    }

    /// Takes no more requests; what was taken is answered. RFC 9113 9.1: say so, so that the client knows which of them
    /// were taken.
    fn start_drain(&mut self) {
        self.connection.graceful_shutdown();
        self.drain_until = Some(Instant::now() + Duration::from_millis(HTTP_DRAIN_MS));
    }

    /// A client may take back requests, but not make a habit of it.
    const fn has_too_many_resets(&self) -> bool {
        self.reset_count > HTTP_RESETS_MAX && self.reset_count > self.request_count / 2
    }

    fn deadline(&self) -> Instant {
        match (self.drain_until, self.stalls.since()) {
            (Some(until), _) => until,
            (None, Some(since)) => self.usage.send_rate().deadline_or(since + self.handler.limits.idle_timeout()),
            (None, None) => self.usage.send_rate().deadline_or(self.active_at + self.handler.limits.idle_timeout()),
        }
    }

    /// What becomes of the connection when the alarm rings.
    fn overdue(&mut self, context: &mut Context<'_>) -> Option<CloseReason> {
        let now = Instant::now();
        if self.deadline() > now {
            return None;
        }
        if self.drain_until.is_some() {
            return Some(CloseReason::Idle);
        }
        if self.stalls.since().is_some() || self.usage.send_rate().is_too_slow(now) {
            return Some(CloseReason::SlowReader);
        }
        if self.waiting.is_empty() {
            self.start_drain();
            context.waker().wake_by_ref();
        } else {
            // A request that waits has a time limit of its own.
            self.active_at = now;
        }
        None
    }
}
