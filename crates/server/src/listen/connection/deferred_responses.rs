//! Deferred responses of a connection, including those that its client has not read yet.

use super::super::{DEFERRED_RESPONSES_MAX, DeferredResponse};
use std::collections::VecDeque;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// The deferred responses of one connection, in order of arrival.
pub(super) struct DeferredResponses {
    sender: Sender<DeferredResponse>,
    receiver: Receiver<DeferredResponse>,
    /// Responses that wait for room in the send buffer. A part of a transfer keeps its permit meanwhile.
    waiting: VecDeque<DeferredResponse>,
    /// Bytes of memory of the waiting responses.
    memory: usize,
}

impl DeferredResponses {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(DEFERRED_RESPONSES_MAX);
        Self { sender, receiver, waiting: VecDeque::new(), memory: 0 }
    }

    /// The channel that they are sent to.
    pub(super) fn sender(&self) -> Sender<DeferredResponse> {
        self.sender.clone()
    }

    /// Receives all available responses, so that their memory is counted, even if there is no room to send them. The
    /// next response wakes the task.
    pub(super) fn take_in(&mut self, context: &mut Context<'_>) {
        // The channel never closes: `self` has a sender.
        while let Poll::Ready(Some(late)) = self.receiver.poll_recv(context) {
            self.memory += memory(&late);
            self.waiting.push_back(late);
        }
    }

    /// The next waiting response.
    pub(super) fn next(&mut self) -> Option<DeferredResponse> {
        let late = self.waiting.pop_front()?;
        self.memory -= memory(&late);
        if self.waiting.is_empty() {
            // A connection with nothing to send holds no buffer.
            self.waiting = VecDeque::new();
        }
        Some(late)
    }

    /// Bytes of memory of the waiting responses.
    pub(super) const fn memory(&self) -> usize {
        self.memory
    }
}

const fn memory(late: &DeferredResponse) -> usize {
    match late {
        DeferredResponse::Message(message) | DeferredResponse::Part(message, _) => message.capacity(),
        DeferredResponse::Close => 0,
    }
}
