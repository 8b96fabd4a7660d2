//! Turns with and without a disturbance, and the ratio of their tail latencies.

use super::disturbance::disturb;
use super::every_second;
use super::load_run;
use super::machine::{Meter, family, on_cores, pinned};
use super::options::{Disturbance, Options};
use super::stops::{RunsWithoutStops, STOP_MIN, Stops, Watch};
use super::table::{Row, Verdict, spread, thousands};
use super::zone::{APEX, make_zone};
use report::Run;
use report::regression::{QuantileRatio, Since, compare_quantile, compare_seconds};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testbed::{Cluster, ServedZone};

/// Maximum ratio of p99.99 (docs/history/budgets.md).
const RATIO_MAX: f64 = 1.2;
/// Queries in flight while the maximum rate is measured.
const IN_FLIGHT: usize = 512;
/// Runs that measure the maximum rate, and the duration of each.
const PROBES: usize = 3;
const PROBE_SECONDS: u64 = 3;
/// Shorter turns have too few whole seconds.
const SECONDS_MIN: u64 = 3;

/// A server that uses less CPU time than this share of a core over this time is idle.
const SETTLE: Duration = Duration::from_secs(1);
const SETTLED_SHARE: f64 = 0.05;
const SETTLE_TRIES_MAX: usize = 120;

/// Minimum share of the planned updates that must be acknowledged, and of the queries that must count.
const UPDATES_SHARE_MIN: f64 = 0.95;
const QUERIES_MIN: u64 = 5_000_000;
/// The share above the judged quantile.
const QUANTILE_LEFT: f64 = 1e-4;

/// The quantile that is judged.
const JUDGED: f64 = 0.9999;
/// Compares two sides.
type Compare = fn(&[Run], &[Run], f64, Since, u64) -> Result<QuantileRatio, String>;

/// Names of the sides.
const SIDES: [&str; 2] = ["still", "disturbed"];

/// The results of one side over all turns.
#[derive(Default)]
struct Side {
    runs: Vec<Run>,
    done: u64,
    checkpoints: f64,
}

/// Compares each disturbance with an undisturbed run of the same server.
pub(crate) fn of_all(options: &Options) -> Result<Vec<Row>, String> {
    let zone = make_zone(&options.folder, options.names)?;
    // A checkpoint follows as soon as the log is as large as the last checkpoint.
    let edits = [("[api]", "[log]\ncheckpoint_bytes = 65536\n\n[api]")];
    let zones = [ServedZone::new(APEX, &zone)];
    let own = on_cores(&options.server_cores, || Cluster::start(&options.folder.join("server"), &zones, &edits))
        .map_err(|error| error.to_string())?;
    let limit = limit(options, &own)?;
    let rate = options.rate.unwrap_or(limit / 2.0);
    let seconds = (options.queries as f64 / rate / options.rounds as f64).ceil().max(SECONDS_MIN as f64) as u64;
    let offered =
        format!("{}/s, {:.0} % of {}/s in a closed loop", thousands(rate), rate / limit * 100.0, thousands(limit));
    eprintln!("queries at {offered}, turns of {seconds} s");
    let watch = match Watch::start(&options.cores(), &options.folder) {
        Ok(watch) => Some(watch),
        Err(reason) => {
            eprintln!("stops of the machine are not watched for, and are in all figures: {reason}");
            None
        }
    };
    let mut rows = Vec::new();
    for &kind in &options.sides {
        let [mut still, mut disturbed] = [Side::default(), Side::default()];
        for round in 0..options.rounds {
            // The sides take turns in coming first.
            let order = if round % 2 == 0 { [None, Some(kind)] } else { [Some(kind), None] };
            for what in order {
                let side = if what.is_some() { &mut disturbed } else { &mut still };
                turn(options, &own, &zone, what, round, seconds, rate, side)?;
            }
        }
        if let Some(folder) = &options.keep {
            keep(folder, kind, [&still, &disturbed])?;
        }
        let stops = watch.as_ref().map(Watch::stops).transpose()?;
        rows.extend(figures(options, kind, &offered, &still, &disturbed, stops.as_ref())?);
    }
    if let Some(watch) = watch {
        watch.end();
    }
    Ok(rows)
}

/// One turn of one side.
#[expect(clippy::too_many_arguments, reason = "a turn needs all of them")]
fn turn(
    options: &Options,
    own: &Cluster,
    zone: &Path,
    what: Option<Disturbance>,
    round: u64,
    seconds: u64,
    rate: f64,
    side: &mut Side,
) -> Result<(), String> {
    settle(own)?;
    let checkpoints = own.metric(1, "catamaran_checkpoints_written_total ").map_err(|error| error.to_string())?;
    let stop = AtomicBool::new(false);
    let (run, done, written) = std::thread::scope(|scope| {
        let stop = &stop;
        let writer = what.map(|kind| scope.spawn(move || disturb(kind, options, own, zone, round, seconds, stop)));
        let run = queries(options, own, seconds, &["--rate", &format!("{rate:.0}")], round);
        stop.store(true, Ordering::Relaxed);
        let written = own.metric(1, "catamaran_checkpoints_written_total ").map_err(|error| error.to_string());
        let done = writer.map_or(Ok(0), |writer| writer.join().expect("the disturbing thread does not panic"));
        (run, done, written)
    });
    let (run, done, written) = (run?, done?, written?);
    let figures = run.figures();
    if figures.unexpected + figures.mismatched + figures.stray > 0 {
        return Err(format!("wrong answers: {figures:?}"));
    }
    let quantile = |quantile| run.total.latency.quantile(quantile) as f64 / 1e3;
    eprintln!(
        "round {}, {}: p50 {:.0} us, p99.99 {:.0} us, {} lost, {done} done meanwhile",
        round + 1,
        what.map_or("still", Disturbance::label),
        quantile(0.5),
        quantile(0.9999),
        figures.timed_out
    );
    side.checkpoints += written - checkpoints;
    side.done += done;
    side.runs.push(run);
    Ok(())
}

