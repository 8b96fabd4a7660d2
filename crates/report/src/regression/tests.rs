//! Tests that random differences are not reported, and that real ones are.

use super::*;
use crate::{Distribution, Recording, Row};
use rand::Rng;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

const SECONDS: usize = 40;
const QUERIES: usize = 600;

/// A run with latencies of 100 us plus an exponential part. Some seconds are slower as a whole, so queries near in time
/// have similar latency, as with a real server.
fn run(random: &mut impl Rng, scale: f64, loss: f64) -> Run {
    let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
    for second in 0..SECONDS {
        let factor = scale * (0.1 * (random.random::<f64>() - 0.5)).exp();
        let mut lost = 0;
        let latencies: Vec<(u64, u64)> = (0..QUERIES)
            .map(|_| {
                let drawn = -random.random::<f64>().max(1e-12).ln();
                lost += u64::from(random.random::<f64>() < loss);
                // Three digits, the precision of a histogram.
                let ns = 1e5 * factor * (1.0 + drawn);
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
            rcodes: BTreeMap::from([("NOERROR".to_owned(), answered)]),
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

const OPTIONS: CompareOptions = CompareOptions { threshold: 0.05, skip_seconds: 0.0, force: false, seed: 1 };

fn verdict(comparison: &Comparison, figure: &Figure) -> Verdict {
    comparison.differences.iter().find(|difference| difference.figure == *figure).unwrap().verdict
}

/// A run of 20 seconds with 1,000 queries each. The server is dead in the seconds of `dead`.
fn dead_in(random: &mut impl Rng, dead: &[usize]) -> Run {
    let mut run = run(random, 1.0, 0.0);
    run.recording.rows.truncate(20);
    for (second, row) in run.recording.rows.iter_mut().enumerate() {
        row.sent = 1_000;
        row.answered = 1_000;
        if dead.contains(&second) {
            (row.answered, row.timed_out) = (0, 1_000);
            row.latency = Distribution::of([(2_000_000_000, 1_000)]);
        }
        row.rcodes = BTreeMap::from([("NOERROR".to_owned(), row.answered)]);
    }
    run
}

#[test]
fn equal_runs_rarely_differ() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    const TRIALS: usize = 200;
    let mut same = [0; 7];
    let (mut decided, mut regressions) = (0, 0);
    for trial in 0..TRIALS {
        let (a, b) = (run(&mut random, 1.0, 0.01), run(&mut random, 1.0, 0.01));
        let comparison = compare(&a, &b, &CompareOptions { seed: trial as u64, ..OPTIONS }).unwrap();
        regressions += usize::from(comparison.is_regression);
        assert_eq!(comparison.differences.len(), same.len(), "{}", comparison.text());
        for (same, difference) in same.iter_mut().zip(&comparison.differences) {
            *same += usize::from(matches!(difference.verdict, Verdict::NoDifference | Verdict::Undecided));
        }
        decided += usize::from(verdict(&comparison, &Figure::P50) == Verdict::NoDifference);
    }
    println!("alike in {same:?} of {TRIALS}; {regressions} regressions");
    assert!(same.iter().all(|&same| same * 100 >= TRIALS * 93), "{same:?} of {TRIALS}");
    // An interval that excludes no change rarely also exceeds the threshold.
    assert!(regressions <= TRIALS / 50, "{regressions}");
    // If all intervals contained the true value, they would be too wide to detect anything.
    assert!(same[0] < TRIALS && decided * 100 >= TRIALS * 93, "{same:?} {decided}");
}

#[test]
fn a_server_outage_of_a_second_is_worse() {
    let mut random = ChaCha8Rng::seed_from_u64(18);
    let whole = dead_in(&mut random, &[]);
    for dead in [&[7][..], &[3, 9, 10]] {
        let comparison = compare(&whole, &dead_in(&mut random, dead), &OPTIONS).unwrap();
        let text = comparison.text();
        assert_eq!(verdict(&comparison, &Figure::Loss), Verdict::Regression, "{text}");
        assert_eq!(comparison.outcome, Outcome::Regression, "{text}");
        assert_ne!(verdict(&comparison, &Figure::P99), Verdict::NoDifference, "{text}");
        let counts = comparison.differences.iter().find_map(|difference| difference.counts);
        assert_eq!(counts, Some([0, 1_000 * dead.len() as u64]), "{text}");
        assert!(text.contains("REGRESSION") && !text.contains("No regression"), "{text}");
        // In the other direction B is better.
        let back = compare(&dead_in(&mut random, dead), &whole, &OPTIONS).unwrap();
        assert_eq!(verdict(&back, &Figure::Loss), Verdict::Better, "{}", back.text());
        assert_eq!(back.outcome, Outcome::None, "{}", back.text());
    }
}

#[test]
fn few_losses_are_reported_at_any_threshold() {
    let mut random = ChaCha8Rng::seed_from_u64(19);
    let a = dead_in(&mut random, &[]);
    let lost = |random: &mut ChaCha8Rng, count: u64| {
        let mut run = dead_in(random, &[]);
        run.recording.rows[4].timed_out = count;
        run.recording.rows[4].answered -= count;
        run
    };
    // 2 of 20,000 are not significant. 15 are 0.075 %, which may exceed the threshold of 0.05 %.
    let two = compare(&a, &lost(&mut random, 2), &OPTIONS).unwrap();
    assert_eq!((verdict(&two, &Figure::Loss), two.outcome), (Verdict::NoDifference, Outcome::None), "{}", two.text());
    assert!(two.text().contains("only in B: loss (2)") && !two.text().contains("No regression"), "{}", two.text());
    let more = compare(&a, &lost(&mut random, 15), &OPTIONS).unwrap();
    assert_eq!(verdict(&more, &Figure::Loss), Verdict::Undecided, "{}", more.text());
    assert_eq!(more.outcome, Outcome::Undecided, "{}", more.text());
    assert!(more.text().contains("Undecided: B looks worse"), "{}", more.text());
}

#[test]
fn other_rcodes_are_found() {
    let mut random = ChaCha8Rng::seed_from_u64(20);
    let (a, mut b) = (dead_in(&mut random, &[]), dead_in(&mut random, &[]));
    for row in &mut b.recording.rows {
        row.rcodes = BTreeMap::from([("NOERROR".to_owned(), 980), ("SERVFAIL".to_owned(), 20)]);
    }
    let comparison = compare(&a, &b, &OPTIONS).unwrap();
    assert_eq!(verdict(&comparison, &Figure::Failures), Verdict::Regression, "{}", comparison.text());
    for rcode in ["NOERROR", "SERVFAIL"] {
        let figure = Figure::Rcode(rcode.to_owned());
        assert_eq!(verdict(&comparison, &figure), Verdict::Different, "{}", comparison.text());
    }
    assert!(comparison.text().contains("only in B: SERVFAIL (400)"), "{}", comparison.text());
    assert_eq!(verdict(&comparison, &Figure::Loss), Verdict::NoDifference, "{}", comparison.text());
    let json = serde_json::to_value(&comparison).unwrap();
    let figures: Vec<_> = json["differences"].as_array().unwrap().iter().map(|row| row["figure"].clone()).collect();
    assert_eq!(figures[4..], ["achieved_rate", "loss", "failures", "rcode_NOERROR", "rcode_SERVFAIL"]);
    assert_eq!(json["outcome"], "regression");
}

#[test]
fn fewer_failures_are_better_and_answers_are_neutral() {
    let mut random = ChaCha8Rng::seed_from_u64(22);
    let mut all = |rcode: &str| {
        let mut run = dead_in(&mut random, &[]);
        for row in &mut run.recording.rows {
            row.rcodes = BTreeMap::from([(rcode.to_owned(), 1_000)]);
        }
        run
    };
    let (failing, none, there) = (all("SERVFAIL"), all("NXDOMAIN"), all("NOERROR"));
    let fixed = compare(&failing, &none, &OPTIONS).unwrap();
    assert_eq!(verdict(&fixed, &Figure::Failures), Verdict::Better, "{}", fixed.text());
    assert_eq!(fixed.outcome, Outcome::None, "{}", fixed.text());
    assert!(!fixed.text().contains("only in B"), "{}", fixed.text());
    let broken = compare(&none, &failing, &OPTIONS).unwrap();
    assert_eq!(verdict(&broken, &Figure::Failures), Verdict::Regression, "{}", broken.text());
    for (a, b) in [(&there, &none), (&none, &there), (&failing, &all("REFUSED"))] {
        let shifted = compare(a, b, &OPTIONS).unwrap();
        assert_eq!(shifted.outcome, Outcome::None, "{}", shifted.text());
        assert!(shifted.text().contains("; different: "), "{}", shifted.text());
    }
}

#[test]
fn percentiles_of_too_few_queries_are_undecided() {
    let mut random = ChaCha8Rng::seed_from_u64(21);
    let few = |mut run: Run, ns: u64| {
        for row in &mut run.recording.rows {
            row.latency = Distribution::of([(ns, 10)]);
        }
        run
    };
    let (a, b) = (few(dead_in(&mut random, &[]), 1_000_000), few(dead_in(&mut random, &[]), 1_500_000));
    // With 200 queries, p99.9 is the largest value.
    let comparison = compare(&a, &b, &OPTIONS).unwrap();
    assert_eq!(verdict(&comparison, &Figure::P50), Verdict::Regression, "{}", comparison.text());
    assert_eq!(verdict(&comparison, &Figure::P99_9), Verdict::Undecided, "{}", comparison.text());
}

#[test]
fn ten_percent_slower_is_detected() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let (a, b) = (run(&mut random, 1.0, 0.0), run(&mut random, 1.1, 0.0));
    let comparison = compare(&a, &b, &OPTIONS).unwrap();
    assert!(comparison.is_regression, "{}", comparison.text());
    assert_eq!(verdict(&comparison, &Figure::P50), Verdict::Regression, "{}", comparison.text());
    assert!((comparison.differences[0].change - 1.1).abs() < 0.03);
    let back = compare(&b, &a, &OPTIONS).unwrap();
    assert!(!back.is_regression && verdict(&back, &Figure::P50) == Verdict::Better, "{}", back.text());
}

#[test]
fn lost_answers_are_found() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let (a, b) = (run(&mut random, 1.0, 0.0), run(&mut random, 1.0, 0.02));
    let comparison = compare(&a, &b, &OPTIONS).unwrap();
    assert_eq!(verdict(&comparison, &Figure::Loss), Verdict::Regression, "{}", comparison.text());
    assert_eq!(verdict(&comparison, &Figure::AchievedRate), Verdict::Worse, "{}", comparison.text());
}

#[test]
fn queries_of_one_second_are_not_independent() {
    let mut random = ChaCha8Rng::seed_from_u64(10);
    let a = run(&mut random, 1.0, 0.0);
    let mut b = run(&mut random, 1.0, 0.0);
    // One second in forty takes three times as long: its 600 queries are 2.5 % of all.
    let slow = b.recording.rows[20].latency.entries().iter().map(|&(value, count)| (value * 3, count));
    b.recording.rows[20].latency = Distribution::of(slow.collect::<Vec<_>>());
    let comparison = compare(&a, &b, &OPTIONS).unwrap();
    assert!(comparison.differences[2].change > 1.1, "{}", comparison.text());
    assert_eq!(verdict(&comparison, &Figure::P99), Verdict::Undecided, "{}", comparison.text());
}

#[test]
fn incomparable_runs_are_refused() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (a, mut b) = (run(&mut random, 1.0, 0.0), run(&mut random, 1.0, 0.0));
    assert!(compare(&a, &b, &CompareOptions { skip_seconds: 36.0, ..OPTIONS }).unwrap_err().contains("4 seconds"));
    for row in &mut b.recording.rows {
        row.latency = Distribution::default();
    }
    assert!(compare(&a, &b, &OPTIONS).unwrap_err().contains("no latency"));
}

