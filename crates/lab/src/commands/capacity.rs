//! `catlab capacity`: the highest rate that meets an objective.

use crate::arguments::{QueryArguments, Target, parse_duration};
use crate::out_folder::{Force, OutFolder, RUN};
use clap::{ArgGroup, Args};
use lab::capacity::{Estimate, Limits, Objective, Search, Verdict};
use lab::limits::TOOL_RETRIES_MAX;
use lab::results;
use load::engine::{self, Pace, Plan};
use load::schedule::{Arrivals, Schedule};
use report::{Manifest, Rules, Summary, duration, folder};
use serde::Serialize;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab capacity --server 127.0.0.1:5300 --queries queries.txt --objective 'p99<=2ms,loss<=0.1%'
  catlab capacity --server 127.0.0.1:5300 --queries queries.txt --from 10000 --try-for 10s --repeats 8 --out capacity

Doubles the rate from --from until the objective is missed, then halves the bracket until it is as narrow as
--precision. Repeats this --repeats times. The result is the median. Its interval reaches from the lowest to the
highest end of all brackets.
If this tool reaches its limit first, the printed rate is a lower bound. A try is repeated if it is INVALID, or if only
the send lag of this tool misses the objective. It never counts against the server. --lag-limit sets the largest send
lag of a valid try. The search ends after about --within, 90 s by default.

Exit code 0: a rate or a lower bound was found; 1: no rate meets the objective; 2: the search could not start; 3: the
capacity could not be measured, or the search was stopped before an estimate.";

#[derive(Args)]
#[command(group(ArgGroup::new("workload").required(true).args(["queries", "updates", "name"])))]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    query: QueryArguments,
    /// Objective: limits for p50, p90, p99, p99.9, p99.99, max (us, ms, s) and loss (a share or %), separated by
    /// commas.
    #[arg(long, default_value = "p99<=2ms,loss<=0.1%", alias = "slo")]
    objective: Objective,
    /// First rate to try, in queries a second.
    #[arg(long, default_value_t = 1_000.0, value_parser = parse_rate, allow_negative_numbers = true)]
    from: f64,
    /// Highest rate to try.
    #[arg(long, default_value_t = 10_000_000.0, value_parser = parse_rate, allow_negative_numbers = true)]
    to: f64,
    /// Duration of one try.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    try_for: Duration,
    /// End the search after this time with the estimate so far [default: 90s, more with a longer --try-for or more
    /// --repeats].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    within: Option<Duration>,
    /// Pause between tries, to let queues drain.
    #[arg(long, default_value = "500ms", value_parser = parse_duration)]
    pause: Duration,
    /// Stop narrowing when lower and upper bound differ by this share: 0.05 is 5 %.
    #[arg(long, default_value_t = 0.05)]
    precision: f64,
    /// Number of repeats: 6 give an interval of 96.9 %.
    #[arg(long, default_value_t = 6)]
    repeats: usize,
    /// Send queries at even intervals instead of random ones.
    #[arg(long)]
    even: bool,
    /// Print capacity.json instead of a sentence.
    #[arg(long)]
    json: bool,
    /// Folder for capacity.json and manifest.json.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// Minimum number of queries in a try.
const QUERIES_MIN: f64 = 10.0;
/// Longest duration of a search with the defaults.
const DURATION_MAX: Duration = Duration::from_secs(90);
/// Duration of a try and number of repeats for which [`DURATION_MAX`] was chosen.
const DURATION_MAX_FOR: (Duration, usize) = (Duration::from_secs(2), 6);
/// Exit code if the capacity could not be measured.
const UNMEASURED: u8 = 3;

/// One rate that was tried.
#[derive(Serialize)]
struct Attempt {
    rate: f64,
    verdict: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    summary: Summary,
}

/// Why a search ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// All repeats are done.
    Complete,
    /// The time limit was reached.
    Late,
    /// The user stopped it.
    Stopped,
}

/// Outcome of a search.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The capacity was measured.
    Measured,
    /// A lower bound: this tool or the search reached its limit first.
    AtLeast,
    /// The server misses the objective at every rate.
    MetAtNoRate,
    /// No try was valid.
    NotMeasured,
    /// The user stopped the search before its first estimate.
    Stopped,
}

