//! How much one connection does before the others of its runtime have their turn.

use crate::limits::{CONNECTION_TURN_MESSAGES_MAX, CONNECTION_TURN_US};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
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
pub(super) struct Turns(RefCell<State>);

#[derive(Default)]
struct State {
    spent: Spent,
    /// Messages that wait for a turn, in their order: what comes later does not overtake them.
    waiting: VecDeque<(u64, Waker)>,
    next_ticket: u64,
    /// Since when bytes are taken in and looked at.
    reading_since: Option<Instant>,
}

/// What a connection did since the sockets were looked at, for messages and for what else came; what is less than half
/// a turn may be older. Only more than that is followed: one that answers little costs its runtime no more looks.
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
    /// A place in the queue, taken when it is first polled.
    pub(super) const fn place(&self) -> Place<'_> {
        Place { turns: self, ticket: None }
    }

    /// Does one message's work, whose place has come.
    pub(super) fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        let mut state = self.0.borrow_mut();
        state.spent.add(start.elapsed());
        state.wake_first();
        done
    }

    /// Whether bytes may be taken in; otherwise asks for the next turn. What is not asked by them takes its time as
    /// well, but no more than half a turn: the rest is for messages that are there.
    pub(super) fn poll_read(&self, context: &mut Context<'_>) -> Poll<()> {
        self.done_reading();
        let mut state = self.0.borrow_mut();
        if state.spent.is_half_left() {
            state.reading_since = Some(Instant::now());
            return Poll::Ready(());
        }
        give_way(context);
        Poll::Pending
    }

    /// Takes note that nothing more is done with the bytes that were taken in.
    pub(super) fn done_reading(&self) {
        let mut state = self.0.borrow_mut();
        if let Some(since) = state.reading_since.take() {
            state.spent.add_time(since.elapsed());
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
pub(super) struct Place<'t> {
    turns: &'t Turns,
    ticket: Option<u64>,
}

impl Future for Place<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.turns.0.borrow_mut();
        let is_first = state.waiting.is_empty() || (self.ticket.is_some() && state.first() == self.ticket);
        if is_first && state.spent.has_room() {
            state.waiting.pop_front();
            drop(state);
            self.ticket = None;
            return Poll::Ready(());
        }
        let task = context.waker().clone();
        let ticket = self.ticket.unwrap_or(state.next_ticket);
        match state.waiting.iter_mut().find(|(other, _)| *other == ticket) {
            // It has a task of its own since.
            Some((_, known)) => *known = task,
            None => {
                state.next_ticket += 1;
                state.waiting.push_back((ticket, task));
            }
        }
        if state.first() == Some(ticket) {
            give_way(context);
        }
        drop(state);
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.turns.0.borrow_mut();
        let was_first = state.first() == Some(ticket);
        state.waiting.retain(|(other, _)| *other != ticket);
        if was_first {
            state.wake_first();
        }
    }
}

impl Spent {
    /// Whether another message may be answered.
    fn has_room(&mut self) -> bool {
        self.begin_anew();
        !self.is_at_least(1)
    }

    fn is_half_left(&mut self) -> bool {
        self.begin_anew();
        !self.is_at_least(2)
    }

    /// Forgets what was done before the sockets were looked at.
    fn begin_anew(&mut self) {
        if self.look.as_ref().is_some_and(|look| look.0.load(Ordering::Acquire)) {
            *self = Self::default();
        }
    }

    fn add(&mut self, time: Duration) {
        self.message_count += 1;
        self.add_time(time);
    }

    fn add_time(&mut self, time: Duration) {
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
