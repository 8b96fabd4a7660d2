//! Whether one run is worse than another: slower, or with more losses and errors.
//!
//! Queries near in time have similar latency: a pause of the server makes a hundred neighbours slow. Draws of single
//! queries would treat them as a hundred independent samples, and the intervals would be far too narrow. So whole
//! seconds are drawn, with all their queries. For long runs, blocks of consecutive seconds are drawn. Losses and RCODEs
//! are counted over the whole run, because draws of seconds miss the few seconds in which a server was dead.
//!
//! ```text
//!   Run, Run -> blocks -> 2,000 draws of as many blocks -> ratio B/A of each figure -> interval -> verdict
//!            -> queries of the whole run -> difference B-A of each share            -> interval -> verdict
//! ```

// Blocks of seconds for the bootstrap.
mod blocks;
// Shares of all queries: loss, wrong answers, failures, RCODEs.
mod counts;
// Figures to compare.
mod figure;
// One quantile of two alternating sides.
mod quantile;
// Constants.
mod limits;
// Quantiles of the normal and of Student's distribution.
mod student;
// The comparison as a table.
mod table;

pub use figure::Figure;
pub use quantile::{QuantileRatio, Since, compare_quantile, compare_seconds};

use super::{Row, Run};
use blocks::Blocks;
use limits::LEVEL;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Number of bootstrap draws.
const DRAWS: usize = 2_000;

/// Changes below this are rounding errors.
const NOTHING: f64 = 1e-9;

/// The meaning of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval contains no change and is within the threshold on both sides.
    NoDifference,
    /// B is better, beyond chance.
    Better,
    /// B is significantly different in a figure without a better side.
    Different,
    /// B is significantly worse, but the measured change is within the threshold.
    Worse,
    /// The interval contains changes within and beyond the threshold.
    Undecided,
    /// B is worse by more than the threshold, over the whole interval.
    Regression,
}

/// Outcome of all figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No figure is or looks like a regression.
    None,
    /// At least one figure is a regression.
    Regression,
    /// No figure is surely a regression, but an undecided figure was worse by more than the threshold.
    Undecided,
}

/// One figure of both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The figure.
    pub figure: Figure,
    /// Value of run A: microseconds, answers per second, or a share.
    pub a: f64,
    /// Of run B.
    pub b: f64,
    /// B divided by A, or for shares B minus A.
    pub change: f64,
    /// Lower and upper end of the interval of the change. An unknown upper end is infinite (null in JSON).
    pub interval: [f64; 2],
    /// Number of queries in A and B. Only for shares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<[u64; 2]>,
    /// The verdict.
    pub verdict: Verdict,
}

/// The comparison of two runs.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of run A.
    pub a: String,
    /// Name of run B.
    pub b: String,
    /// Why each run is invalid. They are compared only if forced.
    pub reasons_invalid: [Vec<String>; 2],
    /// How much worse B may be: 0.05 is 5 %. The limit for shares is a hundredth of it: 0.05 % of the queries.
    pub threshold: f64,
    /// Level of the intervals.
    pub level: f64,
    /// Number of blocks of each run, and seconds per block.
    pub blocks: [(usize, f64); 2],
    /// The figures.
    pub differences: Vec<Difference>,
    /// Outcome of all figures.
    pub outcome: Outcome,
    /// Whether any figure is a regression.
    pub is_regression: bool,
}

/// The settings of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct CompareOptions {
    /// How much worse B may be: 0.05 is 5 %. The limit for shares is a hundredth of it: 0.05 % of the queries.
    pub threshold: f64,
    /// Seconds at the start of each run that do not count.
    pub skip_seconds: f64,
    /// Compare invalid runs too.
    pub force: bool,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Compares B with A.
///
/// # Errors
/// If a run is invalid, or too short.
pub fn compare(a: &Run, b: &Run, options: &CompareOptions) -> Result<Comparison, String> {
    for run in [a, b] {
        if run.is_invalid() && !options.force {
            let reasons = run.reasons_invalid().join("; ");
            return Err(format!("{} is INVALID: {reasons}. INVALID runs are only compared with --force", run.label));
        }
    }
    let (mut blocks_a, mut blocks_b) = (Blocks::of(a, options.skip_seconds)?, Blocks::of(b, options.skip_seconds)?);
    let (rows_a, rows_b) = (rows(a, options.skip_seconds), rows(b, options.skip_seconds));
    let mut differences = of_seconds(&mut blocks_a, &mut blocks_b, options);
    differences.extend(counts::shares(&rows_a, &rows_b).into_iter().map(|share| {
        let [a, b] = share.shares;
        let verdict = judge(&share.figure, b - a, share.interval, options.threshold);
        let counts = Some(share.counts);
        Difference { figure: share.figure, a, b, change: b - a, interval: share.interval, counts, verdict }
    }));
    let outcome = outcome(&differences, options.threshold);
    Ok(Comparison {
        a: a.label.clone(),
        b: b.label.clone(),
        reasons_invalid: [a, b].map(|run| run.reasons_invalid().to_vec()),
        threshold: options.threshold,
        level: LEVEL,
        blocks: [&blocks_a, &blocks_b].map(|blocks| (blocks.count(), blocks.seconds_each())),
        outcome,
        is_regression: outcome == Outcome::Regression,
        differences,
    })
}

