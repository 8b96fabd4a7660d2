//! Checks whether the queries of a trace arrive on time. UDP uses the kernel's receive timestamps at the far end.
//! Connections use the time at which the server has read the query.

use super::judged::{Judged, Spread};
use super::machine::{SERVER_CORE, Server, TOOL_CORE, pinned, role};
use super::options::Options;
use super::roles::read_arrivals;
use super::shapes::{SHAPES, Shape};
use super::table::{Row, Verdict, spread, thousands};
use super::timing_plot::{self, TimingPlot};
use super::traces::{self, Made};
use report::{ReplayFigures, Run};
use std::time::UNIX_EPOCH;

const SECOND_NS: u64 = 1_000_000_000;
/// Budgets: quartiles and p99 of the difference from the plan, and the rate of the run.
const QUARTILE_US_MAX: f64 = 20.0;
const P99_US_MAX: f64 = 100.0;
const RATE_ERROR_MAX: f64 = 1e-4;
/// A run that lost a larger share of its queries is not judged.
const LOST_MAX: f64 = 0.01;

/// One run, measured at the far end and by the sender.
struct TimingRun {
    judged: Judged,
    own: ReplayFigures,
    is_valid: bool,
}

/// Runs all selected traces.
pub(crate) fn rows(options: &Options) -> Result<Vec<Row>, String> {
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for shape in SHAPES.iter().filter(|shape| options.traces.iter().any(|label| label == shape.label)) {
        let made = traces::make(options, shape)?;
        let mut runs = Vec::new();
        for repeat in 0..options.repeats {
            let seen = run(options, shape, &made)?;
            eprintln!("{} {}: {}", shape.name, repeat + 1, seen.judged.distance.describe());
            runs.push(seen);
        }
        rows.extend(figures(options, shape, &runs));
        all.push(TimingPlot::of(shape, &middle_of(&runs).judged, runs.iter().map(|seen| &seen.judged)));
    }
    if let Some(folder) = &options.pictures {
        timing_plot::timing(folder, options, &all)?;
    }
    Ok(rows)
}

