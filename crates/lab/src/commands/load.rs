//! `catlab load`: sends queries to a server and measures its answers.

use crate::arguments::{ClientClassArguments, FreshnessArguments, QueryArguments, REFERENCE, Target, parse_duration};
use crate::controller::{self, AgentInput, FleetArguments, Task};
use crate::out_folder::OutFolder;
use crate::run_outputs::{FinishedRun, RunOutputArguments};
use crate::self_check;
use clap::{ArgGroup, Args};
use fleet::{Content, Kind};
use lab::answers::{Checking, Recorder, Reference};
use lab::freshness::{Freshness, ServerFreshness};
use load::engine::{Outcome, Pace, Plan};
use load::limits::RUN_MAX;
use load::population::{Clients, Population, PopulationTraffic};
use load::schedule::{Arrivals, RateSegment, Schedule};
use load::workload::Workload;
use measure::Quantiles;
use report::folder::WriteError;
use report::{Manifest, Recording, Rules, Summary, Validity, dnsperf_text, duration, folder};
use serde::Serialize;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab load --server 127.0.0.1:5300 --queries queries.txt --rate 2000 --duration 10s --out run1
  catlab load --server 127.0.0.1:5300 --name 'q{\x1b[0mn}.example.test' --names 100000 --closed-loop --in-flight 256
  catlab load --server 192.168.1.5 --queries queries.txt --rate 100..20000 --duration 60s --poisson
  catlab load --server 192.168.1.5 --queries queries.txt --rate 500 --duration 60s --record-answers right.jsonl
  catlab load --server 192.168.1.6 --queries queries.txt --rate 50000 --expect-answers right.jsonl
  catlab load --server 192.168.1.6 --queries queries.txt --rate 400000 --nats nats://192.168.1.5:4222 --agents 4

Exit code 0: the run is valid; 1: it is INVALID, and the summary says why, or no update of the freshness probe was
acknowledged; 2: the run did not start.";

/// Options that a population sets for each group of clients.
const IN_POPULATIONS: [&str; 16] = [
    "rate",
    "poisson",
    "closed_loop",
    "name",
    "names",
    "types",
    "popularity",
    "nxdomain",
    "updates",
    "transport",
    "connections",
    "pipeline",
    "queries_per_connection",
    "idle_timeout",
    "resumption",
    "early_data",
];

#[derive(Args)]
#[command(group(
    ArgGroup::new("workload").required(true).multiple(true).args(["queries", "updates", "name", "population"])
))]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    query: QueryArguments,
    #[command(flatten)]
    freshness: FreshnessArguments,
    /// Population of clients: a TOML file (docs/catlab/load.md). It replaces the options for transport, rate and
    /// connections.
    #[arg(long, value_name = "FILE", conflicts_with_all = IN_POPULATIONS)]
    population: Option<PathBuf>,
    #[command(flatten)]
    client_classes: ClientClassArguments,
    /// Queries a second: 2000, a ramp 100..20000, steps of equal length 1000,2000,4000, or steps with lengths
    /// 1000@10s,4000@30s. With lengths, --duration is their sum.
    #[arg(long, default_value = "1000", value_parser = parse_rate, allow_negative_numbers = true)]
    #[arg(conflicts_with = "closed_loop")]
    rate: Rates,
    /// Send each query of the file exactly once at --rate, then end the run.
    #[arg(long, requires = "queries", conflicts_with_all = ["duration", "closed_loop", "population"])]
    once: bool,
    /// Send at random (Poisson) intervals, as many independent clients do, instead of even ones.
    #[arg(long, conflicts_with = "closed_loop")]
    poisson: bool,
    /// Send the next query when an answer arrives, instead of at planned times. Finds peak throughput but hides
    /// queueing delay.
    #[arg(long)]
    closed_loop: bool,
    /// Queries in flight in a closed loop.
    #[arg(long, default_value_t = 256, requires = "closed_loop")]
    in_flight: usize,
    /// How long to send queries: 6s, 500ms, 2m.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Write the first answer to each question to this file, for --expect-answers. Later answers to the same question
    /// are compared with it. Use a low rate and a server that you trust.
    #[arg(long, value_name = "FILE", group = REFERENCE, conflicts_with_all = ["updates", "update_zone"])]
    record_answers: Option<PathBuf>,
    /// Also print statistics in the format of dnsperf, for scripts.
    #[arg(long)]
    dnsperf_text: bool,
    /// First run the same plan against an echo server in this process, to see what this machine can do.
    #[arg(long)]
    self_check: bool,
    #[command(flatten)]
    outputs: RunOutputArguments,
    #[command(flatten)]
    fleet: FleetArguments,
}

