//! Chance is not called a difference, a difference is found.

use super::*;
use crate::report::{Distribution, Recording, Row};
use rand::Rng;
use std::time::{Duration, UNIX_EPOCH};

const SECONDS: usize = 40;
const QUERIES: usize = 600;

/// A run whose queries take 100 us and exponentially more, with seconds that are slower as a whole: neighbours in time
/// are alike, as behind a real server.
fn run(random: &mut impl Rng, scale: f64, loss: f64) -> Run {
    let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
    for second in 0..SECONDS {
        let mood = scale * (0.1 * (random.random::<f64>() - 0.5)).exp();
        let mut lost = 0;
        let latencies: Vec<(u64, u64)> = (0..QUERIES)
            .map(|_| {
                let drawn = -random.random::<f64>().max(1e-12).ln();
                lost += u64::from(random.random::<f64>() < loss);
                // Three digits, as a histogram keeps them.
                let ns = 1e5 * mood * (1.0 + drawn);
                let digit = 10f64.powf(ns.log10().floor() - 2.0);
                (((ns / digit).round() * digit) as u64, 1)
            })
            .collect();
        let sent = QUERIES as u64;
        let answered = sent - lost;
        recording.rows.push(Row {
            start_seconds: second as f64,
            span_seconds: 1.0,
            sent,
            answered,
            timed_out: lost,
            latency: Distribution::of(latencies),
            ..Row::default()
        });
    }
    let total = recording.total();
    Run {
        label: "run".into(),
        origin: String::new(),
        summary: None,
        manifest: None,
        total,
        recording,
        notes: Vec::new(),
    }
}

const TERMS: Terms = Terms { threshold: 0.05, skip_seconds: 0.0, force: false, seed: 1 };

fn verdict(comparison: &Comparison, figure: Figure) -> Verdict {
    comparison.differences.iter().find(|difference| difference.figure == figure).unwrap().verdict
}

#[test]
fn two_runs_alike_differ_no_more_often_than_by_chance() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    const TRIALS: usize = 200;
    let mut same = [0; Figure::ALL.len()];
    let mut regressions = 0;
    for trial in 0..TRIALS {
        let (a, b) = (run(&mut random, 1.0, 0.01), run(&mut random, 1.0, 0.01));
        let comparison = compare(&a, &b, &Terms { seed: trial as u64, ..TERMS }).unwrap();
        regressions += usize::from(comparison.is_regression);
        for (same, difference) in same.iter_mut().zip(&comparison.differences) {
            *same += usize::from(difference.verdict == Verdict::NoDifference);
        }
    }
    println!("no difference in {same:?} of {TRIALS}; {regressions} regressions");
    assert!(same.iter().all(|&same| same * 100 >= TRIALS * 93), "{same:?} of {TRIALS}");
    // An interval that is beyond chance is seldom beyond the threshold.
    assert!(regressions <= TRIALS / 50, "{regressions}");
    // Intervals that are never wrong are too wide to find anything.
    assert!(same[0] < TRIALS, "{same:?}");
}

#[test]
fn a_tenth_slower_is_found() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let (a, b) = (run(&mut random, 1.0, 0.0), run(&mut random, 1.1, 0.0));
    let comparison = compare(&a, &b, &TERMS).unwrap();
    assert!(comparison.is_regression, "{}", comparison.text());
    assert_eq!(verdict(&comparison, Figure::P50), Verdict::Regression, "{}", comparison.text());
    assert!((comparison.differences[0].change - 1.1).abs() < 0.03);
    let back = compare(&b, &a, &TERMS).unwrap();
    assert!(!back.is_regression && verdict(&back, Figure::P50) == Verdict::Better, "{}", back.text());
}

#[test]
fn lost_answers_are_found() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let (a, b) = (run(&mut random, 1.0, 0.0), run(&mut random, 1.0, 0.02));
    let comparison = compare(&a, &b, &TERMS).unwrap();
    assert_eq!(verdict(&comparison, Figure::Loss), Verdict::Regression, "{}", comparison.text());
    assert_eq!(verdict(&comparison, Figure::AchievedRate), Verdict::Worse, "{}", comparison.text());
}

