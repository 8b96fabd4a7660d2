//! Whether one run is slower than another: ratios with intervals, by a bootstrap over blocks of seconds.
//!
//! Queries near in time share their fate: a pause of the server makes a hundred neighbours slow. To draw single queries
//! anew would take them for a hundred witnesses and give intervals far too narrow. So whole seconds are drawn, with all
//! their queries; of long runs, blocks of seconds that follow one another.
//!
//! ```text
//!   Run, Run -> blocks -> 2,000 draws of as many blocks -> ratio B/A of each figure -> interval -> verdict
//! ```

// Seconds together, ready to be drawn often.
mod blocks;
// One quantile of sides that took turns.
mod quantile;
// Quantiles of the normal distribution and of Student's.
mod student;

pub use quantile::{QuantileRatio, Since, compare_quantile, compare_seconds};

use super::Run;
use blocks::{Blocks, Totals};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use std::fmt::Write;

/// Draws of the bootstrap.
const DRAWS: usize = 2_000;
/// Fewer blocks than this say nothing about how the next would be.
pub const BLOCKS_MIN: usize = 5;
/// Two-sided level of the intervals.
const LEVEL: f64 = 0.95;
/// Less than this is rounding.
const NOTHING: f64 = 1e-9;

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Latency that half of the queries do not exceed.
    P50,
    /// Nine in ten.
    P90,
    /// 99 in 100.
    P99,
    /// 999 in 1,000.
    P99_9,
    /// Right answers a second.
    AchievedRate,
    /// Share of queries without an answer.
    Loss,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::P50, Self::P90, Self::P99, Self::P99_9, Self::AchievedRate, Self::Loss];

    fn label(self) -> &'static str {
        match self {
            Self::P50 => "latency p50",
            Self::P90 => "latency p90",
            Self::P99 => "latency p99",
            Self::P99_9 => "latency p99.9",
            Self::AchievedRate => "achieved rate",
            Self::Loss => "loss",
        }
    }

    fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P99_9 => Some(0.999),
            Self::AchievedRate | Self::Loss => None,
        }
    }

    /// Of one run, or of one draw: microseconds, answers a second, share.
    fn of(self, totals: &Totals<'_>) -> f64 {
        match self.quantile() {
            Some(quantile) => totals.latency_ns(quantile) as f64 / 1e3,
            None if self == Self::Loss => totals.loss(),
            None => totals.rate(),
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::AchievedRate => format!("{value:.1} /s"),
            Self::Loss => format!("{:.4} %", 100.0 * value),
            _ => super::duration(std::time::Duration::from_secs_f64(value / 1e6)),
        }
    }
}

/// What an interval says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval has 1 (of loss: 0) in it.
    NoDifference,
    /// B is better, beyond chance.
    Better,
    /// B is worse, beyond chance, and not surely by more than the threshold.
    Worse,
    /// B is worse by more than the threshold, wherever in the interval the truth lies.
    Regression,
}

impl Verdict {
    fn label(self) -> &'static str {
        match self {
            Self::NoDifference => "no difference",
            Self::Better => "better",
            Self::Worse => "worse, within the threshold",
            Self::Regression => "REGRESSION",
        }
    }
}

/// One figure of both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Which.
    pub figure: Figure,
    /// Of run A: microseconds, answers a second, or share.
    pub a: f64,
    /// Of run B.
    pub b: f64,
    /// B divided by A; of loss, B less A.
    pub change: f64,
    /// Lower and upper end of the interval of the change.
    pub interval: [f64; 2],
    /// What that says.
    pub verdict: Verdict,
}

/// Two runs, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of the first.
    pub a: String,
    /// Name of the second.
    pub b: String,
    /// Why the runs are not valid, of each; compared all the same because that was asked for.
    pub reasons_invalid: [Vec<String>; 2],
    /// How much worse B may be: 0.05 is 5 %. Loss may grow by a hundredth of it: by 0.05 % of the queries.
    pub threshold: f64,
    /// Level of the intervals.
    pub level: f64,
    /// Blocks of each run that were drawn from, and seconds in each block.
    pub blocks: [(usize, f64); 2],
    /// Figure by figure.
    pub differences: Vec<Difference>,
    /// Whether any is a regression.
    pub is_regression: bool,
}

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How much worse B may be: 0.05 is 5 %. Loss may grow by a hundredth of it: by 0.05 % of the queries.
    pub threshold: f64,
    /// Seconds at the start of each run that do not count.
    pub skip_seconds: f64,
    /// Compare runs that are not valid all the same.
    pub force: bool,
    /// Seed of the draws.
    pub seed: u64,
}

