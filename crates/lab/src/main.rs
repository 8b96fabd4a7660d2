//! The `catlab` command line.
#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use lab::compare::{Tally, run};
use lab::peers::{Kind, ServedZone};
use lab::trace::{self, Recorded};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples that are printed of each class of difference when no other number is asked for.
const SHOWN_COUNT: usize = 2;

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
    Compare(Compare),
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
    /// How many examples of each class of unexplained differences are printed.
    #[arg(long, default_value_t = SHOWN_COUNT)]
    show: usize,
    /// Print the first messages that this predicate explained, to see whether it is right.
    #[arg(long, value_name = "PREDICATE")]
    explained: Option<String>,
    /// Where zones, configurations and outputs of the servers go, and are kept; otherwise they are removed.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
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
    let Command::Compare(compare) = Cli::parse().command;
    let common = match &compare {
        Compare::Recorded(arguments) => &arguments.common,
        Compare::Generated(arguments) => &arguments.common,
    };
    let passing = std::env::temp_dir().join(format!("catlab-{}", std::process::id()));
    let folder = common.keep.clone().unwrap_or_else(|| passing.clone());
    let mut tally = Tally::default();
    let done = compared(&compare, &folder, &mut tally);
    // A folder that stays behind in the system's temporary folder harms nobody.
    let _removed = std::fs::remove_dir_all(passing);
    if let Err(error) = done {
        eprintln!("catlab: {error}");
        return ExitCode::from(2);
    }
    for (class, cases) in tally.classes() {
        println!("{} unexplained: {class}", cases.len());
        for case in cases.iter().take(common.show) {
            println!("{}", case.text);
        }
    }
    let asked = common.explained.as_deref().and_then(|name| tally.predicates.get(name));
    asked.iter().flat_map(|needed| &needed.examples).for_each(|example| println!("{example}"));
    print!("{tally}");
    if tally.unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn compared(compare: &Compare, folder: &Path, tally: &mut Tally) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // Servers are started in folders of their own, where a relative path would mean another file.
    let folder = std::fs::canonicalize(folder)?;
    match compare {
        Compare::Recorded(arguments) => recorded(arguments, &folder, tally),
        Compare::Generated(GeneratedArguments { seed, count, common }) => {
            progress("making and signing zones");
            let run::Generated { zones, messages } = run::generate(*seed, *count, &folder)?;
            let plan =
                run::Plan { ours: common.ours, zones, messages: &messages, folder: &folder, progress: &progress };
            run::run(&plan, tally)
        }
    }
}

/// Progress goes to the error output: the report alone can be kept.
fn progress(line: &str) {
    eprintln!("catlab: {line}");
}

fn recorded(arguments: &RecordedArguments, folder: &Path, tally: &mut Tally) -> Result<(), Box<dyn Error>> {
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
    run::run(&run::Plan { ours: arguments.common.ours, zones, messages: &messages, folder, progress: &progress }, tally)
}
