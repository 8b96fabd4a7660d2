//! Sends the same updates to each side in turn.

use super::load_run;
use super::lost::counts;
use super::machine::Used;
use super::options::Options;
use super::side::Side;
use super::sides::RunningSide;
use super::table::{Row, Verdict, spread, thousands};
use super::zone::APEX;
use measure::Distribution;
use report::Run;
use report::pictures::latencies;
use report::regression::{QuantileRatio, Since, compare_quantile};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Prefix of the names in one turn.
const PREFIX: &str = "u";
/// Number of names to choose from: more than any turn uses.
const NAMES: u64 = 1_000_000_000;
/// Minimum updates per second of catamaran in a closed loop, by number of nodes.
const CLOSED_MIN: [(u64, f64); 2] = [(3, 20_000.0), (5, 10_000.0)];
/// From this rate on, a side gets all samples. Below, it gets a tenth of them.
const RATE_FULL: u64 = 128;
/// Maximum latency ratios of catamaran to BIND at the rate of the paper, for the median and p99.9.
const RATIOS_AT_128: [(f64, &str, Option<f64>); 3] =
    [(0.5, "p50", Some(1.5)), (0.99, "p99", None), (0.999, "p99.9", Some(1.0))];
/// The same for lower rates.
const RATIOS_BELOW: [(f64, &str, Option<f64>); 3] =
    [(0.5, "p50", None), (0.99, "p99", Some(1.0)), (0.999, "p99.9", None)];
/// The pairs of the open loop: those of the budgets, and the ratios to bare replication.
const COMPARED: [(Side, Side); 5] = [
    (Side::Catamaran(1), Side::Bind),
    (Side::Catamaran(3), Side::Bind),
    (Side::Catamaran(5), Side::Bind),
    (Side::Bare, Side::Bind),
    (Side::Catamaran(3), Side::Bare),
];
/// Clients wait as long as a server may wait through an election.
const TIMEOUT: &str = "5s";

/// The results of one side over all turns.
#[derive(Default)]
struct Turns {
    runs: Vec<Run>,
    used: Vec<Used>,
    acknowledged: u64,
    lost: u64,
    unanswered: u64,
    refused: BTreeMap<String, u64>,
}

/// Measures updates per second with a fixed number in flight.
pub(crate) fn closed(options: &Options) -> Result<Vec<Row>, String> {
    let in_flight = options.in_flight.to_string();
    let pace = ["--closed-loop", "--in-flight", &in_flight];
    // A closed loop with few queries would measure the latency of a replicated update, not the throughput.
    let sides: Vec<Side> = options.sides.iter().copied().filter(|&side| side != Side::Bare).collect();
    let turns = all(options, &sides, options.seconds, &pace)?;
    let what = |side: Side| format!("{} updates in flight: {}", options.in_flight, side.name());
    Ok(options
        .sides
        .iter()
        .filter_map(|&side| Some((side, turns.get(&side)?)))
        .map(|(side, turns)| {
            let rates: Vec<f64> = turns.runs.iter().map(acknowledged_a_second).collect();
            let (median, low, high) = spread(&rates);
            let budget = CLOSED_MIN.iter().find(|&&(nodes, _)| side == Side::Catamaran(nodes)).map(|&(_, least)| least);
            let is_whole = options.in_flight == 512;
            let verdict = match budget.filter(|_| is_whole) {
                Some(least) => Verdict::of(median >= least && turns.is_sound()),
                None => turns.informs(),
            };
            let budget =
                budget.filter(|_| is_whole).map_or_else(String::new, |least| format!(">= {}", thousands(least)));
            let figure = format!("{}/s ({} to {})", thousands(median), thousands(low), thousands(high));
            Row { what: what(side), figure, budget, verdict, note: turns.note() }
        })
        .collect())
}

/// Measures the latency of updates at a rate.
pub(crate) fn open(options: &Options, rate: u64) -> Result<Vec<Row>, String> {
    let samples = if rate >= RATE_FULL { options.samples } else { options.samples / 10 };
    let seconds = samples.div_ceil(rate * options.rounds).max(3);
    let all = all(options, &options.sides, seconds, &["--rate", &rate.to_string()])?;
    let mut rows = Vec::new();
    for (&side, turns) in &all {
        let quantile = |quantile: f64| {
            let of = turns.runs.iter().map(|run| run.total.latency.quantile(quantile) as f64 / 1e6);
            spread(&of.collect::<Vec<_>>()).0
        };
        let figure = format!("p50 {:.2}, p99 {:.2}, p99.9 {:.2} ms", quantile(0.5), quantile(0.99), quantile(0.999));
        let what = format!("{rate} updates/s: {}", side.name());
        rows.push(Row { what, figure, budget: String::new(), verdict: turns.informs(), note: turns.note() });
    }
    if let Some(folder) = &options.pictures {
        draw(folder, rate, &all)?;
    }
    let ratios = if rate >= RATE_FULL { RATIOS_AT_128 } else { RATIOS_BELOW };
    for (side, other) in COMPARED {
        let (Some(theirs), Some(ours)) = (all.get(&other), all.get(&side)) else { continue };
        for (quantile, name, most) in ratios {
            let compared = compare_quantile(&theirs.runs, &ours.runs, quantile, Since::Planned, 1)?;
            let QuantileRatio { a_us, b_us, ratio, interval: [low, high], queries } = compared;
            // The budget compares a cluster with one primary. A cluster of one node has no budget.
            let most = most.filter(|_| (side, other) == (Side::Catamaran(3), Side::Bind));
            let verdict = match most {
                _ if !ours.is_sound() || !theirs.is_sound() => Verdict::Missed,
                None => Verdict::Informs,
                Some(most) if high <= most => Verdict::Met,
                Some(most) if low > most => Verdict::Missed,
                Some(_) => Verdict::Undecided,
            };
            let (ours_ms, theirs_ms) = (b_us / 1e3, a_us / 1e3);
            rows.push(Row {
                what: format!("{rate} updates/s, {name}: {} against {}", side.name(), other.name()),
                figure: format!("{ratio:.2} (95 % interval {low:.2} to {high:.2}): {ours_ms:.2} and {theirs_ms:.2} ms"),
                budget: most.map_or_else(String::new, |most| format!("<= {most:.1}")),
                verdict,
                note: format!("{} and {} updates", thousands(queries[1] as f64), thousands(queries[0] as f64)),
            });
        }
    }
    Ok(rows)
}

