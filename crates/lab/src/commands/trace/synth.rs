//! `catlab trace synth`: generates synthetic traces.

use super::writing::{WriteArguments, create, finish};
use crate::arguments::{Types, parse_duration, parse_subnet, parse_types};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use load::population::{Clients, Population, Server};
use load::synthesis::{SendPattern, Synthesis, TraceEnd};
use load::workload::{Extras, Generator, NameDistribution, NameList, Popularity, Workload};
use std::error::Error;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wire::number::Rtype;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab trace synth --interval 20us --count 250000 --name 'q{\x1b[0mn}.example.com' --clients 10000 --out even.catrace
  catlab trace synth --interval 1ms --duration 60s --names-file names.txt --out named.catrace
  catlab trace synth --like syn-3 --out syn-3.catrace
  catlab trace synth --like b-root --duration 60s --out b-root.catrace
  catlab profile fit day.pcap --out day.toml
  catlab trace synth --like day.toml --duration 10m --seed 2 --out day.txt.gz

syn-0 to syn-4 are the synthetic traces of the LDplayer paper (IMC 2018, Table 1): one hour with an interval of 1 s,
0.1 s, 10 ms, 1 ms or 0.1 ms, unique names and 10,000 clients. b-root has the rate of B-Root in that paper (38,000
queries a second), one million clients with the same skew, and 3 % of TCP. resolver has 25,000 clients: some ask every
5 s or every 35 s. Times start at zero.";

/// clap replaces `{n}` with a line break. An invisible terminal escape in between prevents it.
const NAME_HELP: &str = "Name of each query: a pattern with {\x1b[0mn} for its number [default: \
                         q{\x1b[0mn}.example.com, or that of the profile]";

/// The intervals of LDplayer's synthetic traces, which last an hour.
const SYNTHETIC_US: [(&str, u64); 5] =
    [("syn-0", 1_000_000), ("syn-1", 100_000), ("syn-2", 10_000), ("syn-3", 1_000), ("syn-4", 100)];
const SYNTHETIC_DURATION: Duration = Duration::from_secs(3_600);
const CLIENTS_DEFAULT: u64 = 10_000;
const PATTERN_DEFAULT: &str = "q{n}.example.com";

#[derive(Args)]
pub(crate) struct SynthArguments {
    /// Interval between queries.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, required_unless_present = "like",
          conflicts_with = "like")]
    interval: Option<Duration>,
    /// Profile of the traffic: b-root, resolver, syn-0 to syn-4, or a population in TOML (`catlab profile fit`).
    #[arg(long, value_name = "PROFILE")]
    like: Option<String>,
    /// End after this many queries.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End at this time of the trace.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Number of clients. Each query has a random one [default: 10000].
    #[arg(long, value_name = "N", conflicts_with = "like")]
    clients: Option<u64>,
    #[arg(long, value_name = "PATTERN", help = NAME_HELP)]
    name: Option<String>,
    /// Take the names from this file, one in each line, instead of a pattern. They are used in order and again from the
    /// start, or as often as the popularity of the profile says: the first name is the most popular.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    names_file: Option<PathBuf>,
    /// Query types and their weights, such as A:3,AAAA:1 [default: A].
    #[arg(long, value_parser = parse_types, conflicts_with = "like")]
    types: Option<Types>,
    /// Send EDNS with this UDP payload size.
    #[arg(long, value_name = "BYTES", conflicts_with = "like")]
    edns: Option<u16>,
    /// Set DO, to request signatures.
    #[arg(long, conflicts_with = "like")]
    dnssec_ok: bool,
    /// Clear RD. It is always clear with b-root.
    #[arg(long)]
    no_recurse: bool,
    /// Prefix of client addresses. They are assigned in order.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = parse_subnet, default_value = "10.0.0.0/8")]
    prefix: (IpAddr, u8),
    /// Server address. The default port is that of the transport.
    #[arg(long, value_name = "ADDRESS", default_value = "192.0.2.53")]
    server: Server,
    /// Seed of the trace.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    write: WriteArguments,
}

