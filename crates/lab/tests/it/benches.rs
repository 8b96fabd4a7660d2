//! Tests of how the benches judge and report. The benches themselves are not run.

#[path = "../../benches/tail_latency/every_second.rs"]
mod every_second;
#[path = "../../benches/replay/judged.rs"]
#[expect(dead_code, reason = "only the bench uses the rest")]
mod judged;
#[path = "../../benches/support/line.rs"]
mod line;
#[path = "../../benches/read/load_time.rs"]
mod load_time;
#[path = "../../benches/support/table.rs"]
#[expect(dead_code, reason = "only the benches use the rest")]
mod table;
#[path = "../../benches/write/unanswered.rs"]
mod unanswered;
#[path = "../../benches/transports/window.rs"]
mod window;

use judged::Judged;
use measure::Distribution;
use report::{Recording, Run, Sample};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use table::{Budgets, Row, Verdict};

fn row(budget: &str, verdict: Verdict) -> Row {
    Row { what: String::new(), figure: String::new(), budget: budget.into(), verdict, note: String::new() }
}

#[test]
fn an_unmeasured_budget_is_not_met() {
    let fine = [row(">= 1", Verdict::Met), row("", Verdict::Informs)];
    assert!(Budgets::of(&fine).are_met());
    // A peer without the feature has no budget.
    let without = [row(">= 1", Verdict::Met), row("", Verdict::Absent)];
    assert!(Budgets::of(&without).are_met());
    let unmeasured = Budgets::of(&[row(">= 1", Verdict::Met), row(">= 1", Verdict::Absent)]);
    assert!(!unmeasured.are_met());
    assert_eq!(unmeasured.to_string(), "0 budgets not met, 1 not measured");
    let all = [Verdict::Missed, Verdict::Undecided, Verdict::Absent, Verdict::Met].map(|verdict| row(">= 1", verdict));
    assert_eq!(Budgets::of(&all).to_string(), "2 budgets not met, 1 not measured");
}

#[test]
fn one_unanswered_query_or_update_misses_its_budget() {
    let budgets = |still, disturbed, lost, unanswered| {
        let rows = [unanswered::without_an_answer([still, disturbed]), unanswered::lost_updates(lost, unanswered)];
        Budgets::of(&rows)
    };
    assert!(budgets(0, 0, 0, 0).are_met());
    for (still, disturbed, lost) in [(0, 1, 0), (1, 0, 0), (0, 0, 1)] {
        assert!(!budgets(still, disturbed, lost, 0).are_met());
    }
    // An update that was done but not answered counts as lost.
    assert_eq!(budgets(0, 0, 0, 1).to_string(), "0 budgets not met, 1 not measured");
    assert_eq!(budgets(0, 0, 1, 1).to_string(), "1 budgets not met, 0 not measured");
}

#[test]
fn opening_connections_is_not_counted_as_cost_of_answers() {
    let sample = |(at, cores): (f64, f64)| Sample { at, cpu_cores: Some(cores), ..Sample::default() };
    let cores = |samples: &[(f64, f64)]| {
        let samples: Vec<_> = samples.iter().copied().map(sample).collect();
        window::cores(&samples, 4.0)
    };
    // No samples were taken during the handshakes. The first interval began before the run and is left out.
    assert_eq!(cores(&[(-3.0, 1.0), (0.7, 1.0), (1.2, 0.5), (1.7, 0.5), (4.2, 0.1)]), Some(0.5));
    // Samples are weighted by their lengths.
    assert_eq!(cores(&[(0.5, 1.0), (1.0, 1.0), (2.5, 0.5)]), Some(0.625));
    assert_eq!(cores(&[(-0.5, 1.0), (0.5, 1.0)]), None);
    assert_eq!([window::rounds(4, 5), window::rounds(5, 5)], ["; 4 of 5 rounds", ""]);
}

#[test]
fn the_load_time_budget_is_that_of_the_fastest_rival() {
    let budget = || "<= 0.83 s: NSD and Knot".to_owned();
    assert_eq!(load_time::judge(0.80, &[0.83, 0.94]), (budget(), Verdict::Met));
    assert_eq!(load_time::judge(0.90, &[0.83, 0.94]), (budget(), Verdict::Missed));
    assert_eq!(load_time::judge(0.90, &[0.94, 0.83]), (budget(), Verdict::Missed));
    // One rival is not installed: it may be the faster one.
    assert_eq!(load_time::judge(0.80, &[0.83, f64::NAN]), (budget(), Verdict::Absent));
    assert_eq!(load_time::judge(0.90, &[0.83, f64::NAN]), (budget(), Verdict::Missed));
    assert_eq!(load_time::judge(0.80, &[f64::NAN; 2]), ("<= NSD and Knot".into(), Verdict::Absent));
    // No rival was selected.
    assert_eq!(load_time::judge(0.80, &[]), (String::new(), Verdict::Informs));
}

#[test]
fn the_recorded_command_can_be_repeated_and_has_no_machine_paths() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let document = root.join("docs/history/read-path.md");
    let words = [
        "--only",
        "udp,weight",
        "--rounds",
        "7",
        "--bench",
        "--write",
        document.to_str().unwrap(),
        "--catlab",
        "/home/somebody/builds/catlab",
        "--pictures",
        "docs/it's here",
        "--name",
        "",
    ];
    assert_eq!(
        line::line("cargo xtask bench read", words.into_iter().map(str::to_owned), &root),
        "cargo xtask bench read --only udp,weight --rounds 7 --write docs/history/read-path.md --catlab catlab \
         --pictures 'docs/it'\\''s here' --name ''"
    );
}

