//! Throws altered seeds at what reads the octets of clients, where libFuzzer is not (`cargo xtask fuzz`): messages,
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

use inputs::Mutator;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What broke a target once: its name and the input in hex.
const FOUND: &str = include_str!("../../testdata/fuzz.txt");

/// Something to throw octets at.
#[derive(Clone, Copy)]
struct Target {
    /// What it is called, here and in `fuzz/`.
    name: &'static str,
    /// Takes any octets, and panics when something does not hold that must.
    run: fn(&[u8]),
    /// Inputs that are what they should be, which others are made of.
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, folder] = &arguments[..]
        && word == "seeds"
    {
        return match write_seeds(Path::new(folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{folder}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let Some(seconds) = arguments.first().and_then(|seconds| seconds.parse().ok()) else {
        eprintln!("fuzz SECONDS [TARGET], or fuzz seeds FOLDER");
        return ExitCode::FAILURE;
    };
    let wanted = arguments.get(1);
    let chosen: Vec<Target> =
        TARGETS.into_iter().filter(|target| wanted.is_none_or(|name| name == target.name)).collect();
    if chosen.is_empty() {
        eprintln!("targets: {}", TARGETS.map(|target| target.name).join(", "));
        return ExitCode::FAILURE;
    }
    // Other inputs in each run; a failure names its input, so nothing else is needed to see it again.
    let number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let broken = chosen.into_iter().filter(|target| !holds(*target, Duration::from_secs(seconds), number)).count();
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the seeds to where libFuzzer begins with them: a folder for each target.
fn write_seeds(folder: &Path) -> std::io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}

/// What was found before comes first, then each seed, then what is made of them.
fn holds(target: Target, time: Duration, number: u64) -> bool {
    let seeds = (target.seeds)();
    let mut mutator = Mutator::new(seeds.clone(), number);
    let (start, mut count) = (Instant::now(), 0_u64);
    let mut next = found(target.name).chain(seeds);
    loop {
        let input = match next.next() {
            Some(input) => input,
            None if start.elapsed() < time => mutator.next_input(),
            None => break,
        };
        if std::panic::catch_unwind(|| (target.run)(&input)).is_err() {
            println!("{} breaks at an input; a line for crates/server/testdata/fuzz.txt:", target.name);
            println!("{} {}", target.name, data_encoding::HEXLOWER.encode(&input));
            return false;
        }
        count += 1;
    }
    println!("{}: {count} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
    true
}

fn found(name: &str) -> impl Iterator<Item = Vec<u8>> {
    let lines = FOUND.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(move |(target, _)| *target == name)
        .map(|(_, hex)| data_encoding::HEXLOWER.decode(hex.as_bytes()).expect("an even number of lower-case digits"))
}