/// All rows that count, including the last one, which may be short.
fn rows(run: &Run, skip_seconds: f64) -> Vec<&Row> {
    run.recording.rows.iter().filter(|row| row.sent > 0 && row.start_seconds >= skip_seconds).collect()
}

/// Compares latency and rate by draws of seconds.
fn of_seconds(blocks_a: &mut Blocks, blocks_b: &mut Blocks, options: &CompareOptions) -> Vec<Difference> {
    let (total_a, total_b) = (blocks_a.total(), blocks_b.total());
    let mut changes: Vec<Vec<f64>> = vec![Vec::with_capacity(DRAWS); figure::OF_SECONDS.len()];
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    for _ in 0..DRAWS {
        let (drawn_a, drawn_b) = (blocks_a.draw(&mut random), blocks_b.draw(&mut random));
        for (figure, changes) in figure::OF_SECONDS.iter().zip(&mut changes) {
            changes.push(ratio(figure.of(&drawn_a), figure.of(&drawn_b)));
        }
    }
    let block_count = blocks_a.count().min(blocks_b.count());
    let (total_a, total_b) = (total_a.totals(), total_b.totals());
    let of = |(figure, changes): (Figure, Vec<f64>)| {
        let [a, b] = [&total_a, &total_b].map(|total| figure.of(total));
        let mut interval = interval(changes, block_count);
        if let Some(quantile) = figure.quantile() {
            // A draw never exceeds the maximum, so the ranks of the queries bound the error of a percentile.
            let [low, high] = blocks::ratio_by_rank(&total_a, &total_b, quantile);
            interval = [interval[0].min(low), interval[1].max(high)];
        }
        let verdict = judge(&figure, ratio(a, b), interval, options.threshold);
        Difference { figure, a, b, change: ratio(a, b), interval, counts: None, verdict }
    };
    figure::OF_SECONDS.into_iter().zip(changes).map(of).collect()
}

fn ratio(a: f64, b: f64) -> f64 {
    b / a.max(f64::MIN_POSITIVE)
}

/// The percentile interval of the bootstrap, widened as in Hesterberg (2015, "What Teachers Should Know about the
/// Bootstrap", 5.4). With few blocks a plain interval is too narrow, by the root of n/(n-1) and by the difference
/// between normal and Student's distribution.
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

/// Normalizes a change: positive is worse, 0 is no change.
fn worsening(figure: &Figure, change: f64) -> f64 {
    let change = if figure.is_share() { change } else { change - 1.0 };
    if figure.is_good() { -change } else { change }
}

/// Allowed worsening of a figure.
fn allowed(figure: &Figure, threshold: f64) -> f64 {
    if figure.is_share() { threshold / 100.0 } else { threshold }
}

fn judge(figure: &Figure, change: f64, interval: [f64; 2], threshold: f64) -> Verdict {
    if figure.is_neutral() {
        return judge_neutral(interval, allowed(figure, threshold));
    }
    let [one, other] = interval.map(|end| worsening(figure, end));
    let (low, high, observed) = (one.min(other), one.max(other), worsening(figure, change));
    let threshold = allowed(figure, threshold);
    if low > threshold {
        Verdict::Regression
    } else if high < -NOTHING {
        Verdict::Better
    } else if observed > threshold {
        Verdict::Undecided
    } else if low > NOTHING {
        Verdict::Worse
    } else if high > threshold || low < -threshold {
        Verdict::Undecided
    } else {
        Verdict::NoDifference
    }
}

fn judge_neutral([low, high]: [f64; 2], threshold: f64) -> Verdict {
    if low > NOTHING || high < -NOTHING {
        Verdict::Different
    } else if high > threshold || low < -threshold {
        Verdict::Undecided
    } else {
        Verdict::NoDifference
    }
}

fn outcome(differences: &[Difference], threshold: f64) -> Outcome {
    let looks_worse = |Difference { figure, change, verdict, .. }: &Difference| {
        let is_ranked = !figure.is_neutral();
        is_ranked && *verdict == Verdict::Undecided && worsening(figure, *change) > allowed(figure, threshold)
    };
    if differences.iter().any(|difference| difference.verdict == Verdict::Regression) {
        Outcome::Regression
    } else if differences.iter().any(looks_worse) {
        Outcome::Undecided
    } else {
        Outcome::None
    }
}

#[cfg(test)]
mod tests;
