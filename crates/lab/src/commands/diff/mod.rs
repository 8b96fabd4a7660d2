//! `catlab diff`: sends the same messages to several servers and reports every difference.

mod updates;

use clap::{Args, Subcommand};
use compare::recorded::{self, Recorded};
use compare::{Tally, run};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use testbed::{Kind, ServedZone};
use updates::UpdatesArguments;

/// Default number of examples printed for each class of differences.
const SHOWN_COUNT: usize = 2;

/// Examples of all commands in `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  catlab diff recorded --zone .=root.zone.xz --trace root-server.pcap.xz
  catlab diff generated --seed 7 --count 100000
  catlab diff updates --seed 1 --count 20000";

const RECORDED_EXAMPLES: &str = "\
Examples:
  catlab diff recorded --zone .=root.zone.xz --trace root-server.pcap.xz
  catlab diff recorded --zone .=root.zone.xz --trace queries.dnsperf --limit 1000
  catlab diff recorded --zone example.=example.zone --trace garbage.rpl --show 5
  catlab diff recorded --zone .=root.zone.xz --trace root-server.pcap.xz --explained in_domain_glue_sets_tc
  catlab diff recorded --ours knot --zone .=root.zone.xz --trace root-server.pcap.xz

Starts the servers on loopback with these zones. nsd, knotd and named come from the system. catamaran comes from
CATAMARAN_BIN, from the folder of this program, or from PATH. The report is printed on standard output, and progress on
standard error.

Exit code 0: every difference is explained; 1: some differences are not; 2: the run failed.";

const GENERATED_EXAMPLES: &str = "\
Examples:
  catlab diff generated --count 2000
  catlab diff generated --seed 7 --count 100000
  catlab diff generated --seed 7 --keep run-7

Zones are signed with dnssec-signzone (Debian: bind9-utils). The same seed gives the same zones and queries; only
signatures differ.

Exit code 0: every difference is explained; 1: some differences are not; 2: the run failed.";

#[derive(Subcommand)]
pub(crate) enum Diff {
    /// Send recorded messages: captures (.pcap, .pcapng), dnsperf files (.dnsperf) or raw messages (.rpl); .xz is
    /// supported.
    #[command(after_help = RECORDED_EXAMPLES)]
    Recorded(RecordedArguments),
    /// Send generated queries for generated zones: wildcards, zone cuts, DNAME, aliases, NSEC and NSEC3.
    #[command(after_help = GENERATED_EXAMPLES)]
    Generated(GeneratedArguments),
    /// Send UPDATEs to several servers; compare RCODE, serial and the whole zone after each.
    #[command(after_help = updates::EXAMPLES)]
    Updates(UpdatesArguments),
}

/// Where the messages come from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Recorded(&'a RecordedArguments),
    Generated(&'a GeneratedArguments),
}

#[derive(Args)]
struct CommonArguments {
    /// Server to judge: catamaran, nsd, knot or bind.
    #[arg(long, default_value = "catamaran", value_parser = parse_kind)]
    ours: Kind,
    /// Number of examples to print for each class of unexplained differences.
    #[arg(long, default_value_t = SHOWN_COUNT)]
    show: usize,
    /// Print the first messages that this predicate explained.
    #[arg(long, value_name = "PREDICATE")]
    explained: Option<String>,
    /// Keep zones, configurations and output of the servers in this folder. By default they are removed.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct RecordedArguments {
    /// Zone to serve, and its file (.xz is supported). May be given several times.
    #[arg(long = "zone", value_name = "APEX=FILE", required = true, value_parser = parse_zone)]
    zones: Vec<(String, PathBuf)>,
    /// Trace with the messages to send. May be given several times.
    #[arg(long = "trace", value_name = "FILE", required = true)]
    traces: Vec<PathBuf>,
    /// Send only the first LIMIT messages.
    #[arg(long)]
    limit: Option<usize>,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Args)]
pub(crate) struct GeneratedArguments {
    /// Seed of zones and queries.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of queries.
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    #[command(flatten)]
    common: CommonArguments,
}

fn parse_kind(label: &str) -> Result<Kind, String> {
    let kinds = run::SERVERS.map(Kind::label).join(", ");
    run::SERVERS.into_iter().find(|kind| kind.label() == label).ok_or(format!("write one of {kinds}"))
}

fn parse_zone(text: &str) -> Result<(String, PathBuf), String> {
    let (apex, file) = text.split_once('=').ok_or("write APEX=FILE, as in .=root.zone")?;
    Ok((apex.to_string(), PathBuf::from(file)))
}

/// Runs one of the three commands.
pub(crate) fn main(diff: &Diff) -> ExitCode {
    match diff {
        Diff::Recorded(arguments) => diff_answers(Source::Recorded(arguments), &arguments.common),
        Diff::Generated(arguments) => diff_answers(Source::Generated(arguments), &arguments.common),
        Diff::Updates(arguments) => updates::main(arguments),
    }
}

/// Compares the answers, and prints the report.
fn diff_answers(source: Source<'_>, common: &CommonArguments) -> ExitCode {
    let temporary = std::env::temp_dir().join(format!("catlab-{}", std::process::id()));
    let folder = common.keep.clone().unwrap_or_else(|| temporary.clone());
    let mut tally = Tally::default();
    let done = collect(source, &folder, &mut tally);
    // A leftover in the system's temporary folder does no harm.
    let _removed = std::fs::remove_dir_all(temporary);
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
    let selected = common.explained.as_deref().and_then(|name| tally.predicates.get(name));
    selected.iter().flat_map(|needed| &needed.examples).for_each(|example| println!("{example}"));
    print!("{tally}");
    if tally.unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn collect(source: Source<'_>, folder: &Path, tally: &mut Tally) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // Servers run in their own folders, so relative paths would not work.
    let folder = std::fs::canonicalize(folder)?;
    match source {
        Source::Recorded(arguments) => recorded(arguments, &folder, tally),
        Source::Generated(GeneratedArguments { seed, count, common }) => {
            progress("creating and signing zones");
            let made = run::generate(*seed, *count, &folder)?;
            let (ours, zones, messages) = (common.ours, made.zones, &made.messages);
            run::run(&run::Plan { ours, zones, messages, folder: &folder, progress: &progress }, tally)
        }
    }
}

/// Prints progress to standard error, so that standard output only has the report.
fn progress(line: &str) {
    eprintln!("catlab: {line}");
}

fn recorded(arguments: &RecordedArguments, folder: &Path, tally: &mut Tally) -> Result<(), Box<dyn Error>> {
    let mut zones = Vec::new();
    for (index, (apex, path)) in arguments.zones.iter().enumerate() {
        let file = folder.join(format!("zone{index}"));
        std::fs::write(&file, recorded::read_whole(path).map_err(|error| format!("{}: {error}", path.display()))?)?;
        zones.push(ServedZone::new(apex.clone(), file));
    }
    let mut messages: Vec<Recorded> = Vec::new();
    for path in &arguments.traces {
        messages.extend(recorded::read_any(path).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    messages.truncate(arguments.limit.unwrap_or(usize::MAX));
    run::run(&run::Plan { ours: arguments.common.ours, zones, messages: &messages, folder, progress: &progress }, tally)
}
