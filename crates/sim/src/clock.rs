//! Virtual time: the events in order, and the clocks of each machine.

use crate::rng::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events in order of time. Events of the same time are in the order in which they were scheduled.
#[derive(Debug)]
pub struct Events<E> {
    now_us: u64,
    count: u64,
    queue: BinaryHeap<Reverse<Event<E>>>,
}

#[derive(Debug)]
struct Event<E> {
    at_us: u64,
    number: u64,
    what: E,
}

impl<E> PartialEq for Event<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Event<E> {}

impl<E> PartialOrd for Event<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Event<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.number).cmp(&(other.at_us, other.number))
    }
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Self { now_us: 0, count: 0, queue: BinaryHeap::new() }
    }
}

impl<E> Events<E> {
    /// Microseconds since the run began.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Schedules an event. An event in the past happens now.
    pub fn at(&mut self, at_us: u64, what: E) {
        self.count += 1;
        self.queue.push(Reverse(Event { at_us: at_us.max(self.now_us), number: self.count, what }));
    }

    /// Schedules an event this many microseconds from now.
    pub fn after(&mut self, delay_us: u64, what: E) {
        self.at(self.now_us.saturating_add(delay_us), what);
    }

    /// Advances time to the next event and returns it. The caller ignores events that no longer apply.
    pub fn next_event(&mut self) -> Option<E> {
        let Reverse(event) = self.queue.pop()?;
        self.now_us = event.at_us;
        Some(event.what)
    }

    /// Advances time without an event, but not past the next one.
    pub fn wait_until(&mut self, until_us: u64) {
        let until_us = self.next_us().map_or(until_us, |next| until_us.min(next));
        self.now_us = self.now_us.max(until_us);
    }

    /// The time of the next event.
    pub fn next_us(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse(event)| event.at_us)
    }

    /// Number of scheduled events.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no event is scheduled.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// The clocks of one machine. The monotonic clock is slightly too fast or too slow. The wall clock is wrong and may
/// jump in both directions. No safety property may depend on either clock.
#[derive(Clone, Debug)]
pub struct MachineClock {
    /// Rate of the monotonic clock, in parts of a million.
    rate_ppm: u64,
    /// Reading of the monotonic clock when the run began.
    start_ms: u64,
    /// Milliseconds by which the wall clock is ahead.
    wall_error_ms: i64,
    /// Total true time during which the monotonic clock stood still, in microseconds.
    stood_us: u64,
    /// When the monotonic clock stopped. `None` while it runs.
    stopped_us: Option<u64>,
    /// When the monotonic clock last stood still.
    last_stood_us: Option<u64>,
}

/// The readings of a machine's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The monotonic clock, in milliseconds from an arbitrary start.
    pub monotonic_ms: u64,
    /// The wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
}

/// Wall time at the start of a run: 2026-01-01T00:00:00Z.
pub const WALL_START_MS: u64 = 1_767_225_600_000;
/// Largest error in the rate of a normal clock, in parts of a million.
pub const RATE_ERROR_PPM: u64 = 500;
/// Largest error in the rate of a bad clock. Two such clocks differ by less than the tenth that leases allow for.
pub const RATE_ERROR_PPM_MAX: u64 = 45_000;

impl MachineClock {
    /// Exact clocks.
    pub fn exact() -> Self {
        Self { rate_ppm: 1_000_000, start_ms: 0, wall_error_ms: 0, stood_us: 0, stopped_us: None, last_stood_us: None }
    }

    /// Wrong clocks: the rate is off by at most `rate_error_ppm` parts of a million, and the wall clock by at most
    /// `wall_error_ms`.
    pub fn random(rng: &mut Rng, rate_error_ppm: u64, wall_error_ms: u64) -> Self {
        Self {
            rate_ppm: rng.between(1_000_000 - rate_error_ppm, 1_000_000 + rate_error_ppm),
            start_ms: rng.below(1_000_000_000),
            wall_error_ms: rng.between(0, 2 * wall_error_ms) as i64 - wall_error_ms as i64,
            ..Self::exact()
        }
    }

