//! Runs over agents, each a process of its own, through a real NATS server. Every query is sent once, by the agent that
//! its source belongs to; no measurement is lost; a dead agent is reported.

mod division;
mod killed;
mod nats_traffic;
mod refusal;

use crate::support::Folder;
use crate::support::program::{CATLAB, ended};
use measure::Distribution;
use report::Run;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trace::{Format, Message, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// A trace of `count` queries, 1 ms apart, from `sources` addresses below 10.0.0.0.
fn trace(folder: &Folder, count: u32, sources: u32) -> PathBuf {
    let path = folder.path().join("trace.txt");
    let mut writer = Writer::create(&path, Format::Text).unwrap();
    for number in 0..count {
        let qname: Name = format!("q{number}.example").parse().unwrap();
        let bytes = MessageBuilder::query(number as u16, qname.as_ref(), Rtype::A).build();
        let (source, destination) =
            (SocketAddr::from((source(number, sources), 4_711)), SocketAddr::from(([192, 0, 2, 1], 53)));
        let at_ns = 1_700_000_000_000_000_000 + 1_000_000 * u64::from(number);
        let transport = trace::Transport::Udp;
        writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes }).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// The source of a query of [`trace`].
fn source(number: u32, sources: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + number % sources)
}

/// The digits of `q123.example.`.
fn number(message: &[u8]) -> u32 {
    let label = &message[14..13 + usize::from(message[12])];
    std::str::from_utf8(label).unwrap().parse().unwrap()
}

fn catlab(words: &str, url: &str, agents: usize, out: &Path) -> Command {
    let mut command = Command::new(CATLAB);
    command.env_remove("CATLAB_ALLOW").args(words.split(' ')).args(["--quiet", "--nats", url]).stdin(Stdio::null());
    // Temporary files of a killed controller are removed together with the test's folder.
    command.args(["--agents", &agents.to_string(), "--out"]).arg(out).env("TMPDIR", out.parent().unwrap());
    command
}

/// Checks that the merged run contains the measurements of every agent, including each histogram value.
fn assert_sum(merged: &Run, own: &[Run]) {
    assert_eq!(merged.total.sent, own.iter().map(|run| run.total.sent).sum::<u64>());
    assert_eq!(merged.total.latency, Distribution::sum(own.iter().map(|run| &run.total.latency)));
    assert_eq!(merged.total.send_lag, Distribution::sum(own.iter().map(|run| &run.total.send_lag)));
}
