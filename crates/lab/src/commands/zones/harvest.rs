//! `catlab zones harvest`: sends each question once to a cold resolver, and captures its upstream traffic.

use crate::arguments::{Ownership, ReadArguments, open_or_queries};
use crate::commands::trace::{print_lost, read};
use crate::out_folder::{self, FileInMaking, Force};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use lab::harvest::{HarvestCounts, PacketFile, Questions, ask};
use links::Tap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::number::Rcode;

/// Ends `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  catlab zones harvest queries.txt --resolver 127.0.0.1:5300 --out upstream.pcap
  catlab zones harvest day.pcap.xz --resolver 192.168.1.5 --interface eth0 --out upstream.pcap
  catlab zones build upstream.pcap --out zones

Run this on the host of the resolver: it captures the upstream traffic of the resolver at port 53, and needs
CAP_NET_RAW. Start the resolver with an empty cache, or zones will be missing.

Exit code 0: every question was answered; 1: some were not, or packets were lost; 2: the harvest failed.";

/// Interval of the check whether to end the capture.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Args)]
pub(crate) struct HarvestArguments {
    /// Questions: any trace that `catlab trace` reads, or a file of `NAME TYPE` lines. Each question is sent once.
    queries: PathBuf,
    /// Resolver to query. The default port is 53.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = resolver)]
    resolver: SocketAddr,
    /// Output capture (pcap). An existing file is only replaced with --force.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    /// Capture on this interface only.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Questions in flight.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    in_flight: u16,
    /// Timeout of an answer. After it the question is sent again, at most twice.
    #[arg(long, default_value = "5s", value_name = "DURATION", value_parser = crate::arguments::parse_duration)]
    timeout: Duration,
    /// How long to continue the capture after the last answer.
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = crate::arguments::parse_duration)]
    settle: Duration,
    #[command(flatten)]
    ownership: Ownership,
    #[command(flatten)]
    read: ReadArguments,
}

fn resolver(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
    address
        .or_else(|_| text.parse())
        .map_err(|_| format!("{text} is not an address; write 127.0.0.1, 127.0.0.1:5300 or [::1]:53"))
}

/// Runs the harvest. Returns false if answers or packets are missing.
pub(super) fn harvest(arguments: &HarvestArguments, stops: &dyn Fn() -> u8) -> Result<bool, Box<dyn Error>> {
    arguments.ownership.allow(std::iter::once(arguments.resolver))?;
    out_folder::refuse_input(&arguments.out, std::slice::from_ref(&arguments.queries))?;
    out_folder::refuse_file(&arguments.out, arguments.force)?;
    let path = &arguments.queries;
    let mut questions = Questions::default();
    let mut reader = open_or_queries(path, &arguments.read)?;
    let is_whole = read(path, &mut reader, |message| {
        if !message.is_response() {
            questions.add(message.bytes);
        }
        Ok(true)
    })?;
    print_lost(path, &reader);
    if questions.list().is_empty() {
        return Err(format!("cannot harvest: {} has no questions", path.display()).into());
    }
    let tap = Tap::open(arguments.interface.as_deref())
        .map_err(|error| format!("cannot capture: {error}. This needs CAP_NET_RAW"))?;
    let file = FileInMaking::new(&arguments.out);
    let out = PacketFile::create(file.path(), arguments.resolver);
    let out = out.map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    let is_over = AtomicBool::new(false);
    let (counts, captured) = std::thread::scope(|scope| {
        let capturing = scope.spawn(|| capture(tap, out, &is_over));
        let counts = all(arguments, &questions, stops);
        std::thread::sleep(arguments.settle);
        is_over.store(true, Ordering::Relaxed);
        (counts, capturing.join())
    });
    let (packets, lost) =
        captured.map_err(|_| "the capture panicked")?.map_err(|error| format!("cannot capture: {error}"))?;
    let counts = counts.map_err(|error| format!("{}: {error}", arguments.resolver))?;
    file.commit()?;
    print_counts(&questions, &counts, packets, lost);
    let unsettled = questions.list().len() as u64 - counts.count() + counts.unanswered;
    Ok(is_whole && unsettled == 0 && lost == 0)
}

fn all(arguments: &HarvestArguments, questions: &Questions, stops: &dyn Fn() -> u8) -> std::io::Result<HarvestCounts> {
    let template = "{bar:40} {human_pos} of {human_len} questions, {eta} to go";
    let style = ProgressStyle::with_template(template).expect("a template");
    let bar = ProgressBar::new(questions.list().len() as u64).with_style(style);
    let each = |counts: &HarvestCounts| {
        bar.set_position(counts.count());
        stops() == 0
    };
    let in_flight = usize::from(arguments.in_flight);
    let counts = ask(arguments.resolver, questions.list(), in_flight, arguments.timeout, each);
    bar.finish_and_clear();
    counts
}

/// Captures until `is_over`. Returns the number of written and of lost packets.
fn capture(mut tap: Tap, mut out: PacketFile, is_over: &AtomicBool) -> std::io::Result<(u64, u32)> {
    while !is_over.load(Ordering::Relaxed) {
        if let Some(packet) = tap.next(POLL_INTERVAL)? {
            out.add(packet.at, packet.bytes)?;
        }
    }
    let lost = tap.lost()?;
    Ok((out.finish()?, lost))
}

fn print_counts(questions: &Questions, counts: &HarvestCounts, packets: u64, lost: u32) {
    let rcodes: Vec<String> =
        counts.rcodes.iter().map(|(rcode, count)| format!("{:?} {count}", Rcode(u16::from(*rcode)))).collect();
    let list = questions.list().len();
    println!("{list} questions: {}; {} unanswered", rcodes.join(", "), counts.unanswered);
    println!("{packets} packets between the resolver and servers");
    if questions.without > 0 {
        eprintln!("{} messages have no question of class IN, or request a transfer", questions.without);
    }
    if questions.beyond > 0 {
        eprintln!("{} questions are left out: the limit is {list}; harvest the rest separately", questions.beyond);
    }
    if lost > 0 {
        eprintln!("{lost} packets were lost: lower --in-flight");
    }
}
