//! `catlab load`: queries at a server, and how it did.

use clap::{ArgGroup, Args, ValueEnum};
use lab::engine::{self, Pace, Plan, Progress, Transport};
use lab::limits::MONITOR_INTERVAL_MIN;
use lab::live::{Events, Exporter, Live, View};
use lab::monitor::Monitor;
use lab::report::{Manifest, Recording, Rules, Summary, dnsperf_text, folder, outline};
use lab::schedule::{Arrivals, Piece, Schedule};
use lab::workload::{self, Dialect, Extras, Generator, NameDistribution, Popularity, Workload};
use std::error::Error;
use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use wire::number::Rtype;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab load --server 127.0.0.1:5300 --queries queries.txt --rate 2000 --duration 10s --out run1
  catlab load --server 127.0.0.1:5300 --name 'q{\x1b[0mn}.example.test' --names 100000 --closed-loop --in-flight 256
  catlab load --server 192.168.1.5 --queries queries.txt --rate 100..20000 --duration 60s --poisson

Exit code 0: the run is valid; 1: it is not, and the summary says why; 2: it did not take place.";

/// clap takes `{n}` for the end of a line; a terminal escape in it that changes nothing keeps it as it is.
const NAME_HELP: &str = "Draw names instead: a pattern with {\x1b[0mn} where the number goes";

#[derive(Args)]
#[command(group(ArgGroup::new("workload").required(true).args(["queries", "name"])))]
pub(crate) struct Arguments {
    /// Whom to ask, with or without a port; queries take turns.
    #[arg(long, required = true, value_delimiter = ',', value_parser = parse_server)]
    server: Vec<SocketAddr>,
    /// How: udp, tcp, dot, doh or doq.
    #[arg(long, default_value = "udp")]
    transport: Transport,
    /// Query file: dnsperf text and its dialects, or messages after two octets of length; also as .xz.
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Whose third column the text file has; found out by itself otherwise.
    #[arg(long)]
    dialect: Option<DialectArgument>,
    #[arg(long, value_name = "PATTERN", help = NAME_HELP)]
    name: Option<String>,
    /// How many names there are.
    #[arg(long, default_value_t = 1_000)]
    names: u64,
    /// How names are chosen: uniform, sequential, random (each new), or zipf:1.0 with its exponent.
    #[arg(long, default_value = "uniform", value_parser = parse_popularity)]
    popularity: Popularity,
    /// Types of drawn queries and their weights.
    #[arg(long, default_value = "A", value_parser = parse_types)]
    types: Types,
    /// Share of drawn queries for names that do not exist, 0 to 1.
    #[arg(long, default_value_t = 0.0)]
    nxdomain: f64,
    /// Queries a second: 2000, or a ramp 100..20000, or steps 1000,2000,4000 of equal length.
    #[arg(long, default_value = "1000", value_parser = parse_rate, conflicts_with = "closed_loop")]
    rate: Rates,
    /// Random distances, as from many independent clients, instead of even ones.
    #[arg(long, conflicts_with = "closed_loop")]
    poisson: bool,
    /// Send when answers come instead of at planned times: finds a limit, hides waiting.
    #[arg(long)]
    closed_loop: bool,
    /// Queries that wait in a closed loop.
    #[arg(long, default_value_t = 256, requires = "closed_loop")]
    in_flight: usize,
    /// How long queries are sent: 6s, 500ms, 2m.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// After how long a query counts as unanswered.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    timeout: Duration,
    /// Sending threads; one for every second core otherwise.
    #[arg(long)]
    workers: Option<usize>,
    /// Client ports of each thread and server.
    #[arg(long, default_value_t = 8)]
    sockets: usize,
    /// Source address.
    #[arg(long)]
    source: Option<IpAddr>,
    /// EDNS with this UDP payload size.
    #[arg(long, value_name = "OCTETS")]
    edns: Option<u16>,
    /// DO: ask for signatures.
    #[arg(long)]
    dnssec_ok: bool,
    /// A client cookie in each query.
    #[arg(long)]
    cookie: bool,
    /// Client subnet in each query (RFC 7871).
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = parse_subnet)]
    subnet: Option<(IpAddr, u8)>,
    /// Pad queries to a multiple of so many octets.
    #[arg(long, value_name = "OCTETS")]
    padding: Option<usize>,
    /// Clear RD.
    #[arg(long)]
    no_recurse: bool,
    /// RCODEs that are right; others are no capacity.
    #[arg(long, value_delimiter = ',', value_parser = parse_rcode)]
    expect_rcode: Vec<u8>,
    /// Send lag at p99 beyond which the run is not valid.
    #[arg(long, default_value = "1ms", value_parser = parse_duration)]
    lag_limit: Duration,
    /// The same seed draws the same.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the run: figures, seconds, histograms (docs/lab-results.md); `catlab report` draws it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print dnsperf's statistics too, for scripts that read them.
    #[arg(long)]
    dnsperf_text: bool,
    /// Say nothing while it runs.
    #[arg(long, short)]
    quiet: bool,
    /// Each second as a line of JSON on standard output.
    #[arg(long)]
    json_events: bool,
    /// Serve the run so far as Prometheus metrics at this address.
    #[arg(long, value_name = "ADDRESS:PORT")]
    prometheus: Option<SocketAddr>,
    /// Read these each interval, on the clock of the run: pid:4711, cgroup:/NAME, or http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "SOURCE", value_delimiter = ',', requires = "out")]
    monitor: Vec<String>,
    /// How often they are read.
    #[arg(long, default_value = "1s", value_parser = parse_duration, requires = "monitor")]
    monitor_interval: Duration,
    /// The target is mine, though it is neither on loopback nor in a private range.
    #[arg(long)]
    i_own_this_target: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum DialectArgument {
    Dnsperf,
    Kxdpgun,
    Flamethrower,
    Calidns,
}

