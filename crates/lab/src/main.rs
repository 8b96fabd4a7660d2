//! The `catlab` command line.
#![forbid(unsafe_code)]

mod command_answers;
mod command_echo;
mod command_load;
mod command_profile;
mod command_updates;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const EXAMPLES: &str = "\
Examples:
  catlab compare recorded --zone .=root.zone.xz --trace root-server.pcap.xz
  catlab compare generated --seed 7 --count 100000
  catlab compare updates --help
  catlab load --server 127.0.0.1:5300 --queries queries.txt --rate 2000 --duration 10s --out run1";

const COMPARE_EXAMPLES: &str = "\
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
    #[command(subcommand, after_help = COMPARE_EXAMPLES)]
    Compare(Comparison),
    /// Sends queries at a rate, or as fast as answers come, and tells how the server did.
    #[command(after_help = command_load::EXAMPLES)]
    Load(Box<command_load::Arguments>),
    /// Populations of clients, out of traces.
    #[command(subcommand, after_help = command_profile::EXAMPLES)]
    Profile(command_profile::Profile),
    /// Answers each query with the query, over any transport: what load runs are tried against.
    #[command(after_help = command_echo::EXAMPLES)]
    Echo(command_echo::Arguments),
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
        Command::Load(arguments) => command_load::main(&arguments, &stops()),
        Command::Profile(profile) => command_profile::main(&profile),
        Command::Echo(arguments) => command_echo::main(&arguments, &stops()),
    }
}

/// Counts how often the user has asked to stop: Ctrl-C, or a signal that ends programs.
fn stops() -> impl Fn() -> u8 {
    let count = Arc::new(AtomicU8::new(0));
    let counted = Arc::clone(&count);
    // Without a handler the signal ends the program at once, as it would have.
    let _handled = ctrlc::set_handler(move || {
        let _before = counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(count.saturating_add(1)));
    });
    move || count.load(Ordering::Relaxed)
}
