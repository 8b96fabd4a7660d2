//! `catlab experiment`: runs experiments, and writes a page with claims for each.

mod compare;
mod run;
mod select;
mod show;
mod summary;

use clap::Subcommand;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab experiment list
  catlab experiment show cpu-quota
  catlab experiment run cpu-quota --quick
  catlab experiment run mine.toml --set seconds=30 --only server=knot
  catlab experiment report experiments/cpu-quota
  catlab experiment compare experiments/read-rate new/read-rate

An experiment starts servers and runs `catlab` commands against them, for all combinations of its parameters. Its page
compares the results with those of a paper. The definition is a TOML file: a built-in one, or your own
(docs/catlab/experiments.md).";

const SHOW_EXAMPLES: &str = "Examples:
  catlab experiment show read-rate
  catlab experiment show read-rate --quick --set seconds=5
  catlab experiment show read-rate --program bind=/opt/bind/sbin/named
  catlab experiment show read-rate --toml > mine.toml

Exit code 0: the definition is valid; 2: it is not valid, or does not exist.";

const RUN_EXAMPLES: &str = "Examples:
  catlab experiment run read-rate --quick
  catlab experiment run read-rate cpu-quota --dir results
  catlab experiment run all --quick
  catlab experiment run mine.toml --only cpu=0.5 --only cpu=1 --set seconds=30
  catlab experiment run read-rate --program bind=/opt/bind/sbin/named --dir new
  catlab experiment run read-rate --server dns=192.168.1.2:5300 --only server=nsd --dir mine

Results are in DIR/NAME, or DIR/NAME-quick and DIR/NAME-paper for other sizes. Ctrl-C stops a run. The same command
continues with the cells that are missing. If one of several experiments cannot run, the next one does.

Your own server needs the zones of the experiment. Those of built-in ones are in DIR/NAME/tree. It gets the queries of
every selected cell. Other servers or programs need another --dir.

Exit code 0: no claim differs from what is wanted, and no cell failed; 1: a claim differs, or a cell failed or is
INVALID; 2: an experiment did not run, or was stopped. Cells whose program is missing are not measured. They do not
change the exit code.";

const REPORT_EXAMPLES: &str = "Examples:
  catlab experiment report experiments/read-rate
  catlab experiment report experiments/read-rate --publish docs/experiments

Exit code 0: no claim differs from what is wanted; 1: a claim differs; 2: the page was not written.";

const COMPARE_EXAMPLES: &str = "Examples:
  catlab experiment compare experiments/read-rate new/read-rate
  catlab experiment compare monday tuesday --json comparison.json

Prints the claims with their values and verdicts in both runs, then rate, p50 and p99 of each cell. The ratio B/A is the
median of the ratios of the same repeats. Its interval is a 95 % interval with 6 or more repeats, otherwise the range.

A value differs by more than the spread if its intervals in A and B do not overlap. If the runs were not measured in
turns, drift of the machine is part of the difference, and a warning says so.

Exit code 0: the runs were compared; 2: a folder cannot be read, or the experiments are different.";

/// The commands for experiments.
#[derive(Subcommand)]
pub(crate) enum ExperimentCommand {
    /// List the built-in experiments with their sources and durations.
    List,
    /// Show the plan of an experiment: cells, duration, missing programs, commands and claims.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(show::Arguments),
    /// Run experiments and write a page for each.
    #[command(after_help = RUN_EXAMPLES)]
    Run(run::Arguments),
    /// Write the page of a run again.
    #[command(after_help = REPORT_EXAMPLES)]
    Report {
        /// Folder of the results of one experiment.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Also write the page as Markdown with its pictures to this folder, for documentation.
        #[arg(long, value_name = "FOLDER")]
        publish: Option<PathBuf>,
    },
    /// Compare two runs of one experiment: other builds, machines or days.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(compare::Arguments),
}

/// Runs the command.
pub(crate) fn main(command: &ExperimentCommand) -> ExitCode {
    let done: Result<ExitCode, Box<dyn Error>> = match command {
        ExperimentCommand::List => show::list(),
        ExperimentCommand::Show(arguments) => show::show(arguments),
        ExperimentCommand::Run(arguments) => run::run(arguments),
        ExperimentCommand::Report { dir, publish } => run::report(dir, publish.as_deref()),
        ExperimentCommand::Compare(arguments) => compare::compare(arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("catlab experiment: {error}");
        ExitCode::from(2)
    })
}
