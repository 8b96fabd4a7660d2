//! `catlab load` with query files, servers and rates as in other tools.

use crate::support::Folder;
use measure::Transport;
use serde_json::Value;
use std::net::{ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testbed::echo::{Echo, EchoPlan};

fn echo(transport: Transport) -> (Echo, String) {
    let echo = Echo::start(&EchoPlan::new(&[transport]).unwrap()).unwrap();
    let address = echo.address(transport).to_string();
    (echo, address)
}

fn file(folder: &Folder, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_string_lossy().into_owned()
}

/// Runs `load` with these arguments and a timeout that a busy machine keeps. Returns the exit code and standard error.
fn load(words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.env_remove("CATLAB_ALLOW").args(["load", "--quiet", "--workers", "2"]).args(words);
    if !words.contains(&"--timeout") {
        command.args(["--timeout", "10s"]);
    }
    let output = command.output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs into this folder and returns the summary. The run may be INVALID.
fn summary(out: &Path, words: &[&str]) -> Value {
    let (code, error) = load(&[words, &["--out", &out.to_string_lossy()]].concat());
    assert!(code == 0 || code == 1, "{words:?}: {error}");
    serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap()
}

fn sent(summary: &Value) -> u64 {
    summary["total"]["sent"].as_u64().or_else(|| summary["sent"].as_u64()).unwrap_or_else(|| panic!("{summary}"))
}

fn run(folder: &Folder, number: usize) -> PathBuf {
    folder.path().join(format!("run{number}"))
}

#[test]
fn lines_without_a_query_are_skipped_and_counted() {
    let folder = Folder::new("skipped-lines");
    let bad = "a.example NOSUCH\n".repeat(6);
    let long = "x".repeat(300_000);
    let text = format!("www.example A\nalone\n{bad}a..example A\nmail.example MX\nwww.example A what\n{long} A\n");
    let queries = file(&folder, "queries.txt", text);
    let (_echo, server) = echo(Transport::Udp);
    let (code, error) = load(&["--server", &server, "--queries", &queries, "--once", "--rate", "100"]);
    assert!(code != 2, "{error}");
    assert_eq!(error.lines().filter(|line| line.ends_with("; skipped")).count(), 5, "{error}");
    assert!(error.contains("queries.txt:2: no type after alone"), "{error}");
    let reasons = "skipped 10 entries of the query file: 1 no type after the name, 6 unknown type, 2 bad name, \
                   1 bad third column";
    assert!(error.contains(reasons) && error.len() < 4_000, "{error}");
    // Strict reading, and a file without queries.
    let (code, error) = load(&["--server", &server, "--queries", &queries, "--strict"]);
    assert!(code == 2 && error.contains("queries.txt:2: no type after alone"), "{error}");
    let nothing = file(&folder, "nothing.txt", "alone\n");
    let (code, error) = load(&["--server", &server, "--queries", &nothing]);
    assert!(code == 2 && error.contains("it holds no query") && error.contains("1 no type"), "{error}");
}

#[test]
fn a_binary_file_is_read_and_its_bytes_are_never_printed() {
    let folder = Folder::new("binary-queries");
    let query = b"\0\x1d\0\x01\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
    let two_questions = [&query[..6], &[0, 2], &query[8..]].concat();
    let bytes = [&query.repeat(5_000)[..], &two_questions, &query[..9]].concat();
    let queries = file(&folder, "queries.bin", bytes);
    let (_echo, server) = echo(Transport::Udp);
    let words = ["--server", &server, "--queries", &queries, "--binary", "--once", "--rate", "20000"];
    let (code, error) = load(&words);
    assert!(code != 2, "{error}");
    let reasons =
        "skipped 2 entries of the query file: 1 not a message with one question, 1 file ends within a message";
    assert!(error.contains(reasons), "{error}");
    assert_eq!(sent(&summary(&run(&folder, 1), &words)), 5_000);
    // Read as text, the file is refused and its bytes are not printed.
    let (code, error) = load(&["--server", &server, "--queries", &queries, "--dialect", "dnsperf", "--strict"]);
    assert!(code == 2 && error.len() < 1_000 && !error.contains('\u{1}'), "{} bytes", error.len());
}

#[test]
fn once_sends_each_query_of_the_file_exactly_once() {
    let folder = Folder::new("once");
    let text: String = (0..333).map(|number| format!("n{number}.example A\n")).collect();
    let queries = file(&folder, "queries.txt", text);
    let (_echo, server) = echo(Transport::Udp);
    let words = ["--server", &server, "--queries", &queries, "--once", "--rate", "500"];
    for (number, more) in [&[][..], &["--poisson"]].into_iter().enumerate() {
        let out = run(&folder, number);
        assert_eq!(sent(&summary(&out, &[&words[..], more].concat())), 333, "{more:?}");
    }
    for (option, value) in [("--duration", "5s"), ("--rate", "1..9")] {
        let rest = &words[..5];
        let (code, error) = load(&[rest, &[option, value]].concat());
        assert!(code == 2 && error.contains("--once"), "{option}: {error}");
    }
}

#[test]
fn each_rate_step_has_its_own_length() {
    let folder = Folder::new("unequal-steps");
    let queries = file(&folder, "queries.txt", "www.example A\n");
    let (_echo, server) = echo(Transport::Udp);
    let words = ["--server", &server, "--queries", &queries, "--rate", "100@1s,400@500ms"];
    assert_eq!(sent(&summary(&run(&folder, 1), &words)), 300);
    let (code, error) = load(&["--server", &server, "--queries", &queries, "--rate", "100@1s,400"]);
    assert!(code == 2 && error.contains("400 has no length"), "{error}");
}

#[test]
fn an_edns_option_is_sent_as_it_is_written() {
    let folder = Folder::new("edns-option");
    let queries = file(&folder, "queries.txt", "www.example A\n");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let server = socket.local_addr().unwrap().to_string();
    // This socket does not answer.
    let options = ["--edns-option", "65001:C0ffee", "--edns-option", "3", "--timeout", "500ms"];
    let words = [&["--server", &server, "--queries", &queries, "--once", "--rate", "10"][..], &options].concat();
    let (code, error) = load(&words);
    assert!(code != 2, "{error}");
    let mut bytes = [0; 512];
    let length = socket.recv(&mut bytes).unwrap();
    // RFC 6891 6.1.2: code, length, data. The second option has no data.
    assert!(bytes[..length].ends_with(&[0xFD, 0xE9, 0, 3, 0xC0, 0xFF, 0xEE, 0, 3, 0, 0]), "{:?}", &bytes[..length]);
    let (code, error) = load(&["--server", &server, "--queries", &queries, "--edns-option", "65001:xyz"]);
    assert!(code == 2 && error.contains("xyz is not a value in hex"), "{error}");
}

#[test]
fn a_server_can_be_given_by_host_interface_or_url() {
    let folder = Folder::new("named-servers");
    let queries = file(&folder, "queries.txt", "www.example A\nwww.example AAAA\n");
    let (_echo, address) = echo(Transport::Udp);
    let port = address.rsplit_once(':').unwrap().1;
    let options = ["--queries", &queries, "--once", "--rate", "100"];
    let answered = |number: usize, words: &[&str]| {
        let summary = summary(&run(&folder, number), &[&options[..], words].concat());
        summary["total"]["answered"].as_u64().or_else(|| summary["answered"].as_u64()).unwrap()
    };
    let is_ipv4 = ("localhost", 0).to_socket_addrs().is_ok_and(|mut found| found.next().is_some_and(|at| at.is_ipv4()));
    if is_ipv4 {
        assert_eq!(answered(1, &["--server", &format!("localhost:{port}")]), 2);
    } else {
        skip::platform("localhost as an IPv4 address");
    }
    let (_doh, address) = echo(Transport::Doh);
    assert_eq!(answered(2, &["--server", &format!("https://{address}/dns-query"), "--insecure"]), 2);
    let (code, error) = load(&[&options[..], &["--server", "fe80::1%nothere0"]].concat());
    assert!(code == 2 && error.contains("nothere0 is not a network interface here"), "{error}");
    let (code, error) = load(&[&options[..], &["--server", "name.invalid"]].concat());
    assert!(code == 2 && error.contains("cannot look up name.invalid"), "{error}");
}
