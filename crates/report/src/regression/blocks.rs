//! Divides a run into blocks for a bootstrap.

use super::limits::BLOCKS_MIN;
use crate::{Distribution, Row, Run};
use rand::Rng;
use rand::seq::IndexedRandom;

/// Maximum number of blocks. Longer runs have longer blocks.
const BLOCKS_MAX: usize = 120;

/// Selects a distribution of a second.
pub(super) type Times = fn(&Row) -> &Distribution;

/// Values are replaced by indices into one list, so that a draw only adds short lists of counts.
pub(super) struct Blocks {
    /// All latencies in ascending order, in nanoseconds.
    values: Vec<u64>,
    blocks: Vec<Block>,
    seconds_each: f64,
    /// Buffer of a draw: a count for each value.
    counts: Vec<u64>,
}

struct Block {
    right: u64,
    seconds: f64,
    /// Indices of values, and counts.
    latency: Vec<(u32, u64)>,
}

/// The sum of one draw, or of the whole run.
pub(super) struct Totals<'a> {
    values: &'a [u64],
    counts: &'a [u64],
    n: u64,
    right: u64,
    seconds: f64,
}

/// The sum of the whole run, kept during draws.
pub(super) struct OwnedTotals {
    values: Vec<u64>,
    counts: Vec<u64>,
    n: u64,
    right: u64,
    seconds: f64,
}

impl Blocks {
    /// Divides the seconds with queries, after the first `skip_seconds`.
    ///
    /// # Errors
    /// If there are too few seconds, or no latencies.
    pub(super) fn of(run: &Run, skip_seconds: f64) -> Result<Self, String> {
        let rows: Vec<&Row> = run.sending().filter(|row| row.start_seconds >= skip_seconds).collect();
        Self::of_rows(&run.label, &rows, |row| &row.latency)
    }

    /// Divides chosen seconds of one or more runs, using one of their distributions.
    ///
    /// # Errors
    /// As [`Blocks::of`].
    pub(super) fn of_rows(label: &str, rows: &[&Row], times: Times) -> Result<Self, String> {
        if rows.len() < BLOCKS_MIN {
            return Err(format!(
                "{label} has {} seconds to compare; at least {BLOCKS_MIN} are needed, 30 or more are better",
                rows.len()
            ));
        }
        if rows.iter().all(|row| times(row).is_empty()) {
            return Err(format!("{label} has no latency of each second to compare"));
        }
        let mut values: Vec<u64> = rows.iter().flat_map(|row| times(row).entries()).map(|&(value, _)| value).collect();
        values.sort_unstable();
        values.dedup();
        let each = rows.len().div_ceil(BLOCKS_MAX);
        // A shorter last block would have the same weight as the others.
        let blocks: Vec<_> = rows.chunks_exact(each).map(|rows| Block::of(rows, &values, times)).collect();
        let seconds_each = blocks[0].seconds;
        Ok(Self { counts: vec![0; values.len()], values, blocks, seconds_each })
    }

    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn seconds_each(&self) -> f64 {
        self.seconds_each
    }

    /// Draws as many blocks as there are, with replacement.
    pub(super) fn draw(&mut self, random: &mut impl Rng) -> Totals<'_> {
        let Self { values, blocks, counts, .. } = self;
        let drawn = (0..blocks.len()).filter_map(|_| blocks.choose(random));
        add_up(values, counts, drawn)
    }

    /// The sum of all blocks.
    pub(super) fn total(&mut self) -> OwnedTotals {
        let Self { values, blocks, counts, .. } = self;
        let Totals { n, right, seconds, .. } = add_up(values, counts, blocks.iter());
        OwnedTotals { values: values.clone(), counts: counts.clone(), n, right, seconds }
    }
}

fn add_up<'a, 'b>(values: &'a [u64], counts: &'a mut [u64], blocks: impl Iterator<Item = &'b Block>) -> Totals<'a> {
    counts.fill(0);
    let (mut n, mut right, mut seconds) = (0, 0, 0.0);
    for block in blocks {
        right += block.right;
        seconds += block.seconds;
        for &(index, count) in &block.latency {
            counts[index as usize] += count;
            n += count;
        }
    }
    Totals { values, counts, n, right, seconds }
}

/// Interval of the ratio B/A of a quantile, from the ranks of the queries. Combines the logarithms of both intervals as
/// Donner and Zou do ("Closed-form confidence intervals for functions of the normal mean and standard deviation",
/// 2012).
pub(super) fn ratio_by_rank(a: &Totals<'_>, b: &Totals<'_>, quantile: f64) -> [f64; 2] {
    let log = |ns: f64| ns.max(1.0).ln();
    let [at_a, at_b] = [a, b].map(|totals| log(totals.latency_ns(quantile) as f64));
    let ([low_a, high_a], [low_b, high_b]) = (a.bounds_ns(quantile).map(log), b.bounds_ns(quantile).map(log));
    let down = (at_b - low_b).hypot(high_a - at_a);
    let up = (high_b - at_b).hypot(at_a - low_a);
    [(at_b - at_a - down).exp(), (at_b - at_a + up).exp()]
}

impl Block {
    fn of(rows: &[&Row], values: &[u64], times: Times) -> Self {
        let row = Row::sum(&rows.iter().map(|&row| row.clone()).collect::<Vec<_>>());
        let index = |value: &u64| values.binary_search(value).unwrap_or_else(|index| index) as u32;
        Self {
            right: row.right(),
            seconds: rows.iter().map(|row| row.span_seconds).sum(),
            latency: times(&row).entries().iter().map(|(value, count)| (index(value), *count)).collect(),
        }
    }
}

impl OwnedTotals {
    pub(super) fn totals(&self) -> Totals<'_> {
        let Self { values, counts, n, right, seconds } = self;
        Totals { values, counts, n: *n, right: *right, seconds: *seconds }
    }
}

impl Totals<'_> {
    /// Number of values.
    pub(super) const fn n(&self) -> u64 {
        self.n
    }

    pub(super) fn latency_ns(&self, quantile: f64) -> u64 {
        let rank = ((quantile * self.n as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let index = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        index.map_or(0, |index| self.values[index])
    }

    /// Lower and upper end of the 95 % interval of a quantile, by rank, for independent queries. An end is infinite if
    /// there are too few queries.
    fn bounds_ns(&self, quantile: f64) -> [f64; 2] {
        let n = self.n as f64;
        let half = 1.96 * (n * quantile * (1.0 - quantile)).sqrt();
        let [low, high] = [quantile * n - half, quantile * n + half + 1.0];
        let high = if high > n { f64::INFINITY } else { self.latency_ns(high / n) as f64 };
        [self.latency_ns((low / n).max(0.0)) as f64, high]
    }

    pub(super) fn rate(&self) -> f64 {
        self.right as f64 / self.seconds.max(1e-9)
    }
}