#[derive(Clone)]
struct Types(Vec<(Rtype, f64)>);

#[derive(Clone)]
enum Rates {
    Steps(Vec<f64>),
    Ramp(f64, f64),
}

/// Runs it; `stops` says how often the user has asked to stop.
pub(crate) fn main(arguments: &Arguments, stops: &dyn Fn() -> u8) -> ExitCode {
    run(arguments, stops).unwrap_or_else(|error| {
        eprintln!("catlab load: {error}");
        ExitCode::from(2)
    })
}

fn run(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    allow_targets(arguments)?;
    if arguments.transport != Transport::Udp {
        return Err(format!("{} is not among the transports of this build; there is udp", arguments.transport).into());
    }
    let plan = plan(arguments)?;
    if let Some(out) = &arguments.out {
        std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    let mut live = live(arguments, plan.pace.duration())?;
    let monitor = watch(arguments)?;
    let outcome = engine::run(&plan, |progress| {
        if let Progress::Second(index, second) = progress {
            live.second(index, second);
        }
        stops()
    })?;
    live.finish();
    let rules = Rules { lag_p99_max: arguments.lag_limit, ..Rules::default() };
    let summary = Summary::new(&plan, &outcome, &rules);
    let recording = Recording::of(&outcome, plan.timeout);
    // Standard output is the events' alone when they are wanted.
    if arguments.json_events {
        eprint!("{}", outline(&summary));
    } else {
        if arguments.dnsperf_text {
            println!("{}", dnsperf_text(&recording));
        }
        print!("{}", outline(&summary));
    }
    if let Some(out) = &arguments.out {
        folder::write(out, &recording, &summary, &Manifest::new(outcome.started, arguments.seed))?;
        if let Some(monitor) = monitor {
            write_lines(&out.join("monitor.jsonl"), &monitor.finish(outcome.start))?;
        }
    }
    Ok(if summary.validity.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn live(arguments: &Arguments, planned: Duration) -> Result<Live, String> {
    let events = arguments.json_events.then(|| Events::new(Box::new(std::io::stdout())));
    let exporter = match arguments.prometheus {
        Some(address) => {
            let exporter = Exporter::start(address).map_err(|error| format!("--prometheus {address}: {error}"))?;
            eprintln!("metrics at http://{}/metrics", exporter.address());
            Some(exporter)
        }
        None => None,
    };
    let view = (!arguments.quiet).then(|| View::new(std::io::stderr().is_terminal(), planned));
    Ok(Live::new(view, events, exporter))
}

fn watch(arguments: &Arguments) -> Result<Option<Monitor>, Box<dyn Error>> {
    if arguments.monitor.is_empty() {
        return Ok(None);
    }
    let sources = arguments.monitor.iter().map(|source| source.parse()).collect::<Result<_, _>>()?;
    Ok(Some(Monitor::start(sources, arguments.monitor_interval.max(MONITOR_INTERVAL_MIN))?))
}

fn write_lines(path: &Path, values: &[impl serde::Serialize]) -> Result<(), String> {
    let lines: Result<Vec<String>, _> = values.iter().map(serde_json::to_string).collect();
    let mut text = lines.map_err(|error| error.to_string())?.join("\n");
    text.push('\n');
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn plan(arguments: &Arguments) -> Result<Plan, Box<dyn Error>> {
    let workload = workload(arguments)?;
    let pace = if arguments.closed_loop {
        Pace::Closed { in_flight: arguments.in_flight.max(1), duration: arguments.duration }
    } else {
        let arrivals = if arguments.poisson { Arrivals::Poisson { seed: arguments.seed } } else { Arrivals::Even };
        Pace::Open(Schedule::new(arguments.rate.pieces(arguments.duration), arrivals)?)
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Plan {
        servers: arguments.server.clone(),
        transport: arguments.transport,
        workload,
        pace,
        timeout: arguments.timeout,
        worker_count: arguments.workers.unwrap_or(cores.div_ceil(2)).max(1),
        socket_count: arguments.sockets.max(1),
        source: arguments.source,
        expected_rcodes: arguments.expect_rcode.clone(),
    })
}

fn workload(arguments: &Arguments) -> Result<Workload, Box<dyn Error>> {
    let extras = Extras {
        recursion_desired: !arguments.no_recurse,
        payload_octets: arguments.edns,
        dnssec_ok: arguments.dnssec_ok,
        cookie: arguments.cookie.then(|| arguments.seed.to_be_bytes()),
        subnet: arguments.subnet,
        padding_block: arguments.padding.filter(|&block| block > 0),
        options: Vec::new(),
    };
    if let Some(path) = &arguments.queries {
        let dialect = arguments.dialect.map(DialectArgument::dialect);
        return Ok(Workload::listed(Arc::new(workload::read(path, dialect, &extras)?)));
    }
    let names = NameDistribution {
        pattern: arguments.name.clone().unwrap_or_default(),
        count: arguments.names,
        popularity: arguments.popularity,
        nxdomain_share: arguments.nxdomain,
    };
    let generator = Generator::new(names, &arguments.types.0, extras, arguments.seed)?;
    Ok(Workload::Generated(Box::new(generator)))
}

/// A load generator is a weapon: strangers' servers need a word more.
fn allow_targets(arguments: &Arguments) -> Result<(), String> {
    let is_own = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
    };
    match arguments.server.iter().find(|server| !is_own(server.ip())) {
        Some(server) if !arguments.i_own_this_target => Err(format!(
            "{server} is neither on loopback nor in a private range; add --i-own-this-target if it is yours to load"
        )),
        _ => Ok(()),
    }
}

impl Rates {
    fn pieces(&self, duration: Duration) -> Vec<Piece> {
        match self {
            Self::Ramp(from, to) => vec![Piece { duration, from: *from, to: *to }],
            Self::Steps(rates) => {
                let duration = duration / rates.len() as u32;
                rates.iter().map(|&rate| Piece { duration, from: rate, to: rate }).collect()
            }
        }
    }
}

impl DialectArgument {
    fn dialect(self) -> Dialect {
        match self {
            Self::Dnsperf => Dialect::Dnsperf,
            Self::Kxdpgun => Dialect::Kxdpgun,
            Self::Flamethrower => Dialect::Flamethrower,
            Self::Calidns => Dialect::Calidns,
        }
    }
}

fn parse_server(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .or_else(|_| text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53)))
        .map_err(|_| format!("{text} is no address; write 127.0.0.1:5300, [::1]:5300, or an address for port 53"))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..split].parse().map_err(|_| format!("{text} is no duration; write 6s, 500ms or 2m"))?;
    let unit = match &text[split..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        unit => return Err(format!("{unit} is no unit of time; there are us, ms, s, m and h")),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|error| format!("{text}: {error}"))
}

