//! Checks whether queries leave on schedule, using the kernel's receive timestamps at the far end.

use super::contest::SOCKETS;
use super::machine::{SERVER_CORE, Server, TOOL_CORE, pinned, role};
use super::options::Options;
use super::roles::{Arrival, read_arrivals};
use super::table::{Row, Verdict, spread};
use report::Run;
use std::process::Command;
use std::time::UNIX_EPOCH;

/// Queries per second of the runs in which the sender has its own core.
const RATES: [u64; 3] = [1_000, 10_000, 50_000];
/// Queries per second of the runs on busy cores.
const BUSY_RATE: u64 = 10_000;
/// Runs per rate.
const REPEATS: usize = 5;
/// Seconds per run.
const SECONDS: u64 = 4;
/// Budgets: quartiles and p99 of the difference from the plan, the rate of the run, and the queries of each second.
const QUARTILE_US_MAX: f64 = 20.0;
const P99_US_MAX: f64 = 100.0;
const RATE_ERROR_MAX: f64 = 1e-4;
const SECOND_ERROR_MAX: f64 = 1e-3;
/// Budget for p99 on busy cores. A run that exceeds it must report so.
const BUSY_P99_US_MAX: f64 = 1_000.0;

/// One run, measured at the far end.
struct PacingRun {
    /// The quartile that is farther from the plan, in microseconds.
    quartile_us: f64,
    /// p99 of the difference from the plan, in microseconds.
    p99_us: f64,
    /// Rate error of the whole run, as a share.
    rate_error: f64,
    /// How many queries the worst second had too many or too few.
    second_error: f64,
    /// Whether the tool itself called the run valid.
    is_valid: bool,
}

/// Runs with one core for the sender and one for the far end.
pub(crate) fn alone(options: &Options) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for rate in RATES {
        let runs: Vec<PacingRun> = (0..REPEATS).map(|_| run(options, rate, false)).collect::<Result<_, _>>()?;
        let second_max = (rate as f64 * SECOND_ERROR_MAX).max(1.0);
        for (what, unit, budget, value) in [
            (
                "farther quartile from the plan",
                " us",
                QUARTILE_US_MAX,
                (|seen| seen.quartile_us) as fn(&PacingRun) -> f64,
            ),
            ("p99 from the plan", " us", P99_US_MAX, |seen| seen.p99_us),
            ("rate of the run", " ppm", RATE_ERROR_MAX * 1e6, |seen| seen.rate_error * 1e6),
            ("worst second", " queries", second_max, |seen| seen.second_error),
        ] {
            let (median, least, most) = spread(&runs.iter().map(value).collect::<Vec<_>>());
            rows.push(Row {
                what: format!("pacing at {rate} q/s: {what}"),
                figure: format!("{median:.1}{unit} ({least:.1} to {most:.1})"),
                budget: format!("<= {budget}{unit}"),
                verdict: Verdict::of(median <= budget),
                note: format!("median of {REPEATS} runs of {SECONDS} s"),
            });
        }
    }
    Ok(rows)
}

/// Runs with a busy thread on every core and a sender at nice -15.
pub(crate) fn among_busy(options: &Options) -> Result<Vec<Row>, String> {
    let what = format!("pacing at {BUSY_RATE} q/s, every core busy, sender at nice -15: p99");
    let budget = format!("<= {BUSY_P99_US_MAX} us, or INVALID");
    let may = Command::new("nice").args(["-n", "-15", "true"]).output();
    if !may.is_ok_and(|output| output.status.success() && output.stderr.is_empty()) {
        let note = "only root may take nice -15".into();
        return Ok(vec![Row { what, figure: String::new(), budget, verdict: Verdict::Absent, note }]);
    }
    let runs: Vec<PacingRun> = (0..REPEATS).map(|_| run(options, BUSY_RATE, true)).collect::<Result<_, _>>()?;
    let (median, least, most) = spread(&runs.iter().map(|seen| seen.p99_us).collect::<Vec<_>>());
    let late = runs.iter().filter(|seen| seen.p99_us > BUSY_P99_US_MAX).count();
    let silent = runs.iter().filter(|seen| seen.p99_us > BUSY_P99_US_MAX && seen.is_valid).count();
    Ok(vec![Row {
        what,
        figure: format!("{median:.0} us ({least:.0} to {most:.0})"),
        budget,
        verdict: Verdict::of(silent == 0),
        note: format!("{REPEATS} runs, {late} beyond the budget, {silent} of these not reported as INVALID"),
    }])
}

fn run(options: &Options, rate: u64, is_busy: bool) -> Result<PacingRun, String> {
    let notes = options.folder.join("arrivals");
    let words = ["far-end", &notes.to_string_lossy(), if is_busy { "busy" } else { "idle" }];
    let server = Server::start(role((!is_busy).then_some(SERVER_CORE), &words))?;
    let out = options.folder.join("run");
    let mut command = if is_busy {
        let mut command = Command::new("nice");
        command.args(["-n", "-15"]).arg(&options.catlab);
        command
    } else {
        pinned(TOOL_CORE, &options.catlab)
    };
    command.args(["load", "--quiet", "--server", &server.address, "--workers", "1"]);
    command.args(["--sockets", &SOCKETS.to_string(), "--rate", &rate.to_string()]);
    command.args(["--duration", &format!("{SECONDS}s"), "--popularity", "sequential", "--name", "q{n}.example"]);
    command.args(["--names", &(rate * SECONDS).to_string()]).arg("--force").arg("--out").arg(&out);
    let output = command.output().map_err(|error| format!("catlab: {error}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("catlab: {}", String::from_utf8_lossy(&output.stderr)));
    }
    server.end();
    let run = Run::read(&out).map_err(|error| error.to_string())?;
    let start = run.recording.started.duration_since(UNIX_EPOCH).expect("a time after 1970").as_nanos() as u64;
    judge(&read_arrivals(&notes), start, rate, !run.is_invalid())
}

fn judge(arrivals: &[Arrival], start_ns: u64, rate: u64, is_valid: bool) -> Result<PacingRun, String> {
    let planned = rate * SECONDS;
    if arrivals.len() as u64 != planned {
        return Err(format!("{} queries arrived of {planned}", arrivals.len()));
    }
    let distance = |arrival: &Arrival| {
        let planned_ns = arrival.number as f64 * 1e9 / rate as f64;
        (arrival.at_ns as f64 - start_ns as f64 - planned_ns) / 1e3
    };
    let mut distances: Vec<f64> = arrivals.iter().map(distance).collect();
    distances.sort_by(f64::total_cmp);
    let at = |share: f64| distances[((planned as f64 * share) as usize).min(distances.len() - 1)];
    let (first, last) = (arrivals.iter().min_by_key(|at| at.at_ns), arrivals.iter().max_by_key(|at| at.at_ns));
    let span_ns = last.zip(first).map_or(0, |(last, first)| last.at_ns - first.at_ns);
    let seen_rate = (planned - 1) as f64 * 1e9 / span_ns as f64;
    let mut seconds = [0u64; SECONDS as usize];
    for arrival in arrivals {
        let second = arrival.at_ns.saturating_sub(start_ns) / 1_000_000_000;
        seconds[(second as usize).min(seconds.len() - 1)] += 1;
    }
    Ok(PacingRun {
        quartile_us: at(0.25).abs().max(at(0.75).abs()),
        p99_us: at(0.99).abs().max(at(0.01).abs()),
        rate_error: (seen_rate / rate as f64 - 1.0).abs(),
        second_error: seconds.iter().map(|count| count.abs_diff(rate)).max().unwrap_or_default() as f64,
        is_valid,
    })
}