    /// Changes the error of the wall clock by this much.
    pub fn jump_wall(&mut self, by_ms: i64) {
        self.wall_error_ms = self.wall_error_ms.saturating_add(by_ms);
    }

    /// Suspends the machine: the monotonic clock stands still. The wall clock is corrected when the machine resumes.
    pub fn stop(&mut self, true_us: u64) {
        self.stopped_us = self.stopped_us.or(Some(true_us));
    }

    /// Resumes the machine.
    pub fn go_on(&mut self, true_us: u64) {
        if let Some(stopped_us) = self.stopped_us.take() {
            self.stood_us += true_us.saturating_sub(stopped_us);
            self.last_stood_us = Some(true_us);
        }
    }

    /// Whether the monotonic clock stands still, or stood still in the last `for_us`.
    pub fn stood_since(&self, true_us: u64, for_us: u64) -> bool {
        self.stopped_us.is_some() || self.last_stood_us.is_some_and(|last_us| last_us + for_us >= true_us)
    }

    /// Converts a duration on the local clock to true time.
    pub fn true_us(&self, local_us: u64) -> u64 {
        local_us * 1_000_000 / self.rate_ppm
    }

    /// The current readings.
    pub fn now(&self, true_us: u64) -> Reading {
        let local_ms = |true_us: u64| (u128::from(true_us) * u128::from(self.rate_ppm) / 1_000_000_000) as u64;
        let running_us = self.stopped_us.unwrap_or(true_us).min(true_us) - self.stood_us;
        let wall_ms = (WALL_START_MS + local_ms(true_us)).saturating_add_signed(self.wall_error_ms);
        Reading { monotonic_ms: self.start_ms + local_ms(running_us), wall_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_insertion() {
        let mut events = Events::default();
        for (at, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (4, 'b')] {
            events.at(at, what);
        }
        assert_eq!((events.len(), events.next_us()), (4, Some(3)));
        let mut order = Vec::new();
        while let Some(what) = events.next_event() {
            order.push((events.now_us(), what));
            if what == 'b' {
                events.at(1, 'x');
                events.after(1, 'e');
            }
        }
        assert_eq!(order, [(3, 'a'), (4, 'b'), (4, 'x'), (5, 'c'), (5, 'd'), (5, 'e')]);
        assert!(events.is_empty());
        events.at(9, 'f');
        for (until, now) in [(7, 7), (3, 7), (20, 9)] {
            events.wait_until(until);
            assert_eq!(events.now_us(), now);
        }
    }

    #[test]
    fn the_forward_clock_never_goes_back_and_the_wall_clock_may() {
        let mut clock = MachineClock::random(&mut Rng::new(3), RATE_ERROR_PPM, 5000);
        let (mut before, mut jumped) = (clock.now(0), false);
        for step in 1..1000 {
            if step == 500 {
                clock.jump_wall(-60_000);
            }
            let now = clock.now(step * 7_000);
            assert!(now.monotonic_ms >= before.monotonic_ms);
            jumped |= now.wall_ms < before.wall_ms;
            before = now;
        }
        assert!(jumped);
        let elapsed = clock.now(1_000_000_000).monotonic_ms - clock.now(0).monotonic_ms;
        assert!((999_500..=1_000_500).contains(&elapsed), "{elapsed}");
        assert_eq!(MachineClock::exact().now(1_500_000), Reading { monotonic_ms: 1500, wall_ms: WALL_START_MS + 1500 });
    }

    #[test]
    fn a_forward_clock_stands_still_while_its_machine_is_suspended() {
        let mut clock = MachineClock::exact();
        clock.stop(1_000_000);
        assert_eq!(clock.now(5_000_000), Reading { monotonic_ms: 1_000, wall_ms: WALL_START_MS + 5_000 });
        clock.go_on(5_000_000);
        assert_eq!(clock.now(6_000_000), Reading { monotonic_ms: 2_000, wall_ms: WALL_START_MS + 6_000 });
        assert!(clock.stood_since(6_000_000, 1_000_000) && !clock.stood_since(6_000_001, 1_000_000));
        clock.go_on(7_000_000);
        assert_eq!(clock.now(7_000_000).monotonic_ms, 3_000);
    }
}
