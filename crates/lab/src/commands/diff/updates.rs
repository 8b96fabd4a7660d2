//! `catlab diff updates`: compares how servers apply updates.

use clap::Args;
use compare::recorded;
use compare::updates::{History, KINDS, Plan, Tally, generate, key, run, run_history, start_all};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use testbed::Kind;
use wire::name::Name;

/// Number of zones for generated updates.
const ZONE_COUNT: usize = 8;

/// Default number of differences to print.
const SHOWN_COUNT: usize = 20;

/// Examples in `--help`, after the options.
pub(crate) const EXAMPLES: &str = "Examples:\n  catlab diff updates --seed 1 --count 20000\n  \
    catlab diff updates --server catamaran --server bind --count 500 --show 5\n  \
    catlab diff updates --history roothistory-base.zone.xz roothistory-diffs.patch.xz --round 10\n\n\
    Without --history, updates are generated from the seed, and each server is compared with RFC 2136.\n\
    With --history, the input is a zone file and the output of `git diff -U0` from each version to the next. DNSKEY,\n\
    RRSIG, NSEC and ZONEMD are left out for every server, because a zone that is signed elsewhere takes no updates.\n\
    The history stops at the first difference.\n\n\
    Exit code 0: every difference is explained; 1: some differences are not; 2: the run failed, or with --history, a\n\
    server differs.";

#[derive(Args)]
pub(crate) struct UpdatesArguments {
    /// Server to start and compare: catamaran, bind or knot. May be given several times.
    #[arg(long = "server", value_name = "SERVER", default_values = KINDS.map(Kind::label), value_parser = parse_kind)]
    servers: Vec<Kind>,
    /// Seed of the updates.
    #[arg(long, default_value_t = 1, conflicts_with = "history")]
    seed: u64,
    /// Number of updates.
    #[arg(long, default_value_t = 1_000, conflicts_with = "history")]
    count: usize,
    /// Replay the history of the root zone instead of generated updates: a zone file, and the differences to each later
    /// version. Both may be .xz.
    #[arg(long, num_args = 2, value_names = ["ZONE", "DIFFERENCES"])]
    history: Option<Vec<PathBuf>>,
    /// Number of history steps. The default is all.
    #[arg(long, requires = "history")]
    steps: Option<usize>,
    /// Compare the whole zone after every Nth step of the history. RCODE and serial are compared after each.
    #[arg(long, default_value_t = 10, requires = "history")]
    round: usize,
    /// Number of unexplained differences to print.
    #[arg(long, default_value_t = SHOWN_COUNT)]
    show: usize,
}

fn parse_kind(label: &str) -> Result<Kind, String> {
    let kinds = KINDS.map(Kind::label).join(", ");
    KINDS.into_iter().find(|kind| kind.label() == label).ok_or(format!("write one of {kinds}"))
}

/// Runs the comparison.
pub(crate) fn main(arguments: &UpdatesArguments) -> ExitCode {
    let folder = std::env::temp_dir().join(format!("catlab-{}", std::process::id()));
    let done = compare(arguments, &folder);
    // A leftover in the system's temporary folder does no harm.
    let _removed = std::fs::remove_dir_all(&folder);
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("catlab: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every difference is explained.
fn compare(arguments: &UpdatesArguments, folder: &Path) -> Result<bool, Box<dyn Error>> {
    match arguments.history.as_deref() {
        Some([base, differences]) => history(arguments, base, differences, folder).map(|()| true),
        _ => generated(arguments, folder),
    }
}

fn generated(arguments: &UpdatesArguments, folder: &Path) -> Result<bool, Box<dyn Error>> {
    // These names are never too long.
    let apexes: Vec<Name> = (0..ZONE_COUNT).filter_map(|index| format!("z{index}.test.").parse().ok()).collect();
    let zones: Vec<_> =
        apexes.iter().enumerate().map(|(index, apex)| (apex.clone(), generate::zone(apex, index))).collect();
    let mut servers = start_all(&arguments.servers, folder, &zones)?;
    let plan = Plan { key: key()?, apexes, count: arguments.count, seed: arguments.seed };
    let mut tally = Tally::default();
    run(&plan, &mut servers, &mut tally)?;
    for (_, difference) in tally.unexplained.iter().take(arguments.show) {
        println!("{difference}\n");
    }
    print!("{tally}");
    Ok(tally.unexplained_count == 0)
}

fn history(arguments: &UpdatesArguments, base: &Path, differences: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let read = |path: &Path| -> Result<String, Box<dyn Error>> {
        let bytes = recorded::read_whole(path).map_err(|error| format!("{}: {error}", path.display()))?;
        String::from_utf8(bytes).map_err(|error| format!("{}: {error}", path.display()).into())
    };
    let history = History::read(&read(base)?, &read(differences)?)?;
    let mut servers = start_all(&arguments.servers, folder, &[(Name::root(), history.base.clone())])?;
    let steps = arguments.steps.unwrap_or(history.steps.len());
    let counts = run_history(&history, &key()?, steps, arguments.round, &mut servers)?;
    println!(
        "{} records in the first version, {} steps in the history",
        history.base.records.len(),
        history.steps.len()
    );
    for (server, counts) in counts {
        println!("{server:>10}: {} steps equal, whole zone compared {} times", counts.steps, counts.zones);
    }
    println!("unexplained = 0");
    Ok(())
}
