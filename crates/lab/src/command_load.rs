//! `catlab load`: queries at a server, and how it did.

use clap::{ArgGroup, Args, ValueEnum};
use lab::engine::{self, Habits, HttpPlan, Pace, Plan, Progress, TlsPlan, Transport};
use lab::limits::{CLIENTS_MAX, CONNECTION_IN_FLIGHT_DEFAULT};
use lab::measure::Second;
use lab::population::{Cast, Population, Server};
use lab::report::{Manifest, Rules, Summary, duration, outline};
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
#[command(group(ArgGroup::new("workload").required(true).multiple(true).args(["queries", "name", "population"])))]
pub(crate) struct Arguments {
    /// Whom to ask, with or without a port; queries take turns.
    #[arg(long, required = true, value_delimiter = ',')]
    server: Vec<Server>,
    /// How: udp, tcp, dot, doh or doq.
    #[arg(long, default_value = "udp")]
    transport: Transport,
    /// Query file: dnsperf text and its dialects, or messages after two octets of length; also as .xz.
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Whose third column the text file has; found out by itself otherwise.
    #[arg(long)]
    dialect: Option<DialectArgument>,
    #[arg(long, value_name = "PATTERN", help = NAME_HELP, conflicts_with = "queries")]
    name: Option<String>,
    /// Clients that ask each in its own way: a TOML file (docs/load.md). It replaces transport, rate and connections.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "poisson", "closed_loop", "name"])]
    population: Option<PathBuf>,
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
    /// Connections of each thread (not UDP); they are opened before the run.
    #[arg(long, default_value_t = 8, value_parser = parse_connections)]
    connections: usize,
    /// Queries that wait on one connection.
    #[arg(long, default_value_t = CONNECTION_IN_FLIGHT_DEFAULT)]
    pipeline: usize,
    /// Queries after which a connection is closed and another opened.
    #[arg(long)]
    queries_per_connection: Option<u64>,
    /// Silence after which a connection is closed.
    #[arg(long, value_parser = parse_duration)]
    idle_timeout: Option<Duration>,
    /// How long a connection and its handshake may take.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    handshake_timeout: Duration,
    /// The name that the server's certificate must have; its address otherwise.
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
    /// Authorities to trust instead of the system's, PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Take any certificate.
    #[arg(long)]
    insecure: bool,
    /// Share of new connections that resume an earlier TLS session, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    resumption: f64,
    /// Share of those that send queries as early data (0-RTT), 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    early_data: f64,
    /// Path of DNS over HTTPS.
    #[arg(long, default_value = "/dns-query")]
    doh_path: String,
    /// Send queries over HTTPS as GET instead of POST.
    #[arg(long)]
    doh_get: bool,
    /// Source addresses, taken in turns.
    #[arg(long, value_delimiter = ',')]
    source: Vec<IpAddr>,
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
    /// Folder for summary.json and manifest.json.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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
    // More connections than the shell's limit, if the system's limit allows them; what does not suffice is said then.
    let _limit = engine::raise_open_files();
    let plan = plan(arguments)?;
    allow_targets(&plan, arguments.i_own_this_target)?;
    if let Some(out) = &arguments.out {
        std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    let is_terminal = std::io::stderr().is_terminal();
    let outcome = engine::run(&plan, |progress| {
        if let Progress::Second(index, second) = progress {
            show_second(index, second, is_terminal);
        }
        stops()
    })?;
    if is_terminal {
        eprintln!();
    }
    let rules = Rules { lag_p99_max: arguments.lag_limit, ..Rules::default() };
    let summary = Summary::new(&plan, &outcome, &rules);
    print!("{}", outline(&summary));
    if let Some(out) = &arguments.out {
        write_json(&out.join("summary.json"), &summary)?;
        write_json(&out.join("manifest.json"), &Manifest::new(outcome.started, arguments.seed))?;
    }
    if let Some(failure) = &outcome.failure {
        return Err(failure.clone().into());
    }
    Ok(if summary.validity.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show_second(index: u64, second: &Second, is_terminal: bool) {
    let at = |quantile| duration(Duration::from_nanos(second.latency.value_at_quantile(quantile)));
    let line = format!(
        "{:>5} s  sent {:>8}  answered {:>8}  timed out {:>6}  p50 {:>8}  p99 {:>8}  max {:>8}",
        index + 1,
        second.sent,
        second.answered,
        second.timed_out,
        at(0.5),
        at(0.99),
        at(1.0),
    );
    if is_terminal {
        eprint!("\r{line}");
    } else {
        eprintln!("{line}");
    }
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), String> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    text.push('\n');
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn plan(arguments: &Arguments) -> Result<Plan, Box<dyn Error>> {
    let population = arguments.population.as_deref().map(read_population).transpose()?;
    let workload = workload(arguments, population.as_ref())?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let port = arguments.transport.default_port();
    let address = |server: &Server| SocketAddr::new(server.address, server.port.unwrap_or(port));
    Ok(Plan {
        transport: arguments.transport,
        timeout: arguments.timeout,
        worker_count: arguments.workers.unwrap_or(cores.div_ceil(2)).max(1),
        socket_count: arguments.sockets.max(1),
        connection_count: arguments.connections,
        habits: Habits {
            idle_timeout: arguments.idle_timeout,
            queries_max: arguments.queries_per_connection.map(|most| most.max(1)),
            resumption: arguments.resumption,
            early_data: arguments.early_data,
            in_flight_max: arguments.pipeline.max(1),
            ..Habits::default()
        },
        handshake_timeout: arguments.handshake_timeout,
        tls: TlsPlan {
            name: arguments.tls_name.clone(),
            authorities: arguments.ca.clone(),
            is_insecure: arguments.insecure,
        },
        http: HttpPlan { path: arguments.doh_path.clone(), is_get: arguments.doh_get },
        sources: arguments.source.clone(),
        expected_rcodes: arguments.expect_rcode.clone(),
        seed: arguments.seed,
        ..Plan::new(arguments.server.iter().map(address).collect(), workload, pace(arguments, population)?)
    })
}

fn pace(arguments: &Arguments, population: Option<Population>) -> Result<Pace, String> {
    let duration = arguments.duration;
    if let Some(population) = population {
        let population = Cast::new(population, &arguments.server, arguments.seed)?;
        return Ok(Pace::Population { population, duration });
    }
    if arguments.closed_loop {
        return Ok(Pace::Closed { in_flight: arguments.in_flight.max(1), duration });
    }
    let arrivals = if arguments.poisson { Arrivals::Poisson { seed: arguments.seed } } else { Arrivals::Even };
    Ok(Pace::Open(Schedule::new(arguments.rate.pieces(duration), arrivals)?))
}

fn read_population(path: &Path) -> Result<Population, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Population::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn workload(arguments: &Arguments, population: Option<&Population>) -> Result<Workload, Box<dyn Error>> {
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
    if let Some(population) = population {
        let generator = population.generator(extras, arguments.seed)?;
        let generator = generator.ok_or("the population has no [queries]; add it, or name a file with --queries")?;
        return Ok(Workload::Generated(Box::new(generator)));
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
fn allow_targets(plan: &Plan, is_allowed: bool) -> Result<(), String> {
    let is_own = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
    };
    let mut servers = plan.servers.clone();
    if let Pace::Population { population, .. } = &plan.pace {
        servers.extend(population.members().iter().map(|(_, endpoint, _)| endpoint.server));
    }
    match servers.iter().find(|server| !is_own(server.ip())) {
        Some(server) if !is_allowed => Err(format!(
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

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text} is no share; write 0 to 1"))
}

fn parse_connections(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=CLIENTS_MAX).contains(count));
    count.ok_or_else(|| format!("{text} is no number of connections; write 1 to {CLIENTS_MAX}"))
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
