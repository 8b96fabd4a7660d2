//! How much a percentile interval of few blocks has to be widened.

/// The share of draws to cut off at each end. The interval of `blocks` blocks then has the width of an interval of
/// Student's distribution with `tail` cut off at each end.
pub(super) fn expanded_tail(tail: f64, blocks: usize) -> f64 {
    let n = blocks.max(2) as f64;
    normal_below(-student_quantile(tail, n - 1.0) * (n / (n - 1.0)).sqrt())
}

/// The value that a variable with Student's distribution exceeds with probability `tail`. Uses the Cornish-Fisher
/// expansion, with an error of at most 1 % from four degrees of freedom on.
pub(super) fn student_quantile(tail: f64, freedom: f64) -> f64 {
    let z = normal_exceeded(tail);
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    z + (1..).zip(terms).map(|(power, term)| term / freedom.powi(power)).sum::<f64>()
}

/// The value that a normal variable exceeds with probability `tail`, found by bisection.
pub(super) fn normal_exceeded(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        *(if normal_below(-middle) > tail { &mut low } else { &mut high }) = middle;
    }
    low
}

/// Probability that a normal variable is below `z`. Abramowitz and Stegun 26.2.17, with an error of at most 7.5e-8.
fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let factors = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = (1..).zip(factors).map(|(power, factor)| factor * t.powi(power)).sum::<f64>();
    let above = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum;
    if z > 0.0 { 1.0 - above } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_tables() {
        for (freedom, exact) in [(4.0, 2.776), (9.0, 2.262), (29.0, 2.045), (119.0, 1.980)] {
            assert!((student_quantile(0.025, freedom) / exact - 1.0).abs() < 0.01, "{freedom}");
        }
        assert!((normal_below(-1.959_964) - 0.025).abs() < 1e-6 && (normal_below(1.0) - 0.841_345).abs() < 1e-6);
        assert!(expanded_tail(0.025, 120) < 0.025 && expanded_tail(0.025, 120) > 0.022);
        assert!(expanded_tail(0.025, 5) < 0.005);
    }
}
