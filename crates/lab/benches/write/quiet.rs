//! Checks that a busy cluster has no elections. Queries and updates in closed loops keep every core busy, for minutes
//! or an hour. Every second minute, other programs use all cores too, so a background thread gets no CPU time for
//! seconds.

use super::lost::{contents, count_lost_steps, counts};
use super::machine::{Meter, family};
use super::options::Options;
use super::table::{Row, Verdict, thousands};
use super::unanswered::lost_updates;
use super::zone::{APEX, make_zone};
use report::Run;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testbed::{Cluster, ServedZone};

/// Minimum minutes (docs/history/budgets.md).
const MINUTES: u64 = 60;
/// Nodes of the cluster.
const NODES: u64 = 3;
/// Names that are updated repeatedly, so that the zone does not grow.
const NAMES: u64 = 100_000;
/// Maximum idle share of all cores for them to count as saturated.
const IDLE_MAX: f64 = 0.1;
/// Interval between two checks of the terms.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long nodes may take to answer and agree.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a tool may take to exit: after an hour it has a lot to write, and no core is idle.
const END_MAX: Duration = Duration::from_secs(900);
/// Length of the intervals with and without other programs.
const OTHERS: Duration = Duration::from_secs(60);
/// Interval between two progress lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The terms of all nodes, or `None` if a node does not answer.
fn terms(own: &Cluster) -> Option<Vec<f64>> {
    (1..=NODES).map(|node| own.metric(node, "catamaran_raft_term ").ok()).collect()
}

/// Waits until all nodes are in the same term. Returns the term.
fn term(own: &Cluster) -> Result<f64, String> {
    let until = Instant::now() + SETTLE_TIMEOUT;
    loop {
        if let Some(terms) = terms(own)
            && terms.iter().all(|term| term == &terms[0])
        {
            return Ok(terms[0]);
        }
        if Instant::now() > until {
            return Err("the nodes are not in one term".into());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Starts the tools that send queries and updates.
fn start_tools(options: &Options, servers: &str, key: &Path) -> Result<[Tool; 2], String> {
    let load = |name: &str, words: &[&str]| -> Result<Tool, String> {
        let mut command = Command::new(&options.catlab);
        command.args(["load", "--quiet", "--workers", "1", "--server", servers, "--closed-loop"]);
        command.args(["--duration", &format!("{}s", minutes(options) * 60), "--lag-limit", "10s"]).args(words);
        Tool::start(command, &options.folder.join(name))
    };
    let (in_flight, names, added) = (options.in_flight.to_string(), options.names.to_string(), NAMES.to_string());
    let key = key.to_string_lossy();
    let (of_queries, of_updates) = (format!("q{{n}}.{APEX}"), format!("u{{n}}.{APEX}"));
    let query = ["--in-flight", "64", "--name", &of_queries, "--names", &names, "--types", "A"];
    // An hour has more updates than an A record has values, and a repeated value would change nothing. So each update
    // writes several names.
    let update = ["--in-flight", &in_flight, "--name", &of_updates, "--names", &added, "--types", "AAAA"];
    let signed = ["--timeout", "5s", "--tsig", &key, "--update-zone", APEX];
    Ok([load("queries", &query)?, load("updates", &[&update[..], &signed].concat())?])
}

fn minutes(options: &Options) -> u64 {
    options.minutes.unwrap_or(MINUTES)
}

/// Checks that the term did not change and that no acknowledged update is missing.
pub(crate) fn saturated(options: &Options) -> Result<Vec<Row>, String> {
    let zone = make_zone(&options.folder, options.names)?;
    let started = Cluster::start_nodes(&options.folder.join("quiet"), &[ServedZone::new(APEX, &zone)], NODES);
    let own = started.map_err(|error| error.to_string())?;
    let key = own.cluster_folder().join("update.key");
    let nodes: Vec<SocketAddr> = (1..=NODES).map(|node| own.dns_of(node)).collect();
    let servers = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let seconds = minutes(options) * 60;
    let before = term(&own)?;
    let first = contents(nodes[0], &key, APEX)?.serial;
    let meter = Meter::start(family(own.pid()));
    let [mut queries, mut updates] = start_tools(options, &servers, &key)?;
    let (start, mut reported) = (Instant::now(), Instant::now());
    let until = start + Duration::from_secs(seconds) + END_MAX;
    let (mut highest, mut silent, mut looks) = (before, 0, 0);
    // The first minute has other programs, because zones grow at that time.
    let mut others = Some(Others::start());
    while queries.is_running()? | updates.is_running()? {
        match terms(&own) {
            Some(terms) => highest = terms.into_iter().fold(highest, f64::max),
            None => silent += 1,
        }
        looks += 1;
        let are_wanted = (start.elapsed().as_secs() / OTHERS.as_secs()).is_multiple_of(2);
        if are_wanted != others.is_some() {
            others = are_wanted.then(Others::start);
        }
        if reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
            eprintln!("{} s: {:.0} terms have begun", start.elapsed().as_secs(), highest - before);
        }
        if Instant::now() > until {
            return Err(format!("the tools did not end; {:.0} terms have begun", highest - before));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    drop(others);
    let used = meter.stop();
    let (queries, updates) = (queries.read()?, updates.read()?);
    let after = term(&own)?;
    let (acknowledged, unanswered) = counts(&updates);
    let lost = count_lost_steps(&nodes, &key, first, acknowledged, unanswered)?;
    let rate = |count: u64| thousands(count as f64 / seconds as f64);
    // The test says nothing unless the cores were busy.
    let verdict = match after.max(highest) - before {
        _ if used.idle > IDLE_MAX => Verdict::Absent,
        0.0 if minutes(options) < MINUTES => Verdict::Absent,
        terms => Verdict::of(terms == 0.0),
    };
    let of_terms = Row {
        what: format!("{} min with all cores saturated, {NODES} nodes: terms that began", minutes(options)),
        figure: format!("{:.0}", after.max(highest) - before),
        budget: format!("0 in {MINUTES} min"),
        verdict,
        note: format!(
            "{}/s updates acknowledged, {} in all, {lost} lost, {unanswered} unanswered; {}/s queries answered; \
             {looks} looks at the terms, {silent} of them without an answer of all nodes; cores: {}",
            rate(acknowledged),
            thousands(acknowledged as f64),
            rate(queries.figures().rcodes.values().sum()),
            used.account()
        ),
    };
    Ok(vec![of_terms, lost_updates(lost, unanswered)])
}

/// Threads of normal priority that use all cores.
struct Others {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Others {
    fn start() -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let spin = |_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = (0..cores).map(spin).collect();
        Self { is_over, threads }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended too.
            let _ended = thread.join();
        }
    }
}

/// A running `catlab load`.
struct Tool {
    child: Child,
    out: std::path::PathBuf,
}

impl Tool {
    fn start(mut command: Command, out: &Path) -> Result<Self, String> {
        command.arg("--force").arg("--out").arg(out).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(|error| format!("catlab: {error}"))?;
        Ok(Self { child, out: out.to_owned() })
    }

    fn is_running(&mut self) -> Result<bool, String> {
        match self.child.try_wait().map_err(|error| format!("catlab: {error}"))? {
            None => Ok(true),
            Some(status) if matches!(status.code(), Some(0 | 1)) => Ok(false),
            Some(status) => Err(format!("catlab: {status}")),
        }
    }

    /// Reads its results.
    fn read(&self) -> Result<Run, String> {
        Run::read(&self.out).map_err(|error| error.to_string())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        super::machine::end(&mut self.child);
    }
}
