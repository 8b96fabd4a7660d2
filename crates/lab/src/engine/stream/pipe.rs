//! Octets in memory with tokio's traits of I/O: HTTP/2 reads and writes here, and [`Link`](super::link::Link) carries
//! it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Default)]
struct Octets {
    incoming: VecDeque<u8>,
    outgoing: Vec<u8>,
}

/// One end is given to HTTP/2, its clone is kept.
#[derive(Clone, Default)]
pub(crate) struct Pipe(Rc<RefCell<Octets>>);

impl Pipe {
    /// What came off the wire.
    pub(crate) fn push(&self, octets: &[u8]) {
        self.0.borrow_mut().incoming.extend(octets);
    }

    /// Moves what is to go out.
    pub(crate) fn drain_into(&self, out: &mut Vec<u8>) {
        out.append(&mut self.0.borrow_mut().outgoing);
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut octets = self.0.borrow_mut();
        if octets.incoming.is_empty() {
            return Poll::Pending;
        }
        let (front, _) = octets.incoming.as_slices();
        let count = front.len().min(buffer.remaining());
        buffer.put_slice(&front[..count]);
        octets.incoming.drain(..count);
        if octets.incoming.is_empty() && octets.incoming.capacity() > 1 << 12 {
            octets.incoming = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().outgoing.extend_from_slice(octets);
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
