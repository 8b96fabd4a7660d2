//! Figures to compare: latency percentiles, rates, and shares of the queries.

use super::blocks::Totals;
use serde::{Serialize, Serializer};

/// A figure to compare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Median latency.
    P50,
    /// 90th percentile of the latency.
    P90,
    /// 99th percentile of the latency.
    P99,
    /// 99.9th percentile of the latency.
    P99_9,
    /// Right answers a second.
    AchievedRate,
    /// Share of queries without an answer.
    Loss,
    /// Share of the checked answers that were wrong.
    Wrong,
    /// Share of the answers with an RCODE other than NOERROR and NXDOMAIN.
    Failures,
    /// Share of the answers with this RCODE.
    Rcode(String),
}

/// Figures that are compared with a bootstrap over seconds.
pub(super) const OF_SECONDS: [Figure; 5] = [Figure::P50, Figure::P90, Figure::P99, Figure::P99_9, Figure::AchievedRate];

impl Figure {
    /// Name in the table.
    pub(super) fn label(&self) -> String {
        match self {
            Self::P50 => "latency p50".to_owned(),
            Self::P90 => "latency p90".to_owned(),
            Self::P99 => "latency p99".to_owned(),
            Self::P99_9 => "latency p99.9".to_owned(),
            Self::AchievedRate => "achieved rate".to_owned(),
            Self::Loss => "loss".to_owned(),
            Self::Wrong => "wrong answers".to_owned(),
            Self::Failures => "failures".to_owned(),
            Self::Rcode(rcode) => rcode.clone(),
        }
    }

    pub(super) fn quantile(&self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P99_9 => Some(0.999),
            _ => None,
        }
    }

    /// Whether the figure is a share of the queries. Shares are compared by difference, other figures by ratio.
    pub(super) fn is_share(&self) -> bool {
        matches!(self, Self::Loss | Self::Wrong | Self::Failures | Self::Rcode(_))
    }

    /// Whether a smaller value is worse.
    pub(super) fn is_good(&self) -> bool {
        matches!(self, Self::AchievedRate)
    }

    /// Whether neither a smaller nor a larger value is worse, as for the share of an RCODE.
    pub(super) fn is_neutral(&self) -> bool {
        matches!(self, Self::Rcode(_))
    }

    /// Whether the figure counts losses or errors.
    pub(super) fn is_error(&self) -> bool {
        match self {
            Self::Loss | Self::Wrong | Self::Failures => true,
            Self::Rcode(rcode) => is_failure(rcode),
            _ => false,
        }
    }

    /// Value in one run or one draw: microseconds, or answers a second.
    pub(super) fn of(&self, totals: &Totals<'_>) -> f64 {
        match self.quantile() {
            Some(quantile) => totals.latency_ns(quantile) as f64 / 1e3,
            None => totals.rate(),
        }
    }

    pub(super) fn format_value(&self, value: f64) -> String {
        match self {
            Self::AchievedRate => format!("{value:.1} /s"),
            Self::Loss | Self::Wrong | Self::Failures | Self::Rcode(_) => format!("{:.4} %", 100.0 * value),
            _ => crate::duration(std::time::Duration::from_secs_f64(value / 1e6)),
        }
    }
}

/// Whether an RCODE is a failure: it does not tell whether the name exists (RFC 2308 1).
pub(super) fn is_failure(rcode: &str) -> bool {
    !matches!(rcode, "NOERROR" | "NXDOMAIN")
}

/// Serialized as one word: `p99_9`, `loss`, `rcode_SERVFAIL`.
impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99_9",
            Self::AchievedRate => "achieved_rate",
            Self::Loss => "loss",
            Self::Wrong => "wrong_answers",
            Self::Failures => "failures",
            Self::Rcode(rcode) => return serializer.serialize_str(&format!("rcode_{rcode}")),
        };
        serializer.serialize_str(name)
    }
}