/// Writes the trace.
pub(crate) fn synth(arguments: &SynthArguments) -> Result<bool, Box<dyn Error>> {
    let mut synthesis = synthesis(arguments)?;
    let inputs: Vec<&Path> =
        arguments.like.as_deref().map(Path::new).into_iter().chain(arguments.names_file.as_deref()).collect();
    let mut writer = create(&arguments.write, &inputs)?;
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {human_pos} queries").expect("a template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    let (mut count, mut last_ns) = (0_u64, 0);
    while let Some(message) = synthesis.next() {
        writer.write(&message)?;
        (count, last_ns) = (count + 1, message.at_ns);
        if count.is_multiple_of(4_096) {
            bar.set_position(count);
        }
    }
    bar.finish_and_clear();
    finish(writer, &arguments.write)?;
    eprintln!("{count} queries in {:.3} s", last_ns as f64 / 1e9);
    Ok(true)
}

fn synthesis(arguments: &SynthArguments) -> Result<Synthesis, String> {
    let end = TraceEnd { count: arguments.count, duration: arguments.duration };
    let Some(like) = &arguments.like else {
        return even(arguments, arguments.interval.unwrap_or_default(), end);
    };
    if let Some(&(_, interval_us)) = SYNTHETIC_US.iter().find(|(name, _)| name == like) {
        let end = if end == TraceEnd::default() { TraceEnd { duration: Some(SYNTHETIC_DURATION), ..end } } else { end };
        return even(arguments, Duration::from_micros(interval_us), end);
    }
    let built_in = Population::built_in(like);
    let recursion_desired = !arguments.no_recurse && like != "b-root";
    let mut population = match built_in {
        Some(population) => population,
        None => read(like)?,
    };
    if let (Some(queries), Some(name)) = (&mut population.queries, &arguments.name) {
        queries.pattern.clone_from(name);
    }
    let generator = population.generator(Extras { recursion_desired, ..Extras::default() }, arguments.seed)?;
    let generator = generator.ok_or_else(|| format!("{like} has no [queries]: it says who asks, and not what"))?;
    let generator = with_names(generator, arguments)?;
    let clients = Box::new(Clients::new(population, &[arguments.server], arguments.seed)?);
    let workload = Workload::generated(generator);
    Synthesis::new(SendPattern::Population(clients), workload, arguments.prefix, end, arguments.seed)
}

/// Uses the names of --names-file, if it was given.
fn with_names(generator: Generator, arguments: &SynthArguments) -> Result<Generator, String> {
    match &arguments.names_file {
        Some(path) => generator.with_listed(Arc::new(NameList::read(path)?)),
        None => Ok(generator),
    }
}

fn read(path: &str) -> Result<Population, String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let known: Vec<_> = SYNTHETIC_US.iter().map(|(name, _)| *name).chain(Population::built_in_names()).collect();
        format!("--like {path}: {error}; without a file there are {}", known.join(", "))
    })?;
    Population::parse(&text).map_err(|error| format!("{path}: {error}"))
}

/// Queries at even intervals, each with a unique name.
fn even(arguments: &SynthArguments, interval: Duration, end: TraceEnd) -> Result<Synthesis, String> {
    let by_time = end.duration.map_or(u128::MAX, |duration| duration.as_nanos().div_ceil(interval.as_nanos().max(1)));
    let names = end.count.unwrap_or(u64::MAX).min(u64::try_from(by_time).unwrap_or(u64::MAX)).max(1);
    let names = NameDistribution {
        pattern: arguments.name.clone().unwrap_or_else(|| PATTERN_DEFAULT.into()),
        count: names,
        popularity: Popularity::Sequential,
        nxdomain_share: 0.0,
    };
    let extras = Extras {
        recursion_desired: !arguments.no_recurse,
        payload_bytes: arguments.edns,
        dnssec_ok: arguments.dnssec_ok,
        ..Extras::default()
    };
    let types = arguments.types.as_ref().map_or(&[(Rtype::A, 1.0)][..], |types| &types.0);
    let generator = with_names(Generator::new(names, types, extras, arguments.seed)?, arguments)?;
    let workload = Workload::generated(generator);
    let server = arguments.server.at_or(load::population::DNS_PORT);
    let clients = arguments.clients.unwrap_or(CLIENTS_DEFAULT);
    Synthesis::new(SendPattern::Even { interval, clients, server }, workload, arguments.prefix, end, arguments.seed)
}
