//! Throws altered seeds at what reads the bytes of clients, where libFuzzer is not (`cargo xtask fuzz`): messages,
//! rdata, and what messages come in over TCP, HTTPS and QUIC. The server is a program, so its files are taken in here.
//!
//! ```text
//! cargo run --profile gate -p catamaran-server --features testing --example fuzz -- SECONDS [TARGET]
//! ```

// What the server reads with.
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

// Inputs, and what they begin with.
mod inputs;
mod seeds;

// The targets, which `fuzz/` shares.
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

/// What broke a target once: its name and the input in hex.
const FOUND: &str = include_str!("../../testdata/fuzz.txt");

/// What it is called here and in `fuzz/`, what takes its inputs, and what these are made of.
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
    // What was found before comes first.
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
