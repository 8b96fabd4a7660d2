//! Answers per second of each transport, with each number of connections and each depth, in turns.

use super::answers;
use super::load_run;
use super::machine::{TOOL_CORE, Used, pinned};
use super::options::{Cell, Options};
use super::servers::{ECHO, NAMES, OURS, Server};
use super::table::{Row, Verdict, spread, thousands};
use super::window;
use super::zones::{Lengths, Zone};
use measure::Transport;
use report::Run;

/// Queries in flight over UDP.
const UDP_IN_FLIGHT: usize = 512;
/// Source addresses. They keep each client below the server's connection limit per client.
const SOURCES: usize = 8;
/// Number of connections from which on the budgets apply.
const MANY: usize = 1_000;

/// Maximum share of missing connections: of 15,000 handshakes in a row, one may time out.
const MISSING_MAX: f64 = 0.001;

struct Turn {
    name: &'static str,
    transport: Transport,
    cell: Cell,
    round: usize,
    rate: f64,
    /// CPU time of the server per answer, in microseconds. NaN if it was not measured.
    cost_us: f64,
    used: Used,
}

/// Minimum ratio to catamaran's rate over UDP (docs/history/budgets.md).
const fn budget(transport: Transport) -> Option<f64> {
    match transport {
        Transport::Tcp => Some(0.80),
        Transport::Dot => Some(0.70),
        _ => None,
    }
}

/// Measures every cell. A round runs UDP once, then each transport with each server that supports it.
pub(crate) fn of_all(options: &Options) -> Result<Vec<Row>, String> {
    let zone = Zone::make(&options.folder, options.names)?;
    let (ours, certificate) = Server::ours(&zone, &options.folder)?;
    let (mut servers, mut rows) = (vec![ours], Vec::new());
    for name in NAMES.into_iter().skip(1).filter(|name| options.servers.iter().any(|one| one == name)) {
        let peers = Server::peer(name, &zone, &options.folder, &certificate)?;
        if peers.is_empty() {
            rows.push(absent("all", name, "it is not installed".into()));
        }
        servers.extend(peers);
    }
    for server in &servers {
        if let Some(udp) = server.address(Transport::Udp) {
            answers::check(server.name, udp, &zone)?;
        }
    }
    let mut turns = Vec::new();
    for round in 0..options.rounds {
        for &cell in &options.cells {
            turns.push(run(options, &zone, &servers[0], Transport::Udp, cell, round)?);
            for &transport in &options.transports {
                for server in servers.iter().filter(|server| server.address(transport).is_some()) {
                    match run(options, &zone, server, transport, cell, round) {
                        Ok(turn) => turns.push(turn),
                        // A server that fails is reported. If it is catamaran, the bench fails.
                        Err(error) if server.name == OURS => rows.push(failed(&label(transport, cell), error)),
                        Err(error) if round == 0 => rows.push(absent(&label(transport, cell), server.name, error)),
                        Err(error) => eprintln!("{error}"),
                    }
                }
            }
        }
    }
    for &cell in &options.cells {
        rows.extend(figures(&turns, Transport::Udp, cell, options.rounds));
        for &transport in &options.transports {
            rows.extend(figures(&turns, transport, cell, options.rounds));
            rows.extend(ratios(&turns, transport, cell));
        }
    }
    Ok(rows)
}

pub(crate) fn absent(what: &str, name: &str, note: String) -> Row {
    let (figure, budget) = (String::new(), String::new());
    Row { what: format!("{what}: {name}"), figure, budget, verdict: Verdict::Absent, note }
}

/// The row for a failure of catamaran.
pub(crate) fn failed(what: &str, note: String) -> Row {
    eprintln!("{note}");
    Row { verdict: Verdict::Missed, budget: "all of it".to_owned(), ..absent(what, OURS, note) }
}

/// One turn. Only answers in whole seconds after all connections were open count.
fn run(
    options: &Options,
    zone: &Zone,
    server: &Server,
    transport: Transport,
    cell: Cell,
    round: usize,
) -> Result<Turn, String> {
    let address = server.address(transport).ok_or("a transport that it has")?;
    let is_udp = transport == Transport::Udp;
    let in_flight = if is_udp { UDP_IN_FLIGHT } else { cell.connections * cell.depth };
    let mut command = pinned(TOOL_CORE, &options.catlab);
    command.args(["load", "--quiet", "--workers", "1", "--server", &address.to_string()]);
    command.args(["--transport", transport.label(), "--duration", &format!("{}s", options.seconds)]);
    command.args(["--closed-loop", "--in-flight", &in_flight.to_string(), "--expect-rcode", "NOERROR"]);
    if !is_udp {
        let sources: Vec<String> = (1..=SOURCES.min(cell.connections)).map(|last| format!("127.0.0.{last}")).collect();
        command.args(["--connections", &cell.connections.to_string(), "--pipeline", &cell.depth.to_string()]);
        command.args(["--insecure", "--handshake-timeout", "30s", "--source", &sources.join(",")]);
    }
    command.args(["--monitor", &server.monitored(), "--monitor-interval", "500ms"]);
    command.arg("--queries").arg(zone.queries(Lengths::Mixed)?);
    let out = options.folder.join("run");
    let mut measure = || load_run::run(&mut command, &out, server.pids());
    let (run, used) = match server.address(Transport::Udp) {
        Some(udp) => answers::check_meanwhile(server.name, udp, zone, measure)?.0?,
        None => measure()?,
    };
    let wrong = format!("{} over {transport}, {} x {}", server.name, cell.connections, cell.depth);
    check(&wrong, &run, cell, transport)?;
    let rate = load_run::answers_a_second(&run);
    let cores = window::cores(&run.recording.samples, options.seconds as f64).unwrap_or(f64::NAN);
    let turn = Turn { name: server.name, transport, cell, round, rate, cost_us: 1e6 * cores / rate, used };
    eprintln!(
        "round {} {transport} {} x {}: {} {rate:.0} answers/s, {:.2} us of its processor each",
        round + 1,
        cell.connections,
        cell.depth,
        turn.name,
        turn.cost_us
    );
    Ok(turn)
}

