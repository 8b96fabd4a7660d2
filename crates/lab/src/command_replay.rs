//! `catlab replay`: a trace once more, at its times, from its sources.

use crate::arguments::Replayed;
use crate::controller::{self, FleetArguments, Task};
use clap::Args;
use lab::engine::{self, Progress};
use lab::fleet::Kind;
use lab::live::{Events, Live, View};
use lab::per_query::PerQuery;
use lab::report::{Manifest, Patience, Recording, Rules, Summary, folder, outline};
use std::error::Error;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab replay day.pcap.xz --server 127.0.0.1:5300 --out run1
  catlab replay dns.log.gz --server 192.168.1.5 --speed 20 --until 1h --out run2
  catlab replay root.pcap --server 127.0.0.1 --ports tcp=5300 --transport tcp --idle-timeout 10s
  catlab replay root.pcap --server 127.0.0.1:5300 --fast
  catlab replay day.pcap.xz --server 192.168.1.6 --nats nats://192.168.1.5:4222 --agents 4 --out run5
  catlab trace info --json day.pcap.xz

Each query goes out with the octets that it had, but for its ID, at its time from the first query on, whatever the
server does; a source keeps to one address, port or connection for the whole run. The summary has send_error_us,
interval_error_us, rate_error and second_rate_error, and all that a run of `catlab load` leaves behind
(docs/replay.md). Connections are closed after --idle-timeout, 20 s if none is said.
Exit code 0: the run is valid; 1: it is not, and the summary says why; 2: it did not take place.";

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) replayed: Replayed,
    /// Folder for the run: figures, seconds, histograms (docs/lab-results.md); `catlab report` draws it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also one row for each query, in DIR/queries.parquet: when it was planned, when it went out, what came back.
    #[arg(long, requires = "out")]
    parquet: bool,
    /// Say nothing while it runs.
    #[arg(long, short)]
    quiet: bool,
    /// Each second as a line of JSON on standard output.
    #[arg(long)]
    json_events: bool,
    #[command(flatten)]
    fleet: FleetArguments,
}

/// Runs it; `stops` says how often the user has asked to stop.
pub(crate) fn main(arguments: &Arguments, stops: &dyn Fn() -> u8) -> ExitCode {
    run(arguments, stops).unwrap_or_else(|error| {
        eprintln!("catlab replay: {error}");
        ExitCode::from(2)
    })
}

/// Has agents send it, each the sources that are its own.
fn over_agents(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let (words, replayed) = (controller::words(Kind::Replay)?, &arguments.replayed);
    let mut survey = None;
    let task = |names: &[String], folder: &Path| {
        let division = replayed.divide(names, folder)?;
        let origin_ns = division.origin_ns();
        let shares = division.shares.into_iter().map(|(path, queries)| (Some(path), Some(queries))).collect();
        survey = Some(division.survey);
        Ok(Task { kind: Kind::Replay, words, origin_ns, shares })
    };
    let out = arguments.out.as_deref();
    let (recording, mut summary, merged) = controller::conduct(&arguments.fleet, out, arguments.quiet, task, stops)?;
    if let (Some(figures), Some(survey)) = (&mut summary.replay, &survey) {
        figures.replay.of_whole(replayed.trace(), replayed.speed(), survey);
        if let Some(reason) = &survey.damaged {
            summary.validity.valid = false;
            summary.validity.reasons.push(format!("the trace is damaged ({reason}): what came before it was sent"));
        }
    }
    controller::leave(out, &recording, &summary, merged, 0)
}

fn run(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.fleet.is_wanted() {
        return over_agents(arguments, stops);
    }
    let mut plan = arguments.replayed.plan(engine::raise_open_files())?;
    if let Some(out) = &arguments.out {
        std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    let rules = Rules { lag_p99_max: arguments.replayed.lag_limit, ..Rules::default() };
    let out = arguments.out.as_deref().filter(|_| arguments.parquet);
    let per_query = out.map(PerQuery::create).transpose()?;
    plan.per_query = per_query.as_ref().map(PerQuery::spool);
    let view = (!arguments.quiet).then(|| View::new(std::io::stderr().is_terminal(), plan.pace.duration()));
    let events = arguments.json_events.then(|| Events::new(Box::new(std::io::stdout())));
    let mut live = Live::new(view, events, None, rules);
    let outcome = engine::run(&plan, |progress| {
        if let Progress::Second { index, second, total } = progress {
            live.second(index, second, total);
        }
        stops()
    });
    plan.per_query = None;
    let (outcome, per_query) = PerQuery::of_run(per_query, outcome)?;
    let mut summary = Summary::new(&plan, &outcome, &rules);
    // A disk that is full stops neither the run nor the summary.
    let rows = per_query.map(|per_query| per_query.finish(outcome.started, plan.timeout, &summary.validity));
    live.finish(&outcome.total, &summary.validity);
    summary.per_query = rows.as_ref().and_then(|rows| rows.as_ref().ok()).copied();
    if arguments.json_events {
        eprint!("{}", outline(&summary));
    } else {
        print!("{}", outline(&summary));
    }
    if let Some(out) = &arguments.out {
        let recording = Recording { patience: Patience::of(&plan), ..Recording::of(&outcome, plan.timeout) };
        folder::write(out, &recording, &summary, &Manifest::new(outcome.started, plan.seed))?;
    }
    rows.transpose()?;
    if let Some(failure) = &outcome.failure {
        return Err(failure.clone().into());
    }
    Ok(if summary.validity.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
