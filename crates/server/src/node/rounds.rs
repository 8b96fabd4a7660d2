//! When the replica gets its next tick: what waits comes first, then at most one, however long the process was paused.
//!
//! A process that was stopped finds a queue of frames when it goes on, the leader's heartbeats among them. A tick
//! before them would count the pause as time without a leader (docs/internals/consensus-rules.md 5). So a round that
//! comes late notes how much waits, and the tick comes when that is handled.

use crate::limits::EVENTS_BEFORE_TICK_MAX;
use std::time::{Duration, Instant};

/// The clock of ticks.
#[derive(Debug)]
pub(super) struct Rounds {
    period: Duration,
    next: Instant,
    /// Events that are still to be handled before a tick that is late.
    owed: Option<usize>,
}

impl Rounds {
    /// The first tick is due a period from now.
    pub(super) fn new(period: Duration, now: Instant) -> Self {
        Self { period, next: now + period, owed: None }
    }

    /// How long to wait for an event before the next tick.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// Whether the replica gets a tick at the end of a round, in which `taken` events were handled and after which
    /// `waiting` wait.
    pub(super) fn is_tick_due(&mut self, now: Instant, taken: usize, waiting: usize) -> bool {
        if now < self.next {
            return false;
        }
        let is_late = now > self.next + self.period;
        let owed = match self.owed {
            Some(owed) => owed.saturating_sub(taken),
            None if is_late => waiting.min(EVENTS_BEFORE_TICK_MAX.saturating_sub(taken)),
            None => 0,
        };
        // A round that found nothing to take knows better than the count, which others move.
        if owed > 0 && waiting > 0 && taken > 0 {
            self.owed = Some(owed);
            return false;
        }
        self.owed = None;
        // Ticks that were lost are not made up for: an election limit counts time that was lived through.
        self.next = if is_late { now + self.period } else { self.next + self.period };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{REPLICA_BATCH_COUNT, TICK_MS};
    use std::collections::VecDeque;

    const PERIOD: Duration = Duration::from_millis(TICK_MS);

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Handled {
        Frame(usize),
        Tick,
    }

    /// A thread that goes on after a pause with so many frames in its queue, each of which takes 10 us: what it
    /// handles, until 5 ms after the last frame.
    fn after_a_pause(pause: Duration, frames: usize) -> Vec<Handled> {
        let mut now = Instant::now();
        let mut rounds = Rounds::new(PERIOD, now);
        now += pause;
        let mut queue: VecDeque<usize> = (0..frames).collect();
        let (mut handled, mut end) = (Vec::new(), None);
        while end.is_none_or(|end| now < end) {
            let mut taken = 0;
            // One that is received, and a batch of those that wait behind it.
            while taken <= REPLICA_BATCH_COUNT
                && let Some(frame) = queue.pop_front()
            {
                handled.push(Handled::Frame(frame));
                now += Duration::from_micros(10);
                taken += 1;
            }
            if taken == 0 {
                now += rounds.wait(now).min(Duration::from_millis(1));
            }
            if rounds.is_tick_due(now, taken, queue.len()) {
                handled.push(Handled::Tick);
            }
            if queue.is_empty() {
                end = end.or(Some(now + Duration::from_millis(5)));
            }
        }
        handled
    }

    #[test]
    fn after_a_pause_frames_come_before_one_tick() {
        for frames in [0, 1, REPLICA_BATCH_COUNT, 1_000, EVENTS_BEFORE_TICK_MAX] {
            let handled = after_a_pause(Duration::from_secs(10), frames);
            let want: Vec<_> = (0..frames).map(Handled::Frame).chain([Handled::Tick]).collect();
            assert_eq!(handled, want, "{frames} frames");
        }
    }

    #[test]
    fn more_frames_than_the_limit_do_not_keep_a_tick_away() {
        let handled = after_a_pause(Duration::from_secs(10), 2 * EVENTS_BEFORE_TICK_MAX);
        let first = handled.iter().position(|handled| *handled == Handled::Tick).unwrap();
        assert!((EVENTS_BEFORE_TICK_MAX..=EVENTS_BEFORE_TICK_MAX + REPLICA_BATCH_COUNT).contains(&first), "{first}");
    }

    #[test]
    fn a_count_that_is_off_keeps_no_tick_away() {
        let now = Instant::now();
        let mut rounds = Rounds::new(PERIOD, now);
        let late = now + 10 * PERIOD;
        assert!(!rounds.is_tick_due(late, 1, 5));
        assert!(rounds.is_tick_due(late, 0, 5), "the queue was empty, whatever the count says");
    }

    #[test]
    fn without_a_pause_there_is_one_tick_a_period_whatever_waits() {
        let mut now = Instant::now();
        let mut rounds = Rounds::new(PERIOD, now);
        let mut ticks = 0;
        for _ in 0..10_000 {
            now += Duration::from_micros(100);
            ticks += usize::from(rounds.is_tick_due(now, 10, 5_000));
        }
        assert_eq!(ticks as u64, 1_000 / TICK_MS);
    }
}
