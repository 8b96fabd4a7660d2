//! Answers a second over each transport, each number of connections and each depth, in turns.

use super::answers;
use super::load;
use super::machine::{TOOL_CORE, Used, pinned};
use super::servers::{NAMES, Server};
use super::table::{Row, Verdict, spread, thousands};
use super::zones::{Lengths, Zone};
use super::{Cell, Options};
use lab::engine::Transport;
use lab::report::Run;

/// Queries that wait in the runs over UDP.
const UDP_IN_FLIGHT: usize = 512;
/// Source addresses: so many connections come from no one client.
const SOURCES: usize = 8;
/// Connections from which on the budgets hold.
const MANY: usize = 1_000;

struct Turn {
    name: &'static str,
    transport: Transport,
    cell: Cell,
    round: usize,
    rate: f64,
    /// Microseconds of the server's processor for each answer.
    cost_us: f64,
    used: Used,
}

/// How much of our own rate over UDP is wanted (docs/experiments/budgets.md).
const fn budget(transport: Transport) -> Option<f64> {
    match transport {
        Transport::Tcp => Some(0.80),
        Transport::Dot => Some(0.70),
        _ => None,
    }
}

/// Every cell: a round is UDP once, then each transport with each server that has it.
pub(crate) fn of_all(options: &Options) -> Result<Vec<Row>, String> {
    let zone = Zone::make(&options.folder, options.names)?;
    let (ours, certificate) = Server::ours(&zone, &options.folder)?;
    let (mut servers, mut rows) = (vec![ours], Vec::new());
    for name in NAMES.into_iter().skip(1).filter(|name| options.servers.iter().any(|one| one == name)) {
        match Server::peer(name, &zone, &options.folder, &certificate)? {
            Some(server) => servers.push(server),
            None => rows.push(absent("all", name, "it is not installed".into())),
        }
    }
    for server in &servers {
        answers::check(server.name, server.address(Transport::Udp).ok_or("every server has UDP")?, &zone)?;
    }
    let mut turns = Vec::new();
    for round in 0..options.rounds {
        for &cell in &options.cells {
            turns.push(run(options, &zone, &servers[0], Transport::Udp, cell, round)?);
            for &transport in &options.transports {
                for server in servers.iter().filter(|server| server.address(transport).is_some()) {
                    match run(options, &zone, server, transport, cell, round) {
                        Ok(turn) => turns.push(turn),
                        Err(error) if server.name == NAMES[0] => return Err(error),
                        // Another server that cannot do this is a figure, too.
                        Err(error) if round == 0 => rows.push(absent(&label(transport, cell), server.name, error)),
                        Err(error) => eprintln!("{error}"),
                    }
                }
            }
        }
    }
    for &cell in &options.cells {
        rows.extend(figures(&turns, Transport::Udp, cell));
        for &transport in &options.transports {
            rows.extend(figures(&turns, transport, cell));
            rows.extend(ratio(&turns, transport, cell));
        }
    }
    Ok(rows)
}

pub(crate) fn absent(what: &str, name: &str, note: String) -> Row {
    let (figure, budget) = (String::new(), String::new());
    Row { what: format!("{what}: {name}"), figure, budget, verdict: Verdict::Absent, note }
}

/// One turn: the answers that arrived in the whole seconds after all connections were open.
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
    let pids: Vec<String> = server.pids().iter().map(|pid| format!("pid:{pid}")).collect();
    command.args(["--monitor", &pids.join(","), "--monitor-interval", "500ms"]);
    command.arg("--queries").arg(zone.queries(Lengths::Mixed)?);
    let out = options.folder.join("run");
    let udp = server.address(Transport::Udp).ok_or("every server has UDP")?;
    let measure = || load::run(&mut command, &out, server.pids());
    let (measured, _right) = answers::check_meanwhile(server.name, udp, zone, measure)?;
    let (run, used) = measured?;
    let wrong = format!("{} over {transport}, {} x {}", server.name, cell.connections, cell.depth);
    check(&wrong, &run, cell, transport)?;
    let rate = load::answers_a_second(&run);
    // While the connections were being opened time went by, too: the samples are on the clock of the run.
    let of_run = run.recording.samples.iter().filter(|sample| sample.at > 0.6 && sample.at <= options.seconds as f64);
    let of_run: Vec<_> = of_run.filter_map(|sample| sample.cpu_cores).collect();
    let times = of_run.len() as f64 / pids.len() as f64;
    let cores = of_run.iter().sum::<f64>() / times.max(1.0);
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

/// All connections were there, and what came was right.
pub(crate) fn check(what: &str, run: &Run, cell: Cell, transport: Transport) -> Result<(), String> {
    let figures = run.figures();
    if figures.unexpected + figures.mismatched > 0 {
        let (unexpected, mismatched) = (figures.unexpected, figures.mismatched);
        return Err(format!("{what}: {unexpected} answers with a wrong RCODE, {mismatched} that match no query"));
    }
    let summary = run.summary.as_ref().and_then(|summary| summary.transports.get(&transport));
    let connections = summary.and_then(|summary| summary.connections.clone()).unwrap_or_default();
    if transport != Transport::Udp && (connections.open_max as usize) < cell.connections {
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

/// How fast each server was.
fn figures(turns: &[Turn], transport: Transport, cell: Cell) -> Vec<Row> {
    let of = |name: &'static str| {
        turns.iter().filter(move |turn| (turn.name, turn.transport, turn.cell) == (name, transport, cell))
    };
    let mut rows = Vec::new();
    for name in NAMES.into_iter().filter(|name| of(name).next().is_some()) {
        let median = |value: fn(&Turn) -> f64| spread(&of(name).map(value).collect::<Vec<_>>());
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
                 of its core, server {busy:.0} %"
            ),
        });
    }
    rows
}

/// How ours over a transport stands to ours over UDP in the same round.
fn ratio(turns: &[Turn], transport: Transport, cell: Cell) -> Option<Row> {
    let of = |transport| {
        turns.iter().filter(move |turn| (turn.name, turn.transport, turn.cell) == ("catamaran", transport, cell))
    };
    let pairs = of(transport).filter_map(|turn| Some((turn, of(Transport::Udp).find(|udp| udp.round == turn.round)?)));
    let (rates, costs): (Vec<f64>, Vec<f64>) =
        pairs.map(|(turn, udp)| (turn.rate / udp.rate, udp.cost_us / turn.cost_us)).unzip();
    let (ratio, least, most) = spread(&rates);
    let wanted = budget(transport).filter(|_| cell.connections >= MANY);
    (!rates.is_empty()).then(|| Row {
        what: format!("{}: catamaran to its own UDP", label(transport, cell)),
        figure: format!("{ratio:.2} ({least:.2} to {most:.2})"),
        budget: wanted.map_or_else(String::new, |wanted| format!(">= {wanted:.2}")),
        verdict: wanted.map_or(Verdict::Informs, |wanted| Verdict::of(ratio >= wanted)),
        note: format!("median of {} rounds; by processor time of the server {:.2}", rates.len(), spread(&costs).0),
    })
}
