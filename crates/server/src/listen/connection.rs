//! Messages behind their lengths on a stream, plain or under TLS (RFC 7766, RFC 7858 3.3). Requests are pipelined;
//! responses go out as they are ready, those that had to wait for the replica later than others that came after them
//! (RFC 7766 6.2.1.1 allows it).

mod late;

use super::counters::Cut;
use super::desk::{Desk, Panicked};
use super::drain::Drain;
use super::framing::{Inbound, Outbound};
use super::memory::Share;
use super::turn::{Turn, give_way};
use super::{Action, Late, Reply, Responder};
use crate::limits::{CONNECTION_READ_BYTES, TCP_PIPELINE_MAX, TCP_WRITE_BACKLOG_BYTES_MAX};
use late::LateQueue;
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
    /// The client closed it, it broke, or nothing can be said on it any more.
    Closed,
    /// The server did.
    Cut(Cut),
}

/// One connection.
pub(crate) struct Connection<'d, R, S> {
    desk: &'d Desk<R>,
    stream: S,
    peer: SocketAddr,
    /// Whether a zone may be transferred over it.
    transfers: bool,
    inbound: Inbound,
    outbound: Outbound,
    /// Bytes that the stream took may wait inside of it: TLS has a buffer.
    is_flush_due: bool,
    share: Share,
    /// Made for the first deferred request.
    late: Option<LateQueue>,
    deferred_count: usize,
    /// The client will send no more.
    is_half_closed: bool,
    /// Nothing more is taken from it: what is ready goes out, and that is the end.
    is_ending: bool,
    /// When the last request was taken or the last response was done.
    active_at: Instant,
    /// When bytes last went out, or began to wait; and whether they go out fast enough.
    wrote_at: Instant,
    drain: Drain,
}

impl<'d, R: Responder, S: AsyncRead + AsyncWrite + Unpin> Connection<'d, R, S> {
    pub(crate) fn new(desk: &'d Desk<R>, share: Share, stream: S, peer: SocketAddr, transfers: bool) -> Self {
        let now = Instant::now();
        Self {
            desk,
            stream,
            peer,
            transfers,
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            is_flush_due: false,
            share,
            late: None,
            deferred_count: 0,
            is_half_closed: false,
            is_ending: false,
            active_at: now,
            wrote_at: now,
            drain: Drain::new(desk.limits.idle),
        }
    }

    /// Answers until the connection ends, and counts why it did.
    pub(crate) async fn run(mut self) {
        let goodbye = &self.desk.goodbye;
        let _hears = poll_fn(|context| Poll::Ready(goodbye.enter(context))).await;
        let mut alarm = pin!(tokio::time::sleep_until(self.desk.limits.look_at(self.deadline())));
        let end = poll_fn(|context| self.poll(context, alarm.as_mut())).await;
        if let End::Cut(why) = end {
            self.desk.connections.cut(why);
        }
        // TLS says that nothing was cut off (RFC 8446 6.1); a client that does not take it is not waited for.
        poll_fn(|context| {
            let _said = Pin::new(&mut self.stream).poll_shutdown(context);
            Poll::Ready(())
        })
        .await;
    }

