//! Turns without and with something going on beside the queries, and how the slowest ones compare.

use super::Options;
use super::catamaran_server::CatamaranServer;
use super::disturbance::{Kind, disturb};
use super::every_second;
use super::load;
use super::machine::{Meter, pinned};
use super::stops::{RunsWithoutStops, STOP_MIN, Stops, Watch};
use super::table::{Row, Verdict, spread, thousands};
use lab::report::Run;
use lab::report::regression::{QuantileRatio, Since, compare_quantile, compare_seconds};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The zone's apex.
pub(crate) const APEX: &str = "example.";
/// How much longer the slowest in ten thousand may take (docs/history/budgets.md).
const RATIO_MAX: f64 = 1.2;
/// Of queries that wait while the limit is looked for.
const IN_FLIGHT: usize = 512;
/// Runs that look for it, and how long each takes.
const PROBES: usize = 3;
const PROBE_SECONDS: u64 = 3;
/// Shorter turns have too few whole seconds.
const SECONDS_MIN: u64 = 3;

/// A server that takes less of a core in this time than that has come to rest.
const SETTLE: Duration = Duration::from_secs(1);
const SETTLED_SHARE: f64 = 0.05;
const SETTLE_TRIES_MAX: usize = 120;

/// Of the updates that were to come so many must have been acknowledged, and of the queries of a side so many count.
const UPDATES_SHARE_MIN: f64 = 0.95;
const QUERIES_MIN: u64 = 5_000_000;
/// What is above the quantile that is judged.
const QUANTILE_LEFT: f64 = 1e-4;

/// The quantile that is judged.
const JUDGED: f64 = 0.9999;
/// How two sides are compared.
type Compare = fn(&[Run], &[Run], f64, Since, u64) -> Result<QuantileRatio, String>;

/// What the sides are called.
const SIDES: [&str; 2] = ["still", "disturbed"];

/// What one side did over all turns.
#[derive(Default)]
struct Side {
    runs: Vec<Run>,
    done: u64,
    checkpoints: f64,
}

/// Each disturbance against the same server when nothing goes on.
pub(crate) fn of_all(options: &Options) -> Result<Vec<Row>, String> {
    let zone = make_zone(&options.folder, options.names)?;
    let own = CatamaranServer::start(
        &options.folder.join("server"),
        &[(APEX, &zone)],
        &options.server_cores,
        // As soon as there is as much log as the last checkpoint was large.
        &[("[api]", "[log]\ncheckpoint_bytes = 65536\n\n[api]")],
    )?;
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
            // Neither side always comes first.
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
#[expect(clippy::too_many_arguments, reason = "what a turn is made of")]
fn turn(
    options: &Options,
    own: &CatamaranServer,
    zone: &Path,
    what: Option<Kind>,
    round: u64,
    seconds: u64,
    rate: f64,
    side: &mut Side,
) -> Result<(), String> {
    settle(own)?;
    let checkpoints = own.metric("catamaran_checkpoints_written_total ")?;
    let stop = AtomicBool::new(false);
    let (run, done, written) = std::thread::scope(|scope| {
        let stop = &stop;
        let writer = what.map(|kind| scope.spawn(move || disturb(kind, options, own, zone, round, seconds, stop)));
        let run = queries(options, own, seconds, &["--rate", &format!("{rate:.0}")], round);
        stop.store(true, Ordering::Relaxed);
        let written = own.metric("catamaran_checkpoints_written_total ");
        let done = writer.map_or(Ok(0), |writer| writer.join().expect("what disturbs does not panic"));
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
        what.map_or("still", Kind::label),
        quantile(0.5),
        quantile(0.9999),
        figures.timed_out
    );
    side.checkpoints += written - checkpoints;
    side.done += done;
    side.runs.push(run);
    Ok(())
}

/// Waits until the server has nothing left to do of what was before.
fn settle(own: &CatamaranServer) -> Result<(), String> {
    for _ in 0..SETTLE_TRIES_MAX {
        let meter = Meter::start(own.pids());
        std::thread::sleep(SETTLE);
        if meter.stop().server < SETTLED_SHARE {
            return Ok(());
        }
    }
    Err("the server does not come to rest".into())
}

/// Every second of both sides, each in a file.
fn keep(folder: &Path, kind: Kind, sides: [&Side; 2]) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, side) in SIDES.into_iter().zip(sides) {
        let file = folder.join(format!("{}-{name}.csv", kind.label()));
        std::fs::write(&file, every_second::csv(&side.runs)).map_err(|error| format!("{}: {error}", file.display()))?;
        eprintln!("{}: every second of it", file.display());
    }
    Ok(())
}

