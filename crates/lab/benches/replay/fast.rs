//! How fast a trace can be sent when times do not matter, beside a loop that does nothing but send.

use super::Options;
use super::each;
use super::echo::{listen, until_input_ends};
use super::machine::{Server, TOOL_CORE, pinned, role};
use super::sockets::{BATCH, Sender};
use super::table::{Row, Verdict, spread, thousands};
use super::traces;
use lab::report::Run;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Queries of the trace: read ahead as a whole, so that reading is no part of it.
const QUERIES: u64 = 800_000;
/// How long the bare loop sends.
const SECONDS: &str = "2";
/// The engine against it.
const RATIO_MIN: f64 = 0.85;
/// What LDplayer sent from one host, on eight threads (its Figure 9).
const PAPER: &str = "LDplayer: 87,000 queries a second on one host";

/// Addresses that the other bare loop sends from, as many as the trace has.
const SOURCES: u32 = 10_000;

/// In turns.
pub(crate) fn rows(options: &Options) -> Result<Vec<Row>, String> {
    let trace = options.folder.join("fast.pcap");
    traces::write(&trace, &(0..QUERIES).collect::<Vec<_>>())?;
    let server = Server::start(role(None, &["silent"]))?;
    let (mut bare, mut each, mut engine) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ratios, mut each_ratios) = (Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let bare_rate = rate_of("bare", &server)?;
        let each_rate = rate_of("bare-each", &server)?;
        let out = options.folder.join("fast");
        let mut command = pinned(TOOL_CORE, &options.catlab);
        command.arg("replay").arg(&trace).args(["--fast", "--quiet", "--server", &server.address, "--workers", "1"]);
        command.args(["--timeout", "500ms", "--sockets", "16", "--out"]).arg(&out);
        command.output().map_err(|error| format!("catlab: {error}"))?;
        let run = Run::read(&out).map_err(|error| error.to_string())?;
        if run.total.sent != QUERIES {
            return Err(format!("{} queries were sent of {QUERIES}", run.total.sent));
        }
        let rate = run.total.sent as f64 / run.duration_seconds();
        eprintln!("fast {round}: bare loop {bare_rate:.0} and {each_rate:.0}, catlab {rate:.0} queries/s");
        // The first turn warms up.
        if round > 0 {
            bare.push(bare_rate);
            engine.push(rate);
            ratios.push(rate / bare_rate);
            each.push(each_rate);
            each_ratios.push(rate / each_rate);
        }
    }
    server.end();
    let row = |what: &str, values: &[f64], note: &str| {
        let (median, least, most) = spread(values);
        Row {
            what: what.to_owned(),
            figure: format!("{} queries/s ({} to {})", thousands(median), thousands(least), thousands(most)),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: note.to_owned(),
        }
    };
    let (ratio, least, most) = spread(&ratios);
    let (each_ratio, each_least, each_most) = spread(&each_ratios);
    Ok(vec![
        row("as fast as can be: bare loop", &bare, "sendmmsg of 64 on one connected socket, one query over and over"),
        row("as fast as can be: bare loop, an address each", &each, "not connected, 10,000 source addresses in turn"),
        row("as fast as can be: catlab replay --fast", &engine, PAPER),
        Row {
            what: "catlab replay --fast to bare loop".into(),
            figure: format!("{ratio:.2} ({least:.2} to {most:.2})"),
            budget: format!(">= {RATIO_MIN}"),
            verdict: Verdict::of(ratio >= RATIO_MIN),
            note: format!("median of {} rounds; 10,000 sources, an address each", ratios.len()),
        },
        Row {
            what: "catlab replay --fast to bare loop, an address each".into(),
            figure: format!("{each_ratio:.2} ({each_least:.2} to {each_most:.2})"),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: "what the engine itself costs: the kernel does the same for both".into(),
        },
    ])
}

/// What a bare loop says that the kernel took each second.
fn rate_of(loop_name: &str, server: &Server) -> Result<f64, String> {
    let output = role(Some(TOOL_CORE), &[loop_name, &server.address, SECONDS]).output();
    let text = String::from_utf8_lossy(&output.map_err(|error| error.to_string())?.stdout).into_owned();
    text.trim().parse().map_err(|_| format!("the bare loop printed {text}"))
}

/// A socket that nobody reads.
pub(crate) fn silent() {
    let _socket = listen();
    let ended = until_input_ends();
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends one query over and over; prints how many the kernel took each second.
pub(crate) fn bare(server: &str, seconds: &str) {
    let server: SocketAddr = server.parse().expect("an address");
    let list = [query()];
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect(server).expect("a server");
    let mut sender = Sender::new();
    go_on(seconds, || sender.send(&socket, &list, 0, BATCH));
}

/// The same from many addresses.
pub(crate) fn bare_each(server: &str, seconds: &str) {
    let server = server.parse().expect("an address of IPv4");
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
    let first = u32::from(Ipv4Addr::new(127, 1, 0, 1));
    let sources = (first..first + SOURCES).map(Ipv4Addr::from);
    let mut sender = each::Sender::new(socket, query(), server, sources);
    go_on(seconds, || sender.send());
}

fn query() -> Vec<u8> {
    let qname: Name = "q400000.example.com".parse().expect("a name");
    MessageBuilder::query(0, qname.as_ref(), Rtype::A).build()
}

fn go_on(seconds: &str, mut send: impl FnMut() -> usize) {
    let duration = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    let (start, mut sent) = (Instant::now(), 0);
    while start.elapsed() < duration {
        sent += send() as u64;
    }
    println!("{:.0}", sent as f64 / start.elapsed().as_secs_f64());
}
