//! Responses that were sent and are not acknowledged yet. QUIC keeps their bytes, so they count as the client's
//! memory.

use super::super::handler::{ConnectionUsage, OutOfMemory};
use crate::limits::{QUIC_SEND_BYTES, QUIC_STREAMS_MAX};
use crate::listen::memory::CONNECTION_MEMORY_FREE_BYTES;
use quinn::SendStream;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Waker};

/// The responses of one connection. They are checked only when they exceed the free memory of a connection. Most are
/// acknowledged by then, so a response costs one check and no task.
pub(super) struct Unacknowledged {
    usage: Rc<ConnectionUsage>,
    /// In sending order, which is mostly the order of acknowledgement.
    sent: VecDeque<Sent>,
    bytes: usize,
    /// Completes when the first response is acknowledged or cancelled by the client.
    first_ends: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

struct Sent {
    stream: SendStream,
    bytes: usize,
}

impl Sent {
    fn ends(&self) -> impl Future<Output = ()> + 'static {
        let stopped = self.stream.stopped();
        async move { drop(stopped.await) }
    }

    /// Whether the client acknowledged or cancelled it.
    fn is_over(&self) -> bool {
        pin!(self.ends()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

impl Unacknowledged {
    pub(super) const fn new(usage: Rc<ConnectionUsage>) -> Self {
        Self { usage, sent: VecDeque::new(), bytes: 0, first_ends: None }
    }

    /// Whether all of them are acknowledged now. No task is woken when that changes.
    pub(super) fn is_over(&self) -> bool {
        self.sent.iter().all(Sent::is_over)
    }

    /// Adds a response that was sent whole.
    pub(super) fn add(&mut self, stream: SendStream, bytes: usize) -> Result<(), OutOfMemory> {
        self.sent.push_back(Sent { stream, bytes });
        self.change(self.bytes + bytes)
    }

    /// Releases acknowledged responses if the memory limit needs it; returns whether it released any.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let count = self.sent.len();
        // RFC 9000 4.6: the number of open streams is limited, so at least half of these responses are over, even if
        // the first is not.
        if count > 2 * QUIC_STREAMS_MAX as usize {
            self.first_ends = None;
            self.sent.retain(|sent| !sent.is_over());
            self.count_again();
        }
        while self.bytes > CONNECTION_MEMORY_FREE_BYTES
            && let Some(first) = self.sent.front()
        {
            if !first.is_over() {
                let ends = self.first_ends.get_or_insert_with(|| Box::pin(first.ends()));
                if ends.as_mut().poll(context).is_pending() {
                    break;
                }
            }
            self.first_ends = None;
            let bytes = first.bytes;
            self.sent.pop_front();
            let _granted = self.change(self.bytes - bytes);
        }
        self.sent.len() < count
    }

    fn count_again(&mut self) {
        let bytes = self.sent.iter().map(|sent| sent.bytes).sum();
        // Less memory is always granted, here and elsewhere.
        let _granted = self.change(bytes);
    }

    /// Sets the bytes. At most `QUIC_SEND_BYTES` count: QUIC keeps no more for all streams of a connection.
    fn change(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let kept = |bytes: usize| bytes.min(QUIC_SEND_BYTES as usize);
        let from = std::mem::replace(&mut self.bytes, bytes);
        self.usage.resize(kept(from), kept(bytes))
    }
}

impl Drop for Unacknowledged {
    fn drop(&mut self) {
        let _granted = self.change(0);
    }
}
