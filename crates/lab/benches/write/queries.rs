//! Compares queries at a fixed rate with and without a maximum load of updates.

use super::load_run;
use super::lost::counts;
use super::options::Options;
use super::side::Side;
use super::sides::RunningSide;
use super::table::{Row, Verdict, spread, thousands};
use super::unanswered::{lost_updates, without_an_answer};
use super::zone::APEX;
use report::Run;
use report::regression::{QuantileRatio, Since, compare_quantile};
use std::path::Path;
use std::process::Command;

/// The cluster.
const SIDE: Side = Side::Catamaran(3);
/// Updates start this long before the queries and end this long after them.
const MARGIN_SECONDS: u64 = 1;
/// Number of names to update: more than a turn uses.
const NAMES: u64 = 1_000_000_000;
const PREFIX: &str = "u";

/// The results of one side over all turns.
#[derive(Default)]
struct Turns {
    runs: Vec<Run>,
    /// Updates acknowledged per second in each turn.
    updates: Vec<f64>,
    acknowledged: u64,
    unanswered: u64,
    lost: u64,
    /// Idle share of both cores in each turn.
    idle: Vec<f64>,
}

impl Turns {
    /// Unanswered queries.
    fn timed_out(&self) -> u64 {
        self.runs.iter().map(|run| run.figures().timed_out).sum()
    }
}

/// Runs both sides in turns. Each pair uses a new cluster.
pub(crate) fn during_updates(options: &Options) -> Result<Vec<Row>, String> {
    let [mut still, mut disturbed] = [Turns::default(), Turns::default()];
    for round in 0..options.rounds {
        let running = RunningSide::start(SIDE, options)?.ok_or("catamaran is not installed")?;
        // The sides take turns in coming first.
        let order = if round % 2 == 0 { [false, true] } else { [true, false] };
        for is_disturbed in order {
            let turns = if is_disturbed { &mut disturbed } else { &mut still };
            turn(options, &running, is_disturbed, round, turns)?;
        }
    }
    let mut rows = Vec::new();
    for (name, quantile, since) in [
        ("p50", 0.5, Since::Planned),
        ("p99", 0.99, Since::Planned),
        ("p99.9", 0.999, Since::Planned),
        ("p99.9 from the sending on", 0.999, Since::Sent),
    ] {
        let compared = compare_quantile(&still.runs, &disturbed.runs, quantile, since, 1)?;
        let QuantileRatio { a_us, b_us, ratio, interval: [low, high], queries } = compared;
        let is_first = rows.is_empty();
        rows.push(Row {
            what: format!("{}/s queries, {name}", thousands(options.query_rate as f64)),
            figure: format!(
                "{a_us:.0} us, {b_us:.0} us with updates: {ratio:.2} (95 % interval {low:.2} to {high:.2})"
            ),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: if is_first { note(&still, &disturbed, queries) } else { String::new() },
        });
    }
    rows.push(without_an_answer([&still, &disturbed].map(Turns::timed_out)));
    rows.push(lost_updates(disturbed.lost, disturbed.unanswered));
    Ok(rows)
}

/// How the figures were measured.
fn note(still: &Turns, disturbed: &Turns, queries: [u64; 2]) -> String {
    let (updates, low, high) = spread(&disturbed.updates);
    let lag = |turns: &Turns| {
        let of = turns.runs.iter().map(|run| run.total.send_lag.quantile(0.999) as f64 / 1e3);
        spread(&of.collect::<Vec<_>>()).0
    };
    format!(
        "{} and {} queries, {} and {} without an answer; {} updates/s ({} to {}) meanwhile, {} acknowledged, {} lost, \
         {} unanswered; send lag p99.9 {:.0} and {:.0} us; cores idle {:.2} and {:.2} of {}",
        thousands(queries[0] as f64),
        thousands(queries[1] as f64),
        still.timed_out(),
        disturbed.timed_out(),
        thousands(updates),
        thousands(low),
        thousands(high),
        thousands(disturbed.acknowledged as f64),
        disturbed.lost,
        disturbed.unanswered,
        lag(still),
        lag(disturbed),
        spread(&still.idle).0,
        spread(&disturbed.idle).0,
        std::thread::available_parallelism().map_or(1, usize::from)
    )
}

