//! The `catlab` command line.
#![forbid(unsafe_code)]

mod command_answers;
mod command_updates;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  catlab compare recorded --zone .=root.zone.xz --trace root-server.pcap.xz
  catlab compare generated --seed 7 --count 100000
  catlab compare updates --help";

/// The DNS laboratory: judges any DNS server by nothing but its answers.
#[derive(Parser)]
#[command(name = "catlab", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends the same messages to several servers and explains or reports every difference.
    #[command(subcommand, after_help = EXAMPLES)]
    Compare(Comparison),
}

#[derive(Subcommand)]
enum Comparison {
    #[command(flatten)]
    Answers(command_answers::Compare),
    /// UPDATEs to ours and to the peers that take them: RCODE, step of the serial and whole zone after each.
    #[command(after_help = command_updates::EXAMPLES)]
    Updates(command_updates::UpdatesArguments),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Compare(Comparison::Answers(compare)) => command_answers::main(&compare),
        Command::Compare(Comparison::Updates(arguments)) => command_updates::main(&arguments),
    }
}
