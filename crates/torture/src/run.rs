//! One run: a cluster under load, one fault, and the checks.

use crate::api;
use crate::checker::Checker;
use crate::cluster::Cluster;
use crate::faults::Fault;
use crate::history::{Event, History, Listing};
use crate::interrupt;
use crate::limits::SETTLE;
use crate::load::{Load, Rate};
use crate::net::address;
use crate::rows::{Founder, Row};
use crate::verdict::{Verdict, check};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    pub(crate) rate: Rate,
    pub(crate) hold: Duration,
    pub(crate) program: PathBuf,
    pub(crate) previous: Option<PathBuf>,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunResult {
    /// The evidence that the fault happened.
    pub(crate) evidence: Option<String>,
    pub(crate) verdict: Verdict,
    /// Operations that porcupine checked.
    pub(crate) operations: u64,
    /// Why the run failed, in addition to the verdict.
    pub(crate) failure: Option<String>,
    pub(crate) seconds: f64,
}

impl RunResult {
    pub(crate) fn has_passed(&self) -> bool {
        self.evidence.is_some() && self.failure.is_none() && self.verdict.is_clean()
    }
}

/// Updates that must be acknowledged before a fault, and after it.
const PROGRESS: usize = 60;

/// Does one run. The history is written to `history`.
pub(crate) fn run(
    cluster: &mut Cluster<'_>,
    row: &Row,
    number: u64,
    seed: u64,
    options: &RunOptions,
    checker: &Checker,
    history: &Path,
) -> RunResult {
    let start = Instant::now();
    let mut result = RunResult::default();
    // Every second run has a zone with `ack = all-live`.
    let is_all_live = seed % 2 == 1 && row.founder == Founder::Current;
    let records = format!("{}{number}.torture.test", if is_all_live { 'l' } else { 'a' });
    let zones = [format!("r{number}.torture.test"), records];
    match load_and_fault(cluster, row, &zones, seed, options, &mut result) {
        Ok(observed) => check_all(&observed, checker, history, &mut result),
        Err((why, observed)) => {
            check_all(&observed, checker, history, &mut result);
            result.failure = Some(why);
        }
    }
    if result.failure.is_none() {
        result.failure = cluster.remove_zones(&zones).err();
    }
    result.seconds = start.elapsed().as_secs_f64();
    result
}

fn load_and_fault(
    cluster: &mut Cluster<'_>,
    row: &Row,
    zones: &[String; 2],
    seed: u64,
    options: &RunOptions,
    result: &mut RunResult,
) -> Result<History, (String, History)> {
    let none = |why: String| (why, History::default());
    cluster.add_zones(zones).map_err(none)?;
    let mut load = Load::start(cluster, zones, options.rate, seed).map_err(none)?;
    let shared = load.shared.clone();
    let mut done = || {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let (hold, current, previous) = (options.hold, options.program.clone(), options.previous.clone());
        let mut fault = Fault { cluster, shared: &shared, random, hold, current, previous };
        fault.wait_for_updates(PROGRESS)?;
        result.evidence = Some((row.cause)(&mut fault)?);
        fault.wait_for_updates(PROGRESS)?;
        interrupt::sleep(Duration::from_millis(500))
    };
    let mut outcome = done();
    load.stop();
    if outcome.is_ok() {
        outcome = record_end(cluster, &load, zones);
    }
    let history = load.shared.recorder.take();
    match outcome {
        Ok(()) => Ok(history),
        Err(why) => Err((why, history)),
    }
}

/// Waits until all nodes agree, and records their contents.
fn record_end(cluster: &mut Cluster<'_>, load: &Load, zones: &[String; 2]) -> Result<(), String> {
    let recorder = &load.shared.recorder;
    let states = cluster.settle(SETTLE)?;
    for (slot, applied, hash) in states {
        let node = cluster.node(slot)?.id;
        recorder.push(Event::State { node, applied, hash });
        for zone in zones {
            let call_ns = recorder.now_ns();
            let shown = api::zone(address(slot), zone, &cluster.token, api::Read::Local)?;
            let (return_ns, serial, records) = (recorder.now_ns(), shown.serial, shown.records);
            recorder.push(Event::Final(Listing { zone: zone.clone(), node, call_ns, return_ns, serial, records }));
        }
    }
    Ok(())
}

fn check_all(observed: &History, checker: &Checker, history: &Path, result: &mut RunResult) {
    result.verdict = check(observed);
    if let Err(error) = observed.write(history) {
        result.failure = Some(format!("cannot write {}: {error}", history.display()));
        return;
    }
    match checker.check(history, history.parent()) {
        Ok(answer) => {
            result.operations = answer.operations;
            result.verdict.violations += answer.violations as usize;
            result.verdict.findings.extend(answer.findings);
        }
        Err(why) => result.failure = Some(why),
    }
}
