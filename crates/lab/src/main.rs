//! The `catlab` command line.
#![forbid(unsafe_code)]

/// Every message of this program goes through [`lab::say`], which no closed pipe ends.
macro_rules! eprint {
    ($($words:tt)*) => { lab::say(format_args!($($words)*)) };
}
/// The same with the end of a line.
macro_rules! eprintln {
    ($($words:tt)*) => { lab::say(format_args!("{}\n", format_args!($($words)*))) };
}

mod agent;
mod arguments;
mod command_agent;
mod command_capacity;
mod command_compare;
mod command_diff;
mod command_diff_updates;
mod command_doctor;
mod command_echo;
mod command_hierarchy;
mod command_load;
mod command_merge;
mod command_net;
mod command_profile;
mod command_replay;
mod command_report;
mod command_trace;
mod command_trace_synth;
mod command_zones;
mod controller;
mod key_file;
mod out_folder;
mod self_check;
mod watched;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const EXAMPLES: &str = "\
Examples:
  catlab load --server 127.0.0.1:5300 --queries queries.txt --rate 2000 --duration 10s --out run1
  catlab replay day.pcap.xz --server 127.0.0.1:5300 --out run2
  catlab report run1
  catlab compare run1 run2 --threshold 5%
  catlab diff recorded --zone .=root.zone.xz --trace root-server.pcap.xz
  catlab diff generated --seed 7 --count 100000";

/// Test and benchmark any DNS server as a black box.
#[derive(Parser)]
#[command(name = "catlab", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check whether run B is worse than run A, with confidence intervals.
    #[command(arg_required_else_help = true, after_help = command_compare::EXAMPLES)]
    Compare(command_compare::Arguments),
    /// Send the same messages to several servers and explain each difference.
    #[command(subcommand, after_help = command_diff::EXAMPLES)]
    Diff(command_diff::Diff),
    /// Find the highest query rate at which a server meets an objective.
    #[command(after_help = command_capacity::EXAMPLES)]
    Capacity(Box<command_capacity::Arguments>),
    /// Check this machine before a run: open files, ports, buffers, CPU governor, clock.
    #[command(after_help = command_doctor::EXAMPLES)]
    Doctor(command_doctor::Arguments),
    /// Send queries or updates at a given rate, or as fast as the server answers.
    #[command(after_help = command_load::EXAMPLES)]
    Load(Box<command_load::Arguments>),
    /// Replay a trace against a server, with its original timing and sources.
    #[command(after_help = command_replay::EXAMPLES)]
    Replay(Box<command_replay::Arguments>),
    /// Create populations of clients from traces.
    #[command(subcommand, after_help = command_profile::EXAMPLES)]
    Profile(command_profile::Profile),
    /// Inspect, convert, change and anonymize recorded DNS traffic.
    #[command(subcommand, after_help = command_trace::EXAMPLES)]
    Trace(command_trace::Trace),
    /// Draw one or more runs as a self-contained HTML page.
    #[command(after_help = command_report::EXAMPLES)]
    Report(command_report::Arguments),
    /// Merge runs of several processes or machines into one run.
    #[command(after_help = command_merge::EXAMPLES)]
    Merge(command_merge::Arguments),
    /// Run programs in network namespaces with emulated delay, jitter, loss and bandwidth.
    #[command(subcommand, after_help = command_net::EXAMPLES)]
    Net(command_net::NetCommand),
    /// Create zones for servers under test: from recorded traffic, by harvesting, or synthetic.
    #[command(subcommand)]
    Zones(command_zones::Zones),
    /// Emulate all servers of a DNS hierarchy on this machine, for a resolver under test.
    #[command(subcommand, after_help = command_hierarchy::EXAMPLES)]
    Hierarchy(command_hierarchy::HierarchyCommand),
    /// Run a part of a load or replay on this host for a remote controller (`catlab load|replay --nats`).
    #[command(after_help = command_agent::EXAMPLES)]
    Agent(command_agent::Arguments),
    /// Serve an echo server that answers each query with the query, over any transport.
    #[command(after_help = command_echo::EXAMPLES)]
    Echo(command_echo::Arguments),
}

