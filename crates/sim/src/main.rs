//! `catamaran-sim`: runs seeds until all have passed or one has failed.
#![forbid(unsafe_code)]

use catamaran_sim::coverage::Coverage;
use catamaran_sim::run::{Count, Failure, Outcome, run};
use clap::{Parser, ValueEnum};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  cargo run --profile gate -p catamaran-sim -- --seeds 300
  cargo run --profile gate -p catamaran-sim -- --seconds 60 --first-seed 1000
  cargo run --profile gate -p catamaran-sim -- --seeds 10000 --coverage
  cargo run --profile gate -p catamaran-sim -- --first-seed 17 --seeds 1 --trace | less

Each seed draws its own subset of faults and commands, its sizes and its limits. In a third of the seeds, the
faults hit one kind of moment: the end of a lease, an election, a vote, the eviction of a repeat, a change of members,
or a checkpoint. What is simulated and what is checked: docs/internals/decisions/0008-simulator.md

Exit status: 0 all seeds passed, 1 a seed failed, 2 the command line is wrong.";

/// Simulates whole clusters from seeds, with virtual time, a network, and disks that fail. Runs the real replica
/// code.
#[derive(Parser, Debug)]
#[command(name = "catamaran-sim", version, after_help = EXAMPLES)]
struct Arguments {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 300, conflicts_with = "seconds")]
    seeds: u64,
    /// Run seeds for this many seconds instead.
    #[arg(long)]
    seconds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Members of the cluster. With `both`, odd seeds have 3 and even seeds have 5.
    #[arg(long, value_enum, default_value_t = Members::Both)]
    members: Members,
    /// Print how often each pair of faults, and each pair of a fault and a command, overlapped, and the pairs that
    /// never did.
    #[arg(long)]
    coverage: bool,
    /// Print every event of one seed.
    #[arg(long)]
    trace: bool,
    /// Continue after a failed seed, and list all failed seeds at the end.
    #[arg(long)]
    keep_going: bool,
    /// Plant the bug with this number in all members; `cargo xtask sim --planted` runs them all.
    #[cfg(feature = "planted")]
    #[arg(long, default_value_t = 0)]
    planted: u32,
    /// List the planted bugs, one per line: number, name, simulator or tests, text.
    #[cfg(feature = "planted")]
    #[arg(long)]
    list_planted: bool,
}

