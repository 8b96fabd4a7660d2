//! Stops of the machine: moments in which a thread that goes before all others did not run, so nobody did.
//!
//! On each core a thread of the highest real-time priority sleeps for a millisecond at a time, and writes down when it
//! was woken late. What the server or the tool does cannot hold it up: a hypervisor that takes the core away does, and
//! a kernel that does not let go of it.

use super::machine::{Server, role};
use lab::report::Run;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The role of this program, with a file, that watches the core that it was put on.
pub(crate) const ROLE: &str = "watch-stops";
/// How long it sleeps.
const SLEEP: Duration = Duration::from_millis(1);
/// From this on it is a stop.
pub(crate) const STOP_MIN: Duration = Duration::from_millis(1);
/// Of SCHED_FIFO: the highest that is left to programs.
const PRIORITY: &str = "98";

/// Those who watch, until the end of the bench.
pub(crate) struct Watch {
    watchers: Vec<(Server, PathBuf)>,
}

impl Watch {
    /// Watches these cores.
    ///
    /// # Errors
    /// Where a program may have no real-time priority.
    pub(crate) fn start(cores: &[usize], folder: &Path) -> Result<Self, String> {
        let watcher = |&core: &usize| {
            let file = folder.join(format!("stops-{core}"));
            let watch = role(Some(core), &[ROLE, &file.to_string_lossy()]);
            let mut command = Command::new("chrt");
            command.args(["-f", PRIORITY]).arg(watch.get_program()).args(watch.get_args());
            Ok((Server::start(command)?, file))
        };
        Ok(Self { watchers: cores.iter().map(watcher).collect::<Result<_, String>>()? })
    }

    /// The stops so far.
    pub(crate) fn stops(&self) -> Result<Stops, String> {
        let mut stops = Vec::new();
        for (_, file) in &self.watchers {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            stops.extend(text.split_inclusive('\n').filter_map(Stop::parse));
        }
        Ok(Stops(stops))
    }

    pub(crate) fn end(self) {
        self.watchers.into_iter().for_each(|(server, _)| server.end());
    }
}

/// Writes stops into the file until standard input ends.
pub(crate) fn watch(file: &str) -> std::io::Result<()> {
    let mut out = File::create(file)?;
    println!("watching {file}");
    std::thread::spawn(|| {
        let _ended = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    loop {
        let asleep = Instant::now();
        std::thread::sleep(SLEEP);
        let late = asleep.elapsed().saturating_sub(SLEEP);
        if late >= STOP_MIN {
            let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            writeln!(out, "{:.6} {:.6}", until.as_secs_f64(), late.as_secs_f64())?;
        }
    }
}

/// A stop of one core.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stop {
    /// Seconds since the epoch.
    until: f64,
    seconds: f64,
}

impl Stop {
    /// Of a whole line.
    fn parse(line: &str) -> Option<Self> {
        let (until, seconds) = line.strip_suffix('\n')?.split_once(' ')?;
        Some(Self { until: until.parse().ok()?, seconds: seconds.parse().ok()? })
    }

    /// Whether queries of this time met it, or what had piled up meanwhile: at half of what a server can it is worked
    /// off in as long again.
    fn is_met(&self, from: f64, until: f64) -> bool {
        self.until - self.seconds < until && self.until + self.seconds > from
    }
}

/// What those who watch have written.
#[derive(Debug, Default)]
pub(crate) struct Stops(Vec<Stop>);

/// A side without the seconds in which the machine stood still.
pub(crate) struct RunsWithoutStops {
    pub(crate) runs: Vec<Run>,
    pub(crate) seconds_left_out: usize,
    /// The longest stop in these.
    pub(crate) longest_ms: f64,
}

impl Stops {
    /// The same runs without the seconds in which one of the cores stood still.
    pub(crate) fn leave_out(&self, runs: &[Run]) -> RunsWithoutStops {
        let mut unstopped = RunsWithoutStops { runs: runs.to_vec(), seconds_left_out: 0, longest_ms: 0.0 };
        for run in &mut unstopped.runs {
            let started = run.recording.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let sending: Vec<f64> = run.sending().map(|row| row.start_seconds).collect();
            run.recording.rows.retain(|row| {
                let from = started + row.start_seconds;
                let met = self.0.iter().filter(|stop| stop.is_met(from, from + row.span_seconds));
                let longest_ms = met.map(|stop| stop.seconds * 1e3).fold(0.0, f64::max);
                if longest_ms == 0.0 {
                    return true;
                }
                if sending.contains(&row.start_seconds) {
                    unstopped.seconds_left_out += 1;
                    unstopped.longest_ms = unstopped.longest_ms.max(longest_ms);
                }
                false
            });
        }
        unstopped
    }
}
