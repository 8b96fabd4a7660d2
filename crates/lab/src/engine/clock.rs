//! The clock of a run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the start of the run, the same for all workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

/// The start lies a little ahead, so that every worker is ready when it comes.
const LEAD: Duration = Duration::from_millis(20);
/// So long before it every worker is awake.
const AWAKE: Duration = Duration::from_micros(500);

impl Clock {
    /// A clock whose zero is about to come.
    pub(super) fn soon() -> Self {
        Self { start: Instant::now() + LEAD }
    }

    /// A clock whose zero comes then; soon, when that is too near or past.
    pub(super) fn at(start: Instant) -> Self {
        Self { start: start.max(Self::soon().start) }
    }

    /// Its zero.
    pub(super) const fn start(&self) -> Instant {
        self.start
    }

    /// A clock that has started, for what happens before the run.
    pub(super) fn provisional() -> Self {
        Self { start: Instant::now() }
    }

    /// The time of an instant; zero before the start.
    pub(super) fn ns_of(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// Now; zero as long as the start has not come.
    pub(super) fn now_ns(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_nanos() as u64
    }

    /// Waits for the start: asleep, then awake, since a sleeping thread comes back late; gives how long awake.
    pub(super) fn wait_for_start(&self) -> Duration {
        std::thread::sleep(self.start.saturating_duration_since(Instant::now() + AWAKE));
        let awake = Instant::now();
        while Instant::now() < self.start {
            std::hint::spin_loop();
        }
        awake.elapsed()
    }
}

/// Tells times of the kernel's stamps, which are of the wall clock, on the clock of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct StampClock {
    clock: Clock,
    /// What to take off a wall time in nanoseconds since 1970.
    offset_ns: i128,
    measured_ns: u64,
}

/// The wall clock may be stepped; both clocks are slewed alike.
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
        // Half-way between two readings; negative as long as the start has not come.
        let middle = before + before.elapsed() / 2;
        let run_ns = match middle.checked_duration_since(self.clock.start) {
            Some(since) => since.as_nanos() as i128,
            None => -(self.clock.start.duration_since(middle).as_nanos() as i128),
        };
        self.offset_ns = wall - run_ns;
        self.measured_ns = self.clock.now_ns();
    }

    /// When a datagram came: at its stamp, or, what is counted, at the time of reading when it has none.
    pub(super) fn came(&mut self, stamp: Option<Duration>, now_ns: u64, unstamped: &mut u64) -> u64 {
        *unstamped += u64::from(stamp.is_none());
        stamp.map_or(now_ns, |stamp| self.at(stamp, now_ns))
    }

    /// The run's time of a stamp, never later than `now_ns`.
    pub(super) fn at(&mut self, stamp: Duration, now_ns: u64) -> u64 {
        if now_ns.saturating_sub(self.measured_ns) > OFFSET_AGE_NS_MAX {
            self.measure();
        }
        let at = stamp.as_nanos() as i128 - self.offset_ns;
        u64::try_from(at).unwrap_or(0).min(now_ns)
    }
}
