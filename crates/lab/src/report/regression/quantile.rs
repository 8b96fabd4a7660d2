//! One quantile of many runs against the same of many others: sides that took turns.

use super::blocks::{Blocks, Times};
use super::{DRAWS, interval};
use crate::report::{Row, Run};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Since when a time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// Since when the query was to be sent: what a client meets.
    Planned,
    /// Since when it was sent: the sender's own lag is not in it.
    Sent,
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
    let times: Times = match since {
        Since::Planned => |row| &row.latency,
        Since::Sent => |row| &row.service,
    };
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
    let ratio = |a: f64, b: f64| b / a.max(f64::MIN_POSITIVE);
    let ratios = (0..DRAWS).map(|_| {
        let drawn = own.draw(&mut random).latency_ns(quantile) as f64;
        ratio(drawn, other.draw(&mut random).latency_ns(quantile) as f64)
    });
    let interval = interval(ratios.collect(), own.count().min(other.count()));
    Ok(QuantileRatio { a_us, b_us, ratio: ratio(a_us, b_us), interval, queries: [a_count, b_count] })
}