    /// Does what can be done; ready with the reason when the connection is to end.
    fn poll(&mut self, context: &mut Context<'_>, mut alarm: Pin<&mut Sleep>) -> Poll<End> {
        let mut turn = Turn::default();
        loop {
            match self.poll_progress(context, &mut turn) {
                Poll::Ready(Ok(())) if turn.is_over() => {
                    give_way(context);
                    break;
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => break,
            }
        }
        if self.desk.goodbye.is_said() && !self.is_writing() && !self.is_waited_on() {
            return Poll::Ready(End::Closed);
        }
        self.inbound.release();
        if !self.share.set(self.memory()) {
            return Poll::Ready(End::Cut(Cut::Memory));
        }
        // The alarm is moved when it rings, not with each request: most deadlines are never reached.
        while alarm.as_mut().poll(context).is_ready() {
            if self.deadline() <= Instant::now() {
                return Poll::Ready(self.overdue());
            }
            alarm.as_mut().reset(self.desk.limits.look_at(self.deadline()));
        }
        Poll::Pending
    }

    /// One step of a turn; pending when there is nothing to do but wait.
    fn poll_progress(&mut self, context: &mut Context<'_>, turn: &mut Turn) -> Poll<Result<(), End>> {
        self.answer_whole_messages(turn);
        self.write(context)?;
        if self.is_ending {
            return if self.is_writing() { Poll::Pending } else { Poll::Ready(Err(End::Closed)) };
        }
        let has_message = self.inbound.has_message();
        if self.is_half_closed && !has_message && !self.is_writing() && self.deferred_count == 0 {
            return Poll::Ready(Err(End::Closed));
        }
        if let Some(late) = &mut self.late {
            late.take_in(context);
        }
        if turn.is_over() || (has_message && self.may_answer()) {
            // What went out made room; the stream may have nothing more to say that would wake the task.
            return Poll::Ready(Ok(()));
        }
        if self.has_room()
            && let Some(late) = self.late.as_mut().and_then(LateQueue::next)
        {
            return Poll::Ready(self.take_late(late));
        }
        let may_read = !self.is_half_closed && self.may_answer();
        if may_read { self.read(context) } else { Poll::Pending }
    }

    /// Bytes of messages that wait, in either direction.
    fn memory(&self) -> usize {
        self.inbound.memory() + self.outbound.memory() + self.late.as_ref().map_or(0, LateQueue::memory)
    }

    fn deadline(&self) -> Instant {
        let limits = &self.desk.limits;
        match (self.is_writing(), self.is_waited_on()) {
            (true, true) => self.drain.or_earlier(self.wrote_at + limits.idle),
            (true, false) => self.drain.or_earlier(self.wrote_at + limits.patience()),
            // RFC 7766 3: to a server a connection is idle "when it has sent responses to all the queries it has
            // received". What is deferred has a time limit of its own, which comes first.
            (false, true) => self.active_at + limits.waiting_time(),
            (false, false) => self.active_at + limits.patience(),
        }
    }

    fn overdue(&self) -> End {
        match (self.is_writing(), self.is_waited_on()) {
            (true, _) => End::Cut(Cut::SlowReader),
            // A response got lost: as if it had been given up.
            (false, true) => End::Closed,
            (false, false) => End::Cut(Cut::Idle),
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

    fn answer_whole_messages(&mut self, turn: &mut Turn) {
        while !self.is_ending && self.may_answer() {
            let now = Instant::now();
            if !turn.goes_on(now) {
                break;
            }
            let is_first = !self.is_writing();
            let Some(message) = self.inbound.next() else { break };
            let (late, outbound) = (&mut self.late, &mut self.outbound);
            let (peer, transport, transfers) = (self.peer, self.desk.transport, self.transfers);
            let reply = || {
                let connection = late.get_or_insert_with(LateQueue::new).sender();
                Reply::Stream { peer, transport, transfers, connection }
            };
            match self.desk.respond(message, peer, reply, |response| outbound.push(response)) {
                Ok(Action::Defer) => self.deferred_count += 1,
                Ok(Action::Respond(_)) => {}
                // RFC 7766 says nothing of messages that get no response; who sends such on a stream speaks no DNS.
                Ok(Action::Silent) | Err(Panicked) => {
                    self.is_ending = true;
                    // Nobody takes them any more, and nobody would count them.
                    self.late = None;
                    return;
                }
            }
            turn.answered();
            self.active_at = now;
            self.share.active(now);
            if is_first {
                self.begin_to_wait(now);
            }
        }
    }

    /// Takes note that there will be something for the client to take, and was not.
    fn begin_to_wait(&mut self, now: Instant) {
        self.wrote_at = now;
        self.drain.begin(now);
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), End>> {
        // On the stack: a connection that waits holds no buffer.
        let mut bytes = [std::mem::MaybeUninit::<u8>::uninit(); CONNECTION_READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut bytes);
        match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
            Poll::Pending => Poll::Pending,
            // A client of TLS that says with TCP alone that no more comes. It may be cut off (RFC 8446 6.1), and so may
            // what it was about to ask; what it has asked stands in records that are whole.
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                self.is_half_closed = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(End::Closed)),
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

    /// Writes as much as the stream takes.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        while !self.outbound.waiting().is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, self.outbound.waiting()) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Err(End::Closed),
                Poll::Ready(Ok(count)) => {
                    self.outbound.sent(count);
                    self.is_flush_due = true;
                    self.wrote_at = Instant::now();
                    self.active_at = self.wrote_at;
                    self.share.active(self.wrote_at);
                    self.drain.took(count, self.wrote_at);
                }
                Poll::Pending => return Ok(()),
            }
        }
        if self.is_flush_due {
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Ok(())) => self.is_flush_due = false,
                Poll::Ready(Err(_)) => return Err(End::Closed),
                Poll::Pending => return Ok(()),
            }
        }
        self.drain.end();
        Ok(())
    }

    fn take_late(&mut self, late: Late) -> Result<(), End> {
        let (message, is_last) = match late {
            Late::Message(message) => (message, true),
            Late::Part(message, _share) => (message, false),
            Late::Close => return Err(End::Closed),
        };
        let now = Instant::now();
        if !self.is_writing() {
            self.begin_to_wait(now);
        }
        self.outbound.push(&message);
        self.active_at = now;
        self.deferred_count -= usize::from(is_last);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