fn turn(
    options: &Options,
    running: &RunningSide,
    is_disturbed: bool,
    round: u64,
    turns: &mut Turns,
) -> Result<(), String> {
    let (run, used, updates) = std::thread::scope(|scope| {
        let writer = is_disturbed.then(|| {
            scope.spawn(|| {
                let seconds = options.seconds + 2 * MARGIN_SECONDS;
                let mut command = updates(options, running, round, seconds);
                load_run::run(&mut command, &options.folder.join("updates"), Vec::new()).map(|(run, _)| run)
            })
        });
        if is_disturbed {
            std::thread::sleep(std::time::Duration::from_secs(MARGIN_SECONDS));
        }
        let measured =
            load_run::run(&mut queries(options, running, round), &options.folder.join("queries"), running.pids());
        let updates = writer.map(|writer| writer.join().expect("the updating thread does not panic")).transpose();
        measured.and_then(|(run, used)| Ok((run, used, updates?)))
    })?;
    let figures = run.figures();
    if figures.unexpected + figures.mismatched + figures.stray > 0 {
        return Err(format!("wrong answers: {figures:?}"));
    }
    let rate = updates.as_ref().map_or(0.0, load_run::answers_a_second);
    eprintln!(
        "round {}, {}: p50 {:.0} us, p99.9 {:.0} us, {} without an answer, {} updates/s",
        round + 1,
        if is_disturbed { "with updates" } else { "still" },
        run.total.latency.quantile(0.5) as f64 / 1e3,
        run.total.latency.quantile(0.999) as f64 / 1e3,
        figures.timed_out,
        thousands(rate)
    );
    if let Some(updates) = updates {
        let (acknowledged, unanswered) = counts(&updates);
        turns.lost += running.count_lost(PREFIX, acknowledged, unanswered)?;
        turns.updates.push(rate);
        turns.acknowledged += acknowledged;
        turns.unanswered += unanswered;
    }
    turns.idle.push(used.idle);
    turns.runs.push(run);
    Ok(())
}

/// Queries names all over the zone on all nodes.
fn queries(options: &Options, running: &RunningSide, round: u64) -> Command {
    let mut command = first(&options.catlab);
    command.args(["load", "--quiet", "--workers", "1", "--server", &running.servers()]);
    command.args(["--name", &format!("q{{n}}.{APEX}"), "--names", &options.names.to_string(), "--types", "A"]);
    command.args(["--seed", &(round + 1).to_string(), "--rate", &options.query_rate.to_string()]);
    command.args(["--duration", &format!("{}s", options.seconds), "--lag-limit", "10s"]);
    command
}

/// Sends updates in a closed loop.
fn updates(options: &Options, running: &RunningSide, round: u64, seconds: u64) -> Command {
    let mut command = Command::new(&options.catlab);
    command.args(["load", "--quiet", "--workers", "1", "--server", &running.servers()]);
    command.arg("--tsig").arg(&running.key).args(["--update-zone", APEX, "--name", &format!("{PREFIX}{{n}}.{APEX}")]);
    command.args(["--names", &NAMES.to_string(), "--popularity", "sequential", "--types", "A"]);
    command.args(["--seed", &(round + 1).to_string(), "--duration", &format!("{seconds}s"), "--timeout", "5s"]);
    command.args(["--closed-loop", "--in-flight", &options.in_flight.to_string(), "--lag-limit", "10s"]);
    command
}

/// Gives the generator a higher priority, because a late generator would measure itself. Without permission, `nice`
/// prints a warning and continues.
fn first(catlab: &Path) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "-10"]).arg(catlab);
    command
}
