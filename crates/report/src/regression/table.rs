//! A comparison as a table for the terminal.

use super::{Comparison, DRAWS, Difference, Figure, Outcome, Verdict};
use std::fmt::Write;

impl Verdict {
    fn label(self) -> &'static str {
        match self {
            Self::NoDifference => "no difference",
            Self::Better => "better",
            Self::Different => "different",
            Self::Worse => "worse, within the threshold",
            Self::Undecided => "undecided",
            Self::Regression => "WORSE, beyond the threshold",
        }
    }
}

impl Difference {
    fn line(&self) -> String {
        let Self { figure, a, b, change, interval: [low, high], verdict, .. } = self;
        let (change, interval) = if figure.is_share() {
            let points = |value: f64| format!("{:+.4}", 100.0 * value);
            (format!("{} %", points(*change)), format!("{} to {} %", points(*low), points(*high)))
        } else {
            let high = if high.is_finite() { ratio(*high) } else { "any".to_owned() };
            (ratio(*change), format!("{} to {high}", ratio(*low)))
        };
        let (a, b, verdict) = (figure.format_value(*a), figure.format_value(*b), verdict.label());
        format!("{:<14} {a:>12} {b:>12} {change:>11}  {interval:<22} {verdict}", figure.label())
    }
}

fn ratio(value: f64) -> String {
    if value < 100.0 { format!("{value:.4}") } else { format!("{value:.1}") }
}

impl Comparison {
    /// A table for the terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            // Writing to a string cannot fail.
            let _written = writeln!(out, "{}", text.trim_end());
        };
        for (letter, name, reasons) in
            [("A", &self.a, &self.reasons_invalid[0]), ("B", &self.b, &self.reasons_invalid[1])]
        {
            let mark = if reasons.is_empty() { String::new() } else { format!("  INVALID: {}", reasons.join("; ")) };
            line(format!("{letter}  {name}{mark}"));
        }
        line(format!("{:<14} {:>12} {:>12} {:>11}  {:<22} verdict", "", "A", "B", "B/A or B-A", "95 % interval"));
        for difference in &self.differences {
            line(difference.line());
        }
        let [(a, seconds_a), (b, seconds_b)] = self.blocks;
        line(format!(
            "Latency and rate: B/A, {DRAWS} draws of {a} and {b} blocks of {seconds_a} and {seconds_b} s. Loss, wrong \
             answers, failures (RCODEs but NOERROR and NXDOMAIN), each RCODE: B minus A over all queries."
        ));
        line("Intervals are independent: of twenty figures of equal runs, one differs by chance.".to_owned());
        line(self.conclusion());
        out
    }

    /// The last line of the table: the conclusion.
    fn conclusion(&self) -> String {
        let with = |verdict: Verdict| -> Vec<String> {
            let with = self.differences.iter().filter(|difference| difference.verdict == verdict);
            with.map(|difference| difference.figure.label()).collect()
        };
        let threshold = format!("{:.1} %", 100.0 * self.threshold);
        let mut parts = match self.outcome {
            Outcome::Regression => {
                let figures = with(Verdict::Regression).join(", ");
                vec![format!("REGRESSION: B is worse by more than the threshold of {threshold}: {figures}")]
            }
            Outcome::Undecided => vec![format!(
                "Undecided: B looks worse by more than the threshold of {threshold}, but the runs are too short or too \
                 uneven to be sure. Repeat them, or make them longer"
            )],
            Outcome::None => Vec::new(),
        };
        let (worse, undecided, different) = (with(Verdict::Worse), with(Verdict::Undecided), with(Verdict::Different));
        if !worse.is_empty() {
            parts.push(format!("B is worse, within the threshold of {threshold}: {}", worse.join(", ")));
        }
        parts.extend(self.only_in_b().map(|events| format!("only in B: {events}")));
        if parts.is_empty() {
            parts.push(format!("No regression beyond {threshold}"));
        }
        if !different.is_empty() {
            parts.push(format!("different: {}", different.join(", ")));
        }
        if !undecided.is_empty() {
            parts.push(format!("undecided: {}", undecided.join(", ")));
        }
        parts.join("; ")
    }

    /// Losses and errors that only B had.
    fn only_in_b(&self) -> Option<String> {
        let only = self.differences.iter().filter_map(|difference| match difference.counts {
            // Failures are listed by RCODE.
            Some([0, count]) if difference.figure.is_error() && difference.figure != Figure::Failures && count > 0 => {
                Some(format!("{} ({count})", difference.figure.label()))
            }
            _ => None,
        });
        let only: Vec<_> = only.collect();
        (!only.is_empty()).then(|| only.join(", "))
    }
}
