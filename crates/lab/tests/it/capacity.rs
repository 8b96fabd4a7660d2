//! `catlab capacity` as a program, against servers whose capacity is known.

use crate::support::Folder;
use crate::support::engines::{engine_alone, engine_permit};
use crate::support::faults;
use crate::support::program::{closed_tcp, closed_udp, ended};
use measure::Transport;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testbed::echo::{Echo, EchoPlan, Fault, Faults};

/// The capacity of the servers in these tests, in queries a second.
const CEILING: f64 = 1_500.0;

/// How long each rate is tried.
const TRY: Duration = Duration::from_millis(500);

/// The rate at which such a server loses 2 %: it answers its ceiling and what it saved up before the try.
fn borne() -> f64 {
    CEILING * (1.0 + faults::OWED.as_secs_f64() / TRY.as_secs_f64()) / 0.98
}

fn echo(faults: Faults) -> (Echo, SocketAddr) {
    let echo = Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Udp]).unwrap() }).unwrap();
    let address = echo.address(Transport::Udp);
    (echo, address)
}

/// The send lag limit where the found rate is judged. In a stall of the machine, the server loses more than it should.
/// Such a try is repeated.
const LAG_LIMIT: &str = "50ms";

fn capacity(server: SocketAddr, lag_limit: &str, more: &[&str]) -> Command {
    search(server, "500ms", lag_limit, more)
}

/// The same with another duration per rate.
fn search(server: SocketAddr, try_for: &str, lag_limit: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["capacity", "--workers", "1", "--server", &server.to_string(), "--name", "q{n}.example"]);
    command
        .args(["--lag-limit", lag_limit, "--timeout", "1s", "--pause", "100ms", "--even", "--try-for", try_for])
        .args(more);
    command
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_ceiling_is_found_and_written_to_the_folder() {
    let _alone = engine_alone();
    let (_echo, server) = echo(faults::at_most(CEILING, Fault::Drop));
    let folder = Folder::new("capacity");
    let out = folder.path().join("found");
    let more = ["--objective", "loss<=2%", "--from", "600", "--repeats", "4", "--json", "--out", out.to_str().unwrap()];
    let (code, text, error) = ended(&capacity(server, LAG_LIMIT, &more).output().unwrap());
    assert_eq!(code, 0, "{error}");
    let printed: Value = serde_json::from_str(&text).unwrap();
    let kept: Value = serde_json::from_slice(&std::fs::read(out.join("capacity.json")).unwrap()).unwrap();
    assert_eq!(printed, kept);
    let estimate = &kept["estimate"];
    println!("{estimate}\n{error}");
    let [low, rate, high] = ["low", "rate", "high"].map(|field| number(&estimate[field]));
    assert!(low <= rate && rate <= high, "{estimate}");
    assert!((rate / borne() - 1.0).abs() < 0.1, "{} is borne; {estimate}\n{error}", borne());
    assert!(kept["outcome"] == "measured" && error.contains("ends after about 90"), "{kept}\n{error}");
    assert!(high / low < 1.5 && estimate["is_lower_bound"] == false, "{estimate}\n{error}");
    assert_eq!(number(&estimate["confidence"]), 0.875);
    let tries = kept["tries"].as_array().unwrap();
    assert!(tries.iter().any(|tried| tried["verdict"] == "met"));
    let missed = tries.iter().find(|tried| tried["verdict"] == "missed").unwrap();
    assert!(missed["reason"].as_str().unwrap().contains("loss"), "{missed}");
    assert!(number(&missed["summary"]["timed_out"]) > 0.0, "{missed}");
    assert!(out.join("manifest.json").exists());
}

#[test]
fn wrong_answers_beyond_the_ceiling_count_like_lost_ones() {
    let _alone = engine_alone();
    // The server answers every query quickly. A tool that does not check answers finds no limit.
    let (_echo, server) = echo(faults::at_most(CEILING, Fault::Addresses([66, 66], 60)));
    let folder = Folder::new("capacity-wrong");
    let right = folder.path().join("right.jsonl");
    let mut record = Command::new(env!("CARGO_BIN_EXE_catlab"));
    record.args(["load", "--quiet", "--server", &server.to_string(), "--name", "q{n}.example", "--rate", "500"]);
    record.args(["--names", "20", "--duration", "1s", "--record-answers", right.to_str().unwrap()]);
    let (code, _, error) = ended(&record.output().unwrap());
    assert!(matches!(code, 0 | 1) && error.contains("20 answers recorded"), "{error}");
    let search = ["--names", "20", "--from", "600", "--to", "6000", "--repeats", "3"];
    for objective in ["p50<=100ms", "loss<=2%"] {
        let check = ["--objective", objective, "--expect-answers", right.to_str().unwrap()];
        let more = [&search[..], &check].concat();
        let (code, text, error) = ended(&capacity(server, LAG_LIMIT, &more).output().unwrap());
        println!("{text}{error}");
        assert!(code == 0 && error.contains("wrong") && error.contains("with another answer section"), "{error}");
        let rate: f64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!((rate / borne() - 1.0).abs() < 0.15, "{objective}: {text}{error}");
    }
    let more = [&search[..], &["--objective", "p50<=100ms"]].concat();
    let (_, text, error) = ended(&capacity(server, LAG_LIMIT, &more).output().unwrap());
    assert!(text.contains("at least"), "{text}{error}");
}