/// A turn with one list of latencies per second: (microseconds, number of queries).
fn turn(seconds: &[&[(u64, u64)]]) -> Run {
    let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
    recording.rows = seconds.iter().enumerate().map(|(index, latencies)| second(index, latencies)).collect();
    let total = recording.total();
    let (label, origin) = ("turn".into(), "catlab load".into());
    Run { label, origin, summary: None, manifest: None, total, recording, notes: Vec::new() }
}

fn second(index: usize, latencies: &[(u64, u64)]) -> measure::Row {
    let latency = Distribution::of(latencies.iter().map(|&(micros, count)| (micros * 1_000, count)));
    measure::Row { start_seconds: index as f64, span_seconds: 1.0, sent: latency.n(), latency, ..Default::default() }
}

#[test]
fn every_second_of_a_side_has_a_row_with_its_quantiles() {
    let quiet: &[(u64, u64)] = &[(40, 10_000)];
    let stalled: &[(u64, u64)] = &[(40, 9_850), (900, 149), (5_000, 1)];
    let csv = every_second::csv(&[turn(&[quiet, stalled]), turn(&[quiet])]);
    let rows: Vec<Vec<f64>> =
        csv.lines().skip(1).map(|row| row.split(',').map(|field| field.parse().unwrap()).collect()).collect();
    assert_eq!(csv.lines().next(), Some("turn,second,sent,timed_out,p50_us,p99_us,p99_9_us,p99_99_us,max_us"));
    let turns: Vec<[f64; 4]> = rows.iter().map(|row| [row[0], row[1], row[2], row[3]]).collect();
    assert_eq!(turns, [[1.0, 0.0, 10_000.0, 0.0], [1.0, 1.0, 10_000.0, 0.0], [2.0, 0.0, 10_000.0, 0.0]]);
    // Histogram buckets are accurate to a few per mille.
    for (at, want) in [(0, [40.0; 5]), (1, [40.0, 900.0, 900.0, 900.0, 5_000.0]), (2, [40.0; 5])] {
        let is_near = rows[at][4..].iter().zip(want).all(|(got, want)| (got - want).abs() <= want / 100.0);
        assert!(is_near, "{:?}", rows[at]);
    }
}

const MS: u64 = 1_000_000;

/// One query every 100 ms for `seconds`, and when each arrives: `late_ns` nanoseconds after its time.
fn arrivals(seconds: u64, late_ns: impl Fn(u64) -> Option<i64>) -> (Vec<u64>, Vec<Option<i64>>) {
    let planned: Vec<u64> = (0..seconds * 10).map(|number| number * 100 * MS).collect();
    let arrived = (0..).zip(&planned).map(|(number, &at)| late_ns(number).map(|late| at as i64 + late)).collect();
    (planned, arrived)
}

#[test]
fn a_replay_is_judged_without_its_first_seconds() {
    // The first two seconds are left out and are a second late. Then each query is 3 us late, and one is 2 ms late.
    let (planned, arrived) = arrivals(6, |number| match number {
        0..20 => Some(1_000 * MS as i64),
        30 => Some(2 * MS as i64),
        _ => Some(3_000),
    });
    let judged = Judged::of(&planned, &arrived, 2_000 * MS).unwrap();
    assert_eq!((judged.queries, judged.lost, judged.near), (40, 0, 1.0));
    assert_eq!((judged.distance.quartiles, judged.distance.ends), ([3.0; 3], [3.0, 2_000.0]));
    assert_eq!((judged.interval.quartiles, judged.interval.ends), ([0.0; 3], [-1_997.0, 1_997.0]));
    assert_eq!(judged.intervals.map(|intervals| intervals.quartiles), [[100_000.0; 3]; 2]);
    assert!(judged.rate_error < 1e-9, "{}", judged.rate_error);
    assert!(Judged::of(&planned, &arrived, 6_000 * MS).is_err());
}

#[test]
fn a_curve_of_many_values_keeps_the_first_the_last_and_some_between() {
    let curve = |count: u32| judged::Spread::of((0..count).rev().map(f64::from).collect()).curve;
    assert_eq!((curve(1), curve(3)), (vec![0.0], vec![0.0, 1.0, 2.0]));
    let many = curve(10_000);
    assert_eq!((many.len(), many[0], many[many.len() - 1]), (500, 0.0, 9_999.0));
    assert!(many.is_sorted() && (many[250] - 5_000.0).abs() < 25.0, "{}", many[250]);
}

#[test]
fn a_second_that_lost_a_query_misses_the_planned_rate() {
    // The last query of the third second arrives in the fourth and one of the fifth is lost: the rate of three of eight
    // seconds is off by 10 %.
    let (planned, arrived) = arrivals(8, |number| match number {
        29 => Some(150 * MS as i64),
        44 => None,
        _ => Some(0),
    });
    let judged = Judged::of(&planned, &arrived, 0).unwrap();
    assert_eq!((judged.queries, judged.lost, judged.seconds.count), (79, 1, 8));
    assert_eq!(judged.near, 0.625);
    let [least, most] = judged.seconds.ends;
    assert!((least + 0.1).abs() < 1e-9 && (most - 0.1).abs() < 1e-9, "{least} {most}");
    // At half the speed the rate error is 0.5.
    let arrived: Vec<_> = planned.iter().map(|&at| Some(2 * at as i64)).collect();
    assert!((Judged::of(&planned, &arrived, 0).unwrap().rate_error - 0.5).abs() < 1e-9);
}
