//! DNS over HTTPS (RFC 8484) on one HTTP/2 connection (RFC 9113).
//!
//! ```text
//!   write_monitor  the stream below, which records since when nothing could be written
//!   request        the message in a request, or the error status
//!   exchange       one request, from its headers to the end of its response
//!   max_age        how long a response may be cached
//! ```
//! A request is answered at once if possible. A request that waits for its body, the replica or the client's window
//! gets its own task, which ends with the connection.

mod exchange;
mod max_age;
mod request;
mod write_monitor;

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
use exchange::{Exchange, PendingRequest, exchange};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use write_monitor::{MonitoredStream, WriteMonitor};

#[cfg(test)]
mod tests;

/// Serves one connection until it ends, and counts the reason.
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
    let monitor = WriteMonitor::new(usage.clone());
    let limiter = Rc::<WorkLimiter>::default();
    let handshake = builder().handshake(MonitoredStream::new(stream, monitor.clone(), limiter.clone()));
    let connections = handler.connections.clone();
    let connection = match tokio::time::timeout(handler.limits.idle, handshake).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            if let Some(why) = close_reason(&error) {
                connections.record_close(why);
            }
            return;
        }
        Err(_) => return connections.record_close(CloseReason::Idle),
    };
    if let Some(why) = Http::new(handler, connection, monitor, limiter, usage, peer).run().await {
        connections.record_close(why);
    }
}

/// Sets every limit of HTTP/2. h2 itself limits CONTINUATION and empty DATA.
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

/// Why the server closed a connection; `None` if the client did. h2 has sent GOAWAY.
fn close_reason(error: &h2::Error) -> Option<CloseReason> {
    if error.is_io() || error.is_remote() {
        return None;
    }
    // h2 itself limits reset requests that were not accepted yet, and empty frames.
    let is_too_much = error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
    Some(if is_too_much { CloseReason::Excess } else { CloseReason::Protocol })
}

/// One connection.
struct Http<R, S> {
    handler: Rc<TransportHandler<R>>,
    connection: Connection<MonitoredStream<S>, Bytes>,
    monitor: Rc<WriteMonitor>,
    peer: SocketAddr,
    /// Requests that have their own tasks.
    waiting: JoinSet<Exchange>,
    usage: Rc<ConnectionUsage>,
    limiter: Rc<WorkLimiter>,
    /// Why the connection must close; set by one of its requests.
    close_reason: Option<CloseReason>,
    request_count: u64,
    reset_count: u64,
    /// When the last request arrived or the last response was sent.
    active_at: Instant,
    /// While the connection drains: until when the client may read its last responses.
    drain_until: Option<Instant>,
}

impl<R: Responder + 'static, S: AsyncRead + AsyncWrite + Unpin> Http<R, S> {
    fn new(
        handler: Rc<TransportHandler<R>>,
        connection: Connection<MonitoredStream<S>, Bytes>,
        monitor: Rc<WriteMonitor>,
        limiter: Rc<WorkLimiter>,
        usage: Rc<ConnectionUsage>,
        peer: SocketAddr,
    ) -> Self {
        Self {
            handler,
            connection,
            monitor,
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
        let mut timer = pin!(tokio::time::sleep_until(self.handler.limits.next_check(self.deadline())));
        poll_fn(|context| self.poll(context, timer.as_mut())).await
    }

    /// Makes progress. Ready when the connection is over, with the reason if the server closed it.
    fn poll(&mut self, context: &mut Context<'_>, mut timer: Pin<&mut Sleep>) -> Poll<Option<CloseReason>> {
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
                self.send_goaway(context);
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
                    let was_idle = self.drain_until.is_some() && !self.handler.drain.is_started();
                    return Poll::Ready(was_idle.then_some(CloseReason::Idle));
                }
                Poll::Pending => break,
            }
        }
        self.monitor.wake_waiting();
        while timer.as_mut().poll(context).is_ready() {
            if let Some(reason) = self.overdue(context) {
                return Poll::Ready(Some(reason));
            }
            timer.as_mut().reset(self.handler.limits.next_check(self.deadline()));
        }
        Poll::Pending
    }

    /// Accepts a request even without room for its response: otherwise HTTP/2 would keep its headers in memory.
    fn request(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>, context: &mut Context<'_>) {
        self.request_count += 1;
        self.active_at = Instant::now();
        let (handler, usage, monitor, limiter) =
            (self.handler.clone(), self.usage.clone(), self.monitor.clone(), self.limiter.clone());
        let exchange = exchange(handler, usage, monitor, limiter, self.peer, PendingRequest::new(request), respond);
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

    /// Sends GOAWAY after the pending frames, as far as the client reads them at once.
    fn send_goaway(&mut self, context: &mut Context<'_>) {
        if self.connection.poll_closed(context).is_pending() {
            // RFC 9113 10.5: excessive use may be treated as an error.
            self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            let _sent = self.connection.poll_closed(context);
        }
    }

    /// Stops accepting requests. Accepted ones are still answered, and GOAWAY names the last of them (RFC 9113 9.1).
    fn start_drain(&mut self) {
        self.connection.graceful_shutdown();
        self.drain_until = Some(Instant::now() + Duration::from_millis(HTTP_DRAIN_MS));
    }

    /// Whether the client resets too many of its requests.
    const fn has_too_many_resets(&self) -> bool {
        self.reset_count > HTTP_RESETS_MAX && self.reset_count > self.request_count / 2
    }

    fn deadline(&self) -> Instant {
        match (self.drain_until, self.monitor.since()) {
            (Some(until), _) => until,
            (None, Some(since)) => self.usage.send_rate().deadline_or(since + self.handler.limits.idle_timeout()),
            (None, None) => self.usage.send_rate().deadline_or(self.active_at + self.handler.limits.idle_timeout()),
        }
    }

    /// Handles an expired deadline.
    fn overdue(&mut self, context: &mut Context<'_>) -> Option<CloseReason> {
        let now = Instant::now();
        if self.deadline() > now {
            return None;
        }
        if self.drain_until.is_some() {
            return Some(CloseReason::Idle);
        }
        if self.monitor.since().is_some() || self.usage.send_rate().is_too_slow(now) {
            return Some(CloseReason::SlowReader);
        }
        if self.waiting.is_empty() {
            self.start_drain();
            context.waker().wake_by_ref();
        } else {
            // Waiting requests have their own time limits.
            self.active_at = now;
        }
        None
    }
}
