//! Responses that were sent and are not acknowledged yet: QUIC keeps their bytes meanwhile, and a client that
//! acknowledges nothing would have them kept for it as long as it likes.

use super::super::handler::{ConnectionUsage, OutOfMemory};
use crate::limits::{CONNECTION_MEMORY_FREE_BYTES, QUIC_SEND_BYTES, QUIC_STREAMS_MAX};
use quinn::SendStream;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Waker};

/// The responses of one connection. They are looked at once they are more than what is free; as a rule most are
/// acknowledged by then, so that a response costs one look and no task waits for it.
pub(super) struct Unacknowledged {
    usage: Rc<ConnectionUsage>,
    /// In the order in which they were sent, which is mostly that in which they are acknowledged.
    sent: VecDeque<Sent>,
    bytes: usize,
    /// When the first of them is acknowledged, or the client wants no more of it.
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

    /// Whether the client has it, or wants no more of it.
    fn is_over(&self) -> bool {
        pin!(self.ends()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

impl Unacknowledged {
    pub(super) const fn new(usage: Rc<ConnectionUsage>) -> Self {
        Self { usage, sent: VecDeque::new(), bytes: 0, first_ends: None }
    }

    /// Whether all of them are acknowledged now; nobody is woken when that changes.
    pub(super) fn is_over(&self) -> bool {
        self.sent.iter().all(Sent::is_over)
    }

    /// Takes a response that was sent whole.
    pub(super) fn add(&mut self, stream: SendStream, bytes: usize) -> Result<(), OutOfMemory> {
        self.sent.push_back(Sent { stream, bytes });
        self.change(self.bytes + bytes)
    }

    /// Lets go of those that are acknowledged, as far as it matters; whether there were any.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let count = self.sent.len();
        // RFC 9000 4.6: no more streams are open than may be, so at least half of these are over, even if the first is
        // not.
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
        // What becomes less is always granted, here and elsewhere.
        let _granted = self.change(bytes);
    }

    /// QUIC keeps no more than this of all streams together.
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
