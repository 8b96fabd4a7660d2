//! `catlab replay` with the options of `catlab trace mutate` sends the same queries from the same sources as a trace
//! that was changed before.

use crate::support::Folder;
use crate::support::far_end::FarEnd;
use measure::Transport;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testbed::echo::{Echo, EchoPlan};
use trace::{Format, Message, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// A trace of `count` queries, 0.2 ms apart, from 30 sources below 10.0.0.0. Every third query has type AAAA; every
/// fourth is followed by a response.
fn trace(folder: &Folder, count: u64) -> PathBuf {
    let path = folder.path().join("trace.txt");
    let mut writer = Writer::create(&path, Format::Text).unwrap();
    for number in 0..count {
        let qname: Name = format!("q{}.example", number % 120).parse().unwrap();
        let qtype = if number.is_multiple_of(3) { Rtype::AAAA } else { Rtype::A };
        let mut bytes = MessageBuilder::query(number as u16, qname.as_ref(), qtype).build();
        let source = SocketAddr::from((Ipv4Addr::new(10, 0, 0, (number * number % 30) as u8), 4_711));
        let destination = SocketAddr::from(([192, 0, 2, 1], 53));
        let (at_ns, transport) = (1_700_000_000_000_000_000 + 200_000 * number, trace::Transport::Udp);
        writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes }).unwrap();
        if number.is_multiple_of(4) {
            bytes[2] |= 0x80;
            let (source, destination) = (destination, source);
            writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes }).unwrap();
        }
    }
    writer.finish().unwrap();
    path
}

fn catlab(folder: &Folder, words: &[&str], path: &Path, more: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.env_remove("CATLAB_ALLOW").env("TMPDIR", folder.path()).args(words).arg(path).args(more);
    let output = command.output().unwrap();
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{words:?} {more:?}: {text}");
}

fn replay(folder: &Folder, path: &Path, more: &[&str]) {
    catlab(folder, &["replay", "--quiet", "--lag-limit", "10s"], path, more);
}

/// The sources and queries that reach a server, without IDs and ports.
fn arrived(folder: &Folder, path: &Path, more: &[&str]) -> Vec<(IpAddr, Vec<u8>)> {
    let far_end = FarEnd::start(Duration::ZERO);
    replay(folder, path, &[&["--server", &far_end.address.to_string()], more].concat());
    let arrivals = far_end.end().into_iter();
    let mut arrived: Vec<_> = arrivals.map(|arrival| (arrival.from.ip(), arrival.bytes[2..].to_vec())).collect();
    arrived.sort_unstable();
    arrived
}

#[test]
fn options_have_the_same_effect_in_a_replay_as_in_a_file() {
    let folder = Folder::new("replay-changes");
    // The socket of the server holds all of them, even if it does not read.
    let (path, changed) = (trace(&folder, 500), folder.path().join("changed.txt"));
    let rules = folder.path().join("rules.toml");
    std::fs::write(&rules, "seed = 5\n[[rule]]\nwhen.type = \"AAAA\"\nshare = 0.5\nby = \"query\"\ndrop = true\n")
        .unwrap();
    let rules = rules.to_str().unwrap();
    let unchanged = arrived(&folder, &path, &[]);
    assert_eq!(unchanged.len(), 500);
    for options in [
        &["--unique", "--suffix", "example=lab.test", "--do", "0.5", "--edns", "1400", "--rd", "off"][..],
        &["--only-type", "AAAA", "--sample", "0.5", "--by", "query", "--seed", "7"],
        &["--clients", "3", "--client-prefix", "10.9.0.0/16", "--type", "MX", "--class", "CH", "--cd", "on"],
        &["--only-client", "10.0.0.0/28", "--name", "n{n}.{name}", "--add-option", "nsid", "--ad", "on"],
        &["--rules", rules, "--only-name", "example", "--only-transport", "udp", "--sample", "0.3"],
    ] {
        catlab(
            &folder,
            &["trace", "mutate"],
            &path,
            &[options, &["--force", "--out", changed.to_str().unwrap()]].concat(),
        );
        let before = arrived(&folder, &changed, &[]);
        assert!(!before.is_empty() && before != unchanged, "{options:?}");
        let meanwhile = arrived(&folder, &path, options);
        assert!(meanwhile == before, "{options:?}: {} and {}", meanwhile.len(), before.len());
        // A filter command that keeps each line. It gets the changed queries.
        let live = arrived(&folder, &path, &[options, &["--filter-command", "cat", "--stream"]].concat());
        assert!(live == before, "{options:?}: {} and {}", live.len(), before.len());
    }
}

#[test]
fn transport_shares_are_drawn_as_in_a_file() {
    let folder = Folder::new("replay-shares");
    let (path, changed) = (trace(&folder, 1_000), folder.path().join("changed.txt"));
    let shares = ["--transport", "tcp=0.4,dot=0.2", "--seed", "3"];
    catlab(&folder, &["trace", "mutate"], &path, &[&shares[..], &["--out", changed.to_str().unwrap()]].concat());
    let counts = |path: &Path, more: &[&str]| {
        let echo = Echo::start(&EchoPlan::new(&Transport::ALL).unwrap()).unwrap();
        let port = |transport: Transport| format!("{transport}={}", echo.address(transport).port());
        let ports = Transport::ALL.map(port).join(",");
        let server = echo.address(Transport::Udp).to_string();
        let words = ["--server", &server, "--ports", &ports, "--insecure"];
        replay(&folder, path, &[&words[..], more].concat());
        Transport::ALL.map(|transport| (echo.counts().queries_of(transport), echo.counts().connections_of(transport)))
    };
    let (before, meanwhile) = (counts(&changed, &[]), counts(&path, &shares));
    assert_eq!(meanwhile, before);
    let [udp, tcp, dot, doh, doq] = before.map(|(queries, _)| queries);
    assert!(udp > 0 && tcp > 0 && dot > 0 && udp + tcp + dot == 1_000 && doh + doq == 0, "{before:?}");
    // With --transport, all queries use it, regardless of the trace.
    let [udp, tcp, ..] = counts(&changed, &["--transport", "tcp"]).map(|(queries, _)| queries);
    assert_eq!((udp, tcp), (0, 1_000));
}

#[test]
fn options_that_only_apply_to_files_are_refused() {
    let folder = Folder::new("replay-refusals");
    let path = trace(&folder, 10);
    for (option, expected) in [
        (&["--shift", "5"][..], "unexpected argument '--shift'"),
        (&["--id", "count"], "unexpected argument '--id'"),
        (&["--clients", "0"], "no clients, or more"),
        (&["--transport", "tcp=0.7,dot=0.7"], "share"),
        (&["--transport", "smoke"], "smoke is not one of udp, tcp, dot, doh and doq"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
        command.arg("replay").arg(&path).args(["--server", "127.0.0.1:9"]).args(option);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(expected), "{option:?}: {error}");
    }
}
