//! Whether a value that was measured again and again rises or falls over the run.

use crate::limits::{TREND_POINTS_MAX, TREND_POINTS_MIN};
use serde::{Deserialize, Serialize};

/// The two-sided 95 % quantile of the normal distribution.
const NORMAL_95: f64 = 1.959_964;
/// A trend is significant below this probability.
const P_MAX: f64 = 0.05;
/// Seconds in a minute.
const MINUTE_S: f64 = 60.0;

/// Whether there is a trend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The values show no trend: they rise as often as they fall, within chance.
    Steady,
    /// The values rise.
    Rises,
    /// The values fall.
    Falls,
}

/// The trend of a series of values.
///
/// The slope is the median of the slopes of all pairs of values (Theil 1950; Sen, *Estimates of the regression
/// coefficient based on Kendall's tau*, 1968), so single outliers do not matter. Whether it is a trend is tested after
/// Mann (*Nonparametric tests against trend*, 1945) and Kendall, with the variance corrected for ties.
///
/// The test takes values for independent. Values that stay high for many seconds and low for many others can look like
/// a trend.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Trend {
    /// The outcome of the test at 95 %.
    pub direction: Direction,
    /// Change per minute, in the unit of the values.
    pub per_minute: f64,
    /// Lower bound of its 95 % interval.
    pub per_minute_low: f64,
    /// Upper bound of its 95 % interval.
    pub per_minute_high: f64,
    /// Change per minute as a share of the median value. None if the median is zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_per_minute: Option<f64>,
    /// Probability of such an order of the values without a trend.
    pub p_value: f64,
    /// Number of values.
    pub n: u64,
}

impl Trend {
    /// The trend of values with their times in seconds, in order of time. Many neighbouring values are first averaged.
    /// None with fewer than [`TREND_POINTS_MIN`] values.
    #[must_use]
    pub fn of(values: &[(f64, f64)]) -> Option<Self> {
        if values.len() < TREND_POINTS_MIN {
            return None;
        }
        let points = thinned(values);
        let (mut slopes, mut score) = (Vec::with_capacity(points.len() * (points.len() - 1) / 2), 0_i64);
        for (index, &(later, high)) in points.iter().enumerate() {
            for &(earlier, low) in points[..index].iter().filter(|&&(earlier, _)| earlier < later) {
                slopes.push((high - low) / (later - earlier) * MINUTE_S);
                score += i64::from(high > low) - i64::from(high < low);
            }
        }
        slopes.sort_unstable_by(f64::total_cmp);
        let deviation = score_variance(&points).sqrt();
        // The correction by one is for the continuous normal distribution.
        let z = if deviation > 0.0 { ((score.abs() - 1).max(0)) as f64 / deviation } else { 0.0 };
        let p_value = two_sided(z);
        let direction = match score.signum() {
            1 if p_value < P_MAX => Direction::Rises,
            -1 if p_value < P_MAX => Direction::Falls,
            _ => Direction::Steady,
        };
        let per_minute = median(&slopes)?;
        let spread = NORMAL_95 * deviation;
        let at = |rank: f64| slopes[(rank.max(0.0) as usize).min(slopes.len() - 1)];
        let mut sorted: Vec<f64> = points.iter().map(|&(_, value)| value).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let middle = median(&sorted).filter(|middle| *middle != 0.0);
        Some(Self {
            direction,
            per_minute,
            per_minute_low: at(((slopes.len() as f64 - spread) / 2.0 - 1.0).floor()),
            per_minute_high: at(((slopes.len() as f64 + spread) / 2.0).ceil()),
            share_per_minute: middle.map(|middle| per_minute / middle.abs()),
            p_value,
            n: values.len() as u64,
        })
    }

    /// `steady`, or `rises by 1.20 ms per minute` with this text for an absolute value.
    #[must_use]
    pub fn describe(&self, value: impl Fn(f64) -> String) -> String {
        let change = || value(self.per_minute.abs());
        match self.direction {
            Direction::Steady => "steady".to_owned(),
            Direction::Rises => format!("rises by {} per minute", change()),
            Direction::Falls => format!("falls by {} per minute", change()),
        }
    }
}

/// At most [`TREND_POINTS_MAX`] points: the means of as many neighbours as needed. The number of pairs is their square.
fn thinned(values: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |block: &[(f64, f64)]| {
        let sum = block.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / block.len() as f64, sum.1 / block.len() as f64)
    };
    values.chunks(values.len().div_ceil(TREND_POINTS_MAX)).map(mean).collect()
}