/// Prints the planted bugs, with tabs between the fields.
#[cfg(feature = "planted")]
fn list_planted() {
    for planted in replica::planted::ALL {
        println!("{}\t{:?}\t{:?}\t{}", planted.bug.number(), planted.bug, planted.found_by, planted.text);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Members {
    #[value(name = "3")]
    Three,
    #[value(name = "5")]
    Five,
    Both,
}

impl Members {
    fn of(self, seed: u64) -> u64 {
        match self {
            Self::Three => 3,
            Self::Five => 5,
            Self::Both if seed % 2 == 1 => 3,
            Self::Both => 5,
        }
    }
}

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Totals of all seeds.
#[derive(Default)]
struct Sum {
    seeds: u64,
    events: u64,
    virtual_us: u64,
    count: Count,
    coverage: Coverage,
    /// Hash of all traces, in order.
    trace_hash: u128,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        let Count { recovery_ms, .. } = outcome.count;
        self.seeds += 1;
        self.events += outcome.events;
        self.virtual_us += outcome.virtual_us;
        self.trace_hash = self.trace_hash.rotate_left(1) ^ outcome.trace_hash;
        let longest_ms = self.count.recovery_ms.max(recovery_ms);
        self.count.add(&outcome.count);
        self.count.recovery_ms = longest_ms;
        self.coverage.add(&outcome.coverage);
    }

    fn print(&self, took: Duration) {
        let Count { acknowledged, repeats_answered, unknown, commands_done, reads_done, refused_early, .. } =
            self.count;
        let Count { leader_changes, crashes, crashes_with_loss, partitions, checkpoints_installed, .. } = self.count;
        let Count { frames, frames_reordered, frames_repeated, .. } = self.count;
        println!("\n{} seeds, {} events", self.seeds, self.events);
        println!(
            "{frames} frames, {frames_reordered} arrived after a later one of their channel, {frames_repeated} repeated"
        );
        println!(
            "{acknowledged} updates acknowledged, {repeats_answered} repeats got the same response, {unknown} unknown"
        );
        println!("{refused_early} updates refused without the leader");
        println!("{commands_done} commands and {reads_done} reads completed");
        let Count { joined, removed, machines_dead, policy_granted, policy_refused, .. } = self.count;
        println!("{policy_granted} updates granted only by a policy, {policy_refused} granted by none");
        println!("{joined} machines joined, {removed} members were removed, {machines_dead} machines died for good");
        println!("{} frames forged by non-members", self.count.frames_forged);
        println!(
            "{leader_changes} leader changes, {crashes} crashes, {crashes_with_loss} of them lost unsynced writes"
        );
        println!("{partitions} partitions, {checkpoints_installed} checkpoints installed by lagging members");
        println!("longest recovery after the last fault: {} ms", self.count.recovery_ms);
        let hours = self.virtual_us as f64 / 3.6e9;
        let Count { disks_damaged, damage_survived, quarantined, .. } = self.count;
        println!("{disks_damaged} disks damaged: {damage_survived} members recovered, {quarantined} replaced");
        let Count { upgrades, restored, recovered, .. } = self.count;
        println!("{upgrades} members upgraded; separate clusters: {restored} restored, {recovered} recovered");
        println!("{} settings compared with their expected values", self.count.settings_compared);
        println!("{} faults at critical moments", self.count.boundaries_struck);
        println!("{}", self.coverage.summary());
        println!("{hours:.2} virtual hours in {:.1} s, traces {:032x}", took.as_secs_f64(), self.trace_hash);
    }
}

#[expect(clippy::disallowed_methods, reason = "the run time is only printed; no run depends on it")]
fn now() -> Instant {
    Instant::now()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "planted")]
    {
        if arguments.list_planted {
            list_planted();
            return ExitCode::SUCCESS;
        }
        replica::planted::plant(arguments.planted);
    }
    let (start, mut last_line) = (now(), now());
    let (mut sum, mut failed) = (Sum::default(), Vec::new());
    let mut seed = arguments.first_seed;
    println!("seeds from {seed}");
    loop {
        let is_over = match arguments.seconds {
            Some(seconds) => start.elapsed().as_secs() >= seconds,
            None => seed - arguments.first_seed >= arguments.seeds,
        };
        if is_over || (!failed.is_empty() && !arguments.keep_going) {
            break;
        }
        match run_caught(seed, arguments.members.of(seed), arguments.trace) {
            Ok(outcome) => sum.add(&outcome),
            Err(what) => {
                println!("seed {seed} FAILED: {what}");
                failed.push(seed);
            }
        }
        seed += 1;
        if last_line.elapsed() >= PROGRESS {
            last_line = now();
            println!("... {} seeds passed, {} updates acknowledged", sum.seeds, sum.count.acknowledged);
        }
    }
    if arguments.coverage {
        print!("{}", sum.coverage.table());
    }
    sum.print(start.elapsed());
    for seed in &failed {
        println!("reproduce: {}", reproduce(&arguments, *seed));
    }
    println!("seeds: {} passed, {} failed", sum.seeds, failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the command that reproduces one seed.
fn reproduce(arguments: &Arguments, seed: u64) -> String {
    let members = match arguments.members {
        Members::Both => "",
        Members::Three => " --members 3",
        Members::Five => " --members 5",
    };
    format!("cargo run --profile gate -p catamaran-sim -- --first-seed {seed} --seeds 1{members}")
}

/// A panic in a member is a failure of the seed like any other.
fn run_caught(seed: u64, members: u64, is_printed: bool) -> Result<Outcome, String> {
    match catch_unwind(AssertUnwindSafe(|| run(seed, members, is_printed))) {
        Ok(outcome) => outcome.map_err(|failure: Failure| failure.to_string()),
        // The panic's message and location are on standard error already.
        Err(_) => Err("a member panicked".into()),
    }
}
