//! The second in the middle of each side: what it has as its slowest queries, and how the two compare.

use lab::report::regression::Since;
use lab::report::{Row, Run};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What is compared of each second.
const QUANTILE: f64 = 0.9999;
/// Samples of the seconds of each side that the interval is made from, as many as `catlab compare` draws.
const DRAWS: usize = 10_000;

/// What the slowest in ten thousand of a second take, in the second in the middle of each side: microseconds, their
/// ratio, and its interval, in which 95 in 100 samples of the seconds lie. A stop of the machine makes one second
/// slower; what lasts, or comes again and again, makes all.
pub(crate) fn middle(sides: [&[Run]; 2], since: Since) -> ([f64; 2], f64, [f64; 2]) {
    let seconds = sides.map(|runs| {
        let times = |row: &'_ Row| match since {
            Since::Planned => row.latency.quantile(QUANTILE),
            Since::Sent => row.service.quantile(QUANTILE),
        };
        let slowest = |run: &Run| run.sending().map(times).collect::<Vec<_>>();
        runs.iter().flat_map(slowest).collect::<Vec<u64>>()
    });
    let [still, disturbed] = seconds.each_ref().map(|seconds| median(seconds.clone()));
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut draw = |from: &[u64]| median(from.iter().map(|_| from[random.random_range(0..from.len())]).collect());
    let mut ratios: Vec<f64> = (0..DRAWS).map(|_| 1.0 / draw(&seconds[0]) * draw(&seconds[1])).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[(share * (DRAWS - 1) as f64) as usize];
    ([still, disturbed].map(|ns| ns / 1e3), disturbed / still, [at(0.025), at(0.975)])
}

/// At least one nanosecond.
fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(1.0, |time| (*time).max(1) as f64)
}
