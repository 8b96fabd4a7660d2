//! `catlab replay` as a program: the files it leaves, and what it refuses with which message.

use crate::support::Folder;
use crate::support::program::{CATLAB, ended};
use measure::Transport;
use report::Run;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testbed::echo::{Echo, EchoPlan};
use trace::{Format, Message, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// A trace of `count` queries, 1 ms apart, from `sources` addresses below 10.0.0.0.
fn trace(folder: &Folder, name: &str, count: u64, sources: u64) -> PathBuf {
    let path = folder.path().join(name);
    let format = if name.ends_with(".pcap") { Format::Capture } else { Format::Text };
    let mut writer = Writer::create(&path, format).unwrap();
    for number in 0..count {
        let qname: Name = format!("q{number}.example").parse().unwrap();
        let bytes = MessageBuilder::query(number as u16, qname.as_ref(), Rtype::A).build();
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + (number % sources) as u32);
        let (source, destination) = (SocketAddr::from((source, 4_711)), SocketAddr::from(([192, 0, 2, 1], 53)));
        let (at_ns, transport) = (1_700_000_000_000_000_000 + 1_000_000 * number, trace::Transport::Udp);
        writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes }).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn replay(trace: &Path, server: &str, more: &[&str]) -> Command {
    let mut command = Command::new(CATLAB);
    command.env_remove("CATLAB_ALLOW").arg("replay").arg(trace).args(["--quiet", "--server", server]).args(more);
    command
}

fn echo() -> (Echo, String) {
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let address = echo.address(Transport::Udp).to_string();
    (echo, address)
}

