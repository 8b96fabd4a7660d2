//! When each query is sent. Times are absolute, so that errors do not add up.
//!
//! A schedule is a rate over time, in segments with a constant or linear rate. Query `x` of the run is sent when the
//! integral of the rate reaches `x`. Worker `i` of `n` sends every `n`th query. A Poisson process has random steps of
//! `x`.

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// A span of time with a constant or linear rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateSegment {
    /// Length of the segment.
    pub duration: Duration,
    /// Queries per second at its start.
    pub from: f64,
    /// Queries per second at its end.
    pub to: f64,
}

/// Index of this process among several that execute a plan together. A single process is the first of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The index, counted from 0.
    pub index: usize,
    /// Number of processes.
    pub count: usize,
}

impl Default for Part {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Part {
    /// Position and number of worker `index` of `count` among the workers of all processes. Assumes that each process
    /// has `count` workers. The shares of all processes add up to the whole even if their worker counts differ.
    #[must_use]
    pub const fn worker(self, index: usize, count: usize) -> (usize, usize) {
        (self.index + self.count * index, self.count * count)
    }

    /// Share of this process in a count. The shares of all processes add up to the count.
    #[must_use]
    pub fn of(self, count: usize) -> usize {
        count / self.count + usize::from(self.index < count % self.count)
    }
}

/// How the queries are distributed over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// At equal intervals.
    Even,
    /// At random times, as from many independent clients.
    Poisson {
        /// Seed of the times.
        seed: u64,
    },
}

/// The plan of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    segments: Vec<RateSegment>,
    arrivals: Arrivals,
    /// Fixed number of queries, if any. The last rate continues until all are sent.
    count: Option<u64>,
}

impl Schedule {
    /// A constant rate.
    ///
    /// # Errors
    /// As [`Schedule::new`].
    pub fn constant(rate: f64, duration: Duration, arrivals: Arrivals) -> Result<Self, String> {
        Self::new(vec![RateSegment { duration, from: rate, to: rate }], arrivals)
    }

    /// A constant rate until this number of queries is sent.
    ///
    /// # Errors
    /// As [`Schedule::new`].
    pub fn counted(rate: f64, count: u64, arrivals: Arrivals) -> Result<Self, String> {
        let seconds = count as f64 / rate;
        let duration =
            Duration::try_from_secs_f64(seconds).map_err(|_| format!("a rate of {rate} queries a second"))?;
        // Without this, rounding the duration down to nanoseconds would lose a query.
        let duration = duration + Duration::from_nanos(1);
        Ok(Self { count: Some(count), ..Self::constant(rate, duration, arrivals)? })
    }

    /// A sequence of segments.
    ///
    /// # Errors
    /// A description of the invalid rate or duration.
    pub fn new(segments: Vec<RateSegment>, arrivals: Arrivals) -> Result<Self, String> {
        for segment in &segments {
            if segment.duration.is_zero() {
                return Err("a duration of zero".into());
            }
            if !(segment.from >= 0.0 && segment.to >= 0.0 && (segment.from + segment.to).is_finite()) {
                return Err(format!("a rate from {} to {} queries a second", segment.from, segment.to));
            }
        }
        let schedule = Self { segments, arrivals, count: None };
        if schedule.query_count() < 1.0 { Err("not one query in the whole run".into()) } else { Ok(schedule) }
    }

    /// Total duration.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.segments.iter().map(|segment| segment.duration).sum()
    }

    /// Total number of queries. For a Poisson process, the expected number.
    #[must_use]
    pub fn query_count(&self) -> f64 {
        if let Some(count) = self.count {
            return count as f64;
        }
        self.segments.iter().map(|segment| segment.count()).sum()
    }

    /// The number of queries of one process, if several share the schedule.
    #[must_use]
    pub fn query_count_of(&self, part: Part) -> f64 {
        let (all, index, count) = (self.query_count(), part.index as f64, part.count as f64);
        match self.arrivals {
            _ if self.count.is_some() => ((all - index) / count).ceil().max(0.0),
            // The queries `index`, `index + count` and so on below `all`.
            Arrivals::Even if part.count > 1 => ((all - index) / count).ceil().max(0.0),
            Arrivals::Even | Arrivals::Poisson { .. } => all / count,
        }
    }

    /// The times of worker `index` of `count`.
    #[must_use]
    pub fn times_of(&self, index: usize, count: usize) -> Times {
        let rng = match self.arrivals {
            Arrivals::Even => None,
            Arrivals::Poisson { seed } => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream(index as u64);
                Some(rng)
            }
        };
        let mut times = Times {
            segments: self.segments.clone(),
            segment: 0,
            before_ns: 0.0,
            before_count: 0.0,
            position: index as f64,
            stride: count as f64,
            rng,
            // The queries `index`, `index + count` and so on below `all`.
            left: self.count.map(|all| all.saturating_sub(index as u64).div_ceil(count as u64)),
        };
        if times.rng.is_some() {
            times.position = 0.0;
            times.step();
        }
        times
    }
}

impl RateSegment {
    fn seconds(&self) -> f64 {
        self.duration.as_secs_f64()
    }

    fn count(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds()
    }