/// Waits until the server has finished its background work.
fn settle(own: &Cluster) -> Result<(), String> {
    for _ in 0..SETTLE_TRIES_MAX {
        let meter = Meter::start(family(own.pid()));
        std::thread::sleep(SETTLE);
        if meter.stop().server < SETTLED_SHARE {
            return Ok(());
        }
    }
    Err("the server does not come to rest".into())
}

/// Writes every second of both sides to one file per side.
fn keep(folder: &Path, kind: Disturbance, sides: [&Side; 2]) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, side) in SIDES.into_iter().zip(sides) {
        let file = folder.join(format!("{}-{name}.csv", kind.label()));
        std::fs::write(&file, every_second::csv(&side.runs)).map_err(|error| format!("{}: {error}", file.display()))?;
        eprintln!("{}: every second of it", file.display());
    }
    Ok(())
}

/// Queries names all over the zone.
fn queries(options: &Options, own: &Cluster, seconds: u64, pace: &[&str], seed: u64) -> Result<Run, String> {
    let catlab = pinned(options.tool_core, &options.catlab);
    // Without permission, `nice` prints a warning and continues.
    let mut command = Command::new("nice");
    command.args(["-n", "-10"]).arg(catlab.get_program()).args(catlab.get_args());
    command.args(["load", "--quiet", "--workers", "1", "--server", &own.dns().to_string()]);
    command.args(["--name", &format!("q{{n}}.{APEX}"), "--names", &options.names.to_string(), "--types", "A"]);
    command.args(["--seed", &(1_000 + seed).to_string(), "--duration", &format!("{seconds}s")]).args(pace);
    command.args(["--expect-rcode", "NOERROR", "--timeout", "1s"]);
    // An invalid run is kept. Its send lag is reported beside its latency.
    Ok(load_run::run(&mut command, &options.folder.join("run"), family(own.pid()))?.0)
}

/// The maximum answers per second in a closed loop, as the median of several runs.
fn limit(options: &Options, own: &Cluster) -> Result<f64, String> {
    let mut rates = Vec::new();
    for probe in 0..PROBES {
        let in_flight = IN_FLIGHT.to_string();
        let run = queries(options, own, PROBE_SECONDS, &["--closed-loop", "--in-flight", &in_flight], probe as u64)?;
        rates.push(load_run::answers_a_second(&run));
    }
    Ok(spread(&rates).0)
}

/// The effect of one kind of disturbance on latency.
fn figures(
    options: &Options,
    kind: Disturbance,
    offered: &str,
    still: &Side,
    disturbed: &Side,
    stops: Option<&Stops>,
) -> Result<Vec<Row>, String> {
    let done = done(options, kind, disturbed);
    let lost = |side: &Side| side.runs.iter().map(|run| run.figures().timed_out).sum::<u64>();
    let lag = |side: &Side| {
        let of = side.runs.iter().map(|run| run.total.send_lag.quantile(0.9999) as f64 / 1e3);
        spread(&of.collect::<Vec<_>>()).0
    };
    let describe_counts = |queries: [u64; 2]| {
        format!(
            "{} and {} queries at {offered}; {} and {} lost; send lag p99.99 {:.0} and {:.0} us; {done}",
            thousands(queries[0] as f64),
            thousands(queries[1] as f64),
            lost(still),
            lost(disturbed),
            lag(still),
            lag(disturbed)
        )
    };
    let judged = |what: &str, compared: QuantileRatio, note: String| {
        let verdict = judge(options, kind, [still, disturbed], compared.queries, compared.interval);
        Row { budget: format!("<= {RATIO_MAX}"), verdict, note, ..row(kind, what, compared) }
    };
    let mut rows = worst_seconds(kind, still, disturbed);
    let compared = [
        ("p50", 0.5, Since::Planned, compare_quantile as Compare),
        ("p99", 0.99, Since::Planned, compare_quantile),
        ("p99.9", 0.999, Since::Planned, compare_quantile),
        ("p99.99", JUDGED, Since::Planned, compare_quantile),
        ("p99.99 from the sending on", JUDGED, Since::Sent, compare_quantile),
        ("p99.99 of the second in the middle", JUDGED, Since::Planned, compare_seconds),
        ("p99.99 of the second in the middle, from the sending on", JUDGED, Since::Sent, compare_seconds),
    ];
    for (what, quantile, since, compare) in compared {
        let compared = compare(&still.runs, &disturbed.runs, quantile, since, 1)?;
        rows.push(if what == "p99.99" && stops.is_none() {
            judged(what, compared, describe_counts(compared.queries))
        } else {
            row(kind, what, compared)
        });
    }
    if let Some(stops) = stops {
        let what = "p99.99 without stops of the machine";
        let [a, b] = [still, disturbed].map(|side| stops.leave_out(&side.runs));
        let left_out = left_out([(still, &a), (disturbed, &b)]);
        rows.push(match compare_quantile(&a.runs, &b.runs, JUDGED, Since::Planned, 1) {
            Ok(compared) => judged(what, compared, format!("{}; {left_out}", describe_counts(compared.queries))),
            // Too few seconds are left.
            Err(reason) => Row {
                what: format!("{}: {what}", kind.label()),
                figure: "-".into(),
                budget: format!("<= {RATIO_MAX}"),
                verdict: Verdict::Absent,
                note: format!("{reason}; {left_out}"),
            },
        });
    }
    Ok(rows)
}

