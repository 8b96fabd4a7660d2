//! Whether queries of a trace arrive when it says, judged at the far end by the kernel's stamps.

use super::Options;
use super::machine::{SERVER_CORE, Server, TOOL_CORE, pinned, role};
use super::roles::{Arrival, read_arrivals};
use super::table::{Row, Verdict, spread};
use super::traces::{self, Shape};
use lab::report::Run;
use std::time::UNIX_EPOCH;

const SECOND_NS: u64 = 1_000_000_000;
/// Budgets: quartiles from the plan, the last hundredth, the rate of the run.
const QUARTILE_US_MAX: f64 = 20.0;
const P99_US_MAX: f64 = 100.0;
const RATE_ERROR_MAX: f64 = 1e-4;

/// One run: from the far end, and in the sender's own words.
struct Seen {
    /// Distances from the plan, and of intervals from theirs; microseconds.
    distance: Spread,
    interval: Spread,
    /// Of the whole run, and of the worst second, as a share.
    rate_error: f64,
    second_error: f64,
    /// What the sender says of quartiles and p99.
    own: [f64; 4],
    is_valid: bool,
}

/// A distribution around zero.
#[derive(Clone, Copy)]
struct Spread {
    quartiles: [f64; 3],
    p1: f64,
    p99: f64,
    ends: [f64; 2],
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() as f64 * share) as usize).min(values.len() - 1)];
        Self {
            quartiles: [at(0.25), at(0.5), at(0.75)],
            p1: at(0.01),
            p99: at(0.99),
            ends: [values[0], values[values.len() - 1]],
        }
    }

    fn farther_quartile(&self) -> f64 {
        self.quartiles[0].abs().max(self.quartiles[2].abs())
    }

    fn farther_hundredth(&self) -> f64 {
        self.p1.abs().max(self.p99.abs())
    }

    fn told(&self) -> String {
        let [q1, median, q3] = self.quartiles;
        let [least, most] = self.ends;
        format!("{least:.1} / {q1:.1} / {median:.1} / {q3:.1} / {most:.1} us, p99 {:.1} us", self.p99)
    }
}

/// All traces.
pub(crate) fn rows(options: &Options) -> Result<Vec<Row>, String> {
    let trace = options.folder.join("trace.pcap");
    let mut rows = Vec::new();
    for shape in traces::shapes(options.seconds) {
        traces::write(&trace, &shape.planned)?;
        let mut runs = Vec::new();
        for repeat in 0..options.repeats {
            let seen = run(options, &shape)?;
            eprintln!("{} {}: {}", shape.name, repeat + 1, seen.distance.told());
            runs.push(seen);
        }
        rows.extend(figures(&shape, &runs));
    }
    Ok(rows)
}

