//! Resident memory per connection. Each transport uses a fresh server, so that it cannot reuse memory of earlier
//! connections.

use super::contest::{absent, check, failed};
use super::load_run;
use super::machine::{TOOL_CORE, pinned, resident_bytes};
use super::options::{Cell, Options};
use super::servers::{Certificate, ECHO, NAMES, OURS, Server};
use super::table::{Row, Verdict, thousands};
use super::zones::{Lengths, Zone};
use measure::Transport;
use report::Run;

/// Queries per second over all connections. Each connection is idle most of the time.
const RATE: usize = 2_000;
/// Source addresses. They keep each client below the server's connection limit per client.
const SOURCES: usize = 8;

/// Measures every server and transport with the connections of the largest cell.
pub(crate) fn of_all(options: &Options) -> Result<Vec<Row>, String> {
    let Some(connections) = options.cells.iter().map(|cell| cell.connections).max() else { return Ok(Vec::new()) };
    let zone = Zone::make(&options.folder, options.names)?;
    let mut rows = Vec::new();
    let (ours, certificate) = Server::ours(&zone, &options.folder.join("memory"))?;
    drop(ours);
    for &transport in &options.transports {
        for name in NAMES.into_iter().filter(|&name| is_measured(name, options)) {
            let Some(server) = start(name, &zone, options, transport, &certificate)? else { continue };
            let what = format!("memory of each of {} connections, {transport}", thousands(connections as f64));
            match of_one(options, &zone, &server, transport, connections) {
                Ok((bytes, note)) => {
                    eprintln!("{what}: {name} {bytes:.0} bytes");
                    let figure = format!("{} bytes", thousands(bytes));
                    let (budget, verdict) = judge(name, transport, bytes);
                    rows.push(Row { what: format!("{what}: {name}"), figure, budget, verdict, note });
                }
                Err(error) if name == OURS => rows.push(failed(&what, error)),
                Err(error) => rows.push(absent(&what, name, error)),
            }
        }
    }
    Ok(rows)
}

/// Catamaran is always measured. The echo is not, because it keeps no state per connection.
fn is_measured(name: &str, options: &Options) -> bool {
    name == OURS || name != ECHO && options.servers.iter().any(|one| one == name)
}

/// Judges catamaran by its budget (docs/history/budgets.md).
fn judge(name: &str, transport: Transport, bytes: f64) -> (String, Verdict) {
    let budget = match transport {
        Transport::Tcp => 4.0 * 1024.0,
        Transport::Dot => 16.0 * 1024.0,
        _ => return (String::new(), Verdict::Informs),
    };
    if name != OURS {
        return (String::new(), Verdict::Informs);
    }
    (format!("<= {}", thousands(budget)), Verdict::of(bytes <= budget))
}

fn start(
    name: &'static str,
    zone: &Zone,
    options: &Options,
    transport: Transport,
    certificate: &Certificate,
) -> Result<Option<Server>, String> {
    let folder = options.folder.join("memory").join(transport.label());
    if name == OURS {
        return Server::ours(zone, &folder).map(|(server, _)| Some(server));
    }
    let peers = Server::peer(name, zone, &folder, certificate)?;
    Ok(peers.into_iter().find(|peer| peer.address(transport).is_some()))
}

/// Bytes per connection while all connections are open and used in turn.
fn of_one(
    options: &Options,
    zone: &Zone,
    server: &Server,
    transport: Transport,
    connections: usize,
) -> Result<(f64, String), String> {
    let resident = || server.pids().into_iter().map(resident_bytes).sum::<f64>();
    let address = server.address(transport).ok_or("a transport that it has")?;
    // Each connection carries two queries.
    let seconds = (2 * connections / RATE).clamp(4, 20);
    let sources: Vec<String> = (1..=SOURCES).map(|last| format!("127.0.0.{last}")).collect();
    let mut command = pinned(TOOL_CORE, &options.catlab);
    command.args(["load", "--quiet", "--workers", "1", "--server", &address.to_string()]);
    command.args(["--transport", transport.label(), "--duration", &format!("{seconds}s"), "--rate", &RATE.to_string()]);
    command.args(["--connections", &connections.to_string(), "--pipeline", "1", "--expect-rcode", "NOERROR"]);
    command.args(["--insecure", "--handshake-timeout", "30s", "--source", &sources.join(",")]);
    command.args(["--monitor", &server.monitored(), "--monitor-interval", "500ms"]);
    command.arg("--queries").arg(zone.queries(Lengths::Mixed)?);
    let before = resident();
    let (run, _used) = load_run::run(&mut command, &options.folder.join("run"), server.pids())?;
    check(&format!("{} over {transport}", server.name), &run, Cell { connections, depth: 1 }, transport)?;
    let most = most_resident(&run);
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let note = format!("resident: {:.0} MiB before, {:.0} MiB at most", mib(before), mib(most));
    Ok(((most - before) / connections as f64, note))
}

/// The maximum over time of all processes together.
fn most_resident(run: &Run) -> f64 {
    run.recording.samples.iter().filter_map(|sample| sample.rss_bytes).fold(0.0, f64::max)
}
