//! What an agent does for a run: makes the plan of the words, carries it out, packs up what it measured.

use crate::{Cli, Command, command_load};
use clap::Parser;
use lab::engine::{self, Plan, Progress};
use lab::fleet::{Assignment, Content, InputFile, Kind, Phase, pack, wall_ns};
use lab::replay::Partition;
use lab::report::{Manifest, Recording, Rules, Summary, Timeouts, busiest, folder};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A folder of a run that goes with it.
#[derive(Debug)]
pub(super) struct RunFolder(PathBuf);

impl RunFolder {
    /// Makes it.
    pub(super) fn make(spool: &Path, run: &str, agent: &str) -> std::io::Result<Self> {
        let path = spool.join(format!("catlab-agent-{run}-{agent}"));
        // A key may come to lie in it.
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// Where a file of the order is spooled to.
    pub(super) fn file(&self, file: &InputFile) -> PathBuf {
        self.0.join(format!("{}.{}", file.content.option().unwrap_or("trace"), file.extension))
    }

    /// The run folder as a file.
    pub(super) fn bundle(&self) -> PathBuf {
        self.0.join("run.bundle")
    }

    fn run(&self) -> PathBuf {
        self.0.join("run")
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // What stays on the disk of an agent is overwritten by nothing, and harms nothing but room.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// All that is needed to begin.
pub(super) struct PreparedRun {
    plan: Plan,
    rules: Rules,
    /// As it would be typed.
    line: Vec<String>,
}

impl PreparedRun {
    /// Makes the plan of an order, whose words have been looked at, with the files that came with it; of a trace this
    /// is the first reading.
    ///
    /// # Errors
    /// The target is none that this agent may load, or the plan is none.
    pub(super) fn new(assignment: &Assignment, files: &[(Content, PathBuf)], is_owned: bool) -> Result<Self, String> {
        let plan_name = if assignment.kind == Kind::Load { "load" } else { "replay" };
        let mut line = vec!["catlab".to_owned(), plan_name.to_owned()];
        for (content, path) in files {
            line.push(match content.option() {
                Some(option) => format!("--{option}={}", path.display()),
                None => path.display().to_string(),
            });
        }
        line.extend(assignment.args.iter().cloned());
        // Said on this side, by whoever started the agent; nobody else can.
        if is_owned {
            line.push("--i-own-this-target".into());
        }
        let (plan, lag_p99_max) = match Cli::try_parse_from(&line).map_err(|error| error.to_string())?.command {
            Command::Load(arguments) => {
                let plan = command_load::plan(&arguments).map_err(|error| error.to_string())?;
                let part = lab::schedule::Part { index: assignment.index, count: assignment.count };
                (Plan { part, ..plan }, arguments.target.lag_limit)
            }
            Command::Replay(mut arguments) => {
                let (index, count) = (assignment.index as u32, assignment.count as u32);
                arguments.replay.partition = Some(Partition { origin_ns: assignment.origin_ns, index, count });
                let plan = arguments.replay.plan(engine::raise_open_files()).map_err(|error| error.to_string())?;
                (plan, arguments.replay.lag_limit)
            }
            _ => return Err("no plan that an agent carries out".into()),
        };
        Ok(Self { plan, rules: Rules { lag_p99_max, ..Rules::default() }, line })
    }

    /// Queries that it will send, where that is known.
    pub(super) fn queries(&self) -> Option<u64> {
        self.plan.query_count().map(|count| count.round() as u64)
    }

    /// Carries it out from that time of this machine on, and packs up what was measured.
    ///
    /// # Errors
    /// Sockets, or the disk.
    pub(super) fn run(
        self,
        start_ns: u64,
        folder: &RunFolder,
        sent: &AtomicU64,
        stop: &AtomicU8,
    ) -> Result<Phase, String> {
        let agreed = Instant::now() + Duration::from_nanos(start_ns.saturating_sub(wall_ns()));
        let plan = Plan { start: Some(agreed), ..self.plan };
        let outcome = engine::run(&plan, |progress| {
            if let Progress::Second { total, .. } = progress {
                sent.store(total.sent, Ordering::Relaxed);
            }
            stop.load(Ordering::Relaxed)
        });
        let outcome = outcome.map_err(|error| error.to_string())?;
        sent.store(outcome.total.sent, Ordering::Relaxed);
        let summary = Summary::new(&plan, &outcome, &self.rules);
        let recording = Recording { timeouts: Timeouts::of(&plan), ..Recording::of(&outcome, plan.timeout) };
        let manifest = Manifest { command: self.line, ..Manifest::new(outcome.started, plan.seed) };
        let run = folder.run();
        std::fs::create_dir_all(&run).map_err(|error| format!("{}: {error}", run.display()))?;
        folder::write(&run, &recording, &summary, &manifest).map_err(|error| error.to_string())?;
        let bytes = pack(&run, &folder.bundle()).map_err(|error| format!("the run folder: {error}"))?;
        let start_late_us = outcome.start.saturating_duration_since(agreed).as_secs_f64() * 1e6;
        Ok(Phase::Finished { bytes, cpu_share: busiest(&outcome), start_late_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(words: &[&str]) -> Assignment {
        let args = words.iter().map(|&word| word.to_owned()).collect();
        Assignment { kind: Kind::Load, args, index: 1, count: 3, origin_ns: 0, files: Vec::new(), silence_ms: 10_000 }
    }

    #[test]
    fn a_foreign_server_needs_consent_on_the_agent() {
        let words = ["--server=192.0.2.1", "--name=q{n}.example", "--rate=10", "--duration=2s"];
        let Err(refused) = PreparedRun::new(&assignment(&words), &[], false) else { panic!("it is a stranger's") };
        assert!(refused.contains("add --i-own-this-target"), "{refused}");
        // Of 20 queries the second of three agents sends 1, 4, 7 and so on.
        assert_eq!(PreparedRun::new(&assignment(&words), &[], true).unwrap().queries(), Some(7));
    }

    #[test]
    fn a_replay_needs_a_trace() {
        let assignment = Assignment { kind: Kind::Replay, ..assignment(&["--server=127.0.0.1"]) };
        assert!(PreparedRun::new(&assignment, &[], false).is_err());
    }
}
