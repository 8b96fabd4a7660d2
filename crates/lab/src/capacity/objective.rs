//! Limits that a server has to meet: `p99<=2ms,loss<=0.1%`.

use measure::Quantiles;
use report::{LimitSide, Summary};
use std::fmt;
use std::str::FromStr;

/// Limits that must all be met.
#[derive(Clone, PartialEq, Debug)]
pub struct Objective {
    terms: Vec<Term>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Term {
    /// A quantile of the latency, by its label, in microseconds.
    Latency(&'static str, f64),
    /// Share of queries without a correct answer in time.
    Loss(f64),
}

/// Quantiles allowed in an objective.
const LABELS: [&str; 6] = ["p50", "p90", "p99", "p99.9", "p99.99", "max"];

/// Maximum share of wrong answers in an objective without `loss`.
const WRONG_SHARE_MAX: f64 = 0.001;

/// The result of one run.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// The objective was met.
    Met,
    /// The objective was missed, with the reason.
    Missed(String),
    /// This tool could not send fast enough or sent too late, so the try does not measure the server. Has the reason.
    ToolLimited(String),
}

/// An invalid objective.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectiveError(String);

impl fmt::Display for ObjectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no objective; write p99<=2ms,loss<=0.1%, with {} or loss", self.0, LABELS.join(", "))
    }
}

impl std::error::Error for ObjectiveError {}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let terms: Option<Vec<Term>> = text.split(',').map(term).collect();
        terms.map(|terms| Self { terms }).ok_or_else(|| ObjectiveError(text.to_owned()))
    }
}

