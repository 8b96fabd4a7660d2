//! Estimates the number of names and their popularity from query counts.
//!
//! A Zipf distribution has two parameters. They are chosen to match two values of the trace: the share of the most
//! popular names, and the number of distinct names.

/// Number of most popular names.
const TOP_COUNT: usize = 10;
/// Maximum estimate of the number of names.
const NAMES_MAX: f64 = 1e9;
/// Ranks that are summed one by one. Higher ranks are grouped in bins.
const EXACT_COUNT: usize = 1_000;
/// Growth factor of bins.
const BIN_GROWTH: f64 = 1.02;

/// A Zipf distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Names {
    pub(super) count: u64,
    pub(super) exponent: f64,
}

/// Fits the distribution to the query counts of names.
pub(super) fn fit_names(mut counts: Vec<u64>) -> Names {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let query_count: u64 = counts.iter().sum();
    let top = counts.iter().take(TOP_COUNT).sum::<u64>() as f64 / query_count as f64;
    let distinct = counts.len() as f64;
    if counts.len() <= TOP_COUNT {
        return Names { count: counts.len() as u64, exponent: exponent_for(distinct, share_of_first(&counts)) };
    }
    // More names give more distinct names in queries: bisect on a logarithmic scale.
    let (mut low, mut high) = (distinct.ln(), NAMES_MAX.ln());
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        let ranks = Ranks::new(middle.exp());
        let exponent = ranks.exponent_for(TOP_COUNT, top);
        if ranks.distinct(exponent, query_count as f64) < distinct { low = middle } else { high = middle }
    }
    let count = high.exp().round();
    Names { count: count as u64, exponent: Ranks::new(count).exponent_for(TOP_COUNT, top) }
}

fn share_of_first(counts: &[u64]) -> f64 {
    counts[0] as f64 / counts.iter().sum::<u64>() as f64
}

/// With few names, the share of the first name decides.
fn exponent_for(count: f64, share: f64) -> f64 {
    Ranks::new(count).exponent_for(1, share)
}

/// Ranks, with the number of ranks that each stands for.
struct Ranks(Vec<(f64, f64)>);

impl Ranks {
    fn new(count: f64) -> Self {
        let exact = (count as usize).min(EXACT_COUNT);
        let mut ranks: Vec<(f64, f64)> = (1..=exact).map(|rank| (rank as f64, 1.0)).collect();
        let mut at = exact as f64 + 0.5;
        while at < count + 0.5 {
            let end = (at * BIN_GROWTH).min(count + 0.5);
            ranks.push(((at * end).sqrt(), end - at));
            at = end;
        }
        Self(ranks)
    }

    fn sum(&self, exponent: f64) -> f64 {
        self.0.iter().map(|(rank, weight)| weight * rank.powf(-exponent)).sum()
    }

    /// The exponent at which the first `top` names have this share.
    fn exponent_for(&self, top: usize, share: f64) -> f64 {
        let (mut low, mut high) = (0.0, 5.0);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            let first: f64 = self.0.iter().take(top).map(|(rank, weight)| weight * rank.powf(-middle)).sum();
            if first / self.sum(middle) < share { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    }

    /// Expected number of distinct names in `query_count` queries.
    fn distinct(&self, exponent: f64, query_count: f64) -> f64 {
        let sum = self.sum(exponent);
        let seen = |rank: f64| 1.0 - (query_count * (-rank.powf(-exponent) / sum).ln_1p()).exp();
        self.0.iter().map(|&(rank, weight)| weight * seen(rank)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::QUERY_BYTES_MAX;
    use crate::workload::{Extras, Generator, NameDistribution, Popularity, Workload};
    use std::collections::BTreeMap;
    use wire::number::Rtype;

    #[test]
    fn fit_recovers_the_drawn_distribution() {
        for (count, exponent) in [(5_000, 0.9), (200_000, 1.1), (300, 0.6)] {
            let popularity = Popularity::Zipf(exponent);
            let names = NameDistribution { pattern: "q{n}.a".into(), count, popularity, nxdomain_share: 0.0 };
            let generator = Generator::new(names, &[(Rtype::A, 1.0)], Extras::default(), 5).unwrap();
            let mut workload = Workload::generated(generator);
            let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let mut out = vec![0; QUERY_BYTES_MAX];
            for _ in 0..50_000 {
                let length = workload.fill(&mut out);
                *counts.entry(out[12..length].to_vec()).or_default() += 1;
            }
            let found = fit_names(counts.into_values().collect());
            assert!((found.exponent - exponent).abs() < 0.05, "{found:?} {exponent}");
            assert!((0.6..1.6).contains(&(found.count as f64 / count as f64)), "{found:?} {count}");
        }
    }
}