fn run(options: &Options, shape: &Shape) -> Result<Seen, String> {
    let notes = options.folder.join("arrivals");
    let server = Server::start(role(Some(SERVER_CORE), &["far-end", &notes.to_string_lossy()]))?;
    let out = options.folder.join("run");
    let mut command = pinned(TOOL_CORE, &options.catlab);
    command.arg("replay").arg(options.folder.join("trace.pcap"));
    command.args(["--quiet", "--server", &server.address, "--workers", "1", "--timeout", "1s", "--out"]).arg(&out);
    let output = command.output().map_err(|error| format!("catlab: {error}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("catlab: {}", String::from_utf8_lossy(&output.stderr)));
    }
    server.end();
    let run = Run::read(&out).map_err(|error| error.to_string())?;
    let start_ns = run.recording.started.duration_since(UNIX_EPOCH).expect("a time after 1970").as_nanos() as u64;
    let is_valid = !run.is_invalid();
    let own = run.summary.and_then(|summary| summary.replay?.send_error_us).ok_or("a run without its send error")?;
    judge(options, shape, &read_arrivals(&notes), start_ns, ([own.q1, own.p50, own.q3, own.p99], is_valid))
}

fn judge(
    options: &Options,
    shape: &Shape,
    arrivals: &[Arrival],
    start_ns: u64,
    (own, is_valid): ([f64; 4], bool),
) -> Result<Seen, String> {
    let planned = &shape.planned;
    if arrivals.len() != planned.len() {
        return Err(format!("{}: {} queries arrived of {}", shape.name, arrivals.len(), planned.len()));
    }
    let mut arrived: Vec<_> = arrivals.to_vec();
    arrived.sort_unstable();
    // The beginning is left out, as in the paper.
    let kept: Vec<(u64, u64)> = arrived
        .iter()
        .zip(planned)
        .filter(|&(_, &planned_ns)| planned_ns >= options.skip * SECOND_NS)
        .map(|(arrival, &planned_ns)| (arrival.at_ns, planned_ns))
        .collect();
    if kept.len() < 2 {
        return Err(format!("{}: fewer than two queries after {} s", shape.name, options.skip));
    }
    let us = |ns: f64| ns / 1e3;
    let distance = kept.iter().map(|&(at, planned)| us(at as f64 - start_ns as f64 - planned as f64)).collect();
    let step = |pair: &[(u64, u64)]| us((pair[1].0 as f64 - pair[0].0 as f64) - (pair[1].1 as f64 - pair[0].1 as f64));
    let interval = kept.windows(2).map(step).collect();
    let (first, last) = (kept[0], kept[kept.len() - 1]);
    let rate_error = ((last.1 - first.1) as f64 / (last.0 as f64 - first.0 as f64) - 1.0).abs();
    let mut seconds = vec![[0_u64; 2]; options.seconds as usize + 1];
    for &(at_ns, planned_ns) in &kept {
        seconds[(planned_ns / SECOND_NS) as usize][0] += 1;
        let second = (at_ns.saturating_sub(start_ns) / SECOND_NS) as usize;
        seconds[second.min(options.seconds as usize)][1] += 1;
    }
    let errors = seconds.iter().filter(|[planned, _]| *planned > 0);
    let second_error = errors.map(|[planned, seen]| (*seen as f64 / *planned as f64 - 1.0).abs()).fold(0.0, f64::max);
    Ok(Seen { distance: Spread::of(distance), interval: Spread::of(interval), rate_error, second_error, own, is_valid })
}

fn figures(shape: &Shape, runs: &[Seen]) -> Vec<Row> {
    let median = |value: &dyn Fn(&Seen) -> f64| spread(&runs.iter().map(value).collect::<Vec<_>>());
    let verdict = |is_met: bool| if shape.has_budget { Verdict::of(is_met) } else { Verdict::Informs };
    let budget = |text: String| if shape.has_budget { text } else { String::new() };
    let invalid = runs.iter().filter(|seen| !seen.is_valid).count();
    // The run in the middle, whole.
    let mut order: Vec<&Seen> = runs.iter().collect();
    order.sort_by(|one, other| one.distance.farther_hundredth().total_cmp(&other.distance.farther_hundredth()));
    let middle = order[order.len() / 2];
    let [q1, p50, q3, p99] = middle.own;
    let (quartile, least, most) = median(&|seen| seen.distance.farther_quartile());
    let (hundredth, hundredth_least, hundredth_most) = median(&|seen| seen.distance.farther_hundredth());
    let (rate, rate_least, rate_most) = median(&|seen| seen.rate_error * 1e6);
    let (second, ..) = median(&|seen| seen.second_error * 100.0);
    vec![
        Row {
            what: format!("{}: farther quartile from the plan", shape.name),
            figure: format!("{quartile:.1} us ({least:.1} to {most:.1})"),
            budget: budget(format!("<= {QUARTILE_US_MAX} us")),
            verdict: verdict(quartile <= QUARTILE_US_MAX),
            note: format!("least, quartiles, most of the run in the middle: {}", middle.distance.told()),
        },
        Row {
            what: format!("{}: p99 from the plan", shape.name),
            figure: format!("{hundredth:.1} us ({hundredth_least:.1} to {hundredth_most:.1})"),
            budget: budget(format!("<= {P99_US_MAX} us")),
            verdict: verdict(hundredth <= P99_US_MAX),
            note: format!("its own word: quartiles {q1:.1} / {p50:.1} / {q3:.1} us, p99 {p99:.1} us"),
        },
        Row {
            what: format!("{}: rate", shape.name),
            figure: format!("{rate:.1} ppm ({rate_least:.1} to {rate_most:.1})"),
            budget: budget(format!("<= {} ppm", RATE_ERROR_MAX * 1e6)),
            verdict: verdict(rate <= RATE_ERROR_MAX * 1e6),
            note: format!("worst second {second:.3} %; {invalid} of {} runs INVALID by their own word", runs.len()),
        },
        Row {
            what: format!("{}: intervals", shape.name),
            figure: format!("farther quartile {:.1} us", median(&|seen| seen.interval.farther_quartile()).0),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: format!("least, quartiles, most of the run in the middle: {}", middle.interval.told()),
        },
    ]
}
