//! The agent's part of a run: builds the plan from its arguments, runs it and packs the results.

use crate::commands;
use crate::{Cli, Command};
use clap::Parser;
use fleet::{Assignment, Content, InputFile, Kind, Phase, pack, wall_ns};
use lab::results;
use load::engine::{self, Plan, Progress};
use load::replay::Partition;
use report::{Manifest, Rules, folder};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The folder of a run. It is removed on drop.
#[derive(Debug)]
pub(super) struct RunFolder(PathBuf);

impl RunFolder {
    /// Creates the folder.
    pub(super) fn make(spool: &Path, run: &str, agent: &str) -> std::io::Result<Self> {
        let path = spool.join(format!("catlab-agent-{run}-{agent}"));
        // The folder may hold a TSIG key, so only the user can read it.
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// The path of an input file.
    pub(super) fn file(&self, file: &InputFile) -> PathBuf {
        self.0.join(format!("{}.{}", file.content.option().unwrap_or("trace"), file.extension))
    }

    /// The path of the packed run folder.
    pub(super) fn bundle(&self) -> PathBuf {
        self.0.join("run.bundle")
    }

    fn run(&self) -> PathBuf {
        self.0.join("run")
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // A leftover folder only takes up disk space: later runs use other names.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// A plan that is ready to start.
pub(super) struct PreparedRun {
    plan: Plan,
    rules: Rules,
    /// The command line, for the manifest.
    line: Vec<String>,
}

impl PreparedRun {
    /// Builds the plan from checked arguments and received files. Reads a trace once to find its sources.
    ///
    /// # Errors
    /// If this agent may not load the target, or if the plan is invalid.
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
        // Only the user of this host can permit other targets, with an option of the agent.
        if is_owned {
            line.push("--i-own-this-target".into());
        }
        let (plan, lag_p99_max) = match Cli::try_parse_from(&line).map_err(|error| error.to_string())?.command {
            Command::Load(arguments) => {
                let plan = commands::load::plan(&arguments).map_err(|error| error.to_string())?;
                let part = load::schedule::Part { index: assignment.index, count: assignment.count };
                (Plan { part, ..plan }, arguments.target.lag_limit)
            }
            Command::Replay(mut arguments) => {
                let (index, count) = (assignment.index as u32, assignment.count as u32);
                arguments.replay.partition = Some(Partition { origin_ns: assignment.origin_ns, index, count });
                let plan =
                    arguments.replay.plan(sockets::system::raise_open_files()).map_err(|error| error.to_string())?;
                (plan, arguments.replay.lag_limit)
            }
            _ => return Err("no plan that an agent carries out".into()),
        };
        Ok(Self { plan, rules: Rules { lag_p99_max, ..Rules::default() }, line })
    }

    /// The number of queries that it will send, if known.
    pub(super) fn queries(&self) -> Option<u64> {
        self.plan.query_count().map(|count| count.round() as u64)
    }

    /// Runs the plan from this time of the local clock on, and packs the results.
    ///
    /// # Errors
    /// If a socket or a file fails.
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
        let mut summary = results::summary(&plan, &outcome, &self.rules);
        let recording = results::recording(&plan, &outcome);
        summary.note_recording(&recording);
        let manifest = Manifest { command: self.line, ..Manifest::new(outcome.started, plan.seed) };
        let run = folder.run();
        std::fs::create_dir_all(&run).map_err(|error| format!("{}: {error}", run.display()))?;
        folder::write(&run, &recording, &summary, &manifest).map_err(|error| error.to_string())?;
        let bytes = pack(&run, &folder.bundle()).map_err(|error| format!("the run folder: {error}"))?;
        let start_late_us = outcome.start.saturating_duration_since(agreed).as_secs_f64() * 1e6;
        Ok(Phase::Finished { bytes, cpu_share: results::busiest(&outcome), start_late_us })
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
        // The second of three agents sends queries 1, 4, 7 and so on of 20.
        assert_eq!(PreparedRun::new(&assignment(&words), &[], true).unwrap().queries(), Some(7));
    }

    #[test]
    fn a_replay_needs_a_trace() {
        let assignment = Assignment { kind: Kind::Replay, ..assignment(&["--server=127.0.0.1"]) };
        assert!(PreparedRun::new(&assignment, &[], false).is_err());
    }
}
