//! A stream that records how much data waits, and since when its client has read nothing. HTTP/2 hides both behind its
//! own buffers. The stream also limits reading to the work budget, because HTTP/2 reads until nothing is left.

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

/// Bytes of frames and headers around a response, rounded up.
const OVERHEAD_BYTES: usize = 128;

/// The state of writes on the stream.
pub(super) struct WriteMonitor {
    since: Cell<Option<Instant>>,
    /// Bytes that HTTP/2 buffers. An upper estimate, which a flush sets to zero.
    inside: Cell<usize>,
    /// Bytes of responses that HTTP/2 has not got yet.
    unsent: Cell<usize>,
    /// Requests that wait for room.
    waiting: RefCell<Vec<Waker>>,
    usage: Rc<ConnectionUsage>,
}

/// The bytes of one response that HTTP/2 has not got yet.
pub(super) struct Unsent<'s> {
    monitor: &'s WriteMonitor,
    bytes: usize,
}

impl WriteMonitor {
    pub(super) fn new(usage: Rc<ConnectionUsage>) -> Rc<Self> {
        let (since, inside, unsent, waiting) = Default::default();
        Rc::new(Self { since, inside, unsent, waiting, usage })
    }

    /// Since when nothing could be written; `None` while the client reads, or no data waits.
    pub(super) const fn since(&self) -> Option<Instant> {
        self.since.get()
    }

    /// Whether another request may be answered: not while responses wait for the client to read. Waiting requests do
    /// not count, or they would block each other.
    fn has_room(&self) -> bool {
        self.since.get().is_none() && self.inside.get() + self.unsent.get() < TCP_WRITE_BACKLOG_BYTES_MAX
    }

    /// Waits for room. [`WriteMonitor::wake_waiting`] wakes the task.
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

    /// Wakes the waiting requests if there is room. Call it after HTTP/2 has written.
    pub(super) fn wake_waiting(&self) {
        if self.has_room() {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// A counter for the unsent bytes of one response; zero at first.
    pub(super) const fn unsent(&self) -> Unsent<'_> {
        Unsent { monitor: self, bytes: 0 }
    }

    /// Records that HTTP/2 got bytes. It gets them only as the client's windows allow, so this is progress.
    pub(super) fn add(&self, bytes: usize) -> Result<(), OutOfMemory> {
        self.usage.record_progress();
        self.set(self.inside.get() + bytes + OVERHEAD_BYTES)
    }

    /// Records bytes that the stream accepted. Without a response they are only control frames.
    fn remove(&self, bytes: usize) {
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

    fn record<T>(&self, outcome: &Poll<T>) {
        self.since.set(match outcome {
            Poll::Pending => Some(self.since.get().unwrap_or_else(Instant::now)),
            Poll::Ready(_) => None,
        });
    }
}

impl Unsent<'_> {
    pub(super) fn set(&mut self, bytes: usize) {
        let from = std::mem::replace(&mut self.bytes, bytes);
        self.monitor.unsent.set(self.monitor.unsent.get() - from + bytes);
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Drop for WriteMonitor {
    fn drop(&mut self) {
        // Less memory is always granted, here and below.
        let _granted = self.set(0);
    }
}

/// The stream.
pub(super) struct MonitoredStream<S> {
    stream: S,
    monitor: Rc<WriteMonitor>,
    limiter: Rc<WorkLimiter>,
}

impl<S> MonitoredStream<S> {
    pub(super) const fn new(stream: S, monitor: Rc<WriteMonitor>, limiter: Rc<WorkLimiter>) -> Self {
        Self { stream, monitor, limiter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.monitor.record(&outcome);
        if let Poll::Ready(Ok(count)) = outcome {
            self.monitor.remove(count);
        }
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.monitor.record(&outcome);
        if outcome.is_ready() {
            // HTTP/2 flushes when it has nothing left to write.
            let _granted = self.monitor.set(0);
        }
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