/// Variance of the score without a trend (Kendall, *Rank Correlation Methods*, 1975). Groups of equal values lower it.
fn score_variance(points: &[(f64, f64)]) -> f64 {
    let pairs = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut values: Vec<f64> = points.iter().map(|&(_, value)| value).collect();
    values.sort_unstable_by(f64::total_cmp);
    let ties: f64 = values.chunk_by(|one, other| one == other).map(|group| pairs(group.len() as f64)).sum();
    (pairs(points.len() as f64) - ties) / 18.0
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], upper) } else { upper })
}

/// Probability that a normal variable is at least this far from its mean, in standard deviations. The error is below
/// 2e-7 (Abramowitz and Stegun, *Handbook of Mathematical Functions*, 7.1.26).
fn two_sided(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = sum.into_iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (sum * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(count: u32, value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..count).map(|second| (f64::from(second), value(f64::from(second)))).collect()
    }

    /// Repeatable noise between -1 and 1 without a trend (the generator of Steele and others, 2014).
    fn noise(seed: u32, at: f64) -> f64 {
        let mut bits = (u64::from(seed) << 32 | at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    #[test]
    fn a_slope_in_noise_is_found() {
        let trend = Trend::of(&series(120, |at| 1_000.0 + 0.5 * at + 10.0 * noise(1, at))).unwrap();
        assert_eq!((trend.direction, trend.n), (Direction::Rises, 120));
        assert!((trend.per_minute - 30.0).abs() < 4.0, "{trend:?}");
        assert!(trend.per_minute_low > 0.0 && trend.per_minute_low < 30.0 && trend.per_minute_high > 30.0, "{trend:?}");
        assert!((trend.share_per_minute.unwrap() - 0.029).abs() < 0.005, "{trend:?}");
        let falling = Trend::of(&series(120, |at| 1_000.0 - 0.5 * at + 10.0 * noise(1, at))).unwrap();
        assert_eq!(
            falling.describe(|value| format!("{value:.0}")),
            format!("falls by {:.0} per minute", -falling.per_minute)
        );
    }

    #[test]
    fn constants_are_steady() {
        let constant = Trend::of(&series(60, |_| 0.0)).unwrap();
        assert_eq!((constant.per_minute, constant.share_per_minute, constant.p_value), (0.0, None, two_sided(0.0)));
        assert_eq!(constant.describe(|value| value.to_string()), "steady");
    }

    #[test]
    fn one_in_twenty_noisy_series_is_called_a_trend() {
        let is_trend = |outlier: f64| {
            let series = |seed: u32| series(60, |at| if at == 59.0 { outlier } else { 50.0 + noise(seed, at) });
            (0..400).filter(|&seed| Trend::of(&series(seed)).unwrap().direction != Direction::Steady).count()
        };
        assert!((8..=32).contains(&is_trend(50.0)), "{}", is_trend(50.0));
        // One bad second at the end would tilt each fitted line.
        assert!((8..=40).contains(&is_trend(1e9)), "{}", is_trend(1e9));
    }

    #[test]
    fn the_test_agrees_with_tables() {
        assert!((two_sided(NORMAL_95) - 0.05).abs() < 1e-6 && (two_sided(2.575_829) - 0.01).abs() < 1e-6);
        // Ten rising values: a score of 45 and a variance of 125, so z is 44 / 11.18.
        let trend = Trend::of(&series(10, |at| at)).unwrap();
        assert!((trend.p_value - 8.3e-5).abs() < 1e-6 && trend.per_minute == 60.0, "{trend:?}");
        // Groups of 3 and 2 equal values lower the variance by (66 + 18) / 18.
        let tied = [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0].map(|value| (0.0, value));
        assert!((score_variance(&tied) - (125.0 - 84.0 / 18.0)).abs() < 1e-9);
    }

    #[test]
    fn few_values_have_no_trend_and_many_are_averaged() {
        assert_eq!(Trend::of(&series(9, |at| at)), None);
        let long = series(50_000, |at| at / 60.0);
        assert!(thinned(&long).len() <= TREND_POINTS_MAX);
        let trend = Trend::of(&long).unwrap();
        assert!((trend.per_minute - 1.0).abs() < 1e-6 && trend.n == 50_000, "{trend:?}");
    }
}
