//! Chooses the next rate and combines the results of all tries. It runs nothing itself.

use super::objective::Verdict;
use serde::Serialize;

/// The limits of the search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// The first rate, in queries per second.
    pub from: f64,
    /// The lowest rate. Below it, a try has too few queries.
    pub lowest: f64,
    /// The highest rate.
    pub to: f64,
    /// A bracket is not halved further if its ends differ by less than this share.
    pub precision: f64,
    /// Number of brackets. Each gives an independent estimate.
    pub repeats: usize,
}

/// The bracket of a repeat extends by this factor around the first estimate.
const SPREAD: f64 = 1.1;
/// Largest ratio between two consecutive rates.
const GROWTH_MAX: f64 = 2.0;
/// Number of consecutive unmeasurable rates after which a search ends.
const UNMEASURED_MAX: u32 = 4;

/// The search, one rate at a time.
#[derive(Clone, Debug)]
pub struct Search {
    limits: Limits,
    /// Highest rate of this bracket that met the objective, or zero.
    low: f64,
    /// Lowest rate of this bracket that missed the objective.
    high: Option<f64>,
    next: Option<f64>,
    /// Whether the low and the high end were measured, not assumed from the first estimate.
    is_checked: (bool, bool),
    /// Factor by which an unknown or wrongly assumed end of the bracket moves. Grows with each move.
    slide: f64,
    /// Whether the tool set the high end.
    is_tool: bool,
    /// Highest rate of the search that met the objective.
    met_max: f64,
    /// Whether at least one try was valid.
    has_evidence: bool,
    /// Number of consecutive rates at which the tool failed.
    unmeasured: u32,
    found: Vec<Bracket>,
}

/// A bracket as narrow as the precision.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    low: f64,
    high: f64,
    is_tool: bool,
}

impl Bracket {
    /// Geometric mean of the ends.
    fn rate(&self) -> f64 {
        (self.low * self.high).sqrt()
    }
}

/// The result of the search.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// Median of the repeats in queries a second. Zero if no rate met the objective. A lower bound has the highest rate
    /// that met it.
    pub rate: f64,
    /// Lowest end of the brackets.
    pub low: f64,
    /// Highest end of the brackets.
    pub high: f64,
    /// Probability that the interval from `low` to `high` contains the true median: 1 - 2^(1-n) for n repeats, for any
    /// distribution.
    pub confidence: f64,
    /// The result of each repeat that found the server's limit.
    pub repeats: Vec<f64>,
    /// Whether the tool or the search reached its limit before the server did. The server can then sustain at least
    /// `rate`.
    pub is_lower_bound: bool,
}

