//! Traces with known times, made by `catlab trace synth`: those of Table 1 of the LDplayer paper, and one like a root
//! server's.

use super::options::Options;
use super::roles::number;
use super::shapes::Shape;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use trace::{Format, Message, Transport, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Number of clients in traces with many clients.
pub(crate) const CLIENTS: u64 = 10_000;

/// A trace file, and the planned time of each query by its number, in nanoseconds from the first query.
pub(crate) struct Made {
    pub(crate) path: PathBuf,
    pub(crate) planned: Vec<u64>,
}

/// Creates the trace. Names of the profile repeat, so `--unique` makes each query unique.
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
        // Numbers follow the order of the trace.
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
    let describe_failure = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(describe_failure()) }
}

/// Writes a capture of queries at these times. The queries rotate through `clients` clients, and each has its number in
/// its name.
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
