//! `catlab capacity`: the highest rate that meets an objective.

use crate::arguments::{Asking, Target, parse_duration};
use crate::out_folder::{Force, OutFolder, RUN};
use clap::{ArgGroup, Args};
use lab::capacity::{Estimate, Limits, Objective, Search, Verdict};
use lab::engine::{self, Pace, Plan};
use lab::limits::TOOL_RETRIES_MAX;
use lab::report::{Manifest, Rules, Summary, folder};
use lab::schedule::{Arrivals, Schedule};
use serde::Serialize;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab capacity --server 127.0.0.1:5300 --queries queries.txt --objective 'p99<=2ms,loss<=0.1%'
  catlab capacity --server 127.0.0.1:5300 --queries queries.txt --from 10000 --try-for 10s --repeats 8 --out capacity

The rate doubles from --from until the objective is missed, then the bracket is halved until it is as narrow as
--precision; that is repeated, and the median stands with the lowest and highest of the repeats as its interval. Where
this tool is the limit, the server bears at least what is printed.

Exit code 0: a rate was found; 1: the objective is met at no rate, or the search was broken off before its first
estimate; 2: it could not take place.";

#[derive(Args)]
#[command(group(ArgGroup::new("workload").required(true).args(["queries", "updates", "name"])))]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    asking: Asking,
    /// What must hold: p50, p90, p99, p99.9, p99.99, max (us, ms, s) and loss (a share, or with %), comma between.
    #[arg(long, default_value = "p99<=2ms,loss<=0.1%", alias = "slo")]
    objective: Objective,
    /// First rate, queries a second.
    #[arg(long, default_value_t = 1_000.0)]
    from: f64,
    /// Highest rate.
    #[arg(long, default_value_t = 10_000_000.0)]
    to: f64,
    /// How long each rate is tried.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    try_for: Duration,
    /// Pause between two tries, for queues to run empty.
    #[arg(long, default_value = "500ms", value_parser = parse_duration)]
    pause: Duration,
    /// How narrow a bracket gets: 0.05 is 5 %.
    #[arg(long, default_value_t = 0.05)]
    precision: f64,
    /// How many brackets: 6 give an interval of 96.9 %.
    #[arg(long, default_value_t = 6)]
    repeats: usize,
    /// Even distances between queries instead of random ones.
    #[arg(long)]
    even: bool,
    /// Print capacity.json on standard output instead of a sentence.
    #[arg(long)]
    json: bool,
    /// Folder for capacity.json and manifest.json.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// Queries of a try that measures anything.
const QUERIES_MIN: f64 = 10.0;

/// One rate that was tried.
#[derive(Serialize)]
struct Try {
    rate: f64,
    verdict: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    summary: Summary,
}

/// `capacity.json`.
#[derive(Serialize)]
struct Capacity<'a> {
    schema_version: u32,
    estimate: Option<Estimate>,
    tries: &'a [Try],
}

pub(crate) fn main(arguments: &Arguments, stops: &dyn Fn() -> u8) -> ExitCode {
    run(arguments, stops).unwrap_or_else(|error| {
        eprintln!("catlab capacity: {error}");
        ExitCode::from(2)
    })
}