#[test]
fn a_slow_second_is_one_witness_and_not_a_thousand() {
    let mut random = ChaCha8Rng::seed_from_u64(10);
    let a = run(&mut random, 1.0, 0.0);
    let mut b = run(&mut random, 1.0, 0.0);
    // One second in forty takes three times as long: its 600 queries are 2.5 % of all.
    let slow = b.recording.rows[20].latency.entries().iter().map(|&(value, count)| (value * 3, count));
    b.recording.rows[20].latency = Distribution::of(slow.collect::<Vec<_>>());
    let comparison = compare(&a, &b, &TERMS).unwrap();
    assert!(comparison.differences[2].change > 1.1, "{}", comparison.text());
    assert_eq!(verdict(&comparison, Figure::P99), Verdict::NoDifference, "{}", comparison.text());
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (a, mut b) = (run(&mut random, 1.0, 0.0), run(&mut random, 1.0, 0.0));
    assert!(compare(&a, &b, &Terms { skip_seconds: 36.0, ..TERMS }).unwrap_err().contains("4 seconds"));
    for row in &mut b.recording.rows {
        row.latency = Distribution::default();
    }
    assert!(compare(&a, &b, &TERMS).unwrap_err().contains("no latency"));
}

#[test]
fn the_same_seed_says_the_same() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let (a, b) = (run(&mut random, 1.0, 0.0), run(&mut random, 1.02, 0.0));
    let [one, other] = [0, 1].map(|_| compare(&a, &b, &TERMS).unwrap().text());
    assert_eq!(one, other);
}

#[test]
fn a_quantile_of_sides_that_took_turns() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let mut side = |scale: f64| -> Vec<Run> { (0..3).map(|_| run(&mut random, scale, 0.0)).collect() };
    let (still, same, slower) = (side(1.0), side(1.0), side(1.3));
    let none = compare_quantile(&still, &same, 0.99, Since::Planned, 1).unwrap();
    assert_eq!(none.queries, [(3 * SECONDS * QUERIES) as u64; 2], "the seconds of all three runs");
    assert!(none.interval[0] < 1.0 && none.interval[1] > 1.0 && none.interval[1] < 1.1, "{none:?}");
    let found = compare_quantile(&still, &slower, 0.99, Since::Planned, 1).unwrap();
    assert!(found.interval[0] > 1.2 && found.interval[1] < 1.4, "{found:?}");
    assert!((found.ratio - found.b_us / found.a_us).abs() < 1e-9);
    // What was not recorded is not compared.
    assert!(compare_quantile(&still, &same, 0.99, Since::Sent, 1).unwrap_err().contains("no latency"));
}

#[test]
fn the_second_in_the_middle_knows_no_single_stop_and_what_lasts() {
    let mut random = ChaCha8Rng::seed_from_u64(14);
    let mut side = |scale: f64| -> Vec<Run> { (0..3).map(|_| run(&mut random, scale, 0.0)).collect() };
    let (still, mut stopped, slower) = (side(1.0), side(1.0), side(1.3));
    // Two seconds in each run take ten times as long: all of them are among the slowest in a hundred.
    for row in stopped.iter_mut().flat_map(|run| &mut run.recording.rows[20..22]) {
        let slow = row.latency.entries().iter().map(|&(value, count)| (value * 10, count));
        row.latency = Distribution::of(slow.collect::<Vec<_>>());
    }
    assert!(compare_quantile(&still, &stopped, 0.99, Since::Planned, 1).unwrap().ratio > 2.0);
    let none = compare_seconds(&still, &stopped, 0.99, Since::Planned, 1).unwrap();
    assert!(none.interval[0] < 1.0 && none.interval[1] > 1.0 && none.interval[1] < 1.1, "{none:?}");
    assert_eq!(none.queries, [(3 * SECONDS * QUERIES) as u64; 2]);
    let found = compare_seconds(&still, &slower, 0.99, Since::Planned, 1).unwrap();
    assert!(found.interval[0] > 1.2 && found.interval[1] < 1.4, "{found:?}");
    assert!((found.ratio - found.b_us / found.a_us).abs() < 1e-9);
    assert!(compare_seconds(&still, &slower, 0.99, Since::Sent, 1).unwrap_err().contains("0 seconds"));
}