    /// Seconds from the start of the segment until `count` queries are sent.
    fn when(&self, count: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds();
        // Solves from * t + slope * t^2 / 2 = count. This form is also accurate for small slopes.
        2.0 * count / (self.from + (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt())
    }
}

/// Planned times in nanoseconds from the start of the run, in order.
#[derive(Clone, Debug)]
pub struct Times {
    segments: Vec<RateSegment>,
    segment: usize,
    before_ns: f64,
    before_count: f64,
    position: f64,
    stride: f64,
    rng: Option<ChaCha8Rng>,
    /// Number of queries left, if it is fixed.
    left: Option<u64>,
}

impl Times {
    fn step(&mut self) {
        self.position += match &mut self.rng {
            None => self.stride,
            // An exponential step with mean `stride`. 1 - u is never zero.
            Some(rng) => -(1.0 - rng.random::<f64>()).ln() * self.stride,
        };
    }
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        loop {
            let segment = self.segments.get(self.segment)?;
            let within = self.position - self.before_count;
            // With a fixed count, the last rate continues until all queries are sent.
            let goes_on = self.left.is_some() && self.segment + 1 == self.segments.len();
            if within < segment.count() || goes_on {
                let when = self.before_ns + segment.when(within) * SECOND_NS;
                self.step();
                return Some(when as u64);
            }
            self.before_count += segment.count();
            self.before_ns += segment.seconds() * SECOND_NS;
            self.segment += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_constant_rate_does_not_drift() {
        let schedule = Schedule::constant(3_000.0, 3_600 * SECOND, Arrivals::Even).unwrap();
        let times: Vec<u64> = schedule.times_of(0, 1).collect();
        assert_eq!(times.len(), 10_800_000);
        let worst =
            times.iter().enumerate().map(|(x, &at)| (at as f64 - x as f64 * 1e9 / 3e3).abs()).fold(0.0, f64::max);
        assert!(worst < 2.0, "{worst} ns");
    }

    #[test]
    fn workers_together_send_every_query() {
        let ramp = RateSegment { duration: 5 * SECOND, from: 0.0, to: 1_000.0 };
        let hold = RateSegment { duration: 2 * SECOND, from: 1_000.0, to: 1_000.0 };
        let schedule = Schedule::new(vec![ramp, hold], Arrivals::Even).unwrap();
        let whole: Vec<u64> = schedule.times_of(0, 1).collect();
        let mut shares: Vec<u64> = (0..3).flat_map(|index| schedule.times_of(index, 3)).collect();
        shares.sort_unstable();
        assert_eq!((whole.len(), &whole), (4_500, &shares));
        assert!(whole.is_sorted());
        // Half of a ramp's queries lie in its last 29 %.
        let first_half = whole.iter().filter(|&&at| at < 3_535_533_906).count();
        assert!(first_half.abs_diff(1_250) <= 1, "{first_half}");
    }

    #[test]
    fn processes_with_different_worker_counts_send_every_query() {
        let schedule = Schedule::constant(1_001.0, 3 * SECOND, Arrivals::Even).unwrap();
        let whole: Vec<u64> = schedule.times_of(0, 1).collect();
        let mut all = Vec::new();
        for (index, workers) in [(0, 1), (1, 4), (2, 2)] {
            let part = Part { index, count: 3 };
            let places = (0..workers).map(|worker| part.worker(worker, workers));
            let own: Vec<u64> = places.flat_map(|(index, count)| schedule.times_of(index, count)).collect();
            assert_eq!(own.len() as f64, schedule.query_count_of(part), "{part:?}");
            all.extend(own);
        }
        all.sort_unstable();
        assert_eq!((whole.len(), all), (3_003, whole));
        let shares: Vec<usize> = (0..3).map(|index| Part { index, count: 3 }.of(11)).collect();
        assert_eq!(shares, [4, 4, 3]);
        assert_eq!((Part::default().of(7), schedule.query_count_of(Part::default())), (7, 3_003.0));
    }

    #[test]
    fn poisson_has_the_rate_and_the_variance() {
        let schedule = Schedule::constant(10_000.0, 20 * SECOND, Arrivals::Poisson { seed: 3 }).unwrap();
        let mut seconds = [0f64; 200];
        for at in schedule.times_of(0, 2).chain(schedule.times_of(1, 2)) {
            seconds[(at / 100_000_000) as usize] += 1.0;
        }
        let mean = seconds.iter().sum::<f64>() / 200.0;
        let variance = seconds.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0;
        assert!((mean - 1_000.0).abs() < 10.0, "{mean}");
        assert!((0.7..1.4).contains(&(variance / mean)), "{variance}");
    }

    #[test]
    fn any_number_of_workers_sends_a_fixed_count_completely() {
        for arrivals in [Arrivals::Even, Arrivals::Poisson { seed: 7 }] {
            let schedule = Schedule::counted(1_000.0, 1_003, arrivals).unwrap();
            assert_eq!(schedule.query_count(), 1_003.0);
            for workers in [1, 4] {
                let counts: Vec<_> = (0..workers).map(|index| schedule.times_of(index, workers).count()).collect();
                assert_eq!(counts.iter().sum::<usize>(), 1_003, "{arrivals:?}: {counts:?}");
                assert!(counts.iter().all(|count| count.abs_diff(1_003 / workers) <= 1), "{counts:?}");
            }
            let shares: f64 = (0..3).map(|index| schedule.query_count_of(Part { index, count: 3 })).sum();
            assert_eq!(shares, 1_003.0);
        }
        assert!(Schedule::counted(0.0, 5, Arrivals::Even).is_err());
        assert_eq!(Schedule::counted(1e9, 1, Arrivals::Even).unwrap().times_of(0, 1).count(), 1);
    }

    #[test]
    fn invalid_text_is_refused() {
        assert!(Schedule::constant(0.0, SECOND, Arrivals::Even).is_err());
        assert!(Schedule::constant(f64::NAN, SECOND, Arrivals::Even).is_err());
        assert!(Schedule::constant(10.0, Duration::ZERO, Arrivals::Even).is_err());
    }
}
