//! How closely a worker followed its plan, measured by itself.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Deviations of a worker from its plan.
#[derive(Clone, Debug)]
pub struct Pacing {
    /// Sent queries.
    pub sent: u64,
    /// When the first and the last one were sent, from the start of the run.
    pub span_ns: Option<(u64, u64)>,
    /// Absolute error of the interval between two queries, in nanoseconds.
    pub interval_error: Histogram<u64>,
    /// How often there was nothing to send because the trace was not read fast enough.
    pub dry: u64,
    /// How often the queue of waiting queries was full (dependent queries).
    pub crowded: u64,
    /// The query that was too late and ended the run: its planned time, and its lag.
    pub stopped: Option<(Duration, Duration)>,
    last_lag_ns: Option<u64>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            sent: 0,
            span_ns: None,
            interval_error: crate::new_histogram(),
            dry: 0,
            crowded: 0,
            stopped: None,
            last_lag_ns: None,
        }
    }
}

impl Pacing {
    /// Records a query sent now, and its planned time, if any.
    pub fn sent(&mut self, planned_ns: Option<u64>, now_ns: u64) {
        self.sent += 1;
        let first_ns = self.span_ns.map_or(now_ns, |(first_ns, _)| first_ns);
        self.span_ns = Some((first_ns, now_ns));
        let Some(planned_ns) = planned_ns else { return };
        let lag_ns = now_ns.saturating_sub(planned_ns);
        if let Some(last_lag_ns) = self.last_lag_ns.replace(lag_ns) {
            crate::record(&mut self.interval_error, lag_ns.abs_diff(last_lag_ns));
        }
    }

    /// Adds the deviations of another worker.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.span_ns = match (self.span_ns, other.span_ns) {
            (Some(one), Some(two)) => Some((one.0.min(two.0), one.1.max(two.1))),
            (one, two) => one.or(two),
        };
        self.interval_error.add(&other.interval_error).expect("histograms that grow take any value");
        self.dry += other.dry;
        self.crowded += other.crowded;
        self.stopped = self.stopped.or(other.stopped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_errors_merge_over_workers() {
        let (mut one, mut two) = (Pacing::default(), Pacing::default());
        // Queries are 5, 5, 45 and 15 late, so the intervals are off by 0, 40 and -30.
        for (planned_ns, now_ns) in [(0, 5), (100, 105), (200, 245), (300, 315)] {
            one.sent(Some(planned_ns), now_ns);
        }
        two.sent(Some(1), 2);
        // Without a plan there are no errors.
        two.sent(None, 9);
        two.sent(None, 99);
        one.merge(&two);
        assert_eq!((one.sent, one.span_ns, one.interval_error.len()), (7, Some((2, 315)), 3));
        assert_eq!((one.interval_error.min(), one.interval_error.max()), (1, 40));
        assert_eq!(one.interval_error.value_at_quantile(0.6), 30);
    }
}
