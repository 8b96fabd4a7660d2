//! The median of repeats, and its interval.

use super::number;
use serde::Serialize;

/// The confidence of an interval that is not a range.
const CONFIDENCE: f64 = 0.95;

/// An interval of the median over repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Number of repeats.
    pub repeats: usize,
    /// Probability that an interval made this way holds the median of all possible repeats, by the sign test.
    pub confidence: f64,
}

impl Interval {
    /// The median and its interval. `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<(f64, Self)> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&first, &last) = (sorted.first()?, sorted.last()?);
        let repeats = sorted.len();
        let median = f64::midpoint(sorted[(repeats - 1) / 2], sorted[repeats / 2]);
        let mut found = Self { low: first, high: last, repeats, confidence: confidence(repeats, 0) };
        // Narrow the interval while its confidence is high enough.
        for cut in 1..repeats.div_ceil(2) {
            let confidence = confidence(repeats, cut);
            if confidence < CONFIDENCE {
                break;
            }
            found = Self { low: sorted[cut], high: sorted[repeats - 1 - cut], repeats, confidence };
        }
        Some((median, found))
    }

    /// Whether it is only the range of all repeats, because they are too few for 95 %.
    #[must_use]
    pub fn is_range(&self) -> bool {
        self.confidence < CONFIDENCE
    }

    /// The interval as text, for example `1.93 to 1.97, range of 3 repeats`.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}, {}", self.ends(), self.kind())
    }

    /// `1.93 to 1.97`.
    pub(crate) fn ends(&self) -> String {
        format!("{} to {}", number::text(self.low), number::text(self.high))
    }

    /// Whether all of it is above the other one.
    pub(crate) fn is_above(&self, other: &Self) -> bool {
        self.low > other.high
    }

    /// What kind of interval it is.
    pub(crate) fn kind(&self) -> String {
        match self.repeats {
            1 => "only one repeat".into(),
            repeats if self.is_range() => format!("range of {repeats} repeats"),
            repeats => format!("95 % interval of {repeats} repeats"),
        }
    }
}

/// The probability that the median is between the order statistics that remain if `cut` values are left off at each
/// end: at least `cut + 1` of `repeats` values are on each side of it.
fn confidence(repeats: usize, cut: usize) -> f64 {
    // Terms of the binomial distribution with probability 1/2.
    let mut term = 0.5f64.powi(i32::try_from(repeats).unwrap_or(i32::MAX));
    let mut below = term;
    for count in 1..=cut {
        term *= (repeats + 1 - count) as f64 / count as f64;
        below += term;
    }
    2.0f64.mul_add(-below, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_repeats_give_a_range() {
        let (median, interval) = Interval::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((median, interval.low, interval.high), (2.0, 1.0, 3.0));
        assert!(interval.is_range() && (interval.confidence - 0.75).abs() < 1e-12, "{interval:?}");
        assert_eq!(interval.text(), "1 to 3, range of 3 repeats");
        let (median, interval) = Interval::of(&[7.0]).unwrap();
        assert_eq!((median, interval.confidence, interval.kind().as_str()), (7.0, 0.0, "only one repeat"));
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn intervals_of_many_repeats_match_the_table_of_the_sign_test() {
        // Number of repeats, the values left off at each end, the confidence in per cent.
        for (repeats, cut, percent) in [(6, 0, 96.88), (8, 0, 99.22), (9, 1, 96.09), (15, 3, 96.48), (20, 5, 95.86)] {
            let values: Vec<f64> = (0..repeats).map(f64::from).collect();
            let (median, interval) = Interval::of(&values).unwrap();
            assert_eq!(median, f64::from(repeats - 1) / 2.0);
            assert_eq!((interval.low, interval.high), (f64::from(cut), f64::from(repeats - 1 - cut)), "{repeats}");
            assert!((interval.confidence * 100.0 - percent).abs() < 0.01, "{repeats}: {interval:?}");
            assert!(!interval.is_range());
        }
    }
}
