//! The wanted range of a claim.

use super::Interval;

/// The wanted range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Want {
    low: Option<Limit>,
    high: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    at: f64,
    /// Whether the limit itself belongs to the range.
    is_inclusive: bool,
}

/// Where an interval is relative to the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Inside,
    /// All of it is below the range.
    Below,
    /// All of it is above the range.
    Above,
    /// A limit is in the interval.
    Straddles,
}

impl Want {
    /// Parses `>= x`, `<= x`, `> x`, `< x` or `a..b`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a range; write `>= x`, `<= x`, `> x`, `< x` or `a..b`");
        let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong);
        let limit = |text: &str, is_inclusive| number(text).map(|at| Some(Limit { at, is_inclusive }));
        let trimmed = text.trim();
        for (sign, is_low, is_inclusive) in
            [(">=", true, true), ("<=", false, true), (">", true, false), ("<", false, false)]
        {
            if let Some(rest) = trimmed.strip_prefix(sign) {
                let limit = limit(rest, is_inclusive)?;
                return Ok(if is_low { Self { low: limit, high: None } } else { Self { low: None, high: limit } });
            }
        }
        let (from, to) = trimmed.split_once("..").ok_or_else(wrong)?;
        if number(from)? > number(to)? {
            return Err(format!("the range `{text}` ends before it begins; write the smaller number first"));
        }
        Ok(Self { low: limit(from, true)?, high: limit(to, true)? })
    }

    pub(super) fn position(&self, interval: &Interval) -> Position {
        let is_above_low =
            |value: f64| self.low.is_none_or(|low| value > low.at || (low.is_inclusive && value == low.at));
        let is_below_high =
            |value: f64| self.high.is_none_or(|high| value < high.at || (high.is_inclusive && value == high.at));
        match interval {
            Interval { high, .. } if !is_above_low(*high) => Position::Below,
            Interval { low, .. } if !is_below_high(*low) => Position::Above,
            Interval { low, high, .. } if is_above_low(*low) && is_below_high(*high) => Position::Inside,
            _ => Position::Straddles,
        }
    }

    /// Whether the whole interval is better than this value. A range with two limits has no better side.
    pub(super) fn is_beyond(&self, interval: &Interval, value: f64) -> bool {
        match (self.low, self.high) {
            (Some(_), None) => interval.low > value,
            (None, Some(_)) => interval.high < value,
            _ => false,
        }
    }
}
