//! A value in two runs.

use crate::claim::Interval;
use serde::Serialize;

/// A value in both runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// In A. `None` if it was not measured.
    pub a: Option<Estimate>,
    /// In B.
    pub b: Option<Estimate>,
    /// The ratio B/A, paired by repeat. `None` if no repeat has both, or if a value is 0 in A.
    pub ratio: Option<Estimate>,
    /// Whether they differ by more than the spread of the repeats.
    pub differs: Difference,
}

/// The median over the repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// Its interval.
    pub interval: Interval,
}

/// Whether a value differs by more than the spread of the repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Difference {
    /// The interval of B is above that of A.
    #[serde(rename = "higher")]
    Higher,
    /// The interval of B is below that of A.
    #[serde(rename = "lower")]
    Lower,
    /// The intervals overlap.
    #[serde(rename = "no")]
    Within,
    /// A run has only one repeat, so its spread is not known.
    #[serde(rename = "one repeat")]
    OneRepeat,
    /// A run has no value.
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl Difference {
    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Within => "no",
            Self::OneRepeat => "one repeat",
            Self::NotMeasured => "not measured",
        }
    }

    /// Whether it is more than the spread.
    #[must_use]
    pub const fn is_certain(self) -> bool {
        matches!(self, Self::Higher | Self::Lower)
    }
}

impl Estimate {
    fn of(values: &[f64]) -> Option<Self> {
        Interval::of(values).map(|(value, interval)| Self { value, interval })
    }
}

impl Pair {
    /// The values of each repeat in both runs.
    pub(super) fn of(a: &[Option<f64>], b: &[Option<f64>]) -> Self {
        let estimate = |values: &[Option<f64>]| Estimate::of(&values.iter().copied().flatten().collect::<Vec<_>>());
        let ratios: Vec<f64> = a.iter().zip(b).filter_map(|(a, b)| Some((*b)? / (*a)?)).collect();
        let ratio = if ratios.iter().all(|ratio| ratio.is_finite()) { Estimate::of(&ratios) } else { None };
        let (a, b) = (estimate(a), estimate(b));
        Self { a, b, ratio, differs: difference(a, b) }
    }
}

fn difference(a: Option<Estimate>, b: Option<Estimate>) -> Difference {
    match a.zip(b).map(|(a, b)| (a.interval, b.interval)) {
        None => Difference::NotMeasured,
        Some((a, b)) if a.repeats.min(b.repeats) < 2 => Difference::OneRepeat,
        Some((a, b)) if b.is_above(&a) => Difference::Higher,
        Some((a, b)) if a.is_above(&b) => Difference::Lower,
        Some(_) => Difference::Within,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(a: &[f64], b: &[f64]) -> Pair {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        Pair::of(&some(a), &some(b))
    }

    #[test]
    fn ratios_are_paired_by_repeat() {
        // Both vary by a factor of three, their ratio does not vary.
        let pair = of(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]);
        let ratio = pair.ratio.unwrap();
        assert_eq!((ratio.value, ratio.interval.low, ratio.interval.high), (2.0, 2.0, 2.0));
        assert_eq!((pair.a.unwrap().value, pair.b.unwrap().value), (2.0, 4.0));
        // Only the second repeat has both.
        let pair = Pair::of(&[None, Some(2.0), Some(4.0)], &[Some(9.0), Some(3.0)]);
        assert_eq!(pair.ratio.map(|ratio| (ratio.value, ratio.interval.repeats)), Some((1.5, 1)));
        assert_eq!(pair.a.unwrap().interval.repeats, 2);
    }

    #[test]
    fn a_difference_is_more_than_the_spread_if_the_intervals_do_not_overlap() {
        for (a, b, expected) in [
            (&[1.0, 2.0, 3.0], &[3.1, 4.0, 5.0], Difference::Higher),
            (&[3.0, 4.0, 5.0], &[1.0, 2.0, 2.9], Difference::Lower),
            (&[1.0, 2.0, 3.0], &[2.9, 4.0, 5.0], Difference::Within),
            // Each pair grows, but the runs overlap.
            (&[1.0, 2.0, 3.0], &[1.1, 2.1, 3.1], Difference::Within),
        ] {
            assert_eq!(of(a, b).differs, expected, "{a:?} {b:?}");
        }
        assert_eq!(of(&[1.0], &[5.0, 6.0]).differs, Difference::OneRepeat);
        assert_eq!(of(&[], &[5.0, 6.0]).differs, Difference::NotMeasured);
    }

    #[test]
    fn a_value_of_zero_has_no_ratio() {
        assert_eq!(of(&[0.0, 1.0], &[5.0, 6.0]).ratio, None);
        assert_eq!(of(&[], &[1.0]).ratio, None);
        assert_eq!(of(&[2.0, 2.0], &[0.0, 0.0]).ratio.map(|ratio| ratio.value), Some(0.0));
    }
}
