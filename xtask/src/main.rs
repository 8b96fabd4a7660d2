//! The development commands of the project. `cargo xtask help` lists them.
#![forbid(unsafe_code)]

mod bench;
mod command;
mod fuzz;
mod memory;
mod peers;
mod planted;
mod previous;
mod programs;
mod sim;
mod test;
mod tidy;
mod torture;
mod verify;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--full]   Run the test suite: unit tests, real processes, comparisons with other servers, 300 simulated
                  clusters, and the planted bugs (`sim --planted`). As root, missing Debian packages are installed.
                  Tests of nodes, tests of the laboratory, and what computes run side by side. No test runs twice.
                  Tests whose tools are missing are skipped and listed; with CI=true or --full they fail.
                  At the end it lists the durations of the parts and of the slowest tests, skips, and failures.
                  --full adds the slow ones: all recorded and generated queries, 3,000 simulated clusters, clients
                  that take long to fetch (certbot with Pebble, lego, external-dns), a cluster with nodes of an older
                  build, and all seeds and tests with each planted bug (about an hour)
  verify          Run the whole gate, read-only: format, clippy, tidy, docs, deny, loom and sanitizers over the store,
                  instruction counts (`bench instructions`; skipped without valgrind, an error with CI=true), each
                  fuzz target briefly, test, 60 s of simulation, and each torture row once (as root)
  torture         Run each kind of fault once on clusters of real nodes, and check the clients' histories with
                  porcupine and our own checks (docs/internals/torture.md). Needs root and Go.
                  `--help` lists the options, `--list` the faults
  fix             Fix formatting and apply the suggestions of clippy
  bench load      Compare catlab's load engine with a bare loop and dnsperf, and its send times with the plan
  bench measuring Compare the results of catlab and dnsperf for servers with known faults
  bench read      Measure queries/s, memory, load time and the cost of client protection, ours and other servers
  bench transports
                  Measure queries/s over TCP, DoT, DoH and DoQ, ours over UDP, and other servers
  bench tail-latency
                  Measure the slowest queries while zones change
  bench write     Measure signed updates/s and their latency, ours with 1, 3 and 5 nodes, and other servers
                  (--only kills,partitions,one-way,queries,away,quiet: what clients observe when nodes fail)
  bench replay    Measure send times of a replay against the trace, by kernel timestamps, and the peak rate
  bench traces    Measure the speed of reading and writing traces in each of three formats
  bench store     Measure the cost of one change in a zone of a million names
  bench instructions
                  Count the instructions of each step of a response under callgrind, and compare them with limits
                  (each `bench` command: `-- --help` lists its options)
  fuzz [--seconds N] [TARGET]
                  Fuzz the parsers, N seconds per target: with libFuzzer if cargo-fuzz and a nightly toolchain are
                  installed, otherwise with a built-in mutator
  sim [OPTIONS]   Simulate clusters: catamaran-sim with its options, for example `sim --seeds 300`
  sim --planted   Check that the simulator and the tests find the planted bugs
                  (docs/internals/planted-bugs.md; `sim --help` lists the options)
  memory          Run loom, AddressSanitizer and miri over the store, as far as they are installed
  tidy            Check the project's own rules about its files
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test::run(test::Extent::Subset),
        ["test", "--full"] => test::run(test::Extent::Full),
        ["verify"] => verify::verify(),
        ["fix"] => verify::fix(),
        ["tidy"] => tidy::run(),
        ["memory"] => memory::check(),
        ["torture", options @ ..] => torture::run(options),
        ["sim", "--help" | "-h"] => {
            print!("{}", planted::HELP);
            Ok(())
        }
        ["sim", "--planted", options @ ..] => planted::run(options),
        ["sim", options @ ..] => sim::with_options(options),
        ["fuzz", options @ ..] => fuzz::fuzz(options),
        [
            "bench",
            what @ ("load" | "measuring" | "read" | "transports" | "tail-latency" | "write" | "replay" | "traces"
            | "store" | "instructions"),
            options @ ..,
        ] => bench::run(what, options),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown command `{}`; try `cargo xtask help`", other.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}
