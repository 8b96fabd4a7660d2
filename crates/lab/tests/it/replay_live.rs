//! `catlab replay --stream`: a program changes a trace while it is sent. The tests check what arrives, which failures
//! are reported, and that nothing is left behind.

use crate::support::Folder;
use crate::support::far_end::FarEnd;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use trace::{Format, Message, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Programs that hang for days are killed at once, so a run takes less than this.
const SOON: Duration = Duration::from_secs(60);

/// A trace of `count` queries, 0.1 ms apart, from 20 sources below 10.0.0.0.
fn trace(folder: &Folder, count: u64) -> PathBuf {
    trace_every(folder, count, 100_000)
}

/// The same, with `step_ns` nanoseconds between queries.
fn trace_every(folder: &Folder, count: u64, step_ns: u64) -> PathBuf {
    let path = folder.path().join("trace.pcap");
    let mut writer = Writer::create(&path, Format::Capture).unwrap();
    for number in 0..count {
        let qname: Name = format!("q{number}.example").parse().unwrap();
        let bytes = MessageBuilder::query(number as u16, qname.as_ref(), Rtype::A).build();
        let source = SocketAddr::from((Ipv4Addr::new(10, 0, 0, (number % 20) as u8), 4_711));
        let destination = SocketAddr::from(([192, 0, 2, 1], 53));
        let (at_ns, transport) = (1_700_000_000_000_000_000 + step_ns * number, trace::Transport::Udp);
        writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes }).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// A finished replay through a program.
struct Ran {
    code: i32,
    /// Its output.
    text: String,
    summary: serde_json::Value,
    /// All messages that reached the server, without IDs.
    arrived: Vec<Vec<u8>>,
}

fn command(folder: &Folder, trace: &Path, server: SocketAddr, program: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.env_remove("CATLAB_ALLOW").env("TMPDIR", folder.path()).arg("replay").arg(trace);
    command
        .args(["--quiet", "--lag-limit", "10s", "--server", &server.to_string(), "--filter-command", program])
        .args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for the end, with a time limit.
fn end_of(mut command: Command) -> Output {
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > SOON {
            child.kill().unwrap();
            // A program that hangs may hold the output open too.
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn ran(folder: &Folder, trace: &Path, program: &str, more: &[&str]) -> Ran {
    let (far_end, out) = (FarEnd::start(Duration::ZERO), folder.path().join("run"));
    let mut command = command(folder, trace, far_end.address, program, more);
    command.args(["--force", "--out"]).arg(&out);
    let output = end_of(command);
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    let summary = std::fs::read(out.join("summary.json")).ok();
    let summary = summary.map_or(serde_json::Value::Null, |summary| serde_json::from_slice(&summary).unwrap());
    let _gone = std::fs::remove_dir_all(&out);
    let mut arrived: Vec<_> = far_end.end().into_iter().map(|arrival| arrival.bytes[2..].to_vec()).collect();
    arrived.sort_unstable();
    Ran { code: output.status.code().unwrap_or(-1), text, summary, arrived }
}

/// A shell program that does `first` when it is first run in a folder, and `then` afterwards.
fn first_and_then(folder: &Folder, first: &str, then: &str) -> String {
    let _gone = std::fs::remove_file(folder.path().join("been"));
    format!("if [ -e \"$TMPDIR/been\" ]; then {then}; else touch \"$TMPDIR/been\"; {first}; fi")
}

/// How many processes have this word on their command line.
fn count_with(word: &str) -> usize {
    let folders = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let lines = folders.filter_map(|folder| std::fs::read(folder.join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

/// Checks that no process has this word on its command line. A killed process may take a moment to be gone.
fn assert_gone(word: &str) {
    let start = Instant::now();
    while count_with(word) > 0 {
        assert!(start.elapsed() < SOON, "{word} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn streaming_sends_the_same_as_a_program_that_ran_before() {
    let folder = Folder::new("live-same");
    // At this rate, a busy machine loses no query at the server.
    let trace = trace_every(&folder, 3_000, 1_000_000);
    let rules = folder.path().join("rules.toml");
    // If the rules were applied twice, the name would differ.
    std::fs::write(&rules, "[[rule]]\nname = \"x.{name}\"\n").unwrap();
    let rules = ["--rules", rules.to_str().unwrap()];
    let program = "awk 'NR % 3 { sub(/ IN A /, \" IN AAAA \"); $15 = \"-\"; print }'";
    let before = ran(&folder, &trace, program, &rules);
    let live = ran(&folder, &trace, program, &[&rules[..], &["--stream"]].concat());
    assert_eq!((before.code, live.code), (0, 0), "{} {}", before.text, live.text);
    assert_eq!(live.arrived.len(), 2_000);
    assert!(live.arrived == before.arrived, "{:?} {:?}", before.arrived[0], live.arrived[0]);
    assert_eq!((&live.summary["replay"]["newcomers"], &live.summary["replay"]["queries"]), (&0.into(), &2_000.into()));
    // Sorting the output takes a third run of the program.
    let live = ran(&folder, &trace, "sort -k 7,7nr", &["--stream"]);
    assert_eq!((live.code, live.arrived.len()), (0, 3_000), "{}", live.text);
    assert_eq!(live.summary["replay"]["sorted"], true, "{}", live.text);
}

#[test]
fn a_program_that_fails_the_first_time_sends_nothing() {
    let folder = Folder::new("live-first");
    let trace = trace(&folder, 500);
    for (program, words) in [
        ("head -n 3; exit 7", "exit status: 7; nothing was sent"),
        ("cat; echo nonsense", "invalid lines: 1 a line that cannot be read; nothing was sent"),
        ("false", "exit status: 1; nothing was sent"),
        ("kill -SEGV $$", "signal: 11"),
        ("cat >/dev/null", "no query"),
    ] {
        let Ran { code, text, arrived, .. } = ran(&folder, &trace, program, &["--stream"]);
        assert!(code == 2 && text.contains(words) && arrived.is_empty(), "{program}: {code} {text}");
    }
    let Ran { code, text, .. } =
        ran(&folder, &trace, "cat", &["--stream", "--nats", "nats://127.0.0.1:1", "--agents", "2"]);
    assert!(code == 2 && text.contains("--stream does not go with --nats"), "{text}");
}

#[test]
fn a_program_that_fails_the_second_time_makes_the_run_invalid() {
    let folder = Folder::new("live-second");
    let trace = trace(&folder, 500);
    for (then, sent, words) in [
        ("head -n 100; exit 7", 100, "exit status: 7"),
        ("cat; exit 7", 500, "exit status: 7"),
        ("cat; echo nonsense", 500, "it wrote invalid lines: 1 a line that cannot be read"),
        ("false", 0, "exit status: 1"),
    ] {
        let program = first_and_then(&folder, "cat", then);
        let Ran { code, text, arrived, .. } = ran(&folder, &trace, &program, &["--stream"]);
        assert!(code == 1 && arrived.len() == sent, "{then}: {code} {} {text}", arrived.len());
        assert!(text.contains(words) && text.contains(&format!("--filter-command {program}")), "{then}: {text}");
    }
}

#[test]
fn differences_in_the_second_output_are_reported() {
    let folder = Folder::new("live-other");
    // The socket of the server holds all that arrives, even if it does not read.
    let trace = trace(&folder, 200);
    // 5 % of the queries get another client.
    let program = first_and_then(&folder, "cat", "sed 's/ 10\\.0\\.0\\.7 / 10.9.9.9 /'");
    let Ran { code, text, summary, arrived } = ran(&folder, &trace, &program, &["--stream"]);
    assert_eq!((code, arrived.len(), &summary["replay"]["newcomers"]), (1, 190, &10.into()), "{text}");
    assert!(text.contains("10 queries were not sent: their clients were missing"), "{text}");
    for (then, count) in [("awk 'NR % 2'", 100), ("awk '{ print; print }'", 400)] {
        let program = first_and_then(&folder, "cat", then);
        let Ran { code, text, summary, arrived } = ran(&folder, &trace, &program, &["--stream"]);
        assert_eq!((code, arrived.len(), &summary["replay"]["queries_again"]), (1, count, &count.into()), "{text}");
        assert!(
            text.contains(&format!("the trace had 200 queries when it was read first, and {count} later")),
            "{text}"
        );
    }
}

/// The run waits ten seconds for its program. Later, a written query is sent within about 0.1 s, even if no further
/// query follows.
#[test]
fn a_run_begins_before_its_program_has_ended_and_does_not_wait_for_full_blocks() {
    const LOAD: Duration = Duration::from_secs(10);
    const LATE: Duration = Duration::from_millis(500);
    let folder = Folder::new("live-slow");
    // Ten seconds: a run is aborted when it takes more than twice its duration plus two seconds.
    let trace = trace_every(&folder, 500, 20_000_000);
    // The last queries are written after the time at which the trace has them.
    let slow = "awk 'NR == 100 { print; fflush(); system(\"sleep 15\"); next }
                     NR == 490 { print; fflush(); system(\"sleep 6\"); next }
                     NR > 494 { print; fflush(); system(\"sleep 1\"); next } { print }'";
    let program = first_and_then(&folder, "cat", slow);
    let far_end = FarEnd::start(Duration::ZERO);
    let start = Instant::now();
    let output = end_of(command(&folder, &trace, far_end.address, &program, &["--stream"]));
    let arrivals = far_end.end();
    assert_eq!(arrivals.len(), 500, "{}", String::from_utf8_lossy(&output.stdout));
    let after = |index: usize| arrivals[index].at.duration_since(start);
    let rest = after(100) - after(99);
    assert!(after(0) >= LOAD && rest > LATE, "{:?}, {rest:?}", after(0));
    let rested: Vec<_> = (493..500).map(|index| after(index) - after(index - 1)).collect();
    assert!(rested.iter().filter(|rested| **rested > LATE).count() >= 4, "{rested:?}");
}

/// The program's output is read twice and never held as a whole: 200 MB of messages.
#[test]
fn memory_is_bounded_however_much_a_program_writes() {
    let folder = Folder::new("live-large");
    let trace = trace(&folder, 20);
    // The message in hex, with 2,000 bytes of EDNS padding (RFC 7830) after each question.
    let many = "awk '!/^#/ { line = $0; for (n = 0; n < 5000; n++) print line }'";
    let padded = ["--add-option", "padding=2048"];
    // This socket never answers.
    let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = silent.local_addr().unwrap();
    let mut command = command(&folder, &trace, to, many, &["--stream", "--fast", "--timeout", "200ms"]);
    let mut child = command.args(padded).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (start, mut most_kib) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        let kib = line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        most_kib = most_kib.max(kib.unwrap_or_default());
        if start.elapsed() > 4 * SOON {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    println!("{most_kib} KiB\n{text}");
    assert!(text.contains("100,000") || text.contains("100000"), "{text}");
    assert!((10_000..160 << 10).contains(&most_kib), "{most_kib} KiB");
}

#[test]
fn a_program_that_is_no_longer_needed_is_killed_with_its_children() {
    let folder = Folder::new("live-limit");
    let trace = trace(&folder, 20_000);
    let (long, other) = (format!("9{}1", std::process::id()), format!("9{}2", std::process::id()));
    // The first two neither exit nor read on nor close their pipes. The last one writes forever.
    for program in [
        format!("head -n 50; sleep {long}"),
        format!("exec 3<&0; cat <&3 & sleep {long}"),
        format!("sed p; yes nonsense-{long}"),
    ] {
        let Ran { code, text, arrived, .. } = ran(&folder, &trace, &program, &["--stream", "--limit", "50"]);
        assert_eq!((code, arrived.len()), (0, 50), "{program}: {text}");
        assert_gone(&long);
    }
    // The user interrupts a run whose program hangs.
    let program = first_and_then(&folder, "cat", &format!("head -n 50; sleep {other}"));
    let far_end = FarEnd::start(Duration::ZERO);
    let child = command(&folder, &trace, far_end.address, &program, &["--stream"]).spawn().unwrap();
    let start = Instant::now();
    let hangs = |line: &str| line.starts_with("sleep");
    let is_there = || {
        let folders = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        let mut lines = folders.filter_map(|folder| std::fs::read_to_string(folder.join("cmdline")).ok());
        lines.any(|line| hangs(&line) && line.contains(&other))
    };
    while !is_there() {
        assert!(start.elapsed() < SOON, "the program was not run a second time");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(start.elapsed() < SOON && !text.contains("--filter-command"), "{text}");
    assert_gone(&other);
    far_end.end();
}
