//! A pipe in memory with tokio's I/O traits. HTTP/2 reads and writes it, and [`Link`](crate::Link) moves its
//! bytes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Default)]
struct Bytes {
    incoming: VecDeque<u8>,
    outgoing: Vec<u8>,
}

/// A shared pipe. HTTP/2 has one clone.
#[derive(Clone, Default)]
pub struct Pipe(Rc<RefCell<Bytes>>);

impl Pipe {
    /// Adds received bytes.
    pub fn push(&self, bytes: &[u8]) {
        self.0.borrow_mut().incoming.extend(bytes);
    }

    /// Moves outgoing bytes to `out`.
    pub fn drain_into(&self, out: &mut Vec<u8>) {
        out.append(&mut self.0.borrow_mut().outgoing);
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut bytes = self.0.borrow_mut();
        if bytes.incoming.is_empty() {
            return Poll::Pending;
        }
        let (front, _) = bytes.incoming.as_slices();
        let count = front.len().min(buffer.remaining());
        buffer.put_slice(&front[..count]);
        bytes.incoming.drain(..count);
        if bytes.incoming.is_empty() && bytes.incoming.capacity() > 1 << 12 {
            bytes.incoming = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
