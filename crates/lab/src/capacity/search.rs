//! Which rate is tried next, and what all tries together say. It runs nothing itself.

use super::Verdict;
use serde::Serialize;

/// Where the search begins and ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// The first rate, queries a second.
    pub from: f64,
    /// Below it a try has too few queries to measure anything.
    pub lowest: f64,
    /// The highest that is tried.
    pub to: f64,
    /// A bracket whose ends differ by a smaller share is not halved further.
    pub precision: f64,
    /// How many brackets are halved: as many independent estimates.
    pub repeats: usize,
}

/// The bracket of a repeat begins so far to both sides of the first estimate.
const SPREAD: f64 = 1.3;
/// The search, one rate at a time.
#[derive(Clone, Debug)]
pub struct Search {
    limits: Limits,
    /// Highest rate of this bracket that was met; zero when none was.
    low: f64,
    /// Lowest rate of this bracket that was not.
    high: Option<f64>,
    next: Option<f64>,
    /// The ends of the bracket are known, not assumed from the first estimate.
    is_checked: (bool, bool),
    /// Whether the high end is this tool's.
    is_tool: bool,
    estimates: Vec<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    rate: f64,
    is_tool: bool,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// Median of the repeats, queries a second; zero when the server met the objective at no rate.
    pub rate: f64,
    /// Lowest of the repeats.
    pub low: f64,
    /// Highest of the repeats.
    pub high: f64,
    /// How sure it is that the median of many more repeats lies between `low` and `high`: 1 - 2^(1-n) for n of them,
    /// whatever their distribution.
    pub confidence: f64,
    /// Each repeat.
    pub repeats: Vec<f64>,
    /// Whether this tool, or the end of the search, came before the server's limit: then the server bears at least
    /// `rate`.
    pub is_lower_bound: bool,
}

impl Search {
    /// The search from its start.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            low: 0.0,
            high: None,
            next: Some(limits.from.min(limits.to).max(limits.lowest)),
            is_checked: (true, true),
            is_tool: false,
            estimates: Vec::new(),
        }
    }

    /// The rate to try; `None` when it is over.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        self.next
    }

    /// How many estimates there are of those that are wanted.
    #[must_use]
    pub fn done(&self) -> (usize, usize) {
        (self.estimates.len(), self.limits.repeats)
    }

    /// Notes what the rate of [`Search::next`] showed.
    pub fn record(&mut self, verdict: &Verdict) {
        let Some(rate) = self.next else { return };
        if *verdict == Verdict::Met {
            self.low = rate;
            self.is_checked.0 = true;
        } else {
            self.high = Some(rate);
            self.is_checked.1 = true;
            self.is_tool = matches!(verdict, Verdict::ToolLimited(_));
        }
        self.next = self.step();
    }

    fn step(&mut self) -> Option<f64> {
        let Some(high) = self.high else {
            if self.low >= self.limits.to {
                return self.close(self.low, true);
            }
            return Some((self.low * 2.0).min(self.limits.to));
        };
        if self.low <= 0.0 {
            let rate = high / 2.0;
            return if rate < self.limits.lowest { self.close(0.0, false) } else { Some(rate) };
        }
        if high / self.low > 1.0 + self.limits.precision {
            // The middle on the scale of ratios.
            return Some((self.low * high).sqrt());
        }
        match self.is_checked {
            (true, true) => self.close((self.low * high).sqrt(), self.is_tool),
            // The bracket was assumed too high or too low: let it slide.
            (false, _) => {
                self.low /= SPREAD;
                Some(self.low)
            }
            (_, false) => {
                let high = (high * SPREAD).min(self.limits.to);
                self.high = Some(high);
                if self.low >= self.limits.to { self.close(self.low, true) } else { Some(high) }
            }
        }
    }

    /// Ends a bracket and opens the next one.
    fn close(&mut self, rate: f64, is_tool: bool) -> Option<f64> {
        self.estimates.push(Found { rate, is_tool });
        let first = self.estimates[0];
        if self.estimates.len() >= self.limits.repeats || first.rate <= 0.0 {
            return None;
        }
        self.is_tool = false;
        self.is_checked = (false, false);
        self.low = first.rate / SPREAD;
        let high = (first.rate * SPREAD).min(self.limits.to);
        self.high = Some(high);
        if high <= self.low { None } else { Some((self.low * high).sqrt()) }
    }

    /// What is known by now; `None` before the first estimate.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        let mut repeats: Vec<f64> = self.estimates.iter().map(|found| found.rate).collect();
        repeats.sort_by(f64::total_cmp);
        let count = repeats.len();
        let (&low, &high) = (repeats.first()?, repeats.last()?);
        let rate = (repeats[(count - 1) / 2] + repeats[count / 2]) / 2.0;
        let confidence = 1.0 - 0.5f64.powi(count as i32 - 1);
        let tools = self.estimates.iter().filter(|found| found.is_tool).count();
        Some(Estimate { rate, low, high, confidence, repeats, is_lower_bound: tools * 2 > count })
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
    fn a_first_estimate_that_was_luck_is_left_behind() {
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
    fn a_server_that_meets_nothing_has_none() {
        let (estimate, tries) = run(LIMITS, |_| missed());
        assert!(estimate.rate <= 0.0 && tries <= 12, "{tries}");
        // Nor does the search go where a try measures nothing.
        let (_, tries) = run(Limits { lowest: 50.0, ..LIMITS }, |rate| {
            assert!(rate >= 50.0, "{rate}");
            missed()
        });
        assert!(tries <= 12, "{tries}");
    }
}
