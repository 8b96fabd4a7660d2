//! When the replica gets its next tick: waiting events come first, then at most one tick, however long the process was
//! paused.
//!
//! A process that resumes after a pause has a queue of frames, which may include heartbeats of the leader. A tick
//! before them would count the pause as time without a leader (docs/internals/consensus-rules.md 5). So a late tick
//! waits until the events that were queued at that moment are handled.

use crate::limits::EVENTS_BEFORE_TICK_MAX;
use std::time::{Duration, Instant};

/// Decides when a tick is due.
#[derive(Debug)]
pub(super) struct TickSchedule {
    period: Duration,
    next: Instant,
    /// Events that must be handled before a late tick.
    owed: Option<usize>,
}

impl TickSchedule {
    /// The first tick is due in one period.
    pub(crate) fn new(period: Duration, now: Instant) -> Self {
        Self { period, next: now + period, owed: None }
    }

    /// Time until the next tick.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// Whether a tick is due after a round that handled `taken` events and left `waiting` in the queue.
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
        // An empty round is better evidence than `waiting`, which other threads change.
        if owed > 0 && waiting > 0 && taken > 0 && !replica::planted!(TickBeforeFrames) {
            self.owed = Some(owed);
            return false;
        }
        self.owed = None;
        // Missed ticks are not repeated: an election timeout counts only time in which the process ran.
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

    /// What a thread handles after a pause with this many frames in its queue, until 5 ms after the last frame. Each
    /// frame takes 10 us.
    fn after_a_pause(pause: Duration, frames: usize) -> Vec<Handled> {
        let mut now = Instant::now();
        let mut schedule = TickSchedule::new(PERIOD, now);
        now += pause;
        let mut queue: VecDeque<usize> = (0..frames).collect();
        let (mut handled, mut end) = (Vec::new(), None);
        while end.is_none_or(|end| now < end) {
            let mut taken = 0;
            // One event, and a batch of the events behind it.
            while taken <= REPLICA_BATCH_COUNT
                && let Some(frame) = queue.pop_front()
            {
                handled.push(Handled::Frame(frame));
                now += Duration::from_micros(10);
                taken += 1;
            }
            if taken == 0 {
                now += schedule.wait(now).min(Duration::from_millis(1));
            }
            if schedule.is_tick_due(now, taken, queue.len()) {
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
    fn more_frames_than_the_limit_do_not_delay_a_tick() {
        let handled = after_a_pause(Duration::from_secs(10), 2 * EVENTS_BEFORE_TICK_MAX);
        let first = handled.iter().position(|handled| *handled == Handled::Tick).unwrap();
        assert!((EVENTS_BEFORE_TICK_MAX..=EVENTS_BEFORE_TICK_MAX + REPLICA_BATCH_COUNT).contains(&first), "{first}");
    }

    #[test]
    fn a_wrong_count_does_not_delay_a_tick() {
        let now = Instant::now();
        let mut schedule = TickSchedule::new(PERIOD, now);
        let late = now + 10 * PERIOD;
        assert!(!schedule.is_tick_due(late, 1, 5));
        assert!(schedule.is_tick_due(late, 0, 5), "the queue was empty, despite the count");
    }

    #[test]
    fn without_a_pause_there_is_one_tick_per_period() {
        let mut now = Instant::now();
        let mut schedule = TickSchedule::new(PERIOD, now);
        let mut ticks = 0;
        for _ in 0..10_000 {
            now += Duration::from_micros(100);
            ticks += usize::from(schedule.is_tick_due(now, 10, 5_000));
        }
        assert_eq!(ticks as u64, 1_000 / TICK_MS);
    }
}