impl Answer {
    fn of(estimate: Option<&Estimate>, end: End) -> Self {
        match estimate {
            None if end == End::Stopped => Self::Stopped,
            None => Self::NotMeasured,
            Some(estimate) if estimate.rate <= 0.0 => Self::MetAtNoRate,
            Some(estimate) if estimate.is_lower_bound => Self::AtLeast,
            Some(_) => Self::Measured,
        }
    }
}

/// `capacity.json`.
#[derive(Serialize)]
struct Capacity<'a> {
    schema_version: u32,
    outcome: Answer,
    estimate: Option<Estimate>,
    tries: &'a [Attempt],
}

pub(crate) fn main(arguments: &Arguments, stops: &dyn Fn() -> u8) -> ExitCode {
    run(arguments, stops).unwrap_or_else(|error| {
        eprintln!("catlab capacity: {error}");
        ExitCode::from(2)
    })
}

fn run(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let workload = arguments.query.workload(None)?;
    let limits = Limits {
        from: arguments.from,
        lowest: (QUERIES_MIN / arguments.try_for.as_secs_f64()).max(1.0),
        to: arguments.to.max(arguments.from),
        precision: arguments.precision.max(0.005),
        repeats: arguments.repeats.max(1),
    };
    let out = arguments.out.as_deref().map(|out| OutFolder::begin(out, &RUN, arguments.force)).transpose()?;
    let seed = arguments.query.seed;
    let plan = arguments.target.plan(workload, pace(arguments, limits.from, seed)?, seed)?;
    let within = arguments.within();
    eprintln!(
        "tries of {} each; the search ends after about {} (--within)",
        duration(arguments.try_for + arguments.pause),
        duration(within)
    );
    let (started, began) = (SystemTime::now(), Instant::now());
    let (mut search, mut tries, mut end) = (Search::new(limits), Vec::<Attempt>::new(), End::Complete);
    while let Some(rate) = search.next() {
        if !tries.is_empty() {
            std::thread::sleep(arguments.pause);
        }
        let seed = seed.wrapping_add(tries.len() as u64);
        let plan = Plan { pace: pace(arguments, rate, seed)?, seed, ..plan.clone() };
        let (summary, verdict) = measure(arguments, &plan, || began.elapsed() > within, stops)?;
        if stops() > 0 {
            end = End::Stopped;
            break;
        }
        if tries.is_empty() && summary.total.answered == 0 {
            return Err(silence(&plan, rate, &summary).into());
        }
        let (found, wanted) = search.done();
        let tried = Attempt::new(rate, &verdict, summary);
        eprintln!("{:>4.0} s  bracket {} of {wanted}  {tried}", began.elapsed().as_secs_f64(), found + 1);
        tries.push(tried);
        search.record(&verdict);
        if search.next().is_some() && began.elapsed() + arguments.try_for > within {
            end = End::Late;
            break;
        }
    }
    // A search that the user stops before its first bracket has no estimate.
    let estimate = search.estimate().filter(|_| end != End::Stopped || search.done().0 > 0);
    let capacity = Capacity { schema_version: 1, outcome: Answer::of(estimate.as_ref(), end), estimate, tries: &tries };
    let committed = out.map_or(Ok(()), |out| {
        let manifest = Manifest::new(started, arguments.query.seed);
        let kept = folder::write_json(out.path(), "capacity.json", &capacity)
            .and_then(|()| folder::write_json(out.path(), "manifest.json", &manifest));
        out.commit_after(kept)
    });
    if arguments.json {
        lab::print(format_args!("{}\n", serde_json::to_string_pretty(&capacity)?));
    } else {
        lab::print(format_args!("{}\n", sentence(&capacity, &search, arguments)));
    }
    committed?;
    Ok(match capacity.outcome {
        Answer::Measured | Answer::AtLeast => ExitCode::SUCCESS,
        Answer::MetAtNoRate => ExitCode::FAILURE,
        Answer::NotMeasured | Answer::Stopped => ExitCode::from(UNMEASURED),
    })
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| format!("{text} is not a rate above zero; write queries a second, such as 2000"))
}

impl Arguments {
    fn within(&self) -> Duration {
        let tries = (self.try_for.as_secs_f64() / DURATION_MAX_FOR.0.as_secs_f64()).max(1.0);
        let repeats = (self.repeats as f64 / DURATION_MAX_FOR.1 as f64).max(1.0);
        self.within.unwrap_or_else(|| DURATION_MAX.mul_f64(tries * repeats))
    }
}