fn parse_rate(text: &str) -> Result<Rates, String> {
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("{text} is no rate"));
    match text.split_once("..") {
        Some((from, to)) => Ok(Rates::Ramp(number(from)?, number(to)?)),
        None => Ok(Rates::Steps(text.split(',').map(number).collect::<Result<_, _>>()?)),
    }
}

fn parse_popularity(text: &str) -> Result<Popularity, String> {
    match text {
        "uniform" => Ok(Popularity::Uniform),
        "sequential" => Ok(Popularity::Sequential),
        "random" => Ok(Popularity::Random),
        _ => text
            .strip_prefix("zipf:")
            .and_then(|exponent| exponent.parse().ok())
            .map(Popularity::Zipf)
            .ok_or_else(|| format!("{text}: write uniform, sequential, random or zipf:1.0")),
    }
}

fn parse_types(text: &str) -> Result<Types, String> {
    let part = |part: &str| {
        let (rtype, weight) = part.split_once(':').unwrap_or((part, "1"));
        let rtype = lab::trace::rtype(rtype).ok_or_else(|| format!("{rtype} is no type"))?;
        weight.parse().map(|weight| (rtype, weight)).map_err(|_| format!("{weight} is no weight; write A:3,AAAA:1"))
    };
    text.split(',').map(part).collect::<Result<_, _>>().map(Types)
}

fn parse_rcode(text: &str) -> Result<u8, String> {
    let names = (0..16u16).map(|code| (format!("{:?}", wire::number::Rcode(code)), code as u8));
    let number = text.parse::<u8>().ok().filter(|&code| code < 16);
    number
        .or_else(|| names.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, code)| code))
        .ok_or_else(|| format!("{text} is no RCODE; write NOERROR, NXDOMAIN, or a number below 16"))
}

fn parse_subnet(text: &str) -> Result<(IpAddr, u8), String> {
    workload::read_subnet(text).ok_or_else(|| format!("{text} is no subnet; write 192.0.2.0/24"))
}
