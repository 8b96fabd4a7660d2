//! Compares the arrival of a trace with its plan: distances, intervals, and the rate of each second.

const SECOND_NS: u64 = 1_000_000_000;
/// Number of values kept for a plot: minimum, maximum and evenly spaced quantiles.
const CURVE_MAX: usize = 500;
/// A second counts as near if its rate is within this share of the plan (LDplayer, IMC 2018, Figure 8). The small
/// addend allows for rounding: one query in a thousand is still near.
const NEAR: f64 = 0.001 + 1e-9;

/// The measurements of one run.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// Queries that arrived, and queries that did not, without the skipped seconds.
    pub(crate) queries: usize,
    pub(crate) lost: usize,
    /// Distances from the plan, and differences of the intervals, in microseconds.
    pub(crate) distance: Spread,
    pub(crate) interval: Spread,
    /// Planned and measured intervals, in microseconds.
    pub(crate) intervals: [Spread; 2],
    /// Rate error of the whole run, as a share.
    pub(crate) rate_error: f64,
    /// Rate error of each second as a share, and the share of the seconds that are near.
    pub(crate) seconds: Spread,
    pub(crate) near: f64,
}

/// A distribution around zero.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) quartiles: [f64; 3],
    pub(crate) p1: f64,
    pub(crate) p99: f64,
    pub(crate) ends: [f64; 2],
    /// Number of values.
    pub(crate) count: usize,
    /// The sorted values, thinned out for a curve.
    pub(crate) curve: Vec<f64>,
}

impl Spread {
    /// The distribution of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() as f64 * share) as usize).min(values.len() - 1)];
        Self {
            quartiles: [at(0.25), at(0.5), at(0.75)],
            p1: at(0.01),
            p99: at(0.99),
            ends: [values[0], values[values.len() - 1]],
            count: values.len(),
            curve: curve(&values),
        }
    }

    pub(crate) fn farther_quartile(&self) -> f64 {
        self.quartiles[0].abs().max(self.quartiles[2].abs())
    }

    pub(crate) fn farther_hundredth(&self) -> f64 {
        self.p1.abs().max(self.p99.abs())
    }

    pub(crate) fn farther_end(&self) -> f64 {
        self.ends[0].abs().max(self.ends[1].abs())
    }

    /// Formats minimum, quartiles, maximum and p99.
    pub(crate) fn describe(&self) -> String {
        let [q1, median, q3] = self.quartiles;
        let [least, most] = self.ends;
        format!("{least:.1} / {q1:.1} / {median:.1} / {q3:.1} / {most:.1} us, p99 {:.1} us", self.p99)
    }

    /// The points of a cumulative distribution.
    pub(crate) fn points(&self) -> String {
        let [q1, median, q3] = self.quartiles;
        format!("{:.1} / {q1:.1} / {median:.1} / {q3:.1} / {:.1}", self.p1, self.p99)
    }
}

/// Thins out sorted values. Keeps the first and the last.
fn curve(values: &[f64]) -> Vec<f64> {
    let (last, count) = (values.len() - 1, values.len().min(CURVE_MAX));
    (0..count).map(|index| values[last * index / (count - 1).max(1)]).collect()
}

/// Computes something from two successive queries. Each is a pair of arrival and planned time.
type Step = fn((i64, i64), (i64, i64)) -> i64;

impl Judged {
    /// Judges queries by their number. `planned` counts nanoseconds from the first query, and `arrived` from the start
    /// of the run. Queries planned before `skip_ns` are skipped.
    ///
    /// # Errors
    /// If no queries are left.
    pub(crate) fn of(planned: &[u64], arrived: &[Option<i64>], skip_ns: u64) -> Result<Self, String> {
        let wanted = planned.iter().zip(arrived).filter(|(planned, _)| **planned >= skip_ns);
        let mut lost = 0;
        let mut kept = Vec::new();
        let mut seconds: Vec<[u64; 2]> = Vec::new();
        let mut count = |at_ns: i64, which: usize| {
            let second = (at_ns.max(0) as u64 / SECOND_NS) as usize;
            if seconds.len() <= second {
                seconds.resize(second + 1, [0; 2]);
            }
            seconds[second][which] += 1;
        };
        for (&planned, &arrived) in wanted {
            count(planned as i64, 0);
            match arrived {
                Some(arrived) => {
                    count(arrived, 1);
                    kept.push((arrived, planned as i64));
                }
                None => lost += 1,
            }
        }
        if kept.len() < 2 {
            return Err(format!("fewer than two queries after {} s", skip_ns / SECOND_NS));
        }
        let us = |ns: i64| ns as f64 / 1e3;
        let steps = |step: Step| -> Vec<f64> { kept.windows(2).map(|pair| us(step(pair[0], pair[1]))).collect() };
        let planned_step: Step = |one, next| next.1 - one.1;
        let seen_step: Step = |one, next| next.0 - one.0;
        let span = |[first, last]: [i64; 2]| (last - first) as f64;
        let (first, last) = (kept[0], kept[kept.len() - 1]);
        let planned_seconds = seconds.iter().filter(|[planned, _]| *planned > 0);
        let errors: Vec<f64> = planned_seconds.map(|[planned, seen]| *seen as f64 / *planned as f64 - 1.0).collect();
        let near = errors.iter().filter(|error| error.abs() <= NEAR).count() as f64 / errors.len() as f64;
        Ok(Self {
            queries: kept.len(),
            lost,
            distance: Spread::of(kept.iter().map(|&(arrived, planned)| us(arrived - planned)).collect()),
            interval: Spread::of(steps(|one, next| (next.0 - one.0) - (next.1 - one.1))),
            intervals: [Spread::of(steps(planned_step)), Spread::of(steps(seen_step))],
            rate_error: (span([first.1, last.1]) / span([first.0, last.0]) - 1.0).abs(),
            seconds: Spread::of(errors),
            near,
        })
    }
}