fn run(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let workload = arguments.asking.workload(None)?;
    let limits = Limits {
        from: arguments.from,
        lowest: (QUERIES_MIN / arguments.try_for.as_secs_f64()).max(1.0),
        to: arguments.to.max(arguments.from),
        precision: arguments.precision.max(0.005),
        repeats: arguments.repeats.max(1),
    };
    let out = arguments.out.as_deref().map(|out| OutFolder::begin(out, &RUN, arguments.force)).transpose()?;
    let seed = arguments.asking.seed;
    let plan = arguments.target.plan(workload, pace(arguments, limits.from, seed)?, seed)?;
    let started = SystemTime::now();
    let mut search = Search::new(limits);
    let mut tries: Vec<Try> = Vec::new();
    while let Some(rate) = search.next() {
        if !tries.is_empty() {
            std::thread::sleep(arguments.pause);
        }
        let seed = seed.wrapping_add(tries.len() as u64);
        let (summary, verdict) =
            measure(arguments, &Plan { pace: pace(arguments, rate, seed)?, seed, ..plan.clone() }, stops)?;
        if stops() > 0 {
            break;
        }
        if tries.is_empty() && summary.total.answered == 0 {
            return Err(silence(&plan, rate, &summary).into());
        }
        let (found, wanted) = search.done();
        let tried = Try::new(rate, &verdict, summary);
        eprintln!("bracket {} of {wanted}  {tried}", found + 1);
        tries.push(tried);
        search.record(&verdict);
    }
    let capacity = Capacity { schema_version: 1, estimate: search.estimate(), tries: &tries };
    match &capacity.estimate {
        _ if arguments.json => println!("{}", serde_json::to_string_pretty(&capacity)?),
        Some(estimate) => println!("{}", sentence(estimate)),
        None => println!("broken off before there was an estimate"),
    }
    if let Some(out) = out {
        folder::write_json(out.path(), "capacity.json", &capacity)?;
        folder::write_json(out.path(), "manifest.json", &Manifest::new(started, arguments.asking.seed))?;
        out.commit()?;
    }
    let has_rate = capacity.estimate.is_some_and(|estimate| estimate.rate > 0.0);
    Ok(if has_rate { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn pace(arguments: &Arguments, rate: f64, seed: u64) -> Result<Pace, String> {
    let arrivals = if arguments.even { Arrivals::Even } else { Arrivals::Poisson { seed } };
    Ok(Pace::Open(Schedule::constant(rate, arguments.try_for, arrivals)?))
}

/// Why a search makes no sense at a server that does not answer at its first rate.
fn silence(plan: &Plan, rate: f64, summary: &Summary) -> String {
    let servers: Vec<_> = plan.servers.iter().map(ToString::to_string).collect();
    let refusals = summary.limit.evidence.iter().find(|line| line.contains("nobody listens"));
    format!(
        "not one answer of {} at {rate:.0} queries a second{}; is there a server? A slower one wants --from",
        servers.join(", "),
        refusals.map(|line| format!(": {line}")).unwrap_or_default()
    )
}

/// Tries a rate, and again when the tool failed: a machine that paused once must not be taken for a limit.
fn measure(arguments: &Arguments, plan: &Plan, stops: &dyn Fn() -> u8) -> Result<(Summary, Verdict), Box<dyn Error>> {
    let rules = Rules { lag_p99_max: arguments.target.lag_limit, ..Rules::default() };
    let mut again = TOOL_RETRIES_MAX;
    loop {
        let outcome = engine::run(plan, |_| stops())?;
        if let Some(failure) = &outcome.failure {
            return Err(failure.clone().into());
        }
        let summary = Summary::new(plan, &outcome, &rules);
        let verdict = arguments.objective.judge(&summary);
        if !matches!(verdict, Verdict::ToolLimited(_)) || again == 0 || stops() > 0 {
            return Ok((summary, verdict));
        }
        again -= 1;
        std::thread::sleep(arguments.pause);
    }
}

fn sentence(estimate: &Estimate) -> String {
    if estimate.rate <= 0.0 {
        return "the objective was met at no rate".into();
    }
    let least = if estimate.is_lower_bound { "at least " } else { "" };
    if estimate.repeats.len() == 1 {
        return format!("capacity {least}{:.0} queries a second; one bracket has no interval", estimate.rate);
    }
    format!(
        "capacity {least}{:.0} queries a second, {:.0} to {:.0} ({:.1} % interval of the median, {} repeats)",
        estimate.rate,
        estimate.low,
        estimate.high,
        estimate.confidence * 100.0,
        estimate.repeats.len(),
    )
}

impl Try {
    fn new(rate: f64, verdict: &Verdict, summary: Summary) -> Self {
        let (verdict, reason) = match verdict {
            Verdict::Met => ("met", String::new()),
            Verdict::Missed(reason) => ("missed", reason.clone()),
            Verdict::ToolLimited(reason) => ("tool", reason.clone()),
        };
        Self { rate, verdict, reason, summary }
    }
}

impl std::fmt::Display for Try {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let latency = &self.summary.total.latency_us;
        write!(f, "{:>10.0} a second  p50 {:>7.0} us  p99 {:>8.0} us  ", self.rate, latency.p50, latency.p99)?;
        write!(f, "{}", self.verdict)?;
        if !self.summary.validity.valid {
            return write!(f, ", {}", self.summary.validity);
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}
