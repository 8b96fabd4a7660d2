//! The `catlab` command line.
#![forbid(unsafe_code)]

/// All messages go through [`lab::eprint`], which survives a closed pipe.
macro_rules! eprint {
    ($($words:tt)*) => { lab::eprint(format_args!($($words)*)) };
}
/// The same with a line break.
macro_rules! eprintln {
    ($($words:tt)*) => { lab::eprint(format_args!("{}\n", format_args!($($words)*))) };
}

mod arguments;
mod commands;
mod controller;
mod key_file;
mod out_folder;
mod run_outputs;
mod self_check;

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
    #[command(arg_required_else_help = true, after_help = commands::compare::EXAMPLES)]
    Compare(commands::compare::Arguments),
    /// Send the same messages to several servers and explain each difference.
    #[command(subcommand, after_help = commands::diff::EXAMPLES)]
    Diff(commands::diff::Diff),
    /// Find the highest query rate at which a server meets an objective.
    #[command(after_help = commands::capacity::EXAMPLES)]
    Capacity(Box<commands::capacity::Arguments>),
    /// Check this machine before a run: open files, ports, buffers, CPU governor, clock.
    #[command(after_help = commands::doctor::EXAMPLES)]
    Doctor(commands::doctor::Arguments),
    /// Send queries or updates at a given rate, or as fast as the server answers.
    #[command(after_help = commands::load::EXAMPLES)]
    Load(Box<commands::load::Arguments>),
    /// Replay a trace against a server, with its original timing and sources.
    #[command(after_help = commands::replay::EXAMPLES)]
    Replay(Box<commands::replay::Arguments>),
    /// Create populations of clients from traces.
    #[command(subcommand, after_help = commands::profile::EXAMPLES)]
    Profile(commands::profile::Profile),
    /// Inspect, convert, change and anonymize recorded DNS traffic.
    #[command(subcommand, after_help = commands::trace::EXAMPLES)]
    Trace(commands::trace::Trace),
    /// Draw one or more runs as a self-contained HTML page.
    #[command(after_help = commands::report::EXAMPLES)]
    Report(commands::report::Arguments),
    /// Merge runs of several processes or machines into one run.
    #[command(after_help = commands::merge::EXAMPLES)]
    Merge(commands::merge::Arguments),
    /// Run programs in network namespaces with emulated delay, jitter, loss and bandwidth.
    #[command(subcommand, after_help = commands::net::EXAMPLES)]
    Net(commands::net::NetCommand),
    /// Create zones for servers under test: from recorded traffic, by harvesting, or synthetic.
    #[command(subcommand)]
    Zones(commands::zones::Zones),
    /// Emulate all servers of a DNS hierarchy on this machine, for a resolver under test.
    #[command(subcommand, after_help = commands::hierarchy::EXAMPLES)]
    Hierarchy(commands::hierarchy::HierarchyCommand),
    /// Run experiments with several servers and parameters, and compare the results with those of a paper.
    #[command(subcommand, after_help = commands::experiment::EXAMPLES)]
    Experiment(commands::experiment::ExperimentCommand),
    /// List the servers that experiments and comparisons can start, and get their newest versions.
    #[command(subcommand, after_help = commands::peers::EXAMPLES)]
    Peers(commands::peers::PeersCommand),
    /// Run a part of a load or replay on this host for a remote controller (`catlab load|replay --nats`).
    #[command(after_help = commands::agent::EXAMPLES)]
    Agent(commands::agent::Arguments),
    /// Serve an echo server that answers each query with the query, over any transport.
    #[command(after_help = commands::echo::EXAMPLES)]
    Echo(commands::echo::Arguments),
}

fn main() -> ExitCode {
    end_with_the_reader();
    match Cli::parse().command {
        Command::Compare(arguments) => commands::compare::main(&arguments),
        Command::Diff(diff) => commands::diff::main(&diff),
        Command::Capacity(arguments) => commands::capacity::main(&arguments, &stops()),
        Command::Doctor(arguments) => commands::doctor::main(&arguments),
        Command::Load(arguments) => commands::load::main(&arguments, &stops()),
        Command::Replay(arguments) => commands::replay::main(&arguments, &stops()),
        Command::Profile(profile) => commands::profile::main(&profile),
        Command::Trace(trace) => commands::trace::main(&trace),
        Command::Zones(zones) => commands::zones::main(&zones, &stops()),
        Command::Report(arguments) => commands::report::main(&arguments),
        Command::Merge(arguments) => commands::merge::main(&arguments),
        Command::Net(command) => commands::net::main(&command, &stops()),
        Command::Hierarchy(command) => commands::hierarchy::main(&command, &stops()),
        Command::Experiment(command) => commands::experiment::main(&command),
        Command::Peers(command) => commands::peers::main(&command),
        Command::Agent(arguments) => commands::agent::main(&arguments, &stops()),
        Command::Echo(arguments) => commands::echo::main(&arguments, &stops()),
    }
}

/// The reader may close the output early (`catlab trace info FILE | head`), which is not an error.
fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(0);
        }
        usual(panic);
    }));
}

/// Counts how often the user asked to stop, with Ctrl-C or SIGTERM.
fn stops() -> impl Fn() -> u8 {
    let count = Arc::new(AtomicU8::new(0));
    let counted = Arc::clone(&count);
    // Without a handler, the signal just kills the program.
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
        let parse = |command: &str, option: &str, rate: &str| {
            let words = ["catlab", command, "--server", "127.0.0.1", "--name", "q.example", option, rate];
            Cli::try_parse_from(words).map(|_| ()).map_err(|error| error.to_string())
        };
        for good in ["2000", "0..1000", "1000,0,1000", "0@1s,5@1s", "0.5"] {
            assert_eq!(parse("load", "--rate", good), Ok(()));
        }
        for bad in ["0", "0,0", "0..0", "0@5s", "-5", "nan", "inf"] {
            let error = parse("load", "--rate", bad).unwrap_err();
            assert!(error.contains("; write "), "{error}");
        }
        for bad in ["0", "-5", "nan"] {
            let error = parse("capacity", "--from", bad).unwrap_err();
            assert!(error.contains("not a rate above zero"), "{error}");
        }
    }

    #[test]
    fn results_are_replaced_on_demand_only() {
        let mut with_out = 0;
        check(&Cli::command(), "catlab", &mut with_out);
        assert_eq!(with_out, 20, "tests/out_folders.rs has a row for each");
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