impl Search {
    /// Starts a search.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            low: 0.0,
            high: None,
            next: Some(limits.from.min(limits.to).max(limits.lowest)),
            is_checked: (true, true),
            slide: GROWTH_MAX,
            is_tool: false,
            met_max: 0.0,
            has_evidence: false,
            unmeasured: 0,
            found: Vec::new(),
        }
    }

    /// The next rate, or `None` when the search is done.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        self.next
    }

    /// The number of finished repeats, and of all repeats.
    #[must_use]
    pub fn done(&self) -> (usize, usize) {
        (self.found.len(), self.limits.repeats)
    }

    /// Highest rate that met the objective, or zero.
    #[must_use]
    pub fn met_max(&self) -> f64 {
        self.met_max
    }

    /// Records the result of the rate of [`Search::next`].
    pub fn record(&mut self, verdict: &Verdict) {
        let Some(rate) = self.next else { return };
        match verdict {
            Verdict::Met => {
                self.low = rate;
                self.is_checked.0 = true;
                self.met_max = self.met_max.max(rate);
            }
            Verdict::Missed(_) => {
                self.high = Some(rate);
                self.is_checked.1 = true;
                self.is_tool = false;
            }
            Verdict::ToolLimited(_) => {
                self.next = self.without_evidence(rate);
                return;
            }
        }
        self.has_evidence = true;
        self.unmeasured = 0;
        self.next = self.step();
    }

    /// Chooses the next rate after the tool failed. The failure shows nothing about the server at any rate.
    fn without_evidence(&mut self, rate: f64) -> Option<f64> {
        self.unmeasured += 1;
        if self.unmeasured >= UNMEASURED_MAX {
            return None;
        }
        if rate <= self.met_max {
            // The tool reached this rate before, so something disturbed it: try again.
            return Some(rate);
        }
        if self.low > 0.0 && self.met_max > 0.0 {
            // The tool cannot measure higher rates.
            self.high = Some(rate);
            self.is_checked.1 = true;
            self.is_tool = true;
            return self.step();
        }
        Some(rate / 2.0).filter(|rate| *rate >= self.limits.lowest)
    }

    fn step(&mut self) -> Option<f64> {
        let Some(high) = self.high else {
            if self.low >= self.limits.to {
                return self.close(true);
            }
            let rate = (self.low * self.slide).min(self.limits.to);
            self.slide = (self.slide * self.slide).min(GROWTH_MAX);
            return Some(rate);
        };
        if self.low <= 0.0 {
            let rate = high / 2.0;
            return if rate < self.limits.lowest { self.close(false) } else { Some(rate) };
        }
        if high / self.low > 1.0 + self.limits.precision {
            // The geometric mean.
            return Some((self.low * high).sqrt());
        }
        match self.is_checked {
            (true, true) => self.close(self.is_tool),
            // The bracket was assumed too high or too low: let it slide.
            (false, _) => {
                self.low /= self.slide;
                self.slide = (self.slide * self.slide).min(GROWTH_MAX);
                if self.low < self.limits.lowest {
                    self.low = 0.0;
                    return self.close(false);
                }
                Some(self.low)
            }
            (_, false) => {
                let high = (high * self.slide).min(self.limits.to);
                self.slide = (self.slide * self.slide).min(GROWTH_MAX);
                self.high = Some(high);
                if self.low >= self.limits.to { self.close(true) } else { Some(high) }
            }
        }
    }

    /// Ends a bracket and opens the next one.
    fn close(&mut self, is_tool: bool) -> Option<f64> {
        let high = self.high.unwrap_or(self.low).max(self.low);
        self.found.push(Bracket { low: self.low, high: if self.low > 0.0 { high } else { 0.0 }, is_tool });
        if self.found.len() >= self.limits.repeats || self.low <= 0.0 {
            return None;
        }
        self.is_tool = false;
        self.slide = SPREAD;
        let Some(first) = self.found.iter().find(|found| !found.is_tool).map(Bracket::rate) else {
            // The tool's limit does not show where the server's limit is. Continue from the highest rate that was met.
            (self.low, self.high, self.is_checked) = (self.met_max, None, (true, true));
            return self.step();
        };
        self.is_checked = (false, false);
        self.low = first / SPREAD;
        let high = (first * SPREAD).min(self.limits.to);
        self.high = Some(high);
        if high <= self.low { None } else { Some((self.low * high).sqrt()) }
    }

    /// The estimate so far, or `None` without a valid try.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        if !self.has_evidence {
            return None;
        }
        let unfinished = self.unfinished();
        let found = if self.found.is_empty() { unfinished.as_slice() } else { &self.found };
        let of_server: Vec<_> = found.iter().filter(|found| !found.is_tool).collect();
        if of_server.len() * 2 < found.len() || found.is_empty() {
            // A rate that met the objective is a lower bound, even if the tool failed at other rates.
            let rate = self.met_max;
            let high = rate;
            let bound = Estimate { rate, low: rate, high, confidence: 0.0, repeats: Vec::new(), is_lower_bound: true };
            return (rate > 0.0).then_some(bound);
        }
        let mut repeats: Vec<f64> = of_server.iter().map(|found| found.rate()).collect();
        repeats.sort_by(f64::total_cmp);
        let count = repeats.len();
        let low = of_server.iter().map(|found| found.low).fold(f64::INFINITY, f64::min);
        let high = of_server.iter().map(|found| found.high).fold(0.0, f64::max);
        let rate = f64::midpoint(repeats[(count - 1) / 2], repeats[count / 2]);
        let confidence = 1.0 - 0.5f64.powi(count as i32 - 1);
        Some(Estimate { rate, low, high, confidence, repeats, is_lower_bound: false })
    }

    /// The first bracket, if the search ends before it is narrow.
    fn unfinished(&self) -> Vec<Bracket> {
        let known = self.high.filter(|_| self.low > 0.0);
        known.map(|high| Bracket { low: self.low, high, is_tool: self.is_tool }).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const LIMITS: Limits = Limits { from: 1_000.0, lowest: 1.0, to: 1e6, precision: 0.05, repeats: 6 };

    fn run(limits: Limits, mut server: impl FnMut(f64) -> Verdict) -> (Estimate, usize) {
        let mut search = Search::new(limits);
        let mut tries = 0;
        while let Some(rate) = search.next() {
            tries += 1;
            assert!(tries < 200 && rate <= limits.to, "{search:?}");
            search.record(&server(rate));
        }
        (search.estimate().unwrap(), tries)
    }

    fn missed() -> Verdict {
        Verdict::Missed(String::new())
    }

    #[test]
    fn a_sharp_limit_is_found() {
        for limit in [37.0, 999.0, 1_000.0, 43_210.0, 700_000.0] {
            let (estimate, tries) = run(LIMITS, |rate| if rate <= limit { Verdict::Met } else { missed() });
            assert!((estimate.rate / limit - 1.0).abs() < 0.05, "{limit}: {estimate:?}");
            assert!(tries < 60 && !estimate.is_lower_bound, "{limit}: {tries} tries");
        }
    }

    #[test]
    fn invalid_tries_are_no_evidence() {
        let tool = || Verdict::ToolLimited(String::new());
        // Without a valid try the result must not be "met at no rate".
        let mut search = Search::new(LIMITS);
        let mut tries = 0;
        while search.next().is_some() {
            tries += 1;
            search.record(&tool());
        }
        assert!(search.estimate().is_none() && tries <= 7, "{tries}");
        // Disturbing three of ten tries must not change the estimate.
        for seed in 0..100 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (estimate, tries) = run(LIMITS, |rate| match rng.random::<f64>() {
                // The caller repeats an INVALID try twice.
                disturbed if disturbed < 0.3f64.powi(3) => tool(),
                _ if rate <= 45_000.0 => Verdict::Met,
                _ => missed(),
            });
            assert!(!estimate.is_lower_bound, "{seed}: {estimate:?}");
            assert!((estimate.rate / 45_000.0 - 1.0).abs() < 0.05, "{seed}: {estimate:?}");
            assert!(estimate.low > 40_000.0 && estimate.high < 50_000.0, "{seed}: {estimate:?}");
            assert!(tries < 45, "{seed}: {tries}");
        }
    }

    #[test]
    fn every_try_narrows_the_search() {
        // 28 tries of 2 s with pauses and late answers take 90 s.
        let (_, tries) = run(LIMITS, |rate| if rate <= 45_000.0 { Verdict::Met } else { missed() });
        assert!(tries <= 28, "{tries}");
        let mut search = Search::new(LIMITS);
        for count in 0.. {
            let Some(rate) = search.next() else { break };
            search.record(&if rate <= 45_000.0 { Verdict::Met } else { missed() });
            let estimate = search.estimate().unwrap();
            assert!(estimate.low <= 45_000.0, "{count}: {estimate:?}");
            assert!(estimate.is_lower_bound || estimate.high >= 45_000.0, "{count}: {estimate:?}");
        }
    }

    #[test]
    fn a_server_that_dies_on_the_way_ends_the_search() {
        let mut tries = 0;
        let (estimate, _) = run(LIMITS, |rate| {
            tries += 1;
            if tries <= 12 && rate <= 45_000.0 { Verdict::Met } else { missed() }
        });
        assert!(estimate.low <= 0.0, "{estimate:?}");
    }

    #[test]
    fn a_noisy_limit_lies_in_the_interval() {
        let mut hits = 0;
        for seed in 0..100 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (estimate, _) = run(LIMITS, |rate| {
                let limit = 50_000.0 * rng.random_range(0.9..1.1);
                if rate <= limit { Verdict::Met } else { missed() }
            });
            // Half of the precision, since rates lie on a grid of brackets.
            hits += usize::from(estimate.low * 0.975 <= 50_000.0 && 50_000.0 <= estimate.high * 1.025);
        }
        assert!(hits >= 95, "{hits}");
    }

    #[test]
    fn a_lucky_first_estimate_is_revised() {
        let mut tries = 0;
        let (estimate, _) = run(LIMITS, |rate| {
            tries += 1;
            // The first bracket is measured on a machine twice as fast.
            let limit = if tries <= 12 { 80_000.0 } else { 40_000.0 };
            if rate <= limit { Verdict::Met } else { missed() }
        });
        assert!((estimate.rate / 40_000.0 - 1.0).abs() < 0.06, "{estimate:?}");
    }

    #[test]
    fn the_limit_of_the_tool_is_a_lower_bound() {
        let tool = |rate: f64| if rate <= 90_000.0 { Verdict::Met } else { Verdict::ToolLimited(String::new()) };
        assert!(run(LIMITS, tool).0.is_lower_bound);
        let (estimate, _) = run(Limits { to: 5_000.0, ..LIMITS }, |_| Verdict::Met);
        assert!(estimate.is_lower_bound && (estimate.rate - 5_000.0).abs() < 1e-6, "{estimate:?}");
    }

    #[test]
    fn a_server_that_never_meets_the_objective_has_no_capacity() {
        let (estimate, tries) = run(LIMITS, |_| missed());
        assert!(estimate.rate <= 0.0 && tries <= 12, "{tries}");
        // The search also avoids rates at which a try measures nothing.
        let (_, tries) = run(Limits { lowest: 50.0, ..LIMITS }, |rate| {
            assert!(rate >= 50.0, "{rate}");
            missed()
        });
        assert!(tries <= 12, "{tries}");
    }
}
