//! All runs of one invocation.

use crate::arguments::{Arguments, Nodes};
use crate::checker::Checker;
use crate::cluster::{Cluster, Plan};
use crate::disk::run as run_program;
use crate::faults::clock;
use crate::history::History;
use crate::load::Rate;
use crate::net::Network;
use crate::rows::{Founder, Row, named};
use crate::run::{RunOptions, RunResult, run};
use crate::summary::Summary;
use crate::{doctored, interrupt, verdict};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs the rows that the arguments select. Returns whether all runs passed.
pub(crate) fn start(arguments: &Arguments) -> Result<bool, String> {
    let keep = std::path::absolute(&arguments.keep).map_err(|error| error.to_string())?;
    fs::create_dir_all(&keep).map_err(|error| format!("cannot make {}: {error}", keep.display()))?;
    let checker = match &arguments.checker {
        Some(program) => Checker::at(std::path::absolute(program).map_err(|error| error.to_string())?),
        None => Checker::build(&source_of_checker(), keep.join("torture-checker"))?,
    };
    if let Some(history) = &arguments.check {
        return check_kept(history, &checker);
    }
    // Checks that accept wrong histories prove nothing.
    if !doctored::all_found(&checker, &keep)? {
        return Ok(false);
    }
    if arguments.doctored {
        return Ok(true);
    }
    interrupt::install()?;
    let net = Network::make()?;
    // All threads and processes that start here are in the clients' network namespace.
    let done = net.clients().inside(|| Ok(Campaign::new(arguments, &checker, &net, &keep).and_then(Campaign::run)));
    done.map_err(|error| error.to_string())?
}

/// Removes disks and namespaces that killed torture runs left behind.
fn remove_leftovers(images: &Path) {
    let is_gone = |pid: &str| pid.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    for name in names(images).iter().filter(|name| name.strip_prefix(IMAGES).is_some_and(is_gone)) {
        let folder = images.join(name);
        for mounted in names(&folder).iter().filter(|name| name.starts_with("at-")) {
            let _ = run_program("umount", &["-l", &folder.join(mounted).to_string_lossy()]);
            // A folder that is still mounted must stay, so this does not remove everything in it.
            let _ = fs::remove_dir(folder.join(mounted));
        }
        for image in names(&folder).iter().filter(|name| name.starts_with("disk-")) {
            let _ = fs::remove_file(folder.join(image));
        }
        let _ = fs::remove_dir(&folder);
    }
    let owner = |name: &str| name.strip_prefix("ct").and_then(|rest| rest.split(['r', 'n', 'c']).next()).map(is_gone);
    for name in names(Path::new("/var/run/netns")).iter().filter(|name| owner(name) == Some(true)) {
        let _ = links::ip(&["netns", "del", name]);
    }
}

/// Prefix of the names of image folders. The process id follows.
const IMAGES: &str = "catamaran-torture-";

fn source_of_checker() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&own).join("../../xtask/torture-checker")
}

fn check_kept(path: &Path, checker: &Checker) -> Result<bool, String> {
    let history = History::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let verdict = verdict::check(&history);
    let answer = checker.check(path, None)?;
    for finding in verdict.findings.iter().chain(&answer.findings) {
        println!("{finding}");
    }
    println!(
        "{} acknowledged, {} unknown, {} lost, {} ghosts, {} violations; porcupine: {} of {} registers, {} operations",
        verdict.acknowledged,
        verdict.unknown,
        verdict.lost,
        verdict.ghosts,
        verdict.violations,
        answer.violations,
        answer.registers,
        answer.operations
    );
    Ok(verdict.is_clean() && answer.violations == 0)
}

struct Campaign<'a> {
    arguments: &'a Arguments,
    checker: &'a Checker,
    net: &'a Network,
    keep: &'a Path,
    options: RunOptions,
    rows: Vec<Row>,
    summary: Summary,
    /// Number of runs so far.
    count: u64,
    images: PathBuf,
    start: Instant,
}

