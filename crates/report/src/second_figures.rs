//! What the seconds of a run show together: the size of the answers, and whether the run was steady.

use crate::duration::microseconds;
use crate::recording::whole_intervals;
use measure::{Row, Spread, Trend};
use serde::{Deserialize, Serialize};

/// Bits in a byte, and in a megabit.
const BYTE_BITS: f64 = 8.0;
const MEGABIT_BITS: f64 = 1e6;
/// Nanoseconds in a microsecond.
const US_NS: f64 = 1e3;

/// Figures of the whole seconds of a run, in which queries were sent from the first moment to the last.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondFigures {
    /// Bytes of the messages that were received, without the headers of lower layers.
    pub response_bytes: u64,
    /// The same in megabits per second of the run.
    pub response_mbps: f64,
    /// The same in each whole second.
    pub response_mbps_seconds: Spread,
    /// Share of the answers with TC.
    pub truncated_share: f64,
    /// Whether the rate of the right answers rose or fell, per second. None for short runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_trend: Option<Trend>,
    /// The same for the p99 of the latency, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_trend: Option<Trend>,
}

impl SecondFigures {
    /// The figures of a run in which queries were sent for this long.
    #[must_use]
    pub fn of(rows: &[Row], duration_seconds: f64) -> Self {
        let total = |count: fn(&Row) -> u64| rows.iter().map(count).sum::<u64>();
        let mbps = |bytes: u64, seconds: f64| bytes as f64 * BYTE_BITS / MEGABIT_BITS / seconds.max(1e-9);
        let whole: Vec<&Row> = whole_intervals(rows, duration_seconds).collect();
        let series = |value: fn(&Row) -> Option<f64>| {
            let points = whole.iter().filter_map(|row| Some((row.start_seconds, value(row)?)));
            Trend::of(&points.collect::<Vec<_>>())
        };
        let (response_bytes, answered) = (total(|row| row.bytes_received), total(|row| row.answered));
        Self {
            response_bytes,
            response_mbps: mbps(response_bytes, duration_seconds),
            response_mbps_seconds: Spread::of(
                whole.iter().map(|row| mbps(row.bytes_received, row.span_seconds)).collect(),
            ),
            truncated_share: total(|row| row.truncated) as f64 / (answered as f64).max(1.0),
            rate_trend: series(|row| Some(row.right() as f64 / row.span_seconds.max(1e-9))),
            p99_trend: series(|row| {
                Some(row.latency.quantile(0.99) as f64 / US_NS).filter(|_| !row.latency.is_empty())
            }),
        }
    }

    /// The size of the answers. Empty without any, or if their size is not known.
    #[must_use]
    pub fn describe_responses(&self) -> String {
        if self.response_bytes == 0 {
            return String::new();
        }
        let Spread { p25, p75, .. } = self.response_mbps_seconds;
        let [low, high] = [p25, p75].map(number);
        let seconds = if low == high { String::new() } else { format!(" ({low} to {high} in half of the seconds)") };
        format!("{} Mb/s{seconds}", number(self.response_mbps))
    }

    /// Whether the rate was steady. Empty for short runs.
    #[must_use]
    pub fn describe_rate_trend(&self) -> String {
        self.rate_trend.map_or_else(String::new, |trend| trend.describe(|rate| format!("{} a second", number(rate))))
    }

    /// Whether the p99 of the latency was steady. Empty for short runs.
    #[must_use]
    pub fn describe_p99_trend(&self) -> String {
        self.p99_trend.map_or_else(String::new, |trend| trend.describe(microseconds))
    }
}

/// Three significant digits, or a whole number.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 100.0 || value == 0.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Direction, Distribution};

    /// 20 seconds of 100 answers, and a last half second of 50. The size and the latency double in the second half.
    fn rows() -> Vec<Row> {
        let row = |second: u8| {
            let (start, is_later) = (f64::from(second), second >= 10);
            let answered = if second == 20 { 50 } else { 100 };
            Row {
                start_seconds: start,
                span_seconds: 1.0,
                sent: answered,
                answered,
                truncated: 2,
                bytes_received: answered * if is_later { 250 } else { 125 },
                latency: Distribution::of([((200 + u64::from(second)) * 1_000, answered)]),
                ..Row::default()
            }
        };
        (0..21).map(row).collect()
    }

    #[test]
    fn sizes_are_per_second_of_the_run_and_of_each_whole_second() {
        let figures = SecondFigures::of(&rows(), 20.5);
        assert_eq!(figures.response_bytes, 100 * 1_250 + 100 * 2_500 + 50 * 250);
        assert!((figures.response_mbps - 387_500.0 * 8.0 / 1e6 / 20.5).abs() < 1e-9, "{figures:?}");
        let spread = figures.response_mbps_seconds;
        assert_eq!(spread, Spread { min: 0.1, p25: 0.1, p50: 0.1, p75: 0.2, max: 0.2, n: 20 });
        assert!((figures.truncated_share - 42.0 / 2_050.0).abs() < 1e-12, "{figures:?}");
        assert_eq!(figures.describe_responses(), "0.151 Mb/s (0.100 to 0.200 in half of the seconds)");
    }

    #[test]
    fn a_steady_rate_and_a_rising_latency_are_told_apart() {
        let figures = SecondFigures::of(&rows(), 20.5);
        // The half second at the end does not count as a drop.
        let rate = figures.rate_trend.unwrap();
        assert_eq!((rate.direction, rate.n, figures.describe_rate_trend().as_str()), (Direction::Steady, 20, "steady"));
        assert_eq!(figures.describe_p99_trend(), "rises by 60.0 us per minute");
        assert_eq!(SecondFigures::of(&rows()[..5], 5.0).describe_p99_trend(), "");
    }

    #[test]
    fn a_run_without_sizes_says_nothing() {
        assert_eq!(SecondFigures::of(&[], 1.0).describe_responses(), "");
    }
}
