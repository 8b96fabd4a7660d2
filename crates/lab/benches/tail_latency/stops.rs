//! Detects stalls of the machine: times in which even the highest-priority thread did not run.
//!
//! On each core, a thread with the highest real-time priority sleeps for 1 ms at a time and records late wake-ups.
//! Neither server nor tool can delay it. A hypervisor that takes the core away can, and so can the kernel.

use super::machine::{Server, role};
use report::Run;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The role of this program that watches its core and writes to a file.
pub(crate) const ROLE: &str = "watch-stops";
/// Duration of each sleep.
const SLEEP: Duration = Duration::from_millis(1);
/// Minimum duration of a stall.
pub(crate) const STOP_MIN: Duration = Duration::from_millis(1);
/// The highest SCHED_FIFO priority for programs.
const PRIORITY: &str = "98";

/// The watching processes. They run until the end of the bench.
pub(crate) struct Watch {
    watchers: Vec<(Server, PathBuf)>,
}

impl Watch {
    /// Watches these cores.
    ///
    /// # Errors
    /// If the program may not use real-time priorities.
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

    /// All stalls so far.
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

/// Writes stalls to the file until standard input closes.
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

/// A stall of one core.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stop {
    /// End in seconds since the epoch.
    until: f64,
    seconds: f64,
}

impl Stop {
    /// Parses a complete line.
    fn parse(line: &str) -> Option<Self> {
        let (until, seconds) = line.strip_suffix('\n')?.split_once(' ')?;
        Some(Self { until: until.parse().ok()?, seconds: seconds.parse().ok()? })
    }

    /// Whether the stall or its backlog overlaps this time. At half of the server's capacity, a backlog takes as long
    /// as the stall.
    fn is_met(&self, from: f64, until: f64) -> bool {
        self.until - self.seconds < until && self.until + self.seconds > from
    }
}

/// The recorded stalls.
#[derive(Debug, Default)]
pub(crate) struct Stops(Vec<Stop>);

/// A side without the seconds of stalls.
pub(crate) struct RunsWithoutStops {
    pub(crate) runs: Vec<Run>,
    pub(crate) seconds_left_out: usize,
    /// The longest of these stalls.
    pub(crate) longest_ms: f64,
}

impl Stops {
    /// Removes the seconds in which a core stalled.
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