fn run(options: &Options, shape: &Shape, made: &Made) -> Result<TimingRun, String> {
    let [notes, read] = ["arrivals", "read"].map(|name| options.folder.join(name));
    let datagrams = Server::start(role(Some(SERVER_CORE), &["far-end", &notes.to_string_lossy()]))?;
    let connections = Server::start(role(Some(SERVER_CORE), &["witness", &read.to_string_lossy()]))?;
    let out = options.folder.join("run");
    let mut command = pinned(TOOL_CORE, &options.catlab);
    command.arg("replay").arg(&made.path);
    command.args(["--quiet", "--server", &datagrams.address, "--ports", &connections.address, "--insecure"]);
    command.args(["--workers", "1", "--timeout", "1s", "--idle-timeout", "5s", "--force", "--out"]).arg(&out);
    if let Some(transport) = shape.transport {
        command.args(["--transport", transport]);
    }
    let output = command.output().map_err(|error| format!("catlab: {error}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("catlab: {}", String::from_utf8_lossy(&output.stderr)));
    }
    datagrams.end();
    connections.end();
    let run = Run::read(&out).map_err(|error| error.to_string())?;
    let start_ns = run.recording.started.duration_since(UNIX_EPOCH).expect("a time after 1970").as_nanos() as i64;
    let is_valid = !run.is_invalid();
    let own = run.summary.and_then(|summary| summary.replay).ok_or("a run without the figures of a replay")?;
    let mut arrived = vec![None; made.planned.len()];
    for arrival in [notes, read].iter().flat_map(|path| read_arrivals(path)) {
        let first_arrival = arrived.get_mut(arrival.number as usize).ok_or("a query that is not in the trace")?;
        // A query that is repeated on a new connection counts when it first arrived.
        first_arrival.get_or_insert(arrival.at_ns as i64 - start_ns);
    }
    let judged = Judged::of(&made.planned, &arrived, options.skip * SECOND_NS)
        .map_err(|error| format!("{}: {error}", shape.name))?;
    if judged.lost as f64 > LOST_MAX * judged.queries as f64 {
        return Err(format!("{}: {} queries did not arrive, {} did", shape.name, judged.lost, judged.queries));
    }
    Ok(TimingRun { judged, own, is_valid })
}

fn figures(options: &Options, shape: &Shape, runs: &[TimingRun]) -> Vec<Row> {
    let median =
        |value: &dyn Fn(&Judged) -> f64| spread(&runs.iter().map(|seen| value(&seen.judged)).collect::<Vec<_>>());
    let verdict = |is_met: bool| if shape.has_budget { Verdict::of(is_met) } else { Verdict::Informs };
    let budget = |text: String| if shape.has_budget { text } else { String::new() };
    let invalid = runs.iter().filter(|seen| !seen.is_valid).count();
    let lost = runs.iter().map(|seen| seen.judged.lost).sum::<usize>();
    let TimingRun { judged: middle, own, .. } = middle_of(runs);
    let (quartile, least, most) = median(&|run| run.distance.farther_quartile());
    let (hundredth, hundredth_least, hundredth_most) = median(&|run| run.distance.farther_hundredth());
    let (rate, rate_least, rate_most) = median(&|run| run.rate_error * 1e6);
    let (near, near_least, near_most) = median(&|run| run.near * 100.0);
    let what = |figure: &str| format!("{}: {figure}", shape.name);
    vec![
        Row {
            what: what("farther quartile from the plan"),
            figure: format!("{quartile:.1} us ({least:.1} to {most:.1})"),
            budget: budget(format!("<= {QUARTILE_US_MAX} us")),
            verdict: verdict(quartile <= QUARTILE_US_MAX),
            note: format!(
                "least, quartiles, most of the run in the middle: {}; judged: {} s and {} queries of each of {} runs{}",
                middle.distance.describe(),
                options.seconds - options.skip,
                thousands(middle.queries as f64),
                runs.len(),
                if lost > 0 { format!(", {lost} did not arrive") } else { String::new() }
            ),
        },
        Row {
            what: what("p99 from the plan"),
            figure: format!("{hundredth:.1} us ({hundredth_least:.1} to {hundredth_most:.1})"),
            budget: budget(format!("<= {P99_US_MAX} us")),
            verdict: verdict(hundredth <= P99_US_MAX),
            note: own.send_error_us.as_ref().map_or_else(String::new, |own| {
                let (q1, p50, q3, p99) = (own.q1, own.p50, own.q3, own.p99);
                format!("its own word: quartiles {q1:.1} / {p50:.1} / {q3:.1} us, p99 {p99:.1} us")
            }),
        },
        Row {
            what: what("rate"),
            figure: format!("{rate:.1} ppm ({rate_least:.1} to {rate_most:.1})"),
            budget: budget(format!("<= {} ppm", RATE_ERROR_MAX * 1e6)),
            verdict: verdict(rate <= RATE_ERROR_MAX * 1e6),
            note: format!("{invalid} of {} runs reported INVALID", runs.len()),
        },
        Row {
            what: what("seconds within 0.1 % of their rate"),
            figure: format!("{near:.1} % ({near_least:.1} to {near_most:.1})"),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: seconds(&middle.seconds, own.second_rate_error.and_then(|seconds| seconds.near)),
        },
        Row {
            what: what("intervals"),
            figure: format!("farther quartile {:.1} us", median(&|run| run.interval.farther_quartile()).0),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: format!(
                "least, quartiles, most of the run in the middle: {}; at 1, 25, 50, 75 and 99 % of them {} us as \
                 planned, {} us as they arrived",
                middle.interval.describe(),
                middle.intervals[0].points(),
                middle.intervals[1].points()
            ),
        },
    ]
}

/// The median run.
fn middle_of(runs: &[TimingRun]) -> &TimingRun {
    let mut order: Vec<&TimingRun> = runs.iter().collect();
    let hundredth = |seen: &TimingRun| seen.judged.distance.farther_hundredth();
    order.sort_by(|one, other| hundredth(one).total_cmp(&hundredth(other)));
    order[order.len() / 2]
}

/// Seconds of the median run.
fn seconds(errors: &Spread, own: Option<f64>) -> String {
    let [q1, median, q3] = errors.quartiles.map(|error| error * 100.0);
    let own = own.map_or_else(String::new, |near| format!("; its own word, of all seconds: {:.1} %", near * 100.0));
    format!(
        "quartiles of {} seconds of the run in the middle {q1:.4} / {median:.4} / {q3:.4} %, worst {:.4} %{own}",
        errors.count,
        errors.farther_end() * 100.0
    )
}
