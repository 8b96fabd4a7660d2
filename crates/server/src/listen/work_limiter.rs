//! Limits how much work one connection does before the other tasks of its runtime run.

use crate::limits::{CONNECTION_WORK_MESSAGES_MAX, CONNECTION_WORK_US};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// The work that one poll of a connection may do. Its time starts at the first check.
#[derive(Default)]
pub(super) struct WorkBudget {
    until: Option<Instant>,
    message_count: usize,
    is_spent: bool,
}

impl WorkBudget {
    /// Whether another message may be answered.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        let until = *self.until.get_or_insert(now + Duration::from_micros(CONNECTION_WORK_US));
        self.is_spent = self.message_count >= CONNECTION_WORK_MESSAGES_MAX || now >= until;
        !self.is_spent
    }

    /// Records that a message was answered.
    pub(super) const fn record_message(&mut self) {
        self.message_count += 1;
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.is_spent
    }
}

/// Schedules another poll of the task after the other ready tasks and the sockets. A task that wakes itself would
/// instead run many times before the sockets are polled.
pub(super) fn yield_to_runtime(context: &mut Context<'_>) {
    // The first poll registers the task; the future itself is not needed.
    let _pending = pin!(tokio::task::yield_now()).poll(context);
}

/// The limiter of a connection whose messages have tasks of their own, or whose task is woken by its own sends
/// (HTTP/2). For these, being polled again does not mean that other tasks have run.
#[derive(Default)]
pub(super) struct WorkLimiter(RefCell<State>);

#[derive(Default)]
struct State {
    done: WorkDone,
    /// Waiting messages, in order of arrival.
    waiting: VecDeque<(u64, Waker)>,
    next_ticket: u64,
    /// When the current read of bytes started.
    reading_since: Option<Instant>,
}

/// Work of a connection since the sockets were last polled. Polls are tracked only from half a budget on, so that a
/// connection with little work costs nothing extra. Up to half a budget may therefore be older.
#[derive(Default)]
struct WorkDone {
    message_count: usize,
    time: Duration,
    marker: Option<Arc<PollMarker>>,
}

/// Records whether the sockets were polled.
#[derive(Default)]
struct PollMarker(AtomicBool);

impl Wake for PollMarker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl WorkLimiter {
    /// Waits until a message may be answered. It joins the queue at the first poll.
    pub(super) const fn acquire(&self) -> Acquire<'_> {
        Acquire { limiter: self, ticket: None }
    }

    /// Runs the work of one message after [`Self::acquire`].
    pub(super) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let output = work();
        let mut state = self.0.borrow_mut();
        state.done.add(start.elapsed());
        state.wake_first();
        output
    }

    /// Ready when bytes may be read; otherwise yields. Reading uses at most half of the budget: the rest is for
    /// messages that have arrived.
    pub(super) fn poll_read(&self, context: &mut Context<'_>) -> Poll<()> {
        self.done_reading();
        let mut state = self.0.borrow_mut();
        if state.done.is_half_left() {
            state.reading_since = Some(Instant::now());
            return Poll::Ready(());
        }
        yield_to_runtime(context);
        Poll::Pending
    }

    /// Records that the bytes that were read have been processed.
    pub(super) fn done_reading(&self) {
        let mut state = self.0.borrow_mut();
        if let Some(since) = state.reading_since.take() {
            state.done.add_time(since.elapsed());
        }
    }
}

impl State {
    fn first(&self) -> Option<u64> {
        self.waiting.front().map(|(ticket, _)| *ticket)
    }

    fn wake_first(&self) {
        if let Some((_, task)) = self.waiting.front() {
            task.wake_by_ref();
        }
    }
}

/// A message that may have to wait; ready when it may be answered.
pub(super) struct Acquire<'t> {
    limiter: &'t WorkLimiter,
    ticket: Option<u64>,
}

impl Future for Acquire<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.limiter.0.borrow_mut();
        let is_first = state.waiting.is_empty() || (self.ticket.is_some() && state.first() == self.ticket);
        if is_first && state.done.has_room() {
            state.waiting.pop_front();
            drop(state);
            self.ticket = None;
            return Poll::Ready(());
        }
        let task = context.waker().clone();
        let ticket = self.ticket.unwrap_or(state.next_ticket);
        match state.waiting.iter_mut().find(|(other, _)| *other == ticket) {
            // The message may have moved to another task.
            Some((_, known)) => *known = task,
            None => {
                state.next_ticket += 1;
                state.waiting.push_back((ticket, task));
            }
        }
        if state.first() == Some(ticket) {
            yield_to_runtime(context);
        }
        drop(state);
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.limiter.0.borrow_mut();
        let was_first = state.first() == Some(ticket);
        state.waiting.retain(|(other, _)| *other != ticket);
        if was_first {
            state.wake_first();
        }
    }
}

impl WorkDone {
    /// Whether another message may be answered.
    fn has_room(&mut self) -> bool {
        self.reset_after_poll();
        !self.is_at_least(1)
    }

    fn is_half_left(&mut self) -> bool {
        self.reset_after_poll();
        !self.is_at_least(2)
    }

    /// Forgets the work done before the last poll of the sockets.
    fn reset_after_poll(&mut self) {
        if self.marker.as_ref().is_some_and(|marker| marker.0.load(Ordering::Acquire)) {
            *self = Self::default();
        }
    }

    fn add(&mut self, time: Duration) {
        self.message_count += 1;
        self.add_time(time);
    }

    fn add_time(&mut self, time: Duration) {
        self.time += time;
        if self.marker.is_none() && self.is_at_least(2) {
            let marker = Arc::<PollMarker>::default();
            let waker = marker.clone().into();
            yield_to_runtime(&mut Context::from_waker(&waker));
            self.marker = Some(marker);
        }
    }

    /// Whether it is at least one `part`th of a budget.
    fn is_at_least(&self, part: usize) -> bool {
        self.message_count >= CONNECTION_WORK_MESSAGES_MAX / part
            || self.time * part as u32 >= Duration::from_micros(CONNECTION_WORK_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_by_messages_and_by_time() {
        let now = Instant::now();
        let mut budget = WorkBudget::default();
        for _ in 0..CONNECTION_WORK_MESSAGES_MAX {
            assert!(budget.has_room(now) && !budget.is_spent());
            budget.record_message();
        }
        assert!(!budget.has_room(now) && budget.is_spent());
        let mut budget = WorkBudget::default();
        let end = now + Duration::from_micros(CONNECTION_WORK_US);
        assert!(budget.has_room(now) && budget.has_room(end - Duration::from_micros(1)));
        assert!(!budget.has_room(end) && budget.is_spent());
    }
}