/// Describes the disturbance that took place.
fn done(options: &Options, kind: Disturbance, disturbed: &Side) -> String {
    match kind {
        Disturbance::Updates => {
            format!("{} names changed, {} in each update", thousands(disturbed.done as f64), options.names_each)
        }
        Disturbance::Load => format!(
            "{} times a zone of {} names was added or removed, {:.0} checkpoints written",
            disturbed.done,
            thousands(options.names as f64),
            disturbed.checkpoints
        ),
        Disturbance::Transfer => {
            format!("{} transfers of {} names", disturbed.done, thousands(options.names as f64))
        }
    }
}

/// How many seconds of both sides are skipped, and why.
fn left_out(sides: [(&Side, &RunsWithoutStops); 2]) -> String {
    let seconds = |side: &Side| side.runs.iter().map(|run| run.sending().count()).sum::<usize>();
    let [still, disturbed] = sides.map(|(side, without)| format!("{} of {}", without.seconds_left_out, seconds(side)));
    let [longest, longest_disturbed] = sides.map(|(_, without)| without.longest_ms);
    format!(
        "{still} and {disturbed} seconds left out for stops of {} ms or more, the longest {longest:.0} and \
         {longest_disturbed:.0} ms",
        STOP_MIN.as_millis()
    )
}

fn row(kind: Disturbance, what: &str, compared: QuantileRatio) -> Row {
    let QuantileRatio { a_us, b_us, ratio, interval: [low, high], .. } = compared;
    Row {
        what: format!("{}: {what}", kind.label()),
        figure: format!("{a_us:.0} us, {b_us:.0} us with it: {ratio:.2} (95 % interval {low:.2} to {high:.2})"),
        budget: String::new(),
        verdict: Verdict::Informs,
        note: String::new(),
    }
}

/// Judges the ratio by its interval. There is no verdict if the disturbance was incomplete, if there were too few
/// queries, or if undisturbed losses are so high that the quantile is the timeout.
fn judge(
    options: &Options,
    kind: Disturbance,
    [still, disturbed]: [&Side; 2],
    queries: [u64; 2],
    interval: [f64; 2],
) -> Verdict {
    let took_place = match kind {
        Disturbance::Updates => disturbed.done as f64 >= UPDATES_SHARE_MIN * options.changes as f64,
        Disturbance::Load => disturbed.done > 0 && disturbed.checkpoints > 0.0,
        Disturbance::Transfer => disturbed.done > 0,
    };
    // The first and the last second of a turn may be missing, because only whole seconds are compared.
    let are_enough = queries.into_iter().all(|count| count >= QUERIES_MIN);
    let lost = still.runs.iter().map(|run| run.figures().timed_out).sum::<u64>() as f64;
    let has_latency = lost < QUANTILE_LEFT * queries[0] as f64;
    match interval {
        _ if !(took_place && are_enough && has_latency) => Verdict::Absent,
        [_, high] if high <= RATIO_MAX => Verdict::Met,
        [low, _] if low > RATIO_MAX => Verdict::Missed,
        _ => Verdict::Undecided,
    }
}

/// The second of each side with the highest p99.99, and the slowest query.
fn worst_seconds(kind: Disturbance, still: &Side, disturbed: &Side) -> Vec<Row> {
    SIDES
        .into_iter()
        .zip([still, disturbed])
        .map(|(name, side)| {
            let rows = || side.runs.iter().flat_map(|run| run.sending());
            let quantile = |quantile| rows().map(|row| row.latency.quantile(quantile)).max().unwrap_or(0) as f64 / 1e3;
            let figures = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];
            let figures = figures.map(|(label, of)| format!("{label} {:.0} us", quantile(of))).join(", ");
            Row {
                what: format!("{}: the worst second of each, {name}", kind.label()),
                figure: figures,
                budget: String::new(),
                verdict: Verdict::Informs,
                note: format!("{} seconds", rows().count()),
            }
        })
        .collect()
}
