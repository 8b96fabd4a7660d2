//! `catlab doctor`: whether this machine can measure.

use clap::Args;
use lab::doctor::{self, Needs, Severity};
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab doctor
  catlab doctor --connections 15000 --sources 2 --cores 1

Each finding says what to change.

Exit code 0: the run is possible; 1: the run is not possible as planned, or with --strict, its results may suffer.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Sockets or connections that the run opens at once.
    #[arg(long, default_value_t = 16)]
    connections: u64,
    /// Source addresses of the run.
    #[arg(long, default_value_t = 1)]
    sources: u64,
    /// Server addresses of the run.
    #[arg(long, default_value_t = 1)]
    servers: u64,
    /// CPU cores that the run uses.
    #[arg(long, default_value_t = 1)]
    cores: usize,
    /// Exit with 1 for warnings too.
    #[arg(long)]
    strict: bool,
    /// Print one JSON object per finding.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let findings = doctor::examine(&Needs {
        connection_count: arguments.connections,
        source_count: arguments.sources,
        server_count: arguments.servers,
        core_count: arguments.cores,
    });
    for finding in &findings {
        match serde_json::to_string(finding) {
            Ok(line) if arguments.json => println!("{line}"),
            _ => println!("{finding}"),
        }
    }
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
    let limit = if arguments.strict { Severity::Warning } else { Severity::Failure };
    if worst >= limit { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
