//! `catlab merge`: merges runs of several processes or machines.

use crate::out_folder::{Force, OutFolder, RUN};
use crate::run_outputs::print_summary;
use clap::Args;
use report::{Manifest, Run, folder, merge};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab merge run1 run2 --out both
  catlab report both

Adds counts and distributions second by second. A run that started later is shifted by whole seconds. The merged run is
valid if all runs are valid. Runs only keep quantiles of handshake and connection times; the merged run has the larger
ones. Freshness, self-checks and single queries are not merged.

Exit code 0: the merged run is valid; 1: it is INVALID; 2: it was not written.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run folders of `catlab load --out`. The runs must overlap in time.
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Folder for the merged run.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// Writes the merged run.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("catlab merge: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let out = OutFolder::begin(&arguments.out, &RUN, arguments.force)?;
    let runs = arguments.runs.iter().map(|path| Run::read(path)).collect::<Result<Vec<_>, _>>()?;
    let (recording, summary) = merge(&runs)?;
    let merged = runs.into_iter().filter_map(|run| run.manifest).collect();
    let manifest = Manifest { merged, ..Manifest::new(recording.started, 0) };
    let written = folder::write(out.path(), &recording, &summary, &manifest);
    let committed = out.commit_after(written);
    print_summary(&summary, None);
    committed?;
    Ok(if summary.validity.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
