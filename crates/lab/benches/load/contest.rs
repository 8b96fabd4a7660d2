//! Runs load tools in turn against one echo server, each side on its own core, and compares their answers per second.

use super::machine::{Meter, SERVER_CORE, Server, TOOL_CORE, Used, pinned, role};
use super::options::Options;
use super::table::{Row, Verdict, spread, thousands};
use report::Run;
use std::path::Path;
use std::process::Command;

/// Queries in flight of each tool, spread over this many sockets or connections.
pub(crate) const IN_FLIGHT: usize = 256;
pub(crate) const SOCKETS: usize = 8;
/// Minimum ratio of UDP answers per second to the bare loop, which does not parse, match or measure.
const BARE_RATIO_MIN: f64 = 0.85;
/// Minimum ratio to dnsperf over any transport.
const DNSPERF_RATIO_MIN: f64 = 1.5;
/// The open loop offers this multiple of the bare loop's rate.
const OVERLOAD: f64 = 1.3;
/// Timeout in the open loop. Each socket has 65,536 IDs, and a lost query keeps its ID until the timeout.
const OVERLOAD_TIMEOUT: &str = "300ms";

/// The load generators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tool {
    Bare,
    Closed,
    Open,
    Dnsperf,
}

impl Tool {
    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare loop",
            Self::Closed => "catlab, closed loop",
            Self::Open => "catlab, open loop at saturation",
            Self::Dnsperf => "dnsperf",
        }
    }
}

/// The result of one turn of one tool.
struct Turn {
    tool: Tool,
    rate: f64,
    used: Used,
}

/// UDP: the bare loop, catlab in both loops, and dnsperf.
pub(crate) fn udp(options: &Options) -> Result<Vec<Row>, String> {
    let server = Server::start(role(Some(SERVER_CORE), &["echo"]))?;
    let tools = [Tool::Bare, Tool::Closed, Tool::Dnsperf, Tool::Open];
    let turns = compete(options, &tools, "udp", &server)?;
    server.end();
    let mut rows = figures("UDP", &tools, &turns);
    for (tool, other, budget) in [
        (Tool::Closed, Tool::Bare, BARE_RATIO_MIN),
        (Tool::Open, Tool::Bare, BARE_RATIO_MIN),
        (Tool::Closed, Tool::Dnsperf, DNSPERF_RATIO_MIN),
        (Tool::Open, Tool::Dnsperf, DNSPERF_RATIO_MIN),
        (Tool::Bare, Tool::Dnsperf, f64::NAN),
    ] {
        rows.push(ratio("UDP", &turns, tool, other, budget));
    }
    Ok(rows)
}

/// A transport with connections: catlab and dnsperf.
pub(crate) fn stream(options: &Options, transport: &str) -> Result<Vec<Row>, String> {
    let label = transport.to_uppercase();
    let has_echo = Command::new(&options.catlab).args(["echo", "--help"]).output();
    if !has_echo.is_ok_and(|output| output.status.success()) {
        return Ok(vec![Row {
            what: format!("{label}: catlab to dnsperf"),
            figure: String::new(),
            budget: format!(">= {DNSPERF_RATIO_MIN}"),
            verdict: Verdict::Absent,
            note: "this build of catlab has no `echo`".into(),
        }]);
    }
    let mut command = pinned(SERVER_CORE, &options.catlab);
    command.args(["echo", "--ports", &format!("{transport}=0")]);
    let server = Server::start(command)?;
    let tools = [Tool::Closed, Tool::Dnsperf];
    let turns = compete(options, &tools, transport, &server)?;
    let mut rows = figures(&label, &tools, &turns);
    rows.push(ratio(&label, &turns, Tool::Closed, Tool::Dnsperf, DNSPERF_RATIO_MIN));
    Ok(rows)
}

/// Runs every tool once to warm up, then all in turn, so that other load on the machine affects all alike.
fn compete(options: &Options, tools: &[Tool], transport: &str, server: &Server) -> Result<Vec<Turn>, String> {
    let mut open_rate = 0.0;
    for &tool in tools {
        let turn = run(options, tool, transport, server, open_rate)?;
        open_rate = if tool == Tool::Bare { turn.rate * OVERLOAD } else { open_rate };
    }
    let mut turns = Vec::new();
    for round in 0..options.rounds {
        for &tool in tools {
            let turn = run(options, tool, transport, server, open_rate)?;
            eprintln!("{transport} {} {}: {:.0} answers/s", round + 1, tool.name(), turn.rate);
            turns.push(turn);
        }
    }
    Ok(turns)
}

