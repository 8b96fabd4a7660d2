//! The maximum rate of a replay that ignores the times of the trace, compared with a loop that only sends.

use super::echo::{listen, until_input_ends};
use super::machine::{Server, TOOL_CORE, pinned, role};
use super::options::Options;
use super::pktinfo::PktinfoSocket;
use super::sockets::{BATCH, Sender};
use super::table::{Row, Verdict, spread, thousands};
use super::timing_plot;
use super::traces;
use report::Run;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Queries of the trace. The whole trace is read ahead, so reading is not measured.
const QUERIES: u64 = 800_000;
/// Seconds of the bare loop.
const SECONDS: &str = "2";
/// Minimum ratio of the engine to a bare loop with the same number of source addresses: one, or all.
const RATIO_MIN: f64 = 0.85;
/// LDplayer's rate from one host with eight threads (Figure 9 of its paper).
const PAPER: &str = "LDplayer: 87,000 queries a second on one host";

/// Runs the engine and the bare loops in turns.
pub(crate) fn rows(options: &Options) -> Result<Vec<Row>, String> {
    let planned: Vec<u64> = (0..QUERIES).collect();
    let [many, one] = ["many.pcap", "one.pcap"].map(|name| options.folder.join(name));
    traces::write(&many, &planned, traces::CLIENTS)?;
    traces::write(&one, &planned, 1)?;
    let server = Server::start(role(None, &["silent"]))?;
    let (mut bare, mut sourced, mut identified) = (Vec::new(), Vec::new(), Vec::new());
    let (mut engine, mut engine_of_one) = (Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let bare_rate = loop_rate("bare", &server)?;
        let sourced_rate = loop_rate("sourced", &server)?;
        let identified_rate = loop_rate("identified", &server)?;
        let rate = engine_rate(options, &server, &many, "500ms")?;
        // Each address has 65,536 IDs, and each ID is free again after the timeout.
        let rate_of_one = engine_rate(options, &server, &one, "20ms")?;
        eprintln!(
            "fast {round}: bare loop {bare_rate:.0}, from many addresses {sourced_rate:.0}, with identifications \
             {identified_rate:.0}, catlab {rate:.0}, of one source {rate_of_one:.0} queries/s"
        );
        // The first turn warms up.
        if round > 0 {
            bare.push(bare_rate);
            sourced.push(sourced_rate);
            identified.push(identified_rate);
            engine.push(rate);
            engine_of_one.push(rate_of_one);
        }
    }
    server.end();
    if let Some(folder) = &options.pictures {
        let lines = [
            ("bare loop, one address", &bare[..]),
            ("loop from 10,000 addresses", &sourced),
            ("catlab replay --fast", &engine),
        ];
        timing_plot::fast(folder, &lines)?;
    }
    Ok(vec![
        row("as fast as can be: bare loop", &bare, "sendmmsg of 64 on one connected socket, one query over and over"),
        row(
            "as fast as can be: loop from 10,000 addresses",
            &sourced,
            "the same query, a source with each; DF, no identification",
        ),
        row(
            "as fast as can be: the same, identified",
            &identified,
            "as the kernel does unasked: an identification for each pair",
        ),
        row("as fast as can be: catlab replay --fast", &engine, PAPER),
        row(
            "as fast as can be: the same, a trace of one source",
            &engine_of_one,
            "queries of one length and source in a row go together (UDP_SEGMENT)",
        ),
        ratio("catlab replay --fast of one source to bare loop", &engine_of_one, &bare, Some(RATIO_MIN)),
        ratio("loop from 10,000 addresses to bare loop", &sourced, &bare, None),
        ratio("catlab replay --fast to loop from 10,000 addresses", &engine, &sourced, Some(RATIO_MIN)),
        ratio("catlab replay --fast to bare loop", &engine, &bare, None),
    ])
}

/// The rate at which the engine sends a trace, in queries per second.
fn engine_rate(options: &Options, server: &Server, trace: &Path, timeout: &str) -> Result<f64, String> {
    let out = options.folder.join("fast");
    let mut command = pinned(TOOL_CORE, &options.catlab);
    command.arg("replay").arg(trace).args(["--fast", "--quiet", "--server", &server.address, "--workers", "1"]);
    command.args(["--timeout", timeout, "--sockets", "16", "--force", "--out"]).arg(&out);
    command.output().map_err(|error| format!("catlab: {error}"))?;
    let run = Run::read(&out).map_err(|error| error.to_string())?;
    if run.total.sent != QUERIES {
        return Err(format!("{} queries were sent of {QUERIES}", run.total.sent));
    }
    Ok(run.total.sent as f64 / run.duration_seconds())
}

fn row(what: &str, values: &[f64], note: &str) -> Row {
    let (median, least, most) = spread(values);
    Row {
        what: what.to_owned(),
        figure: format!("{} queries/s ({} to {})", thousands(median), thousands(least), thousands(most)),
        budget: String::new(),
        verdict: Verdict::Informs,
        note: note.to_owned(),
    }
}

/// The ratio of two rates, turn by turn.
fn ratio(what: &str, one: &[f64], other: &[f64], budget: Option<f64>) -> Row {
    let ratios: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
    let (median, least, most) = spread(&ratios);
    Row {
        what: what.to_owned(),
        figure: format!("{median:.2} ({least:.2} to {most:.2})"),
        budget: budget.map(|least| format!(">= {least}")).unwrap_or_default(),
        verdict: budget.map_or(Verdict::Informs, |least| Verdict::of(median >= least)),
        note: format!("median of {} rounds", ratios.len()),
    }
}

/// The rate of one of the bare loops, in queries per second.
fn loop_rate(name: &str, server: &Server) -> Result<f64, String> {
    let output = role(Some(TOOL_CORE), &[name, &server.address, SECONDS]).output();
    let text = String::from_utf8_lossy(&output.map_err(|error| error.to_string())?.stdout).into_owned();
    text.trim().parse().map_err(|_| format!("the loop {name} printed {text}"))
}

/// A socket that is never read.
pub(crate) fn silent() {
    let _socket = listen();
    let ended = until_input_ends();
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends one query in a loop. Prints how many the kernel accepted each second.
pub(crate) fn bare(server: &str, seconds: &str) {
    let server: SocketAddr = server.parse().expect("an address");
    let list = [query()];
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect(server).expect("a server");
    let mut sender = Sender::new();
    repeat(seconds, || sender.send(&socket, &list, 0, BATCH));
}

/// Does the same from as many addresses as the trace has clients.
pub(crate) fn sourced(server: &str, seconds: &str, identifies: bool) {
    let mut sender = PktinfoSocket::open(server.parse().expect("an IPv4 address"), traces::CLIENTS as u32, identifies);
    let query = query();
    repeat(seconds, || sender.send(&query));
}

fn query() -> Vec<u8> {
    let qname: Name = "q400000.example.com".parse().expect("a name");
    MessageBuilder::query(0, qname.as_ref(), Rtype::A).build()
}

fn repeat(seconds: &str, mut send: impl FnMut() -> usize) {
    let duration = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    let (start, mut sent) = (Instant::now(), 0);
    while start.elapsed() < duration {
        sent += send() as u64;
    }
    println!("{:.0}", sent as f64 / start.elapsed().as_secs_f64());
}
