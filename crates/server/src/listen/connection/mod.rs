//! DNS over TCP or TLS: each message follows its length (RFC 7766, RFC 7858 3.3). Requests are pipelined. Responses are
//! sent as they become ready, possibly out of order (RFC 7766 6.2.1.1).

mod deferred_responses;

use super::counters::CloseReason;
use super::framing::{Inbound, Outbound};
use super::handler::{Panicked, TransportHandler};
use super::memory::MemoryReservation;
use super::min_send_rate::MinSendRate;
use super::work_limiter::{WorkBudget, yield_to_runtime};
use super::{Action, DeferredResponse, Reply, Responder};
use crate::limits::{CONNECTION_READ_BYTES, TCP_PIPELINE_MAX, TCP_WRITE_BACKLOG_BYTES_MAX};
use deferred_responses::DeferredResponses;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The client closed it, it broke, or the server has nothing more to send.
    ByClient,
    /// The server closed it.
    ByServer(CloseReason),
}

/// One connection.
pub(crate) struct Connection<'d, R, S> {
    handler: &'d TransportHandler<R>,
    stream: S,
    peer: SocketAddr,
    /// Whether zone transfers are allowed on it.
    transfers: bool,
    inbound: Inbound,
    outbound: Outbound,
    /// The stream may have buffered bytes: TLS has a buffer.
    is_flush_due: bool,
    reservation: MemoryReservation,
    /// Made for the first deferred request.
    late: Option<DeferredResponses>,
    deferred_count: usize,
    /// The client has closed its sending side.
    is_half_closed: bool,
    /// Nothing more is read. The connection ends when all ready responses are sent.
    is_ending: bool,
    /// When the last request was answered or the last response was sent.
    active_at: Instant,
    /// When bytes were last sent or began to wait, and whether the client reads fast enough.
    wrote_at: Instant,
    send_rate: MinSendRate,
}

impl<'d, R: Responder, S: AsyncRead + AsyncWrite + Unpin> Connection<'d, R, S> {
    pub(crate) fn new(
        handler: &'d TransportHandler<R>,
        reservation: MemoryReservation,
        stream: S,
        peer: SocketAddr,
        transfers: bool,
    ) -> Self {
        let now = Instant::now();
        Self {
            handler,
            stream,
            peer,
            transfers,
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            is_flush_due: false,
            reservation,
            late: None,
            deferred_count: 0,
            is_half_closed: false,
            is_ending: false,
            active_at: now,
            wrote_at: now,
            send_rate: MinSendRate::new(handler.limits.idle),
        }
    }

    /// Answers requests until the connection ends, and counts the reason.
    pub(crate) async fn run(mut self) {
        let drain = &self.handler.drain;
        let _guard = poll_fn(|context| Poll::Ready(drain.register(context))).await;
        let mut timer = pin!(tokio::time::sleep_until(self.handler.limits.next_check(self.deadline())));
        let end = poll_fn(|context| self.poll(context, timer.as_mut())).await;
        if let End::ByServer(why) = end {
            self.handler.connections.record_close(why);
        }
        // Sends close_notify (RFC 8446 6.1), but does not wait for a client that does not read it.
        poll_fn(|context| {
            let _sent = Pin::new(&mut self.stream).poll_shutdown(context);
            Poll::Ready(())
        })
        .await;
    }

