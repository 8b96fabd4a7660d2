//! Disturbances during the queries: updates, zones that are added and removed, or transfers. Each ends with its turn.

use super::machine::pinned;
use super::options::{Disturbance, Options};
use super::zone::APEX;
use measure::Transport;
use report::Run;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testbed::Cluster;

/// Connections for updates.
const WRITERS: usize = 4;
/// Maximum number of zone changes or transfers in one turn.
const STEPS_MAX: usize = 1_000;
/// Limit of the updates' p99 send lag, in microseconds. Later updates would arrive in bursts.
const LATE_US_MAX: f64 = 5_000.0;
/// The zone that is added and removed.
const VISITOR: &str = "visitor.test.";

/// Runs a disturbance. Counts the names changed by acknowledged updates, zone changes, or transfers. Steps that end
/// after the turn do not count.
pub(crate) fn disturb(
    kind: Disturbance,
    options: &Options,
    own: &Cluster,
    zone: &Path,
    round: u64,
    seconds: u64,
    stop: &AtomicBool,
) -> Result<u64, String> {
    match kind {
        Disturbance::Updates => updates(options, own, round, seconds),
        Disturbance::Load => {
            let arguments = format!("{VISITOR}={}", zone.display());
            repeat(stop, |step| match step % 2 {
                0 => one(options, own.command(&["zone", "add", &arguments])),
                _ => one(options, own.command(&["zone", "remove", VISITOR, "--yes"])),
            })
        }
        Disturbance::Transfer => repeat(stop, |_| {
            let server = own.dns();
            let mut dig = Command::new("dig");
            dig.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string(), "-k"]);
            dig.arg(own.cluster_folder().join("update.key"))
                .args([APEX, "AXFR", "+noall", "+time=60"])
                .stdout(Stdio::null());
            one(options, dig)
        }),
    }
}

/// Updates names drawn from the whole zone, spread evenly over the turn.
fn updates(options: &Options, own: &Cluster, round: u64, seconds: u64) -> Result<u64, String> {
    let out: PathBuf = options.folder.join("updates");
    let rate = options.changes as f64 / options.names_each as f64 / options.rounds as f64 / seconds as f64;
    // Higher priority than the generator, which is never idle. At equal priority, updates would be sent in bursts of
    // hundreds, a few times a second. The CPU time taken from the generator shows in its send lag.
    let mut command = scheduled("nice", &["-n", "-10"], &pinned(options.writer_core, &options.catlab));
    let transport = options.updates_over.label();
    command.args(["load", "--quiet", "--workers", "1", "--transport", transport, "--server", &own.dns().to_string()]);
    command.arg("--tsig").arg(own.cluster_folder().join("update.key"));
    command.args(["--update-zone", APEX, "--name", &format!("q{{n}}.{APEX}"), "--names", &options.names.to_string()]);
    command.args(["--names-each", &options.names_each.to_string()]);
    command.args(["--seed", &(round + 1).to_string(), "--rate", &format!("{rate:.0}")]);
    command.args(["--duration", &format!("{seconds}s"), "--lag-limit", "10s"]);
    if options.updates_over != Transport::Udp {
        command.args(["--connections", &WRITERS.to_string()]);
    }
    command.arg("--force").arg("--out").arg(&out).stdout(Stdio::null());
    let output = command.output().map_err(|error| format!("catlab: {error}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("updates: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let run = Run::read(&out).map_err(|error| error.to_string())?;
    let late_us = run.figures().send_lag_us.p99;
    if late_us > LATE_US_MAX {
        return Err(format!("updates were not spread evenly: one in a hundred was sent {late_us:.0} us late"));
    }
    Ok(run.figures().rcodes.get("NOERROR").copied().unwrap_or(0) * options.names_each)
}

/// Repeats the step until the turn ends, and once more if needed to undo the last change. Returns how many steps ended
/// in time.
///
/// Waits for exited programs only after the turn. Otherwise the kernel may take seconds of CPU time to remove one from
/// /proc while another process reads it (a loop in `d_walk`), at the cost of the server.
fn repeat(stop: &AtomicBool, mut step: impl FnMut(u64) -> Result<Step, String>) -> Result<u64, String> {
    let (mut steps, mut in_time) = (Vec::new(), 0);
    while steps.len() % 2 == 1 || !stop.load(Ordering::Relaxed) && steps.len() < STEPS_MAX {
        steps.push(step(steps.len() as u64)?);
        in_time += u64::from(!stop.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(50));
    }
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    steps.into_iter().try_for_each(Step::conclude)?;
    Ok(in_time)
}

/// A program that has closed its standard error.
struct Step {
    child: Child,
    shown: String,
    errors: String,
}

impl Step {
    fn conclude(mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(|error| format!("{}: {error}", self.shown))?;
        if status.success() { Ok(()) } else { Err(format!("{}: {}", self.shown, self.errors)) }
    }
}

/// Runs a program until it closes its standard error, that is, until it exits.
fn one(options: &Options, command: Command) -> Result<Step, String> {
    let mut command = bound(options, &command);
    let shown = format!("{command:?}");
    let wrong = |error: std::io::Error| format!("{shown}: {error}");
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(wrong)?;
    let mut errors = String::new();
    let mut stderr = child.stderr.take().expect("it is piped");
    stderr.read_to_string(&mut errors).map_err(wrong)?;
    Ok(Step { child, shown, errors })
}

/// Runs the command on the client's core with SCHED_IDLE, so that it yields at once to everything else. A low priority
/// would only yield at the next kernel tick, up to 4 ms later.
fn bound(options: &Options, command: &Command) -> Command {
    let mut bound = pinned(options.client_core, Path::new(command.get_program()));
    bound.args(command.get_args());
    scheduled("chrt", &["-i", "0"], &bound)
}

/// Runs the command through a program that sets its scheduling.
fn scheduled(program: &str, arguments: &[&str], command: &Command) -> Command {
    let mut first = Command::new(program);
    first.args(arguments).arg(command.get_program()).args(command.get_args());
    first.stdin(Stdio::null()).stdout(Stdio::null());
    first
}