#[test]
fn a_run_records_its_send_errors_and_settings() {
    let folder = Folder::new("replay-folder");
    let (trace, out) = (trace(&folder, "trace.txt", 1_500, 300), folder.path().join("run"));
    let (_echo, address) = echo();
    let output = replay(&trace, &address, &["--parquet", "--out"]).arg(&out).output().unwrap();
    let (code, text, error) = ended(&output);
    // Exit code 1: a busy machine made the run late.
    assert!(matches!(code, 0 | 1), "{text}{error}");
    for (label, what) in [
        ("send error", "worst"),
        ("intervals", "difference from the trace"),
        ("rate error", "over the run; of 2 seconds"),
        ("rate error", "% of them within 0.1 %"),
        ("replay", "1500 queries of 300 sources (prefix=127.0.0.0/8) at speed 1; late: slip"),
    ] {
        assert!(text.lines().any(|line| line.starts_with(label) && line.contains(what)), "{label}: {text}");
    }
    let summary = std::fs::read_to_string(out.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    for figure in ["q1", "p50", "q3", "p99", "max"] {
        assert!(summary["send_error_us"][figure].is_f64(), "{figure}: {summary}");
        assert!(summary["interval_error_us"][figure].is_f64(), "{figure}: {summary}");
        assert!(summary["second_rate_error"][figure].is_f64(), "{figure}: {summary}");
    }
    let near = summary["second_rate_error"]["near"].as_f64();
    assert!(near.is_some_and(|near| (0.0..=1.0).contains(&near)), "{summary}");
    assert!(summary["rate_error"].is_f64() && summary["sent"] == 1_500 && summary["answered"] == 1_500, "{summary}");
    assert_eq!((&summary["replay"]["late"], &summary["replay"]["timing"]), (&"slip".into(), &"trace".into()));
    assert_eq!(summary["per_query"]["rows"], 1_500);
    let run = Run::read(&out).unwrap();
    let figures = run.summary.unwrap().replay.unwrap();
    assert_eq!((figures.send_error_us.unwrap().n, figures.replay.sources), (1_500, 300));
    let drawn = Command::new(CATLAB).arg("report").arg(&out).arg("--out").arg(folder.path().join("page.html")).output();
    assert!(drawn.unwrap().status.success());
}

#[test]
fn replays_that_cannot_be_done_are_refused_with_a_reason() {
    let folder = Folder::new("replay-refused");
    let (few, many) = (trace(&folder, "few.txt", 10, 3), trace(&folder, "many.txt", 400, 400));
    let empty = folder.path().join("empty.txt");
    std::fs::write(&empty, "# catlab trace 1\n").unwrap();
    let garbage = folder.path().join("garbage.bin");
    std::fs::write(&garbage, [0x55; 64]).unwrap();
    let long = folder.path().join("long.txt");
    let twice = std::fs::read_to_string(&few).unwrap().replace("1700000000.009", "1700080000.009");
    let later = twice.lines().next_back().unwrap().replace("1700080000.009", "1700160000.009");
    std::fs::write(&long, format!("{twice}{later}\n")).unwrap();
    let here = "127.0.0.1:9";
    // Nobody writes to the pipe, and the command does not wait for it.
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (trace, server, more, reason) in [
        (few.as_path(), "192.0.2.1", &[][..], "add --i-own-this-target"),
        (Path::new("-"), here, &[], "cannot come from a pipe"),
        (&pipe, here, &[], "cannot come from a pipe; write it to a file first"),
        (&pipe, here, &["--filter-command", "cat"], "cannot come from a pipe"),
        (&pipe, here, &["--filter-command", "cat", "--stream"], "cannot come from a pipe"),
        (&empty, here, &[], "empty.txt: no query in it"),
        (&garbage, here, &[], "garbage.bin: unknown format"),
        (&folder.path().join("missing.pcap"), here, &[], "missing.pcap: No such file"),
        (&few, here, &["--from", "1s"], "none in the selected part"),
        (
            &few,
            here,
            &["--sources", "addresses"],
            "10.0.0.0 is a source of the trace, but not an address of this machine",
        ),
        (&few, "[::1]:9", &["--sources", "prefix"], "has no --server of its address family"),
        (&few, here, &["--sources", "prefix=192.0.2.0/24"], "192.0.2.0/24 is not local"),
        (&few, here, &["--sources", "everywhere"], "write addresses, sockets, prefix"),
        (&few, here, &["--speed", "0"], "not a speed"),
        (&few, here, &["--speed", "2", "--fast"], "cannot be used with"),
        (&long, here, &[], "44.4 hours from the first query to the last, and a run may have 24"),
    ] {
        let (code, text, error) = ended(&replay(trace, server, more).output().unwrap());
        assert_eq!(code, 2, "{more:?}: {text}{error}");
        assert!(error.contains(reason), "{more:?}: {error}");
    }
    // Fewer open files than sources are allowed.
    let line =
        format!("ulimit -n 300; exec {CATLAB} replay {} --quiet --server {here} --sources sockets", many.display());
    let (code, _, error) = ended(&Command::new("sh").args(["-c", &line]).output().unwrap());
    assert!(code == 2 && error.contains("would be 656 open files, and this process may have 300"), "{error}");
}

#[test]
fn a_damaged_trace_is_sent_up_to_the_damage() {
    let folder = Folder::new("replay-damaged");
    let whole = trace(&folder, "whole.pcap", 100, 5);
    let bytes = std::fs::read(&whole).unwrap();
    let cut = folder.path().join("cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let (echo, address) = echo();
    let out = folder.path().join("run");
    let output = replay(&cut, &address, &["--lag-limit", "10s", "--out"]).arg(&out).output().unwrap();
    let (code, text, error) = ended(&output);
    assert!(code == 1 && text.contains("the trace is damaged"), "{code}: {text}{error}");
    let sent = Run::read(&out).unwrap().summary.unwrap().total.sent;
    assert!((45..=50).contains(&sent) && echo.counts().queries_of(Transport::Udp) == sent, "{sent}: {text}");
}

#[test]
fn addresses_of_a_local_route_can_be_sources() {
    let folder = Folder::new("replay-local");
    let path = folder.path().join("trace.txt");
    let mut writer = Writer::create(&path, Format::Text).unwrap();
    let server = SocketAddr::from(([192, 0, 2, 1], 53));
    for number in 0..400_u32 {
        let qname: Name = format!("q{number}.example").parse().unwrap();
        let bytes = MessageBuilder::query(0, qname.as_ref(), Rtype::A).build();
        let source: std::net::IpAddr = if number.is_multiple_of(2) {
            Ipv4Addr::from(0xCB00_7100 + number % 100).into()
        } else {
            std::net::Ipv6Addr::from((0x2001_0DB8_0077_u128 << 80) + u128::from(number % 100)).into()
        };
        let (source, transport) = (SocketAddr::new(source, 4_711), [trace::Transport::Udp, trace::Transport::Tcp]);
        let (at_ns, transport) = (2_000_000 * u64::from(number), transport[number as usize / 200]);
        writer.write(&Message { at_ns, source, destination: server, transport, bytes: &bytes }).unwrap();
    }
    writer.finish().unwrap();
    let network = "ip link set lo up && ip route add local 203.0.113.0/24 dev lo && \
                   ip -6 route add local 2001:db8:77::/48 dev lo";
    let inside = |line: &str| Command::new("unshare").args(["-rn", "sh", "-c", line]).stdin(Stdio::null()).output();
    if !inside(network).is_ok_and(|output| output.status.success()) {
        skip::permission("making a network");
        return;
    }
    let echo = |address: &str, name: &str| {
        let log = folder.path().join(name);
        format!("{CATLAB} echo --address {address} --ports udp=5300,tcp=5300 > {} & {name}=$!", log.display())
    };
    let out = folder.path().join("run");
    let condition = format!("grep -q tcp {0}/four && grep -q tcp {0}/six", folder.path().display());
    let listening = format!("for i in $(seq 300); do {condition} && break; sleep 0.1; done");
    let more = format!("--server 127.0.0.1:5300,[::1]:5300 --lag-limit 10s --force --out {}", out.display());
    let run = format!("{CATLAB} replay {} --quiet {more}; code=$?", path.display());
    let echoes = format!("{}; {}", echo("127.0.0.1", "four"), echo("::1", "six"));
    let line = format!("{network}; {echoes}; {listening}; {run}; kill $four $six; wait; exit $code");
    let (code, text, error) = ended(&inside(&line).unwrap());
    assert_eq!(code, 0, "{text}{error}");
    let summary = Run::read(&out).unwrap().summary.unwrap();
    assert_eq!((summary.total.sent, summary.total.answered), (400, 400), "{text}{error}");
    assert_eq!(summary.transports[&Transport::Tcp].answered, 200, "{text}{error}");
    let figures = summary.replay.unwrap().replay;
    assert_eq!((&figures.source_mode[..], figures.sources), ("addresses", 100), "{text}{error}");
}

#[test]
fn the_output_of_a_program_is_sent_and_nothing_is_sent_if_it_fails() {
    let folder = Folder::new("replay-through");
    let (trace, out) = (trace(&folder, "trace.pcap", 400, 20), folder.path().join("run"));
    let (_echo, address) = echo();
    let spools = folder.path().join("spools");
    std::fs::create_dir(&spools).unwrap();
    let run = |program: &str| {
        let output = replay(&trace, &address, &["--lag-limit", "10s", "--filter-command", program, "--force", "--out"])
            .arg(&out)
            .env("TMPDIR", &spools)
            .output();
        let ended = ended(&output.unwrap());
        assert_eq!(std::fs::read_dir(&spools).unwrap().count(), 0, "temporary files are left: {}", ended.2);
        ended
    };
    // Keeps every second query and changes its type.
    let (code, text, error) = run("awk 'NR % 2 { sub(/ IN A /, \" IN AAAA \"); $15 = \"-\"; print }'");
    assert_eq!(code, 0, "{text} {error}");
    let summary = std::fs::read_to_string(out.join("summary.json")).unwrap();
    assert!(
        summary.contains("trace.pcap") && !summary.contains("catlab-through"),
        "the summary names the original trace: {summary}"
    );
    let sent = Run::read(&out).unwrap();
    assert_eq!(sent.figures().rcodes.values().sum::<u64>(), 200, "{text}");
    for (program, words) in
        [("head -n 3; exit 7", "exit status: 7"), ("echo nonsense", "invalid lines"), ("false", "status: 1")]
    {
        let (code, _, error) = run(program);
        assert!(code == 2 && error.contains(words) && error.contains("nothing was sent"), "{code} {error}");
    }
    let (code, _, error) = run("cat >/dev/null");
    assert!(code == 2 && error.contains("--filter-command cat >/dev/null: it wrote no query"), "{code} {error}");
    assert!(!error.contains("catlab-through") && error.contains("nothing was sent"), "{error}");
    let live = replay(&trace, &address, &["--filter-command", "true", "--stream"]).output();
    let (code, _, error) = ended(&live.unwrap());
    assert!(code == 2 && error.contains("--filter-command true: it wrote no query"), "{code} {error}");
}

/// The longest packet in bytes that a replay sends from a trace with one source, as seen in a capture.
fn longest_packet(trace: &Path, more: &[&str]) -> Option<usize> {
    let Ok(raw) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)) else {
        skip::permission("a raw socket");
        return None;
    };
    // It receives only packets to this address, so packets of other tests do not fill its buffer.
    let address = Ipv4Addr::new(127, 7, 7, 7);
    raw.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    raw.set_recv_buffer_size(8 << 20).unwrap();
    let plan = EchoPlan { address: address.into(), ..EchoPlan::new(&[Transport::Udp]).unwrap() };
    let echo = Echo::start(&plan).unwrap();
    let address = echo.address(Transport::Udp).to_string();
    let (code, text, error) = ended(&replay(trace, &address, more).output().unwrap());
    assert!(matches!(code, 0 | 1), "{text}{error}");
    raw.set_nonblocking(true).unwrap();
    let port = address.parse::<SocketAddr>().unwrap().port().to_be_bytes();
    let mut packet = vec![0; 65_536];
    let packets = std::iter::from_fn(|| {
        let count = (&raw).read(&mut packet).ok()?;
        // Ignores packets of other programs.
        Some(if packet[22..24] == port { count } else { 0 })
    });
    packets.max()
}

#[test]
fn queries_are_batched_only_with_fast() {
    let folder = Folder::new("replay-together");
    let trace = trace(&folder, "trace.txt", 1_000, 1);
    // IP and UDP headers, DNS header, the longest name, type and class (RFC 791 3.1, RFC 768, RFC 1035 4.1).
    let alone = 20 + 8 + 12 + "4q9997example0".len() + 4;
    // Hundreds of queries are due at the same time.
    let (Some(timed), Some(fast)) =
        (longest_packet(&trace, &["--speed", "10000"]), longest_packet(&trace, &["--fast"]))
    else {
        return;
    };
    assert_eq!(timed, alone);
    assert!(fast > 2 * alone, "{fast}");
}