/// Checks that nearly all connections were open and that the answers were correct.
pub(crate) fn check(what: &str, run: &Run, cell: Cell, transport: Transport) -> Result<(), String> {
    let figures = run.figures();
    if figures.unexpected + figures.mismatched > 0 {
        let (unexpected, mismatched) = (figures.unexpected, figures.mismatched);
        return Err(format!("{what}: {unexpected} answers with a wrong RCODE, {mismatched} that match no query"));
    }
    let summary = run.summary.as_ref().and_then(|summary| summary.transports.get(&transport));
    let connections = summary.and_then(|summary| summary.connections.clone()).unwrap_or_default();
    let enough = cell.connections - (cell.connections as f64 * MISSING_MAX) as usize;
    if transport != Transport::Udp && (connections.open_max as usize) < enough {
        let (open, failed) = (connections.open_max, connections.failed);
        return Err(format!("{what}: only {open} of {} connections were open, {failed} failed", cell.connections));
    }
    if figures.answered == 0 {
        return Err(format!("{what}: no answer"));
    }
    Ok(())
}

fn label(transport: Transport, cell: Cell) -> String {
    let connections = thousands(cell.connections as f64);
    format!("{connections} connections, {} in flight on each, {transport}", cell.depth)
}

/// The rate of each server.
fn figures(turns: &[Turn], transport: Transport, cell: Cell, requested: usize) -> Vec<Row> {
    let of = |name: &'static str| {
        turns.iter().filter(move |turn| (turn.name, turn.transport, turn.cell) == (name, transport, cell))
    };
    let mut rows = Vec::new();
    for name in NAMES.into_iter().filter(|name| of(name).next().is_some()) {
        let median = |value: fn(&Turn) -> f64| seen_spread(of(name).map(value));
        let (rate, least, most) = median(|turn| turn.rate);
        let cost = median(|turn| turn.cost_us).0;
        let (tool, busy) = (median(|turn| turn.used.tool).0 * 100.0, median(|turn| turn.used.server).0 * 100.0);
        let cost = if cost > 0.0 { format!("{cost:.2} us") } else { "an unknown time".to_owned() };
        let what = if transport == Transport::Udp {
            format!("beside {} x {}: UDP: {name}", thousands(cell.connections as f64), cell.depth)
        } else {
            format!("{}: {name}", label(transport, cell))
        };
        rows.push(Row {
            what,
            figure: format!("{} answers/s ({} to {})", thousands(rate), thousands(least), thousands(most)),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: format!(
                "{cost} of the server's processor an answer; with the opening of connections: tool {tool:.0} % \
                 of its core, server {busy:.0} %{}",
                window::rounds(of(name).count(), requested)
            ),
        });
    }
    rows
}

/// The spread of the values that are not NaN.
fn seen_spread(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    spread(&values.filter(|value| value.is_finite()).collect::<Vec<_>>())
}

/// The ratios of catamaran over a transport to catamaran over UDP, and over TCP to the echo, in the same rounds.
fn ratios(turns: &[Turn], transport: Transport, cell: Cell) -> impl Iterator<Item = Row> {
    let wanted = budget(transport).filter(|_| cell.connections >= MANY);
    let to_udp = ratio(turns, transport, cell, (OURS, Transport::Udp), wanted);
    [to_udp, ratio(turns, transport, cell, (ECHO, transport), None)].into_iter().flatten()
}

/// The ratio of catamaran to another server over its transport.
fn ratio(
    turns: &[Turn],
    transport: Transport,
    cell: Cell,
    other: (&'static str, Transport),
    wanted: Option<f64>,
) -> Option<Row> {
    let of = |name: &'static str, transport| {
        turns.iter().filter(move |turn| (turn.name, turn.transport, turn.cell) == (name, transport, cell))
    };
    let pairs = of(OURS, transport)
        .filter_map(|turn| Some((turn, of(other.0, other.1).find(|other| other.round == turn.round)?)));
    let (rates, costs): (Vec<f64>, Vec<f64>) =
        pairs.map(|(turn, other)| (turn.rate / other.rate, other.cost_us / turn.cost_us)).unzip();
    let (ratio, least, most) = spread(&rates);
    let other = if other.0 == OURS { "its own UDP".to_owned() } else { format!("the {}", other.0) };
    (!rates.is_empty()).then(|| Row {
        what: format!("{}: {OURS} to {other}", label(transport, cell)),
        figure: format!("{ratio:.2} ({least:.2} to {most:.2})"),
        budget: wanted.map_or_else(String::new, |wanted| format!(">= {wanted:.2}")),
        verdict: wanted.map_or(Verdict::Informs, |wanted| Verdict::of(ratio >= wanted)),
        note: format!(
            "median of {} rounds; by processor time of the server {:.2}",
            rates.len(),
            seen_spread(costs.into_iter()).0
        ),
    })
}