#[test]
fn equal_seeds_give_equal_results() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let (a, b) = (run(&mut random, 1.0, 0.0), run(&mut random, 1.02, 0.0));
    let [one, other] = [0, 1].map(|_| compare(&a, &b, &OPTIONS).unwrap().text());
    assert_eq!(one, other);
}

#[test]
fn quantiles_of_interleaved_runs() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let mut side = |scale: f64| -> Vec<Run> { (0..3).map(|_| run(&mut random, scale, 0.0)).collect() };
    let (still, same, slower) = (side(1.0), side(1.0), side(1.3));
    let none = compare_quantile(&still, &same, 0.99, Since::Planned, 1).unwrap();
    assert_eq!(none.queries, [(3 * SECONDS * QUERIES) as u64; 2], "the seconds of all three runs");
    assert!(none.interval[0] < 1.0 && none.interval[1] > 1.0 && none.interval[1] < 1.1, "{none:?}");
    let found = compare_quantile(&still, &slower, 0.99, Since::Planned, 1).unwrap();
    assert!(found.interval[0] > 1.2 && found.interval[1] < 1.4, "{found:?}");
    assert!((found.ratio - found.b_us / found.a_us).abs() < 1e-9);
    // Distributions that were not recorded cannot be compared.
    assert!(compare_quantile(&still, &same, 0.99, Since::Sent, 1).unwrap_err().contains("no latency"));
}

#[test]
fn the_median_second_ignores_short_stops_and_finds_lasting_changes() {
    let mut random = ChaCha8Rng::seed_from_u64(14);
    let mut side = |scale: f64| -> Vec<Run> { (0..3).map(|_| run(&mut random, scale, 0.0)).collect() };
    let (still, mut stopped, slower) = (side(1.0), side(1.0), side(1.3));
    // In each run, two seconds take ten times as long and have all of the slowest 1 % of the queries.
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