#[test]
fn a_missing_server_is_reported_at_once() {
    let _permit = engine_permit();
    let ((_udp_holder, udp), (_tcp_holder, tcp)) = (closed_udp(), closed_tcp());
    for (transport, server, reason) in [("udp", udp, "no answer from"), ("tcp", tcp, "refused")] {
        let began = Instant::now();
        let (code, text, error) = ended(&capacity(server, "10s", &["--transport", transport]).output().unwrap());
        assert_eq!(code, 2, "{transport}: {text}{error}");
        assert!(error.contains(reason) && error.contains(&server.to_string()), "{transport}: {error}");
        // A search takes a minute and a half.
        assert!(began.elapsed() < Duration::from_secs(60), "{transport}: {:?}", began.elapsed());
    }
}

#[test]
fn ctrl_c_keeps_the_tried_rates() {
    let _permit = engine_permit();
    let (_echo, server) = echo(faults::at_most(CEILING, Fault::Drop));
    let folder = Folder::new("capacity-interrupted");
    let out = folder.path().join("found");
    let more = ["--objective", "loss<=2%", "--from", "100", "--out", out.to_str().unwrap()];
    let mut command = search(server, "1s", "10s", &more);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut lines, mut error) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    // The first finished try.
    while !error.contains("  bracket 1 of ") {
        assert!(lines.read_line(&mut error).unwrap() > 0, "{error}");
    }
    let interrupted = Instant::now();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    lines.read_to_string(&mut error).unwrap();
    let (code, text, _) = ended(&child.wait_with_output().unwrap());
    // Less than the search takes.
    assert!(interrupted.elapsed() < Duration::from_secs(30), "{:?}", interrupted.elapsed());
    assert!(code == 3 && text.contains("stopped before there was an estimate"), "{code} {text}{error}");
    let kept: Value = serde_json::from_slice(&std::fs::read(out.join("capacity.json")).unwrap()).unwrap();
    let tries = kept["tries"].as_array().unwrap();
    assert!(kept["estimate"].is_null() && !tries.is_empty() && tries.len() < 4, "{text}{error}");
    assert!(tries.iter().all(|tried| tried["verdict"] == "met"), "{kept}");
}

#[test]
fn an_objective_that_no_rate_meets_is_reported() {
    let _permit = engine_permit();
    let (_echo, server) = echo(Arc::new(|_| Fault::None));
    let more = ["--objective", "p99<=0us", "--repeats", "1", "--from", "400"];
    let (code, text, error) = ended(&search(server, "200ms", "10s", &more).output().unwrap());
    assert!(code == 1 && text == "no rate met the objective\n", "{code} {text}{error}");
}

#[test]
fn a_limit_of_the_tool_is_not_reported_as_capacity() {
    let _permit = engine_permit();
    let (_echo, server) = echo(Arc::new(|_| Fault::None));
    let folder = Folder::new("capacity-unmeasured");
    let out = folder.path().join("found");
    // No query can be sent with a lag limit of zero.
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["capacity", "--workers", "1", "--server", &server.to_string(), "--name", "q{n}.example"]);
    command.args(["--lag-limit", "0us", "--try-for", "100ms", "--pause", "1ms", "--timeout", "200ms", "--out"]);
    let (code, text, error) = ended(&command.arg(&out).output().unwrap());
    assert!(
        code == 3 && text.contains("could not be measured") && text.contains("--lag-limit"),
        "{code} {text}{error}"
    );
    assert!(error.contains("no evidence") && !text.contains("no rate met"), "{text}{error}");
    let kept: Value = serde_json::from_slice(&std::fs::read(out.join("capacity.json")).unwrap()).unwrap();
    assert!(kept["outcome"] == "not_measured" && kept["estimate"].is_null(), "{kept}");
}

#[test]
fn a_search_out_of_time_reports_its_estimate() {
    let _permit = engine_permit();
    let (_echo, server) = echo(faults::at_most(CEILING, Fault::Drop));
    let began = Instant::now();
    let more = ["--objective", "loss<=2%", "--from", "600", "--repeats", "40", "--within", "12s"];
    let (code, text, error) = ended(&capacity(server, "10s", &more).output().unwrap());
    // Forty brackets take minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(code == 0 && text.starts_with("capacity "), "{code} {text}{error}");
}
