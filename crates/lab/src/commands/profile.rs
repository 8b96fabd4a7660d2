//! `catlab profile`: creates populations from traces.

use crate::out_folder::{Force, refuse_file, refuse_input, write_file};
use clap::{Args, Subcommand};
use load::population;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab profile fit day.pcap --out day.toml
  catlab profile fit day.pcapng.xz --port 5300
  catlab load --server 127.0.0.1:5300 --population day.toml --duration 60s --out run1";

/// The commands for populations.
#[derive(Subcommand)]
pub(crate) enum Profile {
    /// Create a population from a capture: clients, rates, names, types and transports.
    #[command(after_help = EXAMPLES)]
    Fit(FitArguments),
}

#[derive(Args)]
pub(crate) struct FitArguments {
    /// Capture of client traffic (pcap or pcapng; .xz is supported). With responses, the share of NXDOMAIN is measured
    /// too.
    trace: PathBuf,
    /// Server port.
    #[arg(long, default_value_t = population::DNS_PORT)]
    port: u16,
    /// Write the population to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub(crate) fn main(profile: &Profile) -> ExitCode {
    let Profile::Fit(arguments) = profile;
    match fit(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("catlab profile fit: {error}");
            ExitCode::from(2)
        }
    }
}

fn fit(arguments: &FitArguments) -> Result<(), Box<dyn Error>> {
    let path = arguments.trace.display();
    if let Some(out) = &arguments.out {
        refuse_input(out, std::slice::from_ref(&arguments.trace))?;
        refuse_file(out, arguments.force)?;
    }
    let observed =
        population::read_capture(&arguments.trace, arguments.port).map_err(|error| format!("{path}: {error}"))?;
    let population = population::fit(&observed)
        .map_err(|error| format!("{path}: {error}, of clients that ask at port {}", arguments.port))?;
    let text = population.to_text();
    match &arguments.out {
        Some(out) => write_file(out, text.as_bytes())?,
        None => print!("{text}"),
    }
    Ok(())
}
