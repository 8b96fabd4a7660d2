//! One quantile of many runs against the same of many others: sides that took turns.

use super::blocks::{Blocks, Times};
use super::{BLOCKS_MIN, DRAWS, interval};
use crate::report::{Row, Run};
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Since when a time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// Since when the query was to be sent: what a client meets.
    Planned,
    /// Since when it was sent: the sender's own lag is not in it.
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

/// A quantile of two sides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantileRatio {
    /// Of the first, microseconds.
    pub a_us: f64,
    /// Of the second.
    pub b_us: f64,
    /// The second's by the first's.
    pub ratio: f64,
    /// Lower and upper end of the interval of that.
    pub interval: [f64; 2],
    /// Queries of each.
    pub queries: [u64; 2],
}

/// Compares a quantile of the whole seconds of two sides, each of one run or several.
///
/// # Errors
/// When a side has too few seconds, or no times.
pub fn compare_quantile(a: &[Run], b: &[Run], quantile: f64, since: Since, seed: u64) -> Result<QuantileRatio, String> {
    let times = since.times();
    let rows = |runs: &'_ [Run]| -> Vec<Row> { runs.iter().flat_map(Run::sending).cloned().collect() };
    let (own, other) = (rows(a), rows(b));
    let blocks = |label: &str, rows: &[Row]| Blocks::of_rows(label, &rows.iter().collect::<Vec<_>>(), times);
    let (mut own, mut other) = (blocks("the first side", &own)?, blocks("the second side", &other)?);
    let of = |blocks: &mut Blocks| {
        let whole = blocks.whole();
        let totals = whole.totals();
        (totals.latency_ns(quantile) as f64 / 1e3, totals.n())
    };
    let ((a_us, a_count), (b_us, b_count)) = (of(&mut own), of(&mut other));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let ratios = (0..DRAWS).map(|_| {
        let drawn = own.draw(&mut random).latency_ns(quantile) as f64;
        ratio(drawn, other.draw(&mut random).latency_ns(quantile) as f64)
    });
    let interval = interval(ratios.collect(), own.count().min(other.count()));
    Ok(QuantileRatio { a_us, b_us, ratio: ratio(a_us, b_us), interval, queries: [a_count, b_count] })
}

/// Compares what a quantile is in the second in the middle of each side, each of one run or several: a stop of the
/// machine makes one second slower, what lasts or comes again and again makes all.
///
/// # Errors
/// When a side has too few seconds in which there are times.
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
    let ((own, a_count), (other, b_count)) = (seconds("the first side", a)?, seconds("the second side", b)?);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = |from: &[u64]| middle(from.iter().filter_map(|_| from.choose(&mut random)).copied().collect());
    let ratios = (0..DRAWS).map(|_| {
        let drawn = draw(&own);
        ratio(drawn, draw(&other))
    });
    let interval = interval(ratios.collect(), own.len().min(other.len()));
    let (a_us, b_us) = (middle(own) / 1e3, middle(other) / 1e3);
    Ok(QuantileRatio { a_us, b_us, ratio: ratio(a_us, b_us), interval, queries: [a_count, b_count] })
}

fn middle(mut seconds: Vec<u64>) -> f64 {
    let at = seconds.len() / 2;
    *seconds.select_nth_unstable(at).1 as f64
}

fn ratio(a: f64, b: f64) -> f64 {
    b / a.max(f64::MIN_POSITIVE)
}