impl<'a> Campaign<'a> {
    fn new(arguments: &'a Arguments, checker: &'a Checker, net: &'a Network, keep: &'a Path) -> Result<Self, String> {
        let program = arguments.binary.clone().ok_or("--binary is missing; cargo xtask torture gives it")?;
        let program = std::path::absolute(program).map_err(|error| error.to_string())?;
        if !program.exists() {
            return Err(format!("there is no {}", program.display()));
        }
        let previous = arguments.previous.clone().or_else(|| std::env::var_os("CATAMARAN_PREVIOUS").map(PathBuf::from));
        let previous = previous.filter(|path| path.exists());
        let rate = Rate { clients: arguments.clients, updates_per_second: arguments.rate };
        let hold = Duration::from_millis(arguments.hold_ms);
        let shared_memory = Path::new("/dev/shm");
        let folder = match &arguments.images {
            Some(folder) => folder.clone(),
            None if shared_memory.is_dir() => shared_memory.to_owned(),
            None => std::env::temp_dir(),
        };
        remove_leftovers(&folder);
        Ok(Self {
            arguments,
            checker,
            net,
            keep,
            options: RunOptions { rate, hold, program, previous },
            rows: named(&arguments.rows)?,
            summary: Summary::default(),
            count: 0,
            images: folder.join(format!("{IMAGES}{}", std::process::id())),
            start: Instant::now(),
        })
    }

    fn run(mut self) -> Result<bool, String> {
        self.leave_out();
        let mut round = 0;
        while !interrupt::is_set() && !self.is_over(round) {
            round += 1;
            for size in self.sizes() {
                self.round(size)?;
            }
        }
        let _ = fs::remove_dir_all(&self.images);
        let _ = fs::remove_dir_all(self.work());
        self.summary.print();
        if let Some(path) = &self.arguments.json {
            let text = serde_json::to_string_pretty(&self.summary.json()).map_err(|error| error.to_string())?;
            fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        if interrupt::is_set() {
            return Err("interrupted; disks and networks were removed".into());
        }
        Ok(self.summary.failed() == 0 && self.summary.runs() > 0)
    }

    /// The folder of the logs and the history of the running cluster.
    fn work(&self) -> PathBuf {
        self.keep.join(format!("running-{}", std::process::id()))
    }

    /// Skips rows that cannot run here, and lists them.
    fn leave_out(&mut self) {
        let has_clock = clock::library().is_some();
        let has_previous = self.options.previous.is_some();
        let mut rows = std::mem::take(&mut self.rows);
        rows.retain(|row| {
            let why = match row.name {
                "clock" if !has_clock => "libfaketime is not installed: apt-get install faketime",
                _ if row.founder == Founder::Previous && !has_previous => {
                    "there is no build of the previous feature level: set CATAMARAN_PREVIOUS"
                }
                _ => return true,
            };
            self.summary.skip(row.name, why);
            false
        });
        self.rows = rows;
    }

    fn is_over(&self, round: u64) -> bool {
        let is_late = |seconds: u64| self.start.elapsed() > Duration::from_secs(seconds);
        let has_failed = self.arguments.fail_fast && self.summary.failed() > 0;
        has_failed || self.arguments.seconds.map_or(round >= self.arguments.rounds, is_late)
    }

    /// The cluster sizes of a round; `None`: each row has its own size.
    fn sizes(&self) -> Vec<Option<usize>> {
        match self.arguments.nodes {
            None => vec![None],
            Some(Nodes::Three) => vec![Some(3)],
            Some(Nodes::Five) => vec![Some(5)],
            Some(Nodes::Both) => vec![Some(3), Some(5)],
        }
    }

    /// Runs all rows once. One cluster serves as many rows as it can.
    fn round(&mut self, size: Option<usize>) -> Result<(), String> {
        let mut rows: Vec<(usize, Row)> = self.rows.iter().map(|row| (size.unwrap_or(row.nodes), *row)).collect();
        rows.sort_by_key(|(nodes, row)| (row.founder == Founder::Previous, *nodes));
        let mut cluster: Option<Cluster<'a>> = None;
        for (nodes, row) in rows {
            if interrupt::is_set() || self.arguments.fail_fast && self.summary.failed() > 0 {
                break;
            }
            let fits = |cluster: &Cluster<'_>| cluster.nodes.len() == nodes && row.founder == Founder::Current;
            if !cluster.as_ref().is_some_and(fits) {
                // The previous cluster must be gone, because both use the same addresses.
                drop(cluster.take());
                match self.found(nodes, &row) {
                    Err(_) if interrupt::is_set() => break,
                    Ok(founded) => cluster = Some(founded),
                    Err(why) => self.not_founded(nodes, &row, why),
                }
            }
            if let Some(running) = cluster.as_mut()
                && !self.one(running, nodes, &row)?
            {
                drop(cluster.take());
            }
        }
        Ok(())
    }

    fn found(&self, nodes: usize, row: &Row) -> Result<Cluster<'a>, String> {
        let program = match row.founder {
            Founder::Current => self.options.program.clone(),
            Founder::Previous => {
                self.options.previous.clone().ok_or("there is no build of the previous feature level")?
            }
        };
        let work = self.work();
        let _ = fs::remove_dir_all(&work);
        let has_tiny_logs = nodes == 3 || row.name == "churn";
        let planted = self.arguments.planted;
        let plan = Plan { nodes, program, has_tiny_logs, work, images: self.images.clone(), planted };
        Cluster::start(plan, self.net)
    }

