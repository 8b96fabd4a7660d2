//! The common part of `catlab load` and `catlab replay`: runs a plan, shows its progress, and stores its results.

use crate::arguments::parse_duration;
use crate::out_folder::{Force, OutFolder, RUN};
use clap::Args;
use lab::limits::MONITOR_INTERVAL_MIN;
use lab::live::{Events, Exporter, Live, Marks, View};
use lab::monitor::Monitor;
use lab::results;
use load::engine::{self, Outcome, Plan, Progress};
use load::per_query::PerQuery;
use report::folder::WriteError;
use report::{Recording, Rules, Summary, outline};
use std::error::Error;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct RunOutputArguments {
    /// Write results to this folder (docs/catlab/results.md). `catlab report` draws them.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Round trip between clients and server (20ms). The summary then also has the latency in round trips.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    rtt: Option<Duration>,
    /// Also write one row per query to DIR/queries.parquet: planned time, send time and outcome. This costs CPU during
    /// the run. Rows that cannot be written in time are counted.
    #[arg(long, requires = "out")]
    parquet: bool,
    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print one JSON object per second.
    #[arg(long)]
    json_events: bool,
    /// Serve Prometheus metrics of the run at this address.
    #[arg(long, value_name = "ADDRESS:PORT")]
    prometheus: Option<SocketAddr>,
    /// After the run, wait up to this long for one more read of the metrics.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration, requires = "prometheus")]
    prometheus_wait: Duration,
    /// Read marks from lines appended to this file during the run: fault, reload, update or note, then a text. They
    /// appear in all charts over time.
    #[arg(long, value_name = "FILE")]
    marks: Option<PathBuf>,
    /// Monitor these sources: pid:4711 (with its children), cgroup:/NAME (with its subgroups), or
    /// http://ADDRESS:PORT/metrics. Host names are not resolved.
    #[arg(long, value_name = "SOURCE", value_delimiter = ',', requires = "out")]
    monitor: Vec<String>,
    /// Interval of --monitor.
    #[arg(long, default_value = "1s", value_parser = parse_duration, requires = "monitor")]
    monitor_interval: Duration,
}

/// A finished run.
pub(crate) struct FinishedRun {
    pub(crate) outcome: Outcome,
    pub(crate) summary: Summary,
    pub(crate) recording: Recording,
    live: Live,
    rows: Option<WriteError>,
}

impl RunOutputArguments {
    /// Creates the folder of the run if --out is given. Called before any query is sent.
    ///
    /// # Errors
    /// The folder already holds a run, or cannot be created.
    pub(crate) fn make_folder(&self) -> Result<Option<OutFolder>, String> {
        self.out.as_deref().map(|out| OutFolder::begin(out, &RUN, self.force)).transpose()
    }