/// Compares B with A.
///
/// # Errors
/// When a run is not valid, or has too little in it.
pub fn compare(a: &Run, b: &Run, terms: &Terms) -> Result<Comparison, String> {
    for run in [a, b] {
        if run.is_invalid() && !terms.force {
            let reasons = run.reasons_invalid().join("; ");
            return Err(format!(
                "{} is INVALID: {reasons}. Its figures are the tool's; --force compares them all the same",
                run.label
            ));
        }
    }
    let (mut own, mut other) = (Blocks::of(a, terms.skip_seconds)?, Blocks::of(b, terms.skip_seconds)?);
    let (whole_a, whole_b) = (own.whole(), other.whole());
    let mut changes: Vec<Vec<f64>> = vec![Vec::with_capacity(DRAWS); Figure::ALL.len()];
    let mut random = ChaCha8Rng::seed_from_u64(terms.seed);
    for _ in 0..DRAWS {
        let (drawn_a, drawn_b) = (own.draw(&mut random), other.draw(&mut random));
        for (figure, changes) in Figure::ALL.into_iter().zip(&mut changes) {
            changes.push(change(figure, figure.of(&drawn_a), figure.of(&drawn_b)));
        }
    }
    let fewest = own.count().min(other.count());
    let (whole_a, whole_b) = (whole_a.totals(), whole_b.totals());
    let differences: Vec<_> = Figure::ALL
        .into_iter()
        .zip(changes)
        .map(|(figure, changes)| {
            let [a, b] = [&whole_a, &whole_b].map(|whole| figure.of(whole));
            let interval = interval(changes, fewest);
            let verdict = judge(figure, interval, terms.threshold);
            Difference { figure, a, b, change: change(figure, a, b), interval, verdict }
        })
        .collect();
    Ok(Comparison {
        a: a.label.clone(),
        b: b.label.clone(),
        reasons_invalid: [a, b].map(|run| run.reasons_invalid().to_vec()),
        threshold: terms.threshold,
        level: LEVEL,
        blocks: [&own, &other].map(|blocks| (blocks.count(), blocks.seconds_each())),
        is_regression: differences.iter().any(|difference| difference.verdict == Verdict::Regression),
        differences,
    })
}

fn change(figure: Figure, a: f64, b: f64) -> f64 {
    match figure {
        // A ratio of losses has no meaning where there are none.
        Figure::Loss => b - a,
        _ => b / a.max(f64::MIN_POSITIVE),
    }
}

/// The percentile interval of the draws, widened as Hesterberg (2015, "What Teachers Should Know about the Bootstrap",
/// 5.4) does: of few blocks a plain one is too narrow, by the root of n/(n-1) and by taking a normal distribution for
/// Student's.
fn interval(mut changes: Vec<f64>, blocks: usize) -> [f64; 2] {
    changes.sort_by(f64::total_cmp);
    let tail = student::expanded_tail((1.0 - LEVEL) / 2.0, blocks);
    let at = |share: f64| {
        let position = share * (changes.len() - 1) as f64;
        let (low, high) = (changes[position.floor() as usize], changes[position.ceil() as usize]);
        low + (high - low) * position.fract()
    };
    [at(tail), at(1.0 - tail)]
}

fn judge(figure: Figure, [low, high]: [f64; 2], threshold: f64) -> Verdict {
    // Turned so that more is worse, and no difference is 0.
    let (low, high, threshold) = match figure {
        Figure::AchievedRate => (1.0 - high, 1.0 - low, threshold),
        Figure::Loss => (low, high, threshold / 100.0),
        _ => (low - 1.0, high - 1.0, threshold),
    };
    if low > threshold {
        Verdict::Regression
    } else if low > NOTHING {
        Verdict::Worse
    } else if high < -NOTHING {
        Verdict::Better
    } else {
        Verdict::NoDifference
    }
}

impl Comparison {
    /// A table for the terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            // Writing into a string cannot fail.
            let _written = writeln!(out, "{}", text.trim_end());
        };
        for (letter, name, reasons) in
            [("A", &self.a, &self.reasons_invalid[0]), ("B", &self.b, &self.reasons_invalid[1])]
        {
            let mark = if reasons.is_empty() { String::new() } else { format!("  INVALID: {}", reasons.join("; ")) };
            line(format!("{letter}  {name}{mark}"));
        }
        line(format!("{:<14} {:>12} {:>12} {:>9}  {:<20} verdict", "", "A", "B", "B/A", "95 % interval"));
        for Difference { figure, a, b, change, interval: [low, high], verdict } in &self.differences {
            let (change, interval) = if *figure == Figure::Loss {
                let points = |value: &f64| format!("{:+.4}", 100.0 * value);
                (format!("{} %", points(change)), format!("{} to {} %", points(low), points(high)))
            } else {
                (format!("{change:.4}"), format!("{low:.4} to {high:.4}"))
            };
            let (a, b, verdict) = (figure.shown(*a), figure.shown(*b), verdict.label());
            line(format!("{:<14} {a:>12} {b:>12} {change:>9}  {interval:<20} {verdict}", figure.label()));
        }
        let [(a, seconds_a), (b, seconds_b)] = self.blocks;
        line(format!(
            "Intervals: {DRAWS} draws of {a} and {b} blocks of {seconds_a} and {seconds_b} s; each stands for itself, \
             so that one in twenty differs by chance. Loss: B less A."
        ));
        line(match self.is_regression {
            true => {
                format!("Regression: the whole interval lies beyond the threshold of {:.1} %", 100.0 * self.threshold)
            }
            false => format!("No regression beyond {:.1} %", 100.0 * self.threshold),
        });
        out
    }
}

#[cfg(test)]
mod tests;