/// Asks for names all over the zone.
fn queries(options: &Options, own: &CatamaranServer, seconds: u64, pace: &[&str], seed: u64) -> Result<Run, String> {
    let catlab = pinned(options.tool_core, &options.catlab);
    // Where that is not allowed, `nice` says so and goes on.
    let mut command = Command::new("nice");
    command.args(["-n", "-10"]).arg(catlab.get_program()).args(catlab.get_args());
    command.args(["load", "--quiet", "--workers", "1", "--server", &own.dns().to_string()]);
    command.args(["--name", &format!("q{{n}}.{APEX}"), "--names", &options.names.to_string(), "--types", "A"]);
    command.args(["--seed", &(1_000 + seed).to_string(), "--duration", &format!("{seconds}s")]).args(pace);
    command.args(["--expect-rcode", "NOERROR", "--timeout", "1s"]);
    // The lag of one that is not valid is told beside its latency.
    Ok(load::run(&mut command, &options.folder.join("run"), own.pids())?.0)
}

/// Answers a second in a closed loop: the median of some.
fn limit(options: &Options, own: &CatamaranServer) -> Result<f64, String> {
    let mut rates = Vec::new();
    for probe in 0..PROBES {
        let in_flight = IN_FLIGHT.to_string();
        let run = queries(options, own, PROBE_SECONDS, &["--closed-loop", "--in-flight", &in_flight], probe as u64)?;
        rates.push(load::answers_a_second(&run));
    }
    Ok(spread(&rates).0)
}

fn make_zone(folder: &Path, names: u64) -> Result<PathBuf, String> {
    let file = folder.join("zone");
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut out = BufWriter::new(File::create(&file).map_err(wrong)?);
    // Relative names: the same file is another zone's, too.
    out.write_all(b"$TTL 300\n@ SOA ns host 1 7200 900 99999 300\n@ NS ns\nns A 192.0.2.1\n").map_err(wrong)?;
    for number in 0..names {
        let address = Ipv4Addr::from(0x0A00_0000 | (number as u32 & 0x00FF_FFFF));
        writeln!(out, "q{number} A {address}").map_err(wrong)?;
    }
    out.flush().map_err(wrong)?;
    Ok(file)
}

/// What one kind of disturbance did to latency.
fn figures(
    options: &Options,
    kind: Kind,
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
    let told = |queries: [u64; 2]| {
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
            judged(what, compared, told(compared.queries))
        } else {
            row(kind, what, compared)
        });
    }
    if let Some(stops) = stops {
        let what = "p99.99 without stops of the machine";
        let [a, b] = [still, disturbed].map(|side| stops.leave_out(&side.runs));
        let left_out = left_out([(still, &a), (disturbed, &b)]);
        rows.push(match compare_quantile(&a.runs, &b.runs, JUDGED, Since::Planned, 1) {
            Ok(compared) => judged(what, compared, format!("{}; {left_out}", told(compared.queries))),
            // Too few are left.
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

/// What went on beside the queries.
fn done(options: &Options, kind: Kind, disturbed: &Side) -> String {
    match kind {
        Kind::Updates => {
            format!("{} names changed, {} in each update", thousands(disturbed.done as f64), options.names_each)
        }
        Kind::Load => format!(
            "{} times a zone of {} names was added or removed, {:.0} checkpoints written",
            disturbed.done,
            thousands(options.names as f64),
            disturbed.checkpoints
        ),
        Kind::Transfer => {
            format!("{} transfers of {} names", disturbed.done, thousands(options.names as f64))
        }
    }
}

/// How many seconds of both sides are left out, and for what.
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

fn row(kind: Kind, what: &str, compared: QuantileRatio) -> Row {
    let QuantileRatio { a_us, b_us, ratio, interval: [low, high], .. } = compared;
    Row {
        what: format!("{}: {what}", kind.label()),
        figure: format!("{a_us:.0} us, {b_us:.0} us with it: {ratio:.2} (95 % interval {low:.2} to {high:.2})"),
        budget: String::new(),
        verdict: Verdict::Informs,
        note: String::new(),
    }
}

/// The interval says whether the budget is met; nothing does when the disturbance did not take place as it should
/// have, the queries are fewer than were wanted, or so many were lost with nothing going on that it is the time-out
/// that is compared.
fn judge(
    options: &Options,
    kind: Kind,
    [still, disturbed]: [&Side; 2],
    queries: [u64; 2],
    interval: [f64; 2],
) -> Verdict {
    let took_place = match kind {
        Kind::Updates => disturbed.done as f64 >= UPDATES_SHARE_MIN * options.changes as f64,
        Kind::Load => disturbed.done > 0 && disturbed.checkpoints > 0.0,
        Kind::Transfer => disturbed.done > 0,
    };
    // Whole seconds are compared: the first and the last of a turn may be left out.
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

/// The second of each side whose slowest in ten thousand were the slowest, and the slowest query of all.
fn worst_seconds(kind: Kind, still: &Side, disturbed: &Side) -> Vec<Row> {
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