fn term(text: &str) -> Option<Term> {
    let (left, right) = text.split_once("<=")?;
    let (left, right) = (left.trim(), right.trim());
    let amount = |number: &str| number.trim().parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
    if left == "loss" {
        return Some(Term::Loss(match right.strip_suffix('%') {
            Some(percent) => amount(percent)? / 100.0,
            None => amount(right)?,
        }));
    }
    let label = LABELS.into_iter().find(|&label| label == left)?;
    let split = right.find(|letter: char| letter.is_ascii_alphabetic())?;
    let scale = match &right[split..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(Term::Latency(label, amount(&right[..split])? * scale))
}

impl Objective {
    /// Judges a run by its summary.
    #[must_use]
    pub fn judge(&self, summary: &Summary) -> Verdict {
        if summary.total.sent > 0 && summary.total.answered == 0 {
            return Verdict::Missed("not one answer in time".to_owned());
        }
        // An invalid run says nothing about the server, in either direction.
        if !summary.validity.valid {
            return Verdict::ToolLimited(summary.validity.reasons.join("; "));
        }
        let (mut missed, mut late) = (Vec::new(), Vec::new());
        for term in &self.terms {
            match term.judge(summary) {
                Verdict::Met => {}
                Verdict::Missed(reason) => missed.push(reason),
                Verdict::ToolLimited(reason) => late.push(reason),
            }
        }
        // Fast but wrong answers never meet an objective, even one without `loss`.
        if !self.terms.iter().any(|term| matches!(term, Term::Loss(_))) {
            missed.extend(wrong(summary));
        }
        match (missed.is_empty(), summary.limit.side) {
            (true, _) if late.is_empty() => Verdict::Met,
            (true, _) => Verdict::ToolLimited(late.join("; ")),
            (false, LimitSide::Tool) => Verdict::ToolLimited(summary.limit.evidence.join("; ")),
            (false, LimitSide::Server | LimitSide::None) => Verdict::Missed(missed.join("; ")),
        }
    }
}

impl Term {
    /// Latency includes the send lag of this tool. The server missed a limit only if the service time exceeds it too.
    fn judge(self, summary: &Summary) -> Verdict {
        match self {
            Self::Latency(label, us_max) => {
                let quantiles = [&summary.total.latency_us, &summary.total.service_us];
                let [latency, service] = quantiles.map(|quantiles| quantile(quantiles, label));
                let over = format!("{label} {latency:.0} us, over {us_max:.0} us");
                match (latency > us_max, service > us_max) {
                    (false, _) => Verdict::Met,
                    (true, true) => Verdict::Missed(over),
                    (true, false) => Verdict::ToolLimited(format!(
                        "{over}, by the send lag of this tool: the service time of {service:.0} us meets the objective"
                    )),
                }
            }
            Self::Loss(share_max) => {
                let total = &summary.total;
                let share = 1.0 - total.right() as f64 / (total.sent as f64).max(1.0);
                let wrong = match wrong_kinds(summary) {
                    Some(kinds) => format!("; among it wrong answers: {kinds}"),
                    None => String::new(),
                };
                if share > share_max {
                    let (share, share_max) = (share * 100.0, share_max * 100.0);
                    Verdict::Missed(format!("loss {share:.3} %, over {share_max:.3} %{wrong}"))
                } else {
                    Verdict::Met
                }
            }
        }
    }
}

/// Describes wrong answers if there are too many.
fn wrong(summary: &Summary) -> Option<String> {
    let total = &summary.total;
    let share = 1.0 - total.right() as f64 / (total.answered as f64).max(1.0);
    let kinds = wrong_kinds(summary)?;
    (share > WRONG_SHARE_MAX).then(|| format!("{:.3} % of the answers wrong: {kinds}", share * 100.0))
}

/// The kinds of wrong answers, or nothing if there are none.
fn wrong_kinds(summary: &Summary) -> Option<String> {
    let total = &summary.total;
    let unexpected = (total.unexpected > 0).then(|| format!("{} with an RCODE that is not expected", total.unexpected));
    let checked = (total.checked.wrong() > 0).then(|| total.checked.describe());
    let kinds: Vec<_> = unexpected.into_iter().chain(checked).collect();
    (!kinds.is_empty()).then(|| kinds.join(", "))
}

fn quantile(quantiles: &Quantiles, label: &str) -> f64 {
    match label {
        "p50" => quantiles.p50,
        "p90" => quantiles.p90,
        "p99" => quantiles.p99,
        "p99.9" => quantiles.p99_9,
        "p99.99" => quantiles.p99_99,
        _ => quantiles.max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::{Limits, Search};
    use report::{Limit, TransportSummary, Validity};
    use std::collections::BTreeMap;

    #[test]
    fn objectives_are_read() {
        let objective: Objective = "p99<=2ms,loss<=0.1%".parse().unwrap();
        assert_eq!(objective.terms, [Term::Latency("p99", 2_000.0), Term::Loss(0.001)]);
        let objective: Objective = "p99.9 <= 500us, loss <= 0".parse().unwrap();
        assert_eq!(objective.terms, [Term::Latency("p99.9", 500.0), Term::Loss(0.0)]);
        for bad in ["", "p99", "p98<=1ms", "p99<=1", "p99<=1h", "loss<=-1%", "p99<=nanms"] {
            assert!(bad.parse::<Objective>().is_err(), "{bad}");
        }
    }
    /// A valid run with this p99 and maximum, and this number of lost queries.
    fn summary(latency_us: f64, service_us: f64, lost: u64) -> Summary {
        let quantiles = |us| Quantiles { p99: us, p99_9: us, p99_99: us, max: us, ..Quantiles::default() };
        let (sent, answered) = (10_000, 10_000 - lost);
        let (latency_us, service_us) = (quantiles(latency_us), quantiles(service_us));
        Summary {
            schema_version: 1,
            transports: BTreeMap::new(),
            total: TransportSummary { sent, answered, latency_us, service_us, ..TransportSummary::default() },
            replay: None,
            offered_rate: 1.0,
            achieved_rate: 1.0,
            duration_seconds: 1.0,
            validity: Validity { valid: true, reasons: Vec::new() },
            limit: Limit { side: LimitSide::None, evidence: Vec::new() },
            wrong_answers: Vec::new(),
            hosts: Vec::new(),
            agents: Vec::new(),
            seconds: report::SecondFigures::default(),
            monitor: BTreeMap::new(),
            rtt: None,
            client_latency: None,
            partial: false,
            per_query: None,
        }
    }

    #[test]
    fn tool_send_lag_is_not_a_server_miss() {
        let objective: Objective = "p99<=2ms,loss<=0.1%".parse().unwrap();
        assert_eq!(objective.judge(&summary(1_500.0, 1_400.0, 0)), Verdict::Met);
        let late = objective.judge(&summary(2_500.0, 1_400.0, 0));
        assert!(matches!(&late, Verdict::ToolLimited(reason) if reason.contains("send lag")), "{late:?}");
        let slow = objective.judge(&summary(2_500.0, 2_400.0, 0));
        assert!(matches!(&slow, Verdict::Missed(reason) if reason.contains("2500 us")), "{slow:?}");
        // A loss counts against the server even if the tool was late.
        let lossy = objective.judge(&summary(2_500.0, 1_400.0, 100));
        assert!(matches!(&lossy, Verdict::Missed(reason) if reason.contains("loss 1.000 %")), "{lossy:?}");
    }

    #[test]
    fn late_tries_do_not_bound_the_search() {
        let objective: Objective = "p99<=2ms".parse().unwrap();
        let limits = Limits { from: 1_000.0, lowest: 1.0, to: 1e6, precision: 0.05, repeats: 6 };
        let (mut search, mut tries) = (Search::new(limits), 0);
        while let Some(rate) = search.next() {
            tries += 1;
            assert!(tries < 100, "{search:?}");
            let service_us = if rate <= 45_000.0 { 1_000.0 } else { 3_000.0 };
            // The tool pauses in every seventh try.
            let lag_us = if tries % 7 == 6 { 5_000.0 } else { 10.0 };
            search.record(&objective.judge(&summary(service_us + lag_us, service_us, 0)));
        }
        let estimate = search.estimate().unwrap();
        assert!(!estimate.is_lower_bound && (estimate.rate / 45_000.0 - 1.0).abs() < 0.05, "{estimate:?}");
    }
}
