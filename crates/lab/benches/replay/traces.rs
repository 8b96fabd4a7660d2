//! Traces with known times, made by `catlab trace synth`: those of the paper's Table 1, and one like a root server's.

use super::Options;
use super::roles::number;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use trace::{Format, Message, Transport, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Clients of traces that have many.
pub(crate) const CLIENTS: u64 = 10_000;

/// A trace that is to be sent.
pub(crate) struct Shape {
    /// What the command line calls it.
    pub(crate) word: &'static str,
    pub(crate) name: &'static str,
    /// How it is made.
    synth: &'static [&'static str],
    /// Over what it goes out, if not each query over its own transport.
    pub(crate) transport: Option<&'static str>,
    /// Whether the budgets of pacing hold for it.
    pub(crate) has_budget: bool,
}

const fn even(word: &'static str, name: &'static str, synth: &'static [&'static str], has_budget: bool) -> Shape {
    Shape { word, name, synth, transport: None, has_budget }
}

/// A thousand queries a second of a hundred clients, each of which keeps its connection.
const fn over(word: &'static str, name: &'static str) -> Shape {
    let synth = &["--interval", "1ms", "--clients", "100"];
    Shape { word, name, synth, transport: Some(word), has_budget: false }
}

/// All of them.
pub(crate) static SHAPES: [Shape; 11] = [
    even("syn-0", "syn-0, every 1 s", &["--like", "syn-0"], false),
    even("syn-1", "syn-1, every 100 ms", &["--like", "syn-1"], false),
    even("syn-2", "syn-2, every 10 ms", &["--like", "syn-2"], false),
    even("syn-3", "syn-3, every 1 ms", &["--like", "syn-3"], true),
    even("syn-4", "syn-4, every 100 us", &["--like", "syn-4"], true),
    even("20us", "every 20 us", &["--interval", "20us"], true),
    even("b-root", "b-root, 38,000 a second of a million clients, 3 % TCP", &["--like", "b-root"], false),
    over("tcp", "TCP, every 1 ms"),
    over("dot", "TLS, every 1 ms"),
    over("doh", "HTTPS, every 1 ms"),
    over("doq", "QUIC, every 1 ms"),
];

/// What the command line calls them.
pub(crate) fn words() -> Vec<&'static str> {
    SHAPES.iter().map(|shape| shape.word).collect()
}

/// A trace as a file, and when each query is planned, by its number, from the first on; nanoseconds.
pub(crate) struct Made {
    pub(crate) path: PathBuf,
    pub(crate) planned: Vec<u64>,
}

/// Makes it: names of the profile come again, so each query is given one of its own (`--unique`).
pub(crate) fn make(options: &Options, shape: &Shape) -> Result<Made, String> {
    let [made, path] = ["made.pcap", "trace.pcap"].map(|name| options.folder.join(name));
    let mut synth = Command::new(&options.catlab);
    synth.args(["trace", "synth", "--duration", &format!("{}s", options.seconds)]).args(shape.synth);
    succeed(synth.args(["--force", "--out"]).arg(&made))?;
    let mut mutate = Command::new(&options.catlab);
    mutate.args(["trace", "mutate", "--unique", "--force"]).arg(&made).arg("--out").arg(&path);
    succeed(&mut mutate)?;
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut reader = trace::open(&path, &trace::Options::default()).map_err(|error| wrong(&error))?;
    let mut planned = Vec::new();
    while let Some(message) = reader.next().map_err(|error| wrong(&error))? {
        // Numbers are counted in the order of the trace.
        if number(message.bytes) != Some(planned.len() as u64) {
            return Err(format!("{}: query {} is not the one with that number", path.display(), planned.len()));
        }
        planned.push(message.at_ns);
    }
    let first_ns = *planned.first().ok_or_else(|| wrong(&"no query"))?;
    planned.iter_mut().for_each(|at_ns| *at_ns -= first_ns);
    Ok(Made { path, planned })
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("catlab: {error}"))?;
    let told = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(told()) }
}

/// Writes a capture of queries at these times, each from the next of so many clients, with its number in its name.
pub(crate) fn write(path: &Path, planned: &[u64], clients: u64) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut writer = Writer::create(path, Format::Capture).map_err(wrong)?;
    let destination = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 53), 53));
    for (number, at_ns) in (0..).zip(planned) {
        let qname: Name = format!("q{number}.example.com").parse().map_err(|error| format!("{error:?}"))?;
        let bytes = MessageBuilder::query(number as u16, qname.as_ref(), Rtype::A).build();
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + (number % clients) as u32);
        let source = SocketAddr::from((source, 4_711));
        let (at_ns, transport) = (1_460_000_000_000_000_000 + at_ns, Transport::Udp);
        writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes }).map_err(wrong)?;
    }
    writer.finish().map_err(wrong)
}
