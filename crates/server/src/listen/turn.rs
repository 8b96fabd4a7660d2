//! How much one connection does before the others of its runtime have their turn.

use crate::limits::{CONNECTION_TURN_MESSAGES_MAX, CONNECTION_TURN_US};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
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

/// Has the task polled again once the others that are ready, and the sockets, have had their turn. A task that wakes
/// itself would come before the sockets, many times over.
pub(super) fn give_way(context: &mut Context<'_>) {
    // Nothing becomes of the future: its first poll is what asks for the next turn.
    let _pending = pin!(tokio::task::yield_now()).poll(context);
}

/// The turns of a connection whose messages are answered by tasks of their own, or by one that is woken by what it
/// sends, as that of HTTP/2 is: being polled again does not mean that others had their turn.
#[derive(Default)]
pub(super) struct Turns(RefCell<Spent>);

/// What a connection did since the sockets were looked at. Only what is half a turn or more is followed: one
/// that answers little costs its runtime no more looks.
#[derive(Default)]
struct Spent {
    message_count: usize,
    time: Duration,
    look: Option<Arc<Look>>,
}

/// Whether the sockets were looked at.
#[derive(Default)]
struct Look(AtomicBool);

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Turns {
    /// Does one message's work once there is a turn for it.
    pub(super) async fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        poll_fn(|context| self.0.borrow_mut().poll(context)).await;
        let start = Instant::now();
        let done = work();
        self.0.borrow_mut().add(start.elapsed());
        done
    }
}

impl Spent {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.look.as_ref().is_some_and(|look| look.0.load(Ordering::Acquire)) {
            *self = Self::default();
        }
        if !self.is_at_least(1) {
            return Poll::Ready(());
        }
        give_way(context);
        Poll::Pending
    }

    fn add(&mut self, time: Duration) {
        self.message_count += 1;
        self.time += time;
        if self.look.is_none() && self.is_at_least(2) {
            let look = Arc::<Look>::default();
            let waker = look.clone().into();
            give_way(&mut Context::from_waker(&waker));
            self.look = Some(look);
        }
    }

    /// Whether it is one `part`th of a turn or more.
    fn is_at_least(&self, part: usize) -> bool {
        self.message_count >= CONNECTION_TURN_MESSAGES_MAX / part
            || self.time * part as u32 >= Duration::from_micros(CONNECTION_TURN_US)
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
