//! The wanted range of a claim.

/// The wanted range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Want {
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
pub(crate) enum Position {
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
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
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

    /// Where the interval from `low` to `high` is.
    pub(crate) fn position(&self, low: f64, high: f64) -> Position {
        let is_above_low =
            |value: f64| self.low.is_none_or(|low| value > low.at || (low.is_inclusive && value == low.at));
        let is_below_high =
            |value: f64| self.high.is_none_or(|high| value < high.at || (high.is_inclusive && value == high.at));
        match (low, high) {
            (_, high) if !is_above_low(high) => Position::Below,
            (low, _) if !is_below_high(low) => Position::Above,
            (low, high) if is_above_low(low) && is_below_high(high) => Position::Inside,
            _ => Position::Straddles,
        }
    }

    /// Whether the whole interval from `low` to `high` is better than this value. A range with two limits has no better
    /// side.
    pub(crate) fn is_beyond(&self, low: f64, high: f64, value: f64) -> bool {
        match (self.low, self.high) {
            (Some(_), None) => low > value,
            (None, Some(_)) => high < value,
            _ => false,
        }
    }
}
