//! `catlab trace`: shows, converts, changes and anonymizes recorded traffic.

mod anonymize;
mod mutate;
mod reading;
mod synth;
mod writing;

pub(crate) use reading::{print_lost, read};
pub(crate) use writing::{WriteArguments, create, finish};

use crate::arguments::{ReadArguments, open, parse_prefix};
use clap::{Args, Subcommand};
use load::mutation::FilterError;
use reading::stream_bytes;
use serde_json::json;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use synth::SynthArguments;
use trace::{Message, Prefix, Reader, Summary, Tally, Transport};

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab trace info day.pcap.xz
  catlab trace info --json dnstap.log
  catlab trace convert day.pcapng.zst --out day.txt.gz
  awk '$13 == \"AAAA\"' day.txt | catlab trace convert - --format text --out aaaa.pcap
  catlab trace cut day.pcap --from 60 --until 120 --queries --out minute.pcap
  catlab trace cut day.pcap --client 192.0.2.0/24 --out some.pcap
  catlab trace merge one.pcap two.dnstap --out both.txt
  catlab trace convert day.pcap --out day.catrace
  catlab trace cut day.catrace --from 3600 --until 3660 --out minute.txt
  catlab trace synth --interval 20us --count 250000 --name 'q{\x1b[0mn}.example.com' --clients 10000 --out even.catrace
  catlab trace mutate day.pcap --queries --do 1 --transport tcp=0.1 --out other.pcap
  catlab trace anonymize day.pcap --key trace.key --out shown.pcap

Reads pcap, pcapng, dnstap, C-DNS, text and binary traces of catlab, dnsperf query files, dns.log of Zeek, text of
LDplayer, replay scenarios (.rpl) and JSON of DNSViz. Files may be packed with gzip, xz, zstd or LZ4. In captures,
fragments and TCP streams are reassembled and tunnels are decoded (docs/catlab/traces.md lists tunnels and links).
Writes binary traces (.catrace: small, checksummed, seekable), text, pcap and dnsperf query files. Output is packed if
the name ends in .gz or .lz4.

Exit code 0: read to the end, or standard output was closed (--out - | head); 1: the trace is damaged, and messages
before the damage were written; 2: the trace cannot be read.";

/// The commands for traces.
#[derive(Subcommand)]
pub(crate) enum Trace {
    /// Show what traces contain, and what could not be read.
    Info(InfoArguments),
    /// Convert a trace to another format.
    Convert(ConvertArguments),
    /// Write a part of a trace: a time range, some clients, or only the queries.
    Cut(CutArguments),
    /// Merge several traces in time order.
    Merge(MergeArguments),
    /// Generate a synthetic trace.
    #[command(after_help = synth::EXAMPLES)]
    Synth(Box<SynthArguments>),
    /// Change transports, names, flags, clients or times of a trace.
    #[command(after_help = mutate::EXAMPLES)]
    Mutate(Box<mutate::MutateArguments>),
    /// Replace addresses and names in a trace by pseudonyms, and blank other identifying data.
    #[command(after_help = anonymize::EXAMPLES)]
    Anonymize(anonymize::AnonymizeArguments),
}

#[derive(Args)]
pub(crate) struct InfoArguments {
    /// Traces. `-` is standard input.
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Print one JSON object per trace.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArguments,
}

#[derive(Args)]
pub(crate) struct ConvertArguments {
    /// Trace. `-` is standard input.
    trace: PathBuf,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    write: WriteArguments,
}

#[derive(Args)]
pub(crate) struct CutArguments {
    /// Trace. `-` is standard input.
    trace: PathBuf,
    /// Start this many seconds after the first message.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = parse_seconds)]
    from: f64,
    /// End this many seconds after the first message.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    until: Option<f64>,
    /// End after this many messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Keep only queries.
    #[arg(long)]
    queries: bool,
    /// Keep only messages of clients with this address or in this network (192.0.2.0/24). May be given several times.
    #[arg(long = "client", value_name = "NETWORK", value_delimiter = ',', value_parser = parse_prefix)]
    clients: Vec<Prefix>,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    write: WriteArguments,
}

#[derive(Args)]
pub(crate) struct MergeArguments {
    /// Traces.
    #[arg(required = true, num_args = 2..)]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    write: WriteArguments,
}

