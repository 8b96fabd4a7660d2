//! The clock of a run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the start of the run, the same for all workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

/// The start is slightly in the future, so that all workers are ready.
const LEAD: Duration = Duration::from_millis(20);
/// Workers busy-wait for this long before the start.
const BUSY_WAIT: Duration = Duration::from_micros(500);

impl Clock {
    /// A clock that starts shortly.
    pub(super) fn starting_soon() -> Self {
        Self { start: Instant::now() + LEAD }
    }

    /// A clock that starts at this time, or shortly if it is too close or past.
    pub(super) fn at(start: Instant) -> Self {
        Self { start: start.max(Self::starting_soon().start) }
    }

    /// The start.
    pub(super) const fn start(&self) -> Instant {
        self.start
    }

    /// A clock that has already started, for events before the run.
    pub(super) fn provisional() -> Self {
        Self { start: Instant::now() }
    }

    /// Converts an instant. Zero before the start.
    pub(super) fn ns_of(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// The current time. Zero before the start.
    pub(super) fn now_ns(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_nanos() as u64
    }

    /// Waits for the start: sleeps, then busy-waits because sleeping threads wake up late. Returns the busy time.
    pub(super) fn wait_for_start(&self) -> Duration {
        std::thread::sleep(self.start.saturating_duration_since(Instant::now() + BUSY_WAIT));
        let busy_since = Instant::now();
        while Instant::now() < self.start {
            std::hint::spin_loop();
        }
        busy_since.elapsed()
    }
}

/// Converts kernel timestamps, which use the wall clock, to the clock of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct StampClock {
    clock: Clock,
    /// Offset to subtract from wall time in nanoseconds since 1970.
    offset_ns: i128,
    measured_ns: u64,
}

/// The offset is refreshed after this time, because the wall clock may be stepped.
const OFFSET_AGE_NS_MAX: u64 = 100_000_000;

impl StampClock {
    pub(super) fn new(clock: Clock) -> Self {
        let mut stamps = Self { clock, offset_ns: 0, measured_ns: 0 };
        stamps.measure();
        stamps
    }

    fn measure(&mut self) {
        let before = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
        // Midpoint between two readings. Negative before the start.
        let middle = before + before.elapsed() / 2;
        let run_ns = match middle.checked_duration_since(self.clock.start) {
            Some(since) => since.as_nanos() as i128,
            None => -(self.clock.start.duration_since(middle).as_nanos() as i128),
        };
        self.offset_ns = wall - run_ns;
        self.measured_ns = self.clock.now_ns();
    }

    /// The arrival time of a datagram: its timestamp, or the time of reading without one, which is counted.
    pub(super) fn arrival_ns(&mut self, stamp: Option<Duration>, now_ns: u64, unstamped: &mut u64) -> u64 {
        *unstamped += u64::from(stamp.is_none());
        stamp.map_or(now_ns, |stamp| self.at(stamp, now_ns))
    }

    /// Converts a timestamp. The result is never later than `now_ns`.
    pub(super) fn at(&mut self, stamp: Duration, now_ns: u64) -> u64 {
        if now_ns.saturating_sub(self.measured_ns) > OFFSET_AGE_NS_MAX {
            self.measure();
        }
        let at = stamp.as_nanos() as i128 - self.offset_ns;
        u64::try_from(at).unwrap_or(0).min(now_ns)
    }
}
