//! Compares two runs of one experiment.

use clap::Args;
use experiment::compare::{Comparison, MeasuredRun};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder of the first run.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Folder of the second run.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Also write the comparison as JSON; `-` is standard output, without the tables.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Prints the tables, and writes the JSON.
pub(super) fn compare(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let [a, b] = [&arguments.a, &arguments.b].map(|folder| MeasuredRun::read(folder));
    let comparison = Comparison::new(&a?, &b?)?;
    let json = serde_json::to_string_pretty(&comparison)? + "\n";
    match &arguments.json {
        Some(path) if path.as_os_str() == "-" => lab::print(format_args!("{json}")),
        path => {
            if let Some(path) = path {
                std::fs::write(path, json).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            }
            lab::print(format_args!("{}", comparison.text()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
