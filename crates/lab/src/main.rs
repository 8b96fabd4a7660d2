//! The `catlab` command line.
#![forbid(unsafe_code)]

mod command_updates;

use clap::{Args, Parser, Subcommand};
use lab::compare::{Tally, run};
use lab::peers::{Kind, ServedZone};
use lab::trace::{self, Recorded};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Differences that are printed when no other number is asked for.
const SHOWN_COUNT: usize = 20;

/// The DNS laboratory: judges any DNS server by nothing but its answers.
#[derive(Parser)]
#[command(name = "catlab", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends the same messages to several servers and explains or reports every difference.
    #[command(subcommand)]
    Compare(Comparison),
}

#[derive(Subcommand)]
enum Comparison {
    #[command(flatten)]
    Answers(Compare),
    /// UPDATEs to ours and to the peers that take them: RCODE, step of the serial and whole zone after each.
    #[command(after_help = command_updates::EXAMPLES)]
    Updates(command_updates::UpdatesArguments),
}

#[derive(Subcommand)]
enum Compare {
    /// Recorded queries: captures (.pcap, .pcapng), dnsperf files (.dnsperf), raw messages (.rpl), each also as .xz.
    #[command(after_help = "Example:\n  catlab compare recorded --zone .=root.zone --trace root-server.pcap.xz\n\n\
        Exit code 0: every difference is explained; 1: some are not; 2: the run failed.")]
    Recorded(RecordedArguments),
    /// Zones and queries made from a seed: wildcards, zone cuts, DNAME, empty non-terminals, NSEC and NSEC3.
    #[command(after_help = "Example:\n  catlab compare generated --seed 7 --count 100000\n\n\
        Exit code 0: every difference is explained; 1: some are not; 2: the run failed.")]
    Generated(GeneratedArguments),
}

#[derive(Args)]
struct Common {
    /// The server that is judged: catamaran, nsd, knot or bind.
    #[arg(long, default_value = "catamaran", value_parser = parse_kind)]
    ours: Kind,
    /// How many unexplained differences are printed.
    #[arg(long, default_value_t = SHOWN_COUNT)]
    show: usize,
}

#[derive(Args)]
struct RecordedArguments {
    /// A zone and its file, uncompressed or .xz.
    #[arg(long = "zone", value_name = "APEX=FILE", required = true, value_parser = parse_zone)]
    zones: Vec<(String, PathBuf)>,
    /// A trace.
    #[arg(long = "trace", value_name = "FILE", required = true)]
    traces: Vec<PathBuf>,
    /// Only the first so many messages.
    #[arg(long)]
    limit: Option<usize>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct GeneratedArguments {
    /// The same seed gives the same zones and queries.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Queries over all zones together.
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    #[command(flatten)]
    common: Common,
}

fn parse_kind(label: &str) -> Result<Kind, String> {
    let kinds = Kind::ALL.map(Kind::label).join(", ");
    Kind::ALL.into_iter().find(|kind| kind.label() == label).ok_or(format!("one of {kinds}"))
}

fn parse_zone(text: &str) -> Result<(String, PathBuf), String> {
    let (apex, file) = text.split_once('=').ok_or("APEX=FILE, as in .=root.zone")?;
    Ok((apex.to_string(), PathBuf::from(file)))
}

fn main() -> ExitCode {
    let compare = match Cli::parse().command {
        Command::Compare(Comparison::Answers(compare)) => compare,
        Command::Compare(Comparison::Updates(arguments)) => return command_updates::main(&arguments),
    };
    let folder = std::env::temp_dir().join(format!("catlab-{}", std::process::id()));
    let mut tally = Tally::default();
    let (done, show) = match &compare {
        Compare::Recorded(arguments) => (recorded(arguments, &folder, &mut tally), arguments.common.show),
        Compare::Generated(arguments) => {
            let ours = arguments.common.ours;
            let done = run::run_generated(ours, arguments.seed, arguments.count, &folder, &mut tally);
            (done, arguments.common.show)
        }
    };
    // A folder that stays behind in the system's temporary folder harms nobody.
    let _removed = std::fs::remove_dir_all(&folder);
    if let Err(error) = done {
        eprintln!("catlab: {error}");
        return ExitCode::from(2);
    }
    for difference in tally.unexplained.iter().take(show) {
        println!("{difference}");
    }
    print!("{tally}");
    if tally.unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn recorded(arguments: &RecordedArguments, folder: &std::path::Path, tally: &mut Tally) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let mut zones = Vec::new();
    for (index, (apex, path)) in arguments.zones.iter().enumerate() {
        let file = folder.join(format!("zone{index}"));
        std::fs::write(&file, trace::read_whole(path).map_err(|error| format!("{}: {error}", path.display()))?)?;
        zones.push(ServedZone { apex: apex.clone(), file });
    }
    let mut messages: Vec<Recorded> = Vec::new();
    for path in &arguments.traces {
        messages.extend(trace::read_any(path).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    messages.truncate(arguments.limit.unwrap_or(usize::MAX));
    run::run(&run::Plan { ours: arguments.common.ours, zones, messages: &messages, folder }, tally)
}