/// Runs the command.
pub(crate) fn main(trace: &Trace) -> ExitCode {
    let (command, done) = match trace {
        Trace::Info(arguments) => ("info", info(arguments)),
        Trace::Convert(arguments) => ("convert", convert(arguments)),
        Trace::Cut(arguments) => ("cut", cut(arguments)),
        Trace::Merge(arguments) => ("merge", merge(arguments)),
        Trace::Synth(arguments) => ("synth", synth::synth(arguments)),
        Trace::Mutate(arguments) => ("mutate", mutate::mutate(arguments)),
        Trace::Anonymize(arguments) => ("anonymize", anonymize::anonymize(arguments)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if has_enough(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("catlab trace {command}: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the reader of the output has closed it. This ends the command quietly, as with printed output.
fn has_enough(error: &(dyn Error + 'static)) -> bool {
    let written = match error.downcast_ref() {
        Some(FilterError::Writer(error)) => Some(error),
        _ => error.downcast_ref::<io::Error>(),
    };
    written.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn info(arguments: &InfoArguments) -> Result<bool, Box<dyn Error>> {
    let mut are_whole = true;
    for path in &arguments.traces {
        let mut reader = open(path, &arguments.read)?;
        let mut summary = Summary::default();
        let is_whole = read(path, &mut reader, |message| {
            summary.add(message);
            Ok(true)
        })?;
        are_whole &= is_whole;
        if arguments.json {
            println!("{}", to_json(path, &reader, &summary, is_whole));
        } else {
            print_text(path, &reader, &summary);
        }
    }
    Ok(are_whole)
}

fn to_json(path: &Path, reader: &Reader, summary: &Summary, is_whole: bool) -> serde_json::Value {
    let tally = reader.tally();
    let unread: serde_json::Map<_, _> =
        tally.all_unread().map(|(reason, count)| (reason.label().to_owned(), count.into())).collect();
    let transports: serde_json::Map<_, _> = Transport::ALL
        .iter()
        .zip(summary.transports)
        .filter(|(_, count)| *count > 0)
        .map(|(transport, count)| (transport.label().to_owned(), count.into()))
        .collect();
    json!({
        "file": path.display().to_string(),
        "format": reader.format().label(),
        "whole": is_whole,
        "records": tally.records,
        "messages": tally.messages,
        "queries": summary.queries,
        "responses": summary.responses,
        "bytes": summary.bytes,
        "first_ns": summary.span_ns.map(|span| span.0),
        "last_ns": summary.span_ns.map(|span| span.1),
        "seconds": summary.seconds(),
        "interval_mean_seconds": summary.intervals.mean_s(),
        "interval_deviation_seconds": summary.intervals.deviation_s(),
        "backwards": tally.backwards,
        "clients": summary.client_count(),
        "servers": summary.server_count(),
        "ipv6_queries": summary.ipv6,
        "edns_queries": summary.edns,
        "dnssec_ok_queries": summary.dnssec_ok,
        "unreadable_queries": summary.unreadable,
        "transports": transports,
        "qtypes": summary.qtypes,
        "opcodes": summary.opcodes,
        "rcodes": summary.rcodes,
        "unread": unread,
        "lost": tally.lost(),
        "stream_bytes_missing": tally.bytes_missing,
        "stream_bytes_skipped": tally.bytes_skipped,
    })
}

fn print_text(path: &Path, reader: &Reader, summary: &Summary) {
    let tally = reader.tally();
    println!(
        "{}: {}, {} messages in {} records",
        path.display(),
        reader.format().label(),
        tally.messages,
        tally.records
    );
    let seconds = summary.seconds();
    let rate = if seconds > 0.0 {
        format!(", {:.1} queries a second", summary.queries as f64 / seconds)
    } else {
        String::new()
    };
    println!("  {} queries and {} responses in {seconds:.3} s{rate}", summary.queries, summary.responses);
    if let (Some(mean), Some(deviation)) = (summary.intervals.mean_s(), summary.intervals.deviation_s()) {
        println!("  between queries: mean {mean:.6} s, standard deviation {deviation:.6} s");
    }
    println!("  {} clients, {} servers", summary.client_count(), summary.server_count());
    if summary.queries > 0 {
        println!("  of queries: {}", shares(summary));
    }
    for (what, counts) in [("types", &summary.qtypes), ("opcodes", &summary.opcodes), ("RCODEs", &summary.rcodes)] {
        if !counts.is_empty() {
            println!("  {what}: {}", most(counts));
        }
    }
    if summary.unreadable > 0 {
        println!("  {} queries have no readable question", summary.unreadable);
    }
    if tally.backwards > 0 {
        println!("  {} messages have an earlier time than the previous message", tally.backwards);
    }
    print_unread(tally);
}

fn shares(summary: &Summary) -> String {
    let share = |count: u64| 100.0 * count as f64 / summary.queries as f64;
    let transports = Transport::ALL.iter().zip(summary.transports).filter(|(_, count)| *count > 0);
    let transports: Vec<_> =
        transports.map(|(transport, count)| format!("{transport} {:.1} %", share(count))).collect();
    let [ipv6, edns, dnssec_ok] = [summary.ipv6, summary.edns, summary.dnssec_ok].map(share);
    format!("{}; IPv6 {ipv6:.1} %, EDNS {edns:.1} %, DO {dnssec_ok:.1} %", transports.join(", "))
}

fn print_unread(tally: &Tally) {
    for (reason, count) in tally.all_unread() {
        println!("  {}", reason.line(count));
    }
    if let Some(text) = stream_bytes(tally) {
        println!("  {text}");
    }
}

/// The most frequent values, as many as fit on a line.
fn most(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), word.clone()));
    let shown: Vec<_> = counts.iter().take(10).map(|(word, count)| format!("{word} {count}")).collect();
    let more = if counts.len() > 10 { format!(" and {} more", counts.len() - 10) } else { String::new() };
    shown.join(", ") + &more
}

fn convert(arguments: &ConvertArguments) -> Result<bool, Box<dyn Error>> {
    let mut reader = open(&arguments.trace, &arguments.read)?;
    let mut writer = create(&arguments.write, &[&arguments.trace])?;
    let is_whole = read(&arguments.trace, &mut reader, |message| {
        writer.write(message)?;
        Ok(true)
    })?;
    finish(writer, &arguments.write)?;
    print_lost(&arguments.trace, &reader);
    Ok(is_whole)
}

fn cut(arguments: &CutArguments) -> Result<bool, Box<dyn Error>> {
    if let Some(until) = arguments.until.filter(|until| *until <= arguments.from) {
        return Err(format!("cannot cut: --until {until} must be later than --from {}", arguments.from).into());
    }
    let mut reader = open(&arguments.trace, &arguments.read)?;
    let mut writer = create(&arguments.write, &[&arguments.trace])?;
    let first_ns = match reader.next_ns() {
        Ok(first_ns) => first_ns.unwrap_or_default(),
        Err(error) => {
            eprintln!("{}: {error}; there are no messages before that", arguments.trace.display());
            finish(writer, &arguments.write)?;
            return Ok(false);
        }
    };
    let until_ns = arguments.until.map_or(u64::MAX, |until| far(first_ns, until, 1.0));
    reader.narrow(&(far(first_ns, arguments.from, -1.0)..=until_ns))?;
    let mut written = 0;
    let is_whole = read(&arguments.trace, &mut reader, |message| {
        let after = message.at_ns.saturating_sub(first_ns) as f64 / 1e9;
        let is_in_time = after >= arguments.from && arguments.until.is_none_or(|to| after < to);
        let client = message.client().ip();
        let is_of_client = arguments.clients.is_empty() || arguments.clients.iter().any(|net| net.contains(client));
        if is_in_time && is_of_client && !(arguments.queries && message.is_response()) {
            writer.write(message)?;
            written += 1;
        }
        Ok(arguments.count.is_none_or(|count| written < count))
    })?;
    finish(writer, &arguments.write)?;
    if written == 0 {
        eprintln!("{}: no message was selected; the output is empty", arguments.trace.display());
    }
    print_lost(&arguments.trace, &reader);
    Ok(is_whole)
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| format!("{text} is not a number of seconds; write 0 or more"))
}

/// The time this many seconds after the first message, plus a microsecond as a margin. Earlier messages count as
/// simultaneous with the first.
fn far(first_ns: u64, seconds: f64, more_us: f64) -> u64 {
    let far_ns = (seconds * 1e9 + more_us * 1e3).max(0.0) as u64;
    if far_ns == 0 { 0 } else { first_ns.saturating_add(far_ns) }
}

/// A message that waits for its turn in the merge.
struct Waiting {
    at_ns: u64,
    source: std::net::SocketAddr,
    destination: std::net::SocketAddr,
    transport: Transport,
    bytes: Vec<u8>,
}

fn merge(arguments: &MergeArguments) -> Result<bool, Box<dyn Error>> {
    let mut readers = Vec::new();
    for path in &arguments.traces {
        readers.push((path, open(path, &arguments.read)?));
    }
    let inputs: Vec<&Path> = arguments.traces.iter().map(PathBuf::as_path).collect();
    let mut writer = create(&arguments.write, &inputs)?;
    let mut are_whole = true;
    let mut next = |(path, reader): &mut (&PathBuf, Reader)| match reader.next() {
        Ok(message) => message.map(|message| {
            let Message { at_ns, source, destination, transport, bytes } = message;
            Waiting { at_ns, source, destination, transport, bytes: bytes.to_vec() }
        }),
        Err(error) => {
            eprintln!("{}: {error}; messages before that are kept", path.display());
            are_whole = false;
            None
        }
    };
    let mut waiting: Vec<Option<Waiting>> = readers.iter_mut().map(&mut next).collect();
    loop {
        let first = waiting.iter().enumerate().filter_map(|(at, message)| Some((message.as_ref()?.at_ns, at))).min();
        let Some((_, at)) = first else { break };
        let taken = std::mem::replace(&mut waiting[at], next(&mut readers[at]));
        if let Some(Waiting { at_ns, source, destination, transport, bytes }) = taken {
            writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes })?;
        }
    }
    finish(writer, &arguments.write)?;
    readers.iter().for_each(|(path, reader)| print_lost(path, reader));
    Ok(are_whole)
}