fn run(options: &Options, tool: Tool, transport: &str, server: &Server, open_rate: f64) -> Result<Turn, String> {
    let meter = Meter::start(vec![server.pid()]);
    let rate = match tool {
        Tool::Bare => bare(options, server)?,
        Tool::Dnsperf => dnsperf(options, transport, server)?,
        Tool::Closed => catlab(options, transport, server, &["--closed-loop", "--in-flight", &IN_FLIGHT.to_string()])?,
        Tool::Open => {
            let rate = format!("{open_rate:.0}");
            catlab(options, transport, server, &["--rate", &rate, "--timeout", OVERLOAD_TIMEOUT])?
        }
    };
    Ok(Turn { tool, rate, used: meter.stop() })
}

fn bare(options: &Options, server: &Server) -> Result<f64, String> {
    let queries = options.queries.to_string_lossy().into_owned();
    let mut command = role(Some(TOOL_CORE), &["bare", &server.address, &queries, &options.seconds.to_string()]);
    let text = output(&mut command)?;
    text.trim().parse().map_err(|_| format!("the bare loop printed {text}"))
}

fn dnsperf(options: &Options, transport: &str, server: &Server) -> Result<f64, String> {
    let (address, port) = server.address.rsplit_once(':').ok_or("an address without a port")?;
    let mut command = pinned(TOOL_CORE, Path::new("dnsperf"));
    command.args(["-s", address, "-p", port, "-m", transport, "-T", "1"]);
    command.args(["-c", &SOCKETS.to_string(), "-q", &IN_FLIGHT.to_string(), "-l", &options.seconds.to_string()]);
    command.arg("-d").arg(&options.queries);
    let text = output(&mut command)?;
    let rate = text.lines().find_map(|line| line.trim().strip_prefix("Queries per second:"));
    rate.and_then(|rate| rate.trim().parse().ok()).ok_or_else(|| format!("dnsperf printed no rate:\n{text}"))
}

/// Answers that arrived in the whole seconds of the run. The last partial second and late answers do not count.
fn catlab(options: &Options, transport: &str, server: &Server, pace: &[&str]) -> Result<f64, String> {
    let out = options.folder.join("run");
    let mut command = pinned(TOOL_CORE, &options.catlab);
    command.args(["load", "--quiet", "--server", &server.address, "--transport", transport, "--workers", "1"]);
    command.args(["--duration", &format!("{}s", options.seconds)]).args(pace);
    command.arg("--queries").arg(&options.queries).arg("--force").arg("--out").arg(&out);
    match transport {
        "udp" => command.args(["--sockets", &SOCKETS.to_string()]),
        "tcp" => command.args(["--connections", &SOCKETS.to_string()]),
        _ => command.args(["--connections", &SOCKETS.to_string(), "--insecure"]),
    };
    let output = command.output().map_err(|error| format!("catlab: {error}"))?;
    // 1 is an invalid run. A rate beyond the tool's limit is invalid, and still counts here.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("catlab: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let run = Run::read(&out).map_err(|error| error.to_string())?;
    let whole = run.sending().count().max(1);
    Ok(run.sending().map(|row| row.arrived as f64).sum::<f64>() / whole as f64)
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{command:?}: {}\n{text}", output.status)) }
}

/// The rate of each tool, and which side was saturated.
fn figures(label: &str, tools: &[Tool], turns: &[Turn]) -> Vec<Row> {
    let row = |&tool: &Tool| {
        let own: Vec<&Turn> = turns.iter().filter(|turn| turn.tool == tool).collect();
        let of = |value: fn(&Turn) -> f64| spread(&own.iter().map(|turn| value(turn)).collect::<Vec<_>>());
        let (rate, least, most) = of(|turn| turn.rate);
        let used = Used {
            tool: of(|turn| turn.used.tool).0,
            server: of(|turn| turn.used.server).0,
            tool_core: of(|turn| turn.used.tool_core).0,
            server_core: of(|turn| turn.used.server_core).0,
            others: of(|turn| turn.used.others).0,
            idle: of(|turn| turn.used.idle).0,
        };
        Row {
            what: format!("{label}: {}", tool.name()),
            figure: format!("{} answers/s ({} to {})", thousands(rate), thousands(least), thousands(most)),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: used.describe(),
        }
    };
    tools.iter().map(row).collect()
}

/// The ratio of two tools, round by round.
fn ratio(label: &str, turns: &[Turn], tool: Tool, other: Tool, budget: f64) -> Row {
    let rates = |wanted: Tool| turns.iter().filter(move |turn| turn.tool == wanted).map(|turn| turn.rate);
    let ratios: Vec<f64> = rates(tool).zip(rates(other)).map(|(own, other)| own / other).collect();
    let (ratio, least, most) = spread(&ratios);
    Row {
        what: format!("{label}: {} to {}", tool.name(), other.name()),
        figure: format!("{ratio:.2} ({least:.2} to {most:.2})"),
        budget: if budget.is_nan() { String::new() } else { format!(">= {budget}") },
        verdict: if budget.is_nan() { Verdict::Informs } else { Verdict::of(ratio >= budget) },
        note: format!("median of {} rounds", ratios.len()),
    }
}
