//! What goes on beside the queries: updates, zones that come and go, transfers. Each ends with its turn.

use super::Options;
use super::catamaran_server::CatamaranServer;
use super::machine::pinned;
use super::sides::APEX;
use lab::engine::Transport;
use lab::report::Run;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Connections that updates come over.
const WRITERS: usize = 4;
/// Zones that come or go in one turn, or transfers, at most.
const STEPS_MAX: usize = 1_000;
/// An update in a hundred may be sent later than this; what is later comes in bursts, microseconds.
const LATE_US_MAX: f64 = 5_000.0;
/// The zone that comes and goes.
const VISITOR: &str = "visitor.test.";

/// A kind of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Names of the zone change, some in each update.
    Updates,
    /// A zone as large as the other is added and removed, again and again; the log that it makes leads to checkpoints.
    Load,
    /// The whole zone is transferred, again and again.
    Transfer,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Updates, Self::Load, Self::Transfer];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Updates => "updates",
            Self::Load => "load",
            Self::Transfer => "transfer",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.label() == text);
        kind.ok_or_else(|| format!("--sides {text}: write updates, load or transfer"))
    }
}

/// What was done meanwhile: names changed by updates that were acknowledged, zones added or removed, transfers. What
/// ends after the turn does not count.
pub(crate) fn disturb(
    kind: Kind,
    options: &Options,
    own: &CatamaranServer,
    zone: &Path,
    round: u64,
    seconds: u64,
    stop: &AtomicBool,
) -> Result<u64, String> {
    match kind {
        Kind::Updates => updates(options, own, round, seconds),
        Kind::Load => {
            let arguments = format!("{VISITOR}={}", zone.display());
            repeat(stop, |step| match step % 2 {
                0 => one(options, own.command(&["zone", "add", &arguments])),
                _ => one(options, own.command(&["zone", "remove", VISITOR, "--yes"])),
            })
        }
        Kind::Transfer => repeat(stop, |_| {
            let server = own.dns();
            let mut dig = Command::new("dig");
            dig.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string(), "-k"]);
            dig.arg(own.cluster().join("update.key")).args([APEX, "AXFR", "+noall", "+time=60"]).stdout(Stdio::null());
            one(options, dig)
        }),
    }
}

/// Names drawn from all of the zone's, spread evenly over the turn.
fn updates(options: &Options, own: &CatamaranServer, round: u64, seconds: u64) -> Result<u64, String> {
    let out: PathBuf = options.folder.join("updates");
    let rate = options.changes as f64 / options.names_each as f64 / options.rounds as f64 / seconds as f64;
    // Before the generator, which is never idle: behind it they would come a few times a second, hundreds at once. What
    // it takes from the generator shows in the send lag.
    let mut command = scheduled("nice", &["-n", "-10"], &pinned(options.writer_core, &options.catlab));
    let transport = options.updates_over.label();
    command.args(["load", "--quiet", "--workers", "1", "--transport", transport, "--server", &own.dns().to_string()]);
    command.arg("--tsig").arg(own.cluster().join("update.key"));
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

/// One step after the other until the turn is over, and then on to an even number: whatever comes has gone again. Gives
/// how many steps ended in time.
///
/// A program that has ended is waited for only after the turn: where another process looks at it, the kernel may take
/// seconds to remove it from /proc (a loop of `d_walk` on behalf of who waits, as long as those it waits for have no
/// core), and would take them from the server.
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

/// A program that has said all that it had to say.
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

/// Runs a program until it closes its standard error, which is when it ends.
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

/// The same on the client's core, behind everything else there: SCHED_IDLE takes what is left, and gives way at once.
/// (A low priority would give way at the next tick of the kernel's clock, up to 4 ms later.)
fn bound(options: &Options, command: &Command) -> Command {
    let mut bound = pinned(options.client_core, Path::new(command.get_program()));
    bound.args(command.get_args());
    scheduled("chrt", &["-i", "0"], &bound)
}

/// The same, started by a program that sets how it is scheduled.
fn scheduled(program: &str, arguments: &[&str], command: &Command) -> Command {
    let mut first = Command::new(program);
    first.args(arguments).arg(command.get_program()).args(command.get_args());
    first.stdin(Stdio::null()).stdout(Stdio::null());
    first
}