    /// Makes progress; ready with the reason when the connection must end.
    fn poll(&mut self, context: &mut Context<'_>, mut timer: Pin<&mut Sleep>) -> Poll<End> {
        let mut budget = WorkBudget::default();
        loop {
            match self.poll_progress(context, &mut budget) {
                Poll::Ready(Ok(())) if budget.is_spent() => {
                    yield_to_runtime(context);
                    break;
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => break,
            }
        }
        if self.handler.drain.is_started() && !self.is_writing() && !self.is_waited_on() {
            return Poll::Ready(End::ByClient);
        }
        self.inbound.release();
        if !self.reservation.set(self.memory()) {
            return Poll::Ready(End::ByServer(CloseReason::Memory));
        }
        // The timer is moved when it fires, not with each request: most deadlines are never reached.
        while timer.as_mut().poll(context).is_ready() {
            if self.deadline() <= Instant::now() {
                return Poll::Ready(self.overdue());
            }
            timer.as_mut().reset(self.handler.limits.next_check(self.deadline()));
        }
        Poll::Pending
    }

    /// One step; pending when the connection can only wait.
    fn poll_progress(&mut self, context: &mut Context<'_>, budget: &mut WorkBudget) -> Poll<Result<(), End>> {
        self.answer_whole_messages(budget);
        self.write(context)?;
        if self.is_ending {
            return if self.is_writing() { Poll::Pending } else { Poll::Ready(Err(End::ByClient)) };
        }
        let has_message = self.inbound.has_message();
        if self.is_half_closed && !has_message && !self.is_writing() && self.deferred_count == 0 {
            return Poll::Ready(Err(End::ByClient));
        }
        if let Some(late) = &mut self.late {
            late.take_in(context);
        }
        if budget.is_spent() || (has_message && self.may_answer()) {
            // Sending made room, and the stream may have no event that would wake the task.
            return Poll::Ready(Ok(()));
        }
        if self.has_room()
            && let Some(late) = self.late.as_mut().and_then(DeferredResponses::next)
        {
            return Poll::Ready(self.take_late(late));
        }
        let may_read = !self.is_half_closed && self.may_answer();
        if may_read { self.read(context) } else { Poll::Pending }
    }

    /// Bytes of buffered messages in both directions.
    fn memory(&self) -> usize {
        self.inbound.memory() + self.outbound.memory() + self.late.as_ref().map_or(0, DeferredResponses::memory)
    }

    fn deadline(&self) -> Instant {
        let limits = &self.handler.limits;
        match (self.is_writing(), self.is_waited_on()) {
            (true, true) => self.send_rate.deadline_or(self.wrote_at + limits.idle),
            (true, false) => self.send_rate.deadline_or(self.wrote_at + limits.idle_timeout()),
            // RFC 7766 3: to a server a connection is idle "when it has sent responses to all the queries it has
            // received". Deferred requests have their own time limit, which expires first.
            (false, true) => self.active_at + limits.response_timeout(),
            (false, false) => self.active_at + limits.idle_timeout(),
        }
    }

    fn overdue(&self) -> End {
        match (self.is_writing(), self.is_waited_on()) {
            (true, _) => End::ByServer(CloseReason::SlowReader),
            // A response was lost.
            (false, true) => End::ByClient,
            (false, false) => End::ByServer(CloseReason::Idle),
        }
    }

    /// Whether the client waits for the server.
    const fn is_waited_on(&self) -> bool {
        self.deferred_count > 0
    }

    fn is_writing(&self) -> bool {
        self.is_flush_due || !self.outbound.waiting().is_empty()
    }

    /// Whether more responses may wait for the client.
    fn has_room(&self) -> bool {
        self.outbound.waiting().len() < TCP_WRITE_BACKLOG_BYTES_MAX
    }

    /// Whether another request may be answered, if there is one.
    fn may_answer(&self) -> bool {
        self.has_room() && self.deferred_count < TCP_PIPELINE_MAX
    }

    fn answer_whole_messages(&mut self, budget: &mut WorkBudget) {
        while !self.is_ending && self.may_answer() {
            let now = Instant::now();
            if !budget.has_room(now) {
                break;
            }
            let is_first = !self.is_writing();
            let Some(message) = self.inbound.next() else { break };
            let (late, outbound) = (&mut self.late, &mut self.outbound);
            let (peer, transport, transfers) = (self.peer, self.handler.transport, self.transfers);
            let reply = || {
                let connection = late.get_or_insert_with(DeferredResponses::new).sender();
                Reply::Stream { peer, transport, transfers, connection }
            };
            match self.handler.respond(message, peer, reply, |response| outbound.push(response)) {
                Ok(Action::Defer) => self.deferred_count += 1,
                Ok(Action::Respond(_)) => {}
                // RFC 7766 does not cover messages without a response. Such a client does not speak DNS.
                Ok(Action::Silent) | Err(Panicked) => {
                    self.is_ending = true;
                    // Deferred responses would be neither sent nor counted.
                    self.late = None;
                    return;
                }
            }
            budget.record_message();
            self.active_at = now;
            self.reservation.record_activity(now);
            if is_first {
                self.begin_send(now);
            }
        }
    }

    /// Records that data starts to wait for the client.
    fn begin_send(&mut self, now: Instant) {
        self.wrote_at = now;
        self.send_rate.begin(now);
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), End>> {
        // On the stack: an idle connection has no buffer.
        let mut bytes = [std::mem::MaybeUninit::<u8>::uninit(); CONNECTION_READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut bytes);
        match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
            Poll::Pending => Poll::Pending,
            // A TLS client that closed only TCP. The stream may be truncated (RFC 8446 6.1), but complete requests are
            // in complete records.
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                self.is_half_closed = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(End::ByClient)),
            Poll::Ready(Ok(())) => {
                match buffer.filled() {
                    // The client may close its half and still wait for responses.
                    [] => self.is_half_closed = true,
                    bytes => self.inbound.extend(bytes),
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Writes as much as the stream accepts.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        while !self.outbound.waiting().is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, self.outbound.waiting()) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Err(End::ByClient),
                Poll::Ready(Ok(count)) => {
                    self.outbound.sent(count);
                    self.is_flush_due = true;
                    self.wrote_at = Instant::now();
                    self.active_at = self.wrote_at;
                    self.reservation.record_activity(self.wrote_at);
                    self.send_rate.record_sent(count, self.wrote_at);
                }
                Poll::Pending => return Ok(()),
            }
        }
        if self.is_flush_due {
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Ok(())) => self.is_flush_due = false,
                Poll::Ready(Err(_)) => return Err(End::ByClient),
                Poll::Pending => return Ok(()),
            }
        }
        self.send_rate.end();
        Ok(())
    }

    fn take_late(&mut self, late: DeferredResponse) -> Result<(), End> {
        let (message, is_last) = match late {
            DeferredResponse::Message(message) => (message, true),
            DeferredResponse::Part(message, _share) => (message, false),
            DeferredResponse::Close => return Err(End::ByClient),
        };
        let now = Instant::now();
        if !self.is_writing() {
            self.begin_send(now);
        }
        self.outbound.push(&message);
        self.active_at = now;
        self.deferred_count -= usize::from(is_last);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