    /// Runs a plan and shows its progress. Rows of queries go into `folder`. The verdict includes what `ended` adds to
    /// the summary.
    ///
    /// # Errors
    /// The run could not begin or sent nothing. Later failures are in the result.
    pub(crate) fn execute(
        &self,
        plan: &mut Plan,
        folder: Option<&OutFolder>,
        rules: Rules,
        ended: impl FnOnce(&Outcome, &mut Summary),
        stops: &dyn Fn() -> u8,
    ) -> Result<FinishedRun, Box<dyn Error>> {
        let rows = folder.filter(|_| self.parquet);
        let per_query = rows
            .map(|folder| PerQuery::create(folder.path()).map_err(|error| folder.named(results::write_error(error))));
        let per_query = per_query.transpose()?;
        plan.per_query = per_query.as_ref().map(PerQuery::sink);
        let mut live = self.live(plan.pace.duration(), rules)?;
        let monitor = self.watch()?;
        let mut marks = self.marks.as_deref().map(open_marks).transpose()?;
        let began = Instant::now();
        let outcome = engine::run(plan, |progress| {
            if let Progress::Second { index, second, total } = progress {
                live.second(index, second, total);
            }
            for (when, line) in marks.as_mut().map(Marks::poll).unwrap_or_default() {
                live.note(when.saturating_duration_since(began), line);
            }
            stops()
        });
        plan.per_query = None;
        let (outcome, per_query) = PerQuery::of_run(per_query, outcome)?;
        let mut summary = results::summary(plan, &outcome, &rules);
        ended(&outcome, &mut summary);
        // A full disk stops neither the run nor the summary.
        let rows =
            per_query.map(|per_query| per_query.finish(outcome.started, plan.timeout, &summary.validity.to_string()));
        live.finish(&outcome.total, &summary.validity);
        let rows = match rows.transpose() {
            Ok(rows) => {
                summary.per_query = rows;
                None
            }
            Err(error) => folder.map(|folder| folder.named(results::write_error(error))),
        };
        let mut recording = results::recording(plan, &outcome);
        recording.events = marks.map(|marks| marks.events(outcome.start)).unwrap_or_default();
        recording.samples = monitor.map(|monitor| monitor.finish(outcome.start)).unwrap_or_default();
        summary.note_recording(&recording);
        self.note_rtt(&mut summary);
        // A run that could not begin has no results. A table of zeros would look like a measurement.
        if let Some(failure) = outcome.failure.as_ref().filter(|_| outcome.total.sent == 0) {
            return Err(failure.clone().into());
        }
        Ok(FinishedRun { outcome, summary, recording, live, rows })
    }

    /// Adds the latency in round trips to the summary, if their length was given.
    pub(crate) fn note_rtt(&self, summary: &mut Summary) {
        summary.note_rtt(self.rtt.unwrap_or_default());
    }

    /// Prints `before` and the summary. With --json-events standard output has only the events.
    pub(crate) fn print_results(&self, summary: &Summary, before: Option<String>) {
        if self.json_events {
            eprint!("{}", outline(summary));
        } else {
            print_summary(summary, before);
        }
    }

    /// Waits for a reader of the metrics, then returns errors that did not stop the run.
    ///
    /// # Errors
    /// The rows of queries could not be written, or no server was reached.
    pub(crate) fn end(&self, finished: FinishedRun, stops: &dyn Fn() -> u8) -> Result<(), Box<dyn Error>> {
        finished.live.wait_for_reader(self.prometheus_wait, stops);
        if let Some(error) = finished.rows {
            return Err(error.into());
        }
        finished.outcome.failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn live(&self, planned: Duration, rules: Rules) -> Result<Live, String> {
        let events = self.json_events.then(|| Events::new(Box::new(io::stdout())));
        let exporter = match self.prometheus {
            Some(address) => {
                let exporter = Exporter::start(address).map_err(|error| format!("--prometheus {address}: {error}"))?;
                eprintln!("metrics at http://{}/metrics", exporter.address());
                Some(exporter)
            }
            None => None,
        };
        let view = (!self.quiet).then(|| View::new(io::stderr().is_terminal(), planned));
        Ok(Live::new(view, events, exporter, rules))
    }

    fn watch(&self) -> Result<Option<Monitor>, Box<dyn Error>> {
        if self.monitor.is_empty() {
            return Ok(None);
        }
        let sources = self.monitor.iter().map(|source| source.parse()).collect::<Result<_, _>>()?;
        Ok(Some(Monitor::start(sources, self.monitor_interval.max(MONITOR_INTERVAL_MIN))?))
    }
}

/// Prints `before` and the summary of a run. Call this after the results are written, so that they do not depend on it.
pub(crate) fn print_summary(summary: &Summary, before: Option<String>) {
    let before = before.map(|before| before + "\n").unwrap_or_default();
    lab::print(format_args!("{before}{}", outline(summary)));
}

fn open_marks(path: &Path) -> Result<Marks, String> {
    Marks::open(path).map_err(|error| format!("--marks {}: {error}", path.display()))
}