fn pace(arguments: &Arguments, rate: f64, seed: u64) -> Result<Pace, String> {
    let arrivals = if arguments.even { Arrivals::Even } else { Arrivals::Poisson { seed } };
    Ok(Pace::Open(Schedule::constant(rate, arguments.try_for, arrivals)?))
}

/// The error if a server does not answer even at the first rate.
fn silence(plan: &Plan, rate: f64, summary: &Summary) -> String {
    let servers: Vec<_> = plan.servers.iter().map(ToString::to_string).collect();
    let refusals = summary.limit.evidence.iter().find(|line| line.contains("nobody listens"));
    format!(
        "no answer from {} at {rate:.0} queries a second{}. Check the address; lower --from for a slow server",
        servers.join(", "),
        refusals.map(|line| format!(": {line}")).unwrap_or_default()
    )
}

/// Tries a rate, and repeats the try if the tool failed. A single pause of the machine is not a limit.
fn measure(
    arguments: &Arguments,
    plan: &Plan,
    is_late: impl Fn() -> bool,
    stops: &dyn Fn() -> u8,
) -> Result<(Summary, Verdict), Box<dyn Error>> {
    let rules = Rules { lag_p99_max: arguments.target.lag_limit, ..Rules::default() };
    let mut again = TOOL_RETRIES_MAX;
    loop {
        let outcome = engine::run(plan, |_| stops())?;
        if let Some(failure) = &outcome.failure {
            return Err(failure.clone().into());
        }
        let summary = results::summary(plan, &outcome, &rules);
        let verdict = arguments.objective.judge(&summary);
        if !matches!(verdict, Verdict::ToolLimited(_)) || again == 0 || is_late() || stops() > 0 {
            return Ok((summary, verdict));
        }
        again -= 1;
        std::thread::sleep(arguments.pause);
    }
}

/// The result as a sentence.
fn sentence(capacity: &Capacity<'_>, search: &Search, arguments: &Arguments) -> String {
    let Some(Estimate { rate, low, high, confidence, repeats, .. }) = &capacity.estimate else {
        let what = unmeasured(capacity, arguments);
        return match search.met_max() {
            rate if rate > 0.0 => format!("{what}; the objective was met at {rate:.0} queries a second"),
            _ => what,
        };
    };
    match (capacity.outcome, repeats.len()) {
        (Answer::MetAtNoRate, _) => "no rate met the objective".into(),
        (Answer::AtLeast, _) => {
            format!("capacity at least {rate:.0} queries a second: the server's limit was not reached")
        }
        (_, 1) => format!(
            "capacity {rate:.0} queries a second: {low:.0} met the objective, {high:.0} missed it; one bracket has no \
             interval"
        ),
        (_, count) => format!(
            "capacity {rate:.0} queries a second, {low:.0} to {high:.0} ({:.1} % interval of the median, {count} \
             repeats)",
            confidence * 100.0,
        ),
    }
}

/// Why there is no estimate.
fn unmeasured(capacity: &Capacity<'_>, arguments: &Arguments) -> String {
    if capacity.outcome == Answer::Stopped {
        return "stopped before there was an estimate".to_owned();
    }
    let limit = duration(arguments.target.lag_limit);
    let limited = capacity.tries.iter().filter(|tried| tried.verdict == "tool").count();
    format!(
        "the capacity could not be measured: {limited} of {} tries are INVALID or late by the send lag of this tool. \
         Stop other programs on this machine (see catlab doctor), or allow more send lag than {limit} with --lag-limit",
        capacity.tries.len()
    )
}

impl Attempt {
    fn new(rate: f64, verdict: &Verdict, summary: Summary) -> Self {
        let (verdict, reason) = match verdict {
            Verdict::Met => ("met", String::new()),
            Verdict::Missed(reason) => ("missed", reason.clone()),
            Verdict::ToolLimited(reason) => ("tool", reason.clone()),
        };
        Self { rate, verdict, reason, summary }
    }
}

impl std::fmt::Display for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let latency = &self.summary.total.latency_us;
        write!(f, "{:>10.0} a second  p50 {:>7.0} us  p99 {:>8.0} us  ", self.rate, latency.p50, latency.p99)?;
        write!(f, "{}", self.verdict)?;
        if !self.summary.validity.valid {
            return write!(f, ", {}: no evidence", self.summary.validity);
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}
