//! Runs mutated seeds against the parsers of client input, on machines without libFuzzer (`cargo xtask fuzz`):
//! messages, rdata, and the framing of TCP, HTTPS and QUIC. The server has no library, so its source files are included
//! here.
//!
//! ```text
//! cargo run --profile gate -p catamaran-server --features testing --example fuzz -- SECONDS [TARGET]
//! ```

// Parsers of the server.
#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../src/listen/framing.rs"]
mod framing;
#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../src/limits.rs"]
mod limits;
#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../src/listen/doh/request.rs"]
mod request;
#[path = "../../src/listen/doq/stream.rs"]
mod stream;

// Inputs and their seeds.
mod inputs;
mod seeds;

// The targets, which `fuzz/` also uses.
mod compose;
mod doh_request;
mod doq_stream;
mod parse_request;
mod rdata;
mod tcp_framing;

#[path = "../../../../fuzz/runner.rs"]
mod runner;

use inputs::Mutator;
use runner::Suite;
use std::process::ExitCode;

/// Inputs that once broke a target: the name of the target, and the input in hex.
const FOUND: &str = include_str!("../../testdata/fuzz.txt");

/// A target with its name, here and in `fuzz/`, and its seeds.
struct Target {
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
}

const TARGETS: [Target; 6] = [
    Target { name: "parse_request", run: parse_request::run, seeds: seeds::messages },
    Target { name: "rdata", run: rdata::run, seeds: seeds::rdata },
    Target { name: "compose", run: compose::run, seeds: seeds::messages },
    Target { name: "tcp_framing", run: tcp_framing::run, seeds: seeds::connections },
    Target { name: "doh_request", run: doh_request::run, seeds: seeds::requests },
    Target { name: "doq_stream", run: doq_stream::run, seeds: seeds::streams },
];

fn main() -> ExitCode {
    // Inputs that were found before run first.
    let target = |Target { name, run, seeds }| {
        let seeds = found(name).chain(seeds()).collect();
        runner::Target { name, run: Box::new(run), seeds }
    };
    let targets = TARGETS.map(target).into();
    Suite { begin: "", found: "crates/server/testdata/fuzz.txt", targets }.main()
}

fn found(name: &str) -> impl Iterator<Item = Vec<u8>> {
    let lines = FOUND.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(move |(target, _)| *target == name)
        .map(|(_, hex)| data_encoding::HEXLOWER.decode(hex.as_bytes()).expect("an even number of lower-case digits"))
}
