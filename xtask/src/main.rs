//! The project's own gate. `cargo xtask help` lists the commands.
#![forbid(unsafe_code)]

mod bench;
mod command;
mod fuzz;
mod memory;
mod peers;
mod planted;
mod previous;
mod sim;
mod test;
mod tidy;
mod torture;
mod verify;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--full]   every test: units, simulations, real processes, comparisons with the Debian peers
                  (installed when run as root; otherwise named and skipped in plain sight; with CI=true and
                  with --full a missing one is a failure that says how to get it), and 300 simulated
                  clusters, each counted as a test; then the planted bugs (`sim --planted`).
                  --full sends all of the recorded and generated queries, simulates 3,000, drives the clients that
                  take long to fetch (certbot with Pebble, lego, external-dns), and builds the software of an older
                  commit, beside which this one must run.
  verify          the whole gate, read-only: format, clippy, tidy, docs, deny, loom and sanitizer
                  over the store, the instructions of each step of an answer (`bench instructions`; without
                  valgrind they are skipped in plain sight, with CI=true that is a failure), each fuzz target
                  for a moment, test, 60 s of simulation, each row of torture once (as root)
  torture         run each kind of fault once on clusters of real nodes, and check the clients' histories with
                  porcupine and our own checks (docs/internals/torture.md). `--help` lists the options, `--list` the
                  faults.
                  Needs root and Go
  fix             what can be mended by tools: format and clippy's suggestions
  bench load      how fast catlab's load engine is beside a bare loop and dnsperf, and how true to its plan
  bench measuring what catlab and dnsperf say of servers with known faults (`-- --help` of each: its options)
  bench read      answers a second, memory and load time, ours and the peers in turn; what our guards cost
  bench transports
                  answers a second over TCP, DoT, DoH and DoQ, beside our own UDP and the peers
  bench tail-latency
                  whether the slowest queries are slower while zones change
  bench write     signed updates a second and how long each takes, ours with 1, 3 and 5 nodes and the peers in turn
                  (--only kills,partitions,one-way,queries,away,quiet: what clients see meanwhile, and when nodes fail)
  bench replay    how near to a trace its queries arrive, by the kernel's stamps, and how fast they can be sent
  bench traces    how fast traces are read and written, in each of three forms
  bench store     what the store and a replica need for one change in a zone of a million names
  bench instructions
                  what each step of an answer takes, counted under callgrind and held to limits
  fuzz [--seconds N] [TARGET]
                  throws altered bytes at what reads those of others, N seconds a target: by libFuzzer where
                  cargo-fuzz and a nightly toolchain are, otherwise by our own means
  sim [OPTIONS]   simulated clusters: catamaran-sim with its options, e.g. `sim --seeds 300`
  sim --planted   check that the simulator and the tests find the planted bugs
                  (docs/internals/planted-bugs.md; `sim --help` lists the options)
  memory          loom, AddressSanitizer and miri over the store, as far as they are installed
  tidy            the project's own rules about its files
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