#[derive(Clone)]
enum Rates {
    Steps(Vec<f64>),
    /// Steps with their lengths.
    Timed(Vec<(f64, Duration)>),
    Ramp(f64, f64),
}

/// Runs the command. `stops` counts how often the user asked to stop.
pub(crate) fn main(arguments: &Arguments, stops: &dyn Fn() -> u8) -> ExitCode {
    run(arguments, stops).unwrap_or_else(|error| {
        eprintln!("catlab load: {error}");
        ExitCode::from(2)
    })
}

fn run(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    // Raises the shell's limit of open files, if the system allows it. If that is not enough, a later error says so.
    let _limit = sockets::system::raise_open_files();
    let outputs = &arguments.outputs;
    let folder = outputs.make_folder()?;
    let mut plan = plan(arguments)?;
    if arguments.fleet.is_wanted() {
        return over_agents(arguments, &plan, folder, stops);
    }
    arguments.target.allow(arguments.freshness.servers())?;
    let recorder = arguments.record_answers.as_deref().map(|path| (path, record(arguments, &mut plan)));
    let rules = Rules { lag_p99_max: arguments.target.lag_limit, ..Rules::default() };
    let checked = if arguments.self_check { Some(self_check::run(&plan, &rules, stops)?) } else { None };
    if let Some(checked) = &checked {
        eprintln!("{}", self_check::line(checked));
    }
    let probe = arguments.freshness.probe()?.map(|probe| probe.start()).transpose()?;
    let mut freshness = None;
    let ended = |outcome: &Outcome, summary: &mut Summary| {
        freshness = probe.map(|probe| probe.finish(outcome.start));
        if let Some(checked) = &checked {
            summary.note_self_check(checked);
        }
    };
    let finished = outputs.execute(&mut plan, folder.as_ref(), rules, ended, stops)?;
    let FinishedRun { outcome, summary, recording, .. } = &finished;
    let recorded = recorder.map(|(path, recorder)| recorder.write(path).map(|count| (path, count))).transpose();
    let as_dnsperf = || dnsperf_text(recording, summary.duration_seconds, &summary.validity);
    let committed = folder.map_or(Ok(()), |folder| {
        let manifest = Manifest::new(outcome.started, arguments.query.seed);
        let kept = keep(folder.path(), recording, summary, &manifest, freshness.as_ref(), checked.as_ref());
        folder.commit_after(kept)
    });
    outputs.print_results(summary, arguments.dnsperf_text.then(as_dnsperf));
    if let Some(freshness) = &freshness {
        eprint!("{}", freshness_lines(freshness));
    }
    committed?;
    let is_valid = summary.validity.valid;
    outputs.end(finished, stops)?;
    if let Some((path, count)) = recorded? {
        eprintln!("{count} answers recorded in {}", path.display());
    }
    let has_failed = freshness.is_some_and(|freshness| freshness.has_failed());
    Ok(if is_valid && !has_failed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A value, and whether the run that gave it is valid.
#[derive(Serialize)]
struct FreshnessJson<'a> {
    validity: &'a Validity,
    #[serde(flatten)]
    freshness: &'a Freshness,
}

/// Writes the run folder.
fn keep(
    out: &Path,
    recording: &Recording,
    summary: &Summary,
    manifest: &Manifest,
    freshness: Option<&Freshness>,
    checked: Option<&Summary>,
) -> Result<(), WriteError> {
    if let Some(freshness) = freshness {
        folder::write_json(out, "freshness.json", &FreshnessJson { validity: &summary.validity, freshness })?;
        folder::write_lines(out, "freshness.jsonl", &freshness.lines)?;
    }
    if let Some(checked) = checked {
        folder::write_json(out, "self-check.json", checked)?;
    }
    folder::write(out, recording, summary, manifest)
}

/// Makes the plan record the first answer to each question.
fn record(arguments: &Arguments, plan: &mut Plan) -> Arc<Recorder> {
    let recorder = Arc::new(Recorder::default());
    let reference = Reference::Recorder(Arc::clone(&recorder));
    plan.checking = Some(Arc::new(Checking { reference, share: arguments.target.check_share() }));
    recorder
}

fn freshness_lines(freshness: &Freshness) -> String {
    let Freshness { sent, acknowledged, refused, unanswered, .. } = freshness;
    let us = |us: f64| duration(Duration::from_nanos((us * 1e3) as u64));
    let quantiles = |of: &Quantiles| format!("p50 {}  p99 {}  max {}", us(of.p50), us(of.p99), us(of.max));
    let head = format!(
        "freshness  {sent} updates, {acknowledged} acknowledged ({}), {refused} refused, {unanswered} unanswered\n",
        quantiles(&freshness.acknowledged_us)
    );
    let server = |server: &ServerFreshness| {
        if server.visible_us.n == 0 {
            return format!(
                "           never visible at {}; acknowledged but not visible: {}\n",
                server.server, server.unseen
            );
        }
        let visible = quantiles(&server.visible_us);
        format!(
            "           visible at {} after {visible}, resolution {:.0} us; never {}\n",
            server.server, server.resolution_us, server.unseen
        )
    };
    if freshness.has_failed() {
        return head + "           no update was acknowledged, so nothing could be measured\n";
    }
    head + &freshness.servers.iter().map(server).collect::<String>()
}

/// Runs the load on agents.
fn over_agents(
    arguments: &Arguments,
    plan: &Plan,
    folder: Option<OutFolder>,
    stops: &dyn Fn() -> u8,
) -> Result<ExitCode, Box<dyn Error>> {
    let args = controller::forwarded_args(Kind::Load)?;
    let task = |names: &[String], folder: &Path| {
        let population = plan.pace.traffic::<PopulationTraffic>();
        let (what, count) = match (&plan.pace, population) {
            (Pace::Closed { in_flight, .. }, _) => ("--in-flight is less than", *in_flight),
            (_, Some(population)) => ("the population has fewer clients than", population.clients.members().len()),
            _ => ("", names.len()),
        };
        if count < names.len() {
            return Err(format!("{what} there are agents ({})", names.len()).into());
        }
        let mut files = arguments.query.files(folder)?;
        let others =
            [(Content::Population, arguments.population.clone()), (Content::Authorities, plan.tls.authorities.clone())];
        files.extend(others.into_iter().filter_map(|(content, path)| Some((content, path?))));
        let inputs = vec![AgentInput { files, queries: None }; names.len()];
        Ok(Task { kind: Kind::Load, args, origin_ns: 0, inputs })
    };
    let (recording, mut summary, merged) =
        controller::run_on_agents(&arguments.fleet, folder.as_ref(), arguments.outputs.quiet, task, stops)?;
    arguments.outputs.note_rtt(&mut summary);
    let as_dnsperf = || dnsperf_text(&recording, summary.duration_seconds, &summary.validity);
    let before = arguments.dnsperf_text.then(as_dnsperf);
    controller::write_results(folder, &recording, &summary, merged, arguments.query.seed, before)
}

/// Builds the plan. Agents use the same function.
pub(crate) fn plan(arguments: &Arguments) -> Result<Plan, Box<dyn Error>> {
    if arguments.duration > RUN_MAX {
        return Err(format!(
            "cannot run for {} h: the limit is 24 h; split the run",
            arguments.duration.as_secs() / 3_600
        )
        .into());
    }
    if let Rates::Timed(steps) = &arguments.rate {
        let sum: Duration = steps.iter().map(|(_, duration)| *duration).sum();
        if sum > RUN_MAX {
            return Err("cannot run for longer than 24 h; split the steps of --rate into several runs".into());
        }
    }
    let population = arguments.population.as_deref().map(read_population).transpose()?;
    let workload = arguments.query.workload(population.as_ref())?;
    let pace = if arguments.once { once(arguments, &workload)? } else { pace(arguments, population)? };
    let plan = arguments.target.plan(workload, pace, arguments.query.seed)?;
    Ok(Plan { busy_queries: arguments.client_classes.busy_queries, ..plan })
}

fn pace(arguments: &Arguments, population: Option<Population>) -> Result<Pace, String> {
    let (duration, seed) = (arguments.duration, arguments.query.seed);
    if let Some(population) = population {
        let clients = Clients::new(population, &arguments.target.servers(), seed)?;
        return Ok(Pace::of(PopulationTraffic { clients, duration }));
    }
    if arguments.closed_loop {
        return Ok(Pace::Closed { in_flight: arguments.in_flight.max(1), duration });
    }
    Ok(Pace::Open(Schedule::new(arguments.rate.segments(duration), arguments.arrivals())?))
}

/// Pace for --once: one query for each entry of the file.
fn once(arguments: &Arguments, workload: &Workload) -> Result<Pace, String> {
    let (Rates::Steps(rates), Some(count)) = (&arguments.rate, workload.listed_count()) else {
        return Err("cannot use --once: it needs a query file and one --rate".into());
    };
    let &[rate] = rates.as_slice() else { return Err("cannot use --once with several rates: write one --rate".into()) };
    let schedule = Schedule::counted(rate, count as u64, arguments.arrivals())?;
    if schedule.duration() > RUN_MAX {
        return Err(format!("cannot send {count} queries at {rate} a second in 24 h; raise --rate"));
    }
    Ok(Pace::Open(schedule))
}

impl Arguments {
    fn arrivals(&self) -> Arrivals {
        if self.poisson { Arrivals::Poisson { seed: self.query.seed } } else { Arrivals::Even }
    }
}

fn read_population(path: &Path) -> Result<Population, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Population::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Rates {
    fn segments(&self, duration: Duration) -> Vec<RateSegment> {
        match self {
            Self::Ramp(from, to) => vec![RateSegment { duration, from: *from, to: *to }],
            Self::Steps(rates) => {
                let duration = duration / rates.len() as u32;
                rates.iter().map(|&rate| RateSegment { duration, from: rate, to: rate }).collect()
            }
            Self::Timed(steps) => {
                steps.iter().map(|&(rate, duration)| RateSegment { duration, from: rate, to: rate }).collect()
            }
        }
    }
}

fn parse_rate(text: &str) -> Result<Rates, String> {
    let number = |text: &str| match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err(format!("{text} is not a rate; write queries a second, such as 2000")),
    };
    let timed = |step: &str| match step.split_once('@') {
        Some((rate, length)) => Ok((number(rate)?, parse_duration(length)?)),
        None => Err(format!("{step} has no length; write RATE@DURATION for each step or for none")),
    };
    let rates = match text.split_once("..") {
        Some((from, to)) => Rates::Ramp(number(from)?, number(to)?),
        None if text.contains('@') => Rates::Timed(text.split(',').map(timed).collect::<Result<_, _>>()?),
        None => Rates::Steps(text.split(',').map(number).collect::<Result<_, _>>()?),
    };
    // A step with rate 0 is a pause, but at least one step must send.
    let has_queries = rates.segments(Duration::from_secs(1)).iter().any(|segment| segment.from + segment.to > 0.0);
    if has_queries { Ok(rates) } else { Err(format!("a rate of {text} sends no query; write 1 or more")) }
}
