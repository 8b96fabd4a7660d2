//! `catlab doctor`: whether this machine can measure.

use clap::Args;
use lab::doctor::{self, Needs, Severity};
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab doctor
  catlab doctor --connections 15000 --sources 2 --cores 1

Exit code 0: nothing stands against the run; 1: it cannot take place as planned, or with --strict figures may suffer.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Sockets or connections that the run will have open at once.
    #[arg(long, default_value_t = 16)]
    connections: u64,
    /// Source addresses that they are spread over.
    #[arg(long, default_value_t = 1)]
    sources: u64,
    /// Server addresses.
    #[arg(long, default_value_t = 1)]
    servers: u64,
    /// Cores that the run will keep busy.
    #[arg(long, default_value_t = 1)]
    cores: usize,
    /// Warnings count too.
    #[arg(long)]
    strict: bool,
    /// One JSON object a finding.
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
