//! Times between messages.

/// Mean and standard deviation of the times between messages, by the method of Welford (1962): in one pass, and without
/// differences of large sums.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intervals {
    /// Number of intervals.
    pub count: u64,
    mean_ns: f64,
    /// Sum of the squared deviations from the mean.
    squares: f64,
    /// Time of the latest message so far.
    latest_ns: Option<u64>,
}

impl Intervals {
    /// Adds a message. If it is earlier than a previous one, its interval is zero.
    pub fn add(&mut self, at_ns: u64) {
        let Some(latest_ns) = self.latest_ns else {
            self.latest_ns = Some(at_ns);
            return;
        };
        let interval_ns = at_ns.saturating_sub(latest_ns) as f64;
        self.latest_ns = Some(latest_ns.max(at_ns));
        self.count += 1;
        let deviation = interval_ns - self.mean_ns;
        self.mean_ns += deviation / self.count as f64;
        self.squares += deviation * (interval_ns - self.mean_ns);
    }

    /// Mean in seconds. None with fewer than two messages.
    #[must_use]
    pub fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean_ns / 1e9)
    }

    /// Standard deviation of all intervals in seconds. None with fewer than two messages.
    #[must_use]
    pub fn deviation_s(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).max(0.0).sqrt() / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times_ns: &[u64]) -> Intervals {
        let mut intervals = Intervals::default();
        times_ns.iter().for_each(|&at_ns| intervals.add(at_ns));
        intervals
    }

    #[test]
    fn mean_and_deviation_are_exact() {
        // Intervals of 1, 3 and 5 s, long after 1970: the deviation is the root of 8/3.
        let start = 1_700_000_000_000_000_000;
        let intervals = of(&[0, 1, 4, 9].map(|second| start + second * 1_000_000_000));
        assert!((intervals.mean_s().unwrap() - 3.0).abs() < 1e-9, "{intervals:?}");
        assert!((intervals.deviation_s().unwrap() - (8.0_f64 / 3.0).sqrt()).abs() < 1e-9, "{intervals:?}");
        let even: Vec<u64> = (0..1_000).map(|number| start + number * 100_000).collect();
        assert_eq!(of(&even).mean_s(), Some(1e-4));
        assert!(of(&even).deviation_s().unwrap() < 1e-12);
    }

    #[test]
    fn earlier_messages_do_not_count_as_long_intervals() {
        let intervals = of(&[0, 2_000_000_000, 1_000_000_000, 3_000_000_000]);
        assert_eq!((intervals.count, intervals.mean_s()), (3, Some(1.0)));
        assert_eq!((of(&[5]).mean_s(), of(&[]).deviation_s()), (None, None));
    }
}
