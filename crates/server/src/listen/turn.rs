//! How much one connection does before the others of its runtime have their turn.

use crate::limits::{CONNECTION_TURN_MESSAGES_MAX, CONNECTION_TURN_US};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// One turn. Its time begins when it is first looked at.
#[derive(Default)]
pub(super) struct Turn {
    until: Option<Instant>,
    message_count: usize,
    is_over: bool,
}

impl Turn {
    /// Whether another message may be answered in it. Once none may, it is over.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        let until = *self.until.get_or_insert(now + Duration::from_micros(CONNECTION_TURN_US));
        self.is_over = self.message_count >= CONNECTION_TURN_MESSAGES_MAX || now >= until;
        !self.is_over
    }

    /// Takes note that a message was answered.
    pub(super) const fn answered(&mut self) {
        self.message_count += 1;
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }
}

/// The time between two turns of one task: that of the others that are ready, and of the sockets.
#[derive(Default)]
pub(super) struct Pause(Option<Arc<Called>>);

/// Who is called at the end of a pause.
struct Called {
    is_over: AtomicBool,
    task: Waker,
}

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.is_over.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl Pause {
    /// Begins one, after which the task is polled again. A task that wakes itself would come before the sockets, many
    /// times over.
    pub(super) fn begin(&mut self, context: &Context<'_>) {
        let called = Arc::new(Called { is_over: AtomicBool::new(false), task: context.waker().clone() });
        // Nothing becomes of the future: its first poll is what asks for the next turn.
        let _pending = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&called.clone().into()));
        self.0 = Some(called);
    }

    /// Whether it lasts: the task was woken by something else, as HTTP/2 wakes the one that sends.
    pub(super) fn lasts(&self) -> bool {
        self.0.as_ref().is_some_and(|called| !called.is_over.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_messages_and_by_time() {
        let now = Instant::now();
        let mut turn = Turn::default();
        for _ in 0..CONNECTION_TURN_MESSAGES_MAX {
            assert!(turn.goes_on(now) && !turn.is_over());
            turn.answered();
        }
        assert!(!turn.goes_on(now) && turn.is_over());
        let mut turn = Turn::default();
        let end = now + Duration::from_micros(CONNECTION_TURN_US);
        assert!(turn.goes_on(now) && turn.goes_on(end - Duration::from_micros(1)));
        assert!(!turn.goes_on(end) && turn.is_over());
    }
}
