//! Compares one quantile of two alternating sides with many runs each.

use super::blocks::{Blocks, Times};
use super::limits::BLOCKS_MIN;
use super::{DRAWS, interval};
use crate::{Row, Run};
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// The start of a measured time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// The planned time of sending, as a client experiences it.
    Planned,
    /// The actual time of sending, without the send lag.
    Sent,
}

impl Since {
    fn times(self) -> Times {
        match self {
            Self::Planned => |row| &row.latency,
            Self::Sent => |row| &row.service,
        }
    }
}

/// The ratio of a quantile on two sides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantileRatio {
    /// On side A, in microseconds.
    pub a_us: f64,
    /// On side B.
    pub b_us: f64,
    /// B divided by A.
    pub ratio: f64,
    /// Lower and upper end of the interval of the ratio.
    pub interval: [f64; 2],
    /// Number of queries on each side.
    pub queries: [u64; 2],
}

/// Compares a quantile of all whole seconds of two sides, each with one or more runs.
///
/// # Errors
/// If a side has too few seconds, or no values.
pub fn compare_quantile(a: &[Run], b: &[Run], quantile: f64, since: Since, seed: u64) -> Result<QuantileRatio, String> {
    let times = since.times();
    let rows = |runs: &'_ [Run]| -> Vec<Row> { runs.iter().flat_map(Run::sending).cloned().collect() };
    let (rows_a, rows_b) = (rows(a), rows(b));
    let blocks = |label: &str, rows: &[Row]| Blocks::of_rows(label, &rows.iter().collect::<Vec<_>>(), times);
    let (mut blocks_a, mut blocks_b) = (blocks("the first side", &rows_a)?, blocks("the second side", &rows_b)?);
    let of = |blocks: &mut Blocks| {
        let total = blocks.total();
        let totals = total.totals();
        (totals.latency_ns(quantile) as f64 / 1e3, totals.n())
    };
    let ((a_us, a_count), (b_us, b_count)) = (of(&mut blocks_a), of(&mut blocks_b));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let ratios = (0..DRAWS).map(|_| {
        let drawn = blocks_a.draw(&mut random).latency_ns(quantile) as f64;
        ratio(drawn, blocks_b.draw(&mut random).latency_ns(quantile) as f64)
    });
    let interval = interval(ratios.collect(), blocks_a.count().min(blocks_b.count()));
    Ok(QuantileRatio { a_us, b_us, ratio: ratio(a_us, b_us), interval, queries: [a_count, b_count] })
}

/// Compares the median over seconds of a quantile, for two sides with one or more runs each. A stall of the machine
/// affects one second, while a persistent or repeated effect changes the median.
///
/// # Errors
/// If a side has too few seconds with values.
pub fn compare_seconds(a: &[Run], b: &[Run], quantile: f64, since: Since, seed: u64) -> Result<QuantileRatio, String> {
    let times = since.times();
    let seconds = |label: &str, runs: &[Run]| -> Result<(Vec<u64>, u64), String> {
        let measured: Vec<Row> =
            runs.iter().flat_map(Run::sending).filter(|row| !times(row).is_empty()).cloned().collect();
        if measured.len() < BLOCKS_MIN {
            return Err(format!("{label} has {} seconds with times; {BLOCKS_MIN} are needed", measured.len()));
        }
        let queries = measured.iter().map(|row| times(row).n()).sum();
        Ok((measured.iter().map(|row| times(row).quantile(quantile)).collect(), queries))
    };
    let ((quantiles_a, a_count), (quantiles_b, b_count)) =
        (seconds("the first side", a)?, seconds("the second side", b)?);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = |from: &[u64]| middle(from.iter().filter_map(|_| from.choose(&mut random)).copied().collect());
    let ratios = (0..DRAWS).map(|_| {
        let drawn = draw(&quantiles_a);
        ratio(drawn, draw(&quantiles_b))
    });
    let interval = interval(ratios.collect(), quantiles_a.len().min(quantiles_b.len()));
    let (a_us, b_us) = (middle(quantiles_a) / 1e3, middle(quantiles_b) / 1e3);
    Ok(QuantileRatio { a_us, b_us, ratio: ratio(a_us, b_us), interval, queries: [a_count, b_count] })
}

fn middle(mut seconds: Vec<u64>) -> f64 {
    let at = seconds.len() / 2;
    *seconds.select_nth_unstable(at).1 as f64
}

fn ratio(a: f64, b: f64) -> f64 {
    b / a.max(f64::MIN_POSITIVE)
}