fn main() -> ExitCode {
    end_with_the_reader();
    match Cli::parse().command {
        Command::Compare(arguments) => command_compare::main(&arguments),
        Command::Diff(diff) => command_diff::main(&diff),
        Command::Capacity(arguments) => command_capacity::main(&arguments, &stops()),
        Command::Doctor(arguments) => command_doctor::main(&arguments),
        Command::Load(arguments) => command_load::main(&arguments, &stops()),
        Command::Replay(arguments) => command_replay::main(&arguments, &stops()),
        Command::Profile(profile) => command_profile::main(&profile),
        Command::Trace(trace) => command_trace::main(&trace),
        Command::Zones(zones) => command_zones::main(&zones, &stops()),
        Command::Report(arguments) => command_report::main(&arguments),
        Command::Merge(arguments) => command_merge::main(&arguments),
        Command::Net(command) => command_net::main(&command, &stops()),
        Command::Hierarchy(command) => command_hierarchy::main(&command, &stops()),
        Command::Agent(arguments) => command_agent::main(&arguments, &stops()),
        Command::Echo(arguments) => command_echo::main(&arguments, &stops()),
    }
}

/// Whoever reads what is printed may have enough of it (`catlab trace info FILE | head`), which is no bug to be told.
fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(0);
        }
        usual(panic);
    }));
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn check(command: &clap::Command, path: &str, with_out: &mut usize) {
        let has = |long: &str| command.get_arguments().any(|argument| argument.get_long() == Some(long));
        if has("out") {
            *with_out += 1;
            assert!(has("force"), "{path} has --out and no --force");
        }
        for inner in command.get_subcommands() {
            check(inner, &format!("{path} {}", inner.get_name()), with_out);
        }
    }

    #[test]
    fn a_connection_carries_at_least_one_query() {
        let load = |count: &str| {
            let words = ["catlab", "load", "--server", "127.0.0.1", "--name", "q.example", "--queries-per-connection"];
            Cli::try_parse_from(words.into_iter().chain([count])).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(load("1"), Ok(()));
        assert!(load("0").unwrap_err().contains("--queries-per-connection"), "0 is not unlimited");
    }

    #[test]
    fn a_rate_sends_queries() {
        let said = |command: &str, option: &str, rate: &str| {
            let words = ["catlab", command, "--server", "127.0.0.1", "--name", "q.example", option, rate];
            Cli::try_parse_from(words).map(|_| ()).map_err(|error| error.to_string())
        };
        for good in ["2000", "0..1000", "1000,0,1000", "0@1s,5@1s", "0.5"] {
            assert_eq!(said("load", "--rate", good), Ok(()));
        }
        for bad in ["0", "0,0", "0..0", "0@5s", "-5", "nan", "inf"] {
            let error = said("load", "--rate", bad).unwrap_err();
            assert!(error.contains("; write "), "{error}");
        }
        for bad in ["0", "-5", "nan"] {
            let error = said("capacity", "--from", bad).unwrap_err();
            assert!(error.contains("not a rate above zero"), "{error}");
        }
    }

    #[test]
    fn results_are_replaced_on_demand_only() {
        let mut with_out = 0;
        check(&Cli::command(), "catlab", &mut with_out);
        assert_eq!(with_out, 19, "tests/out_folders.rs has a row for each");
    }

    /// Adds the help of a command and of all commands below it to the page.
    fn add_help(command: &clap::Command, page: &mut String) {
        let path = command.get_bin_name().unwrap_or_else(|| command.get_name());
        let help = command.clone().render_long_help().to_string();
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## {path}\n\n```text\n{}\n```\n", help.join("\n")));
        for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set()) {
            add_help(below, page);
        }
    }

    #[test]
    fn the_reference_page_is_what_help_prints() {
        let mut command = Cli::command();
        command.build();
        let mut page = "# catlab commands\n\n\
            This page is what `--help` prints for each command. A test writes it: edit the help texts in\n\
            `crates/lab/src`.\n"
            .to_owned();
        add_help(&command, &mut page);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/catlab/cli.md");
        if std::env::var_os("CATAMARAN_WRITE").is_some() {
            std::fs::write(file, page).unwrap();
            return;
        }
        let old = std::fs::read_to_string(file).unwrap_or_default();
        let (mut old_lines, mut lines) = (old.lines(), page.lines());
        let (mut line_number, mut pair) = (1, (old_lines.next(), lines.next()));
        while pair.0 == pair.1 && pair.0.is_some() {
            line_number += 1;
            pair = (old_lines.next(), lines.next());
        }
        assert!(
            old == page,
            "docs/catlab/cli.md, line {line_number}:\n  the page has      {:?}\n  `--help` prints   {:?}\n\
             To rewrite the page: CATAMARAN_WRITE=1 cargo test -p catamaran-lab --bin catlab the_reference_page",
            pair.0.unwrap_or("nothing more"),
            pair.1.unwrap_or("nothing more")
        );
    }
}