/// Draws the latencies of all turns of each side.
fn draw(folder: &Path, rate: u64, sides: &BTreeMap<Side, Turns>) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let all = |turns: &Turns| Distribution::sum(turns.runs.iter().map(|run| &run.total.latency));
    let lines: Vec<_> = sides.iter().map(|(side, turns)| (side.name(), all(turns))).collect();
    let lines: Vec<_> = lines.iter().map(|(name, latency)| (*name, latency)).collect();
    let title = format!("Latency of {rate} updates a second");
    latencies(&folder.join(format!("updates-{rate}.svg")), &title, &lines)
}

/// Runs all sides in turn, alternating the order, so that other load on the machine affects all alike.
fn all(options: &Options, sides: &[Side], seconds: u64, pace: &[&str]) -> Result<BTreeMap<Side, Turns>, String> {
    let mut all: BTreeMap<Side, Turns> = BTreeMap::new();
    for round in 0..options.rounds {
        let mut sides = sides.to_vec();
        if round % 2 == 1 {
            sides.reverse();
        }
        for side in sides {
            let Some(running) = RunningSide::start(side, options)? else {
                eprintln!("skipped: {} is not installed", side.name());
                continue;
            };
            turn(options, &running, seconds, pace, round, all.entry(side).or_default())
                .map_err(|error| format!("{}: {error}", side.name()))?;
            let turns = &all[&side];
            let rate = turns.runs.last().map_or(0.0, acknowledged_a_second);
            eprintln!("round {}, {}: {}/s, {} lost", round + 1, side.name(), thousands(rate), turns.lost);
        }
    }
    Ok(all)
}

/// Updates acknowledged in a whole second of sending.
fn acknowledged_a_second(run: &Run) -> f64 {
    let rcodes = run.figures().rcodes;
    let (done, all) = (rcodes.get("NOERROR").copied().unwrap_or(0), rcodes.values().sum::<u64>().max(1));
    load_run::answers_a_second(run) * done as f64 / all as f64
}

/// One turn of one side.
fn turn(
    options: &Options,
    running: &RunningSide,
    seconds: u64,
    pace: &[&str],
    round: u64,
    turns: &mut Turns,
) -> Result<(), String> {
    let mut command = Command::new(&options.catlab);
    command.args(["load", "--quiet", "--workers", "1", "--server", &running.servers()]);
    command.arg("--tsig").arg(&running.key).args(["--update-zone", APEX, "--name", &format!("{PREFIX}{{n}}.{APEX}")]);
    command.args(["--names", &NAMES.to_string(), "--popularity", "sequential", "--types", "A"]);
    command.args(["--seed", &(round + 1).to_string(), "--duration", &format!("{seconds}s"), "--timeout", TIMEOUT]);
    // With all servers on two cores, the sender is late at times. Latency counts from the planned time.
    command.args(["--lag-limit", "10s"]).args(pace);
    let (run, used) = load_run::run(&mut command, &options.folder.join("run"), running.pids())?;
    let figures = run.figures();
    if figures.mismatched + figures.stray + figures.duplicate > 0 {
        return Err(format!("wrong answers: {figures:?}"));
    }
    let (acknowledged, unanswered) = counts(&run);
    let lost = running.count_lost(PREFIX, acknowledged, unanswered)?;
    for (rcode, count) in figures.rcodes.iter().filter(|(rcode, _)| *rcode != "NOERROR") {
        *turns.refused.entry(rcode.clone()).or_default() += count;
    }
    turns.acknowledged += acknowledged;
    turns.lost += lost;
    turns.unanswered += unanswered;
    turns.runs.push(run);
    turns.used.push(used);
    Ok(())
}

impl Turns {
    /// Whether no update was lost and all were acknowledged.
    fn is_sound(&self) -> bool {
        self.lost == 0 && self.unanswered == 0 && self.refused.is_empty()
    }

    fn informs(&self) -> Verdict {
        if self.lost == 0 { Verdict::Informs } else { Verdict::Missed }
    }

    /// How a figure was measured.
    fn note(&self) -> String {
        let median = |of: fn(&Used) -> f64| spread(&self.used.iter().map(of).collect::<Vec<_>>()).0;
        let [tool, server, others, idle] = [
            median(|used| used.tool),
            median(|used| used.server),
            median(|used| used.others),
            median(|used| used.idle),
        ];
        let acknowledged = thousands(self.acknowledged as f64);
        let mut note = format!("{acknowledged} acknowledged, {} lost, {} unanswered", self.lost, self.unanswered);
        for (rcode, count) in &self.refused {
            note.push_str(&format!(", {count} {rcode}"));
        }
        note.push_str(&format!("; cores: tool {tool:.2}, servers {server:.2}, others {others:.2}, idle {idle:.2}"));
        note
    }
}
