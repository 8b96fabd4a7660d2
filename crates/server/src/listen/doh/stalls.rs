//! A stream that notes since when its client takes nothing, and how much waits: HTTP/2 hides both behind buffers of its
//! own. And it takes in no more than a turn's worth: HTTP/2 itself reads until there is nothing left.

use super::super::handler::{ConnectionUsage, OutOfMemory};
use super::super::work_limiter::WorkLimiter;
use crate::limits::TCP_WRITE_BACKLOG_BYTES_MAX;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Bytes of frames and headers around a response, with something to spare.
const OVERHEAD_BYTES: usize = 128;

/// What is known of the stream.
pub(super) struct Stalls {
    since: Cell<Option<Instant>>,
    /// Bytes that HTTP/2 was given and the stream was not, as far as is known: rather too many, until it has none.
    inside: Cell<usize>,
    /// Bytes of responses that HTTP/2 was not given yet.
    unsent: Cell<usize>,
    /// Requests that wait for room.
    waiting: RefCell<Vec<Waker>>,
    usage: Rc<ConnectionUsage>,
}

/// What HTTP/2 was not given yet of one response.
pub(super) struct Unsent<'s> {
    stalls: &'s Stalls,
    bytes: usize,
}

impl Stalls {
    pub(super) fn new(usage: Rc<ConnectionUsage>) -> Rc<Self> {
        let (since, inside, unsent, waiting) = Default::default();
        Rc::new(Self { since, inside, unsent, waiting, usage })
    }

    /// Since when nothing can be written; `None` while the client reads, or nothing waits.
    pub(super) const fn since(&self) -> Option<Instant> {
        self.since.get()
    }

    /// Whether another request may be answered: none is while responses wait for the client to read. What requests take
    /// is no matter here, or those that wait would wait for each other.
    fn has_room(&self) -> bool {
        self.since.get().is_none() && self.inside.get() + self.unsent.get() < TCP_WRITE_BACKLOG_BYTES_MAX
    }

    /// Waits for room, until [`Stalls::wake_waiting`] says that there is some.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|task| task.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Wakes the requests that wait, if there is room. Whoever has HTTP/2 write has to ask for it.
    pub(super) fn wake_waiting(&self) {
        if self.has_room() {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// The part of one response; none yet.
    pub(super) const fn unsent(&self) -> Unsent<'_> {
        Unsent { stalls: self, bytes: 0 }
    }

    /// Notes that HTTP/2 was given so many bytes, which the client's windows let leave.
    pub(super) fn give(&self, bytes: usize) -> Result<(), OutOfMemory> {
        self.usage.record_progress();
        self.set(self.inside.get() + bytes + OVERHEAD_BYTES)
    }

    /// Notes that the stream took so many bytes. Where no response is among them, they are only talk.
    fn take(&self, bytes: usize) {
        let inside = self.inside.get();
        if inside > 0 {
            self.usage.record_sent(bytes);
            let _granted = self.set(inside.saturating_sub(bytes));
        }
    }

    fn set(&self, bytes: usize) -> Result<(), OutOfMemory> {
        let from = self.inside.replace(bytes);
        match (from, bytes) {
            (0, 1..) => self.usage.begin_send(),
            (1.., 0) => self.usage.end_send(),
            _ => {}
        }
        self.usage.resize(from, bytes)
    }

    fn note<T>(&self, outcome: &Poll<T>) {
        self.since.set(match outcome {
            Poll::Pending => Some(self.since.get().unwrap_or_else(Instant::now)),
            Poll::Ready(_) => None,
        });
    }
}

impl Unsent<'_> {
    pub(super) fn set(&mut self, bytes: usize) {
        let from = std::mem::replace(&mut self.bytes, bytes);
        self.stalls.unsent.set(self.stalls.unsent.get() - from + bytes);
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        // What becomes less is always granted, here and below.
        let _granted = self.set(0);
    }
}

/// The stream.
pub(super) struct Watched<S> {
    stream: S,
    stalls: Rc<Stalls>,
    limiter: Rc<WorkLimiter>,
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, stalls: Rc<Stalls>, limiter: Rc<WorkLimiter>) -> Self {
        Self { stream, stalls, limiter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.limiter.poll_read(context));
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if outcome.is_pending() {
            self.limiter.done_reading();
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.stalls.note(&outcome);
        if let Poll::Ready(Ok(count)) = outcome {
            self.stalls.take(count);
        }
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.stalls.note(&outcome);
        if outcome.is_ready() {
            // HTTP/2 flushes when it has nothing left to write.
            let _granted = self.stalls.set(0);
        }
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
