//! A stream that notes since when its client takes nothing, and how much waits: HTTP/2 hides both behind buffers of its
//! own.

use super::super::desk::{Held, OutOfMemory};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Octets of frames and headers around a response, with something to spare.
const OVERHEAD_OCTETS: usize = 128;

/// What is known of the stream.
pub(super) struct Stalls {
    since: Cell<Option<Instant>>,
    /// Octets that HTTP/2 was given and the stream was not, as far as is known: rather too many, until it has none.
    inside: Cell<usize>,
    held: Rc<Held>,
}

impl Stalls {
    pub(super) fn new(held: Rc<Held>) -> Rc<Self> {
        Rc::new(Self { since: Cell::default(), inside: Cell::default(), held })
    }

    /// Since when nothing can be written; `None` while the client reads, or nothing waits.
    pub(super) const fn since(&self) -> Option<Instant> {
        self.since.get()
    }

    /// Notes that HTTP/2 was given so many octets, which the client's windows let leave.
    pub(super) fn give(&self, octets: usize) -> Result<(), OutOfMemory> {
        self.held.moved();
        self.set(self.inside.get() + octets + OVERHEAD_OCTETS)
    }

    /// Notes that the stream took so many octets. Where no response is among them, they are only talk.
    fn take(&self, octets: usize) {
        let inside = self.inside.get();
        if inside > 0 {
            self.held.moved();
            let _granted = self.set(inside.saturating_sub(octets));
        }
    }

    fn set(&self, octets: usize) -> Result<(), OutOfMemory> {
        let from = self.inside.replace(octets);
        self.held.change(from, octets)
    }

    fn note<T>(&self, outcome: &Poll<T>) {
        self.since.set(match outcome {
            Poll::Pending => Some(self.since.get().unwrap_or_else(Instant::now)),
            Poll::Ready(_) => None,
        });
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
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, stalls: Rc<Stalls>) -> Self {
        Self { stream, stalls }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, octets);
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