    /// Counts a run as failed if its cluster could not be created.
    fn not_founded(&mut self, nodes: usize, row: &Row, why: String) {
        let seed = self.arguments.seed + self.count;
        self.count += 1;
        println!("FAILED {}/{nodes} seed {seed}: cannot make the cluster: {why}", row.name);
        let result = RunResult { failure: Some(why), ..RunResult::default() };
        self.summary.add(row.name, nodes, seed, &result);
    }

    /// Does one run. Returns whether its cluster is usable for the next row.
    fn one(&mut self, cluster: &mut Cluster<'a>, nodes: usize, row: &Row) -> Result<bool, String> {
        let seed = self.arguments.seed + self.count;
        self.count += 1;
        let history = cluster.plan.work.join("history.jsonl");
        let result = run(cluster, row, self.count, seed, &self.options, self.checker, &history);
        if interrupt::is_set() {
            return Ok(false);
        }
        self.summary.add(row.name, nodes, seed, &result);
        let verdict = &result.verdict;
        println!(
            "{} {}/{nodes} seed {seed}: {} acknowledged, {} unknown, {} lost, {} ghosts, {} violations; {:.1} s; {}",
            if result.has_passed() { "passed" } else { "FAILED" },
            row.name,
            verdict.acknowledged,
            verdict.unknown,
            verdict.lost,
            verdict.ghosts,
            verdict.violations,
            result.seconds,
            result.evidence.as_deref().unwrap_or("the fault did not happen")
        );
        if result.has_passed() {
            return Ok(true);
        }
        self.keep_failed(cluster, nodes, row, seed, &result)?;
        Ok(false)
    }

    /// Keeps the histories, logs and data of a failed run, and prints the command that repeats it.
    fn keep_failed(
        &self,
        cluster: &mut Cluster<'_>,
        nodes: usize,
        row: &Row,
        seed: u64,
        result: &RunResult,
    ) -> Result<(), String> {
        let folder = self.keep.join(format!("failed-{}-{nodes}-{seed}-{}", row.name, std::process::id()));
        for node in cluster.nodes.values_mut() {
            node.resume();
            node.ensure_dead();
        }
        let text = |error: std::io::Error| format!("cannot keep the failed run in {}: {error}", folder.display());
        fs::rename(&cluster.plan.work, &folder).map_err(text)?;
        for (slot, disk) in &cluster.disks {
            let to = folder.join(format!("disk-{slot}"));
            run_program("cp", &["-a", "--sparse=always", &disk.path().to_string_lossy(), &to.to_string_lossy()])?;
        }
        let mut report = result.failure.clone().unwrap_or_default();
        for finding in &result.verdict.findings {
            report.push_str(&format!("\n{finding}"));
        }
        fs::write(folder.join("report.txt"), &report).map_err(text)?;
        for line in report.lines().take(25) {
            println!("    {line}");
        }
        println!("    files:  {}", folder.display());
        let binary = self.options.program.display();
        println!("    repeat: cargo xtask torture --rows {} --nodes {nodes} --seed {seed} --binary {binary}", row.name);
        Ok(())
    }
}
