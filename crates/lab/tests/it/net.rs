//! `catlab net` as a program: DNS through a link, how networks of crashed runs are removed, and what is refused.

use crate::support;
use crate::support::Folder;
use crate::support::namespaces::has_namespace;
use crate::support::program::{CATLAB, ended, until};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use trace::{Format, Message, Transport, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

fn net(arguments: &[&str]) -> Command {
    let mut command = Command::new(CATLAB);
    command.env_remove("CATLAB_ALLOW").arg("net").args(arguments).stdin(Stdio::null());
    command
}

/// A separate record folder, so that other tests that clean up do not interfere.
fn own(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = net(arguments);
    command.env("CATLAB_RUN_DIR", folder.path().join("nets"));
    command
}

/// Whether networks can be created here. If not, prints that the test is skipped; with `CI=true` it fails if there is
/// TUN.
fn can_make() -> bool {
    let output = net(&["run", "--rtt", "0ms", "--no-check", "--mechanism", "relay", "--", "true"]).output().unwrap();
    let (code, _, error) = ended(&output);
    if code != 0 {
        skip::permission(format!("making a net: {error}"));
    }
    code == 0
}

/// Writes a file of one group with its own network name. Returns the path, the name and the names of its namespaces.
fn file(folder: &Folder, letter: char) -> (String, String, [String; 2]) {
    let name = format!("{letter}{:06}", std::process::id() % 1_000_000);
    let path = folder.path().join("net.toml");
    let text = format!("name = '{name}'\nmechanism = 'relay'\n[[group]]\nname = 'near'\nrtt = '20ms'\n");
    std::fs::write(&path, text).unwrap();
    let namespaces = [format!("{name}.hub"), format!("{name}.near")];
    (path.to_str().unwrap().to_owned(), name, namespaces)
}

fn killed(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn dns_through_a_link_has_its_delay() {
    if !can_make() {
        return;
    }
    let folder = Folder::new("net-dns");
    let (run, json) = (folder.path().join("run"), folder.path().join("net.json"));
    let server = format!("{CATLAB} echo --address 10.53.0.1 --ports udp=5300,tcp=5300");
    let output = net(&["run", "--rtt", "20ms", "--mechanism", "relay", "--server", &server])
        .args(["--json", json.to_str().unwrap(), "--", CATLAB, "load", "--server", "10.53.0.1:5300", "--quiet"])
        .args(["--name", "q{n}.example", "--rate", "200", "--duration", "2s", "--force", "--out"])
        .arg(&run)
        .output()
        .unwrap();
    let (_, text, error) = ended(&output);
    assert!(error.contains("0 too early"), "{text}{error}");
    let read = |path: &Path| -> Value { serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap() };
    let summary = read(&run.join("summary.json"));
    let (answered, shortest) = answered_and_shortest(&summary);
    assert!(answered >= 300, "{summary}");
    // That no answer came too early is checked above. The load uses kernel timestamps and rounds.
    assert!(shortest >= 15_000.0, "{shortest}: {summary}");
    let report_json = read(&json);
    let link = &report_json["links"][0];
    assert!(link["up"]["packets"].as_u64().unwrap() >= answered, "{report_json}");
    assert_eq!(link["down"]["lost"], 0);
    assert!(report_json["checked"][0]["udp_rtt_us"]["q1"].as_f64().unwrap() >= 20_000.0, "{report_json}");
}

/// Sources of a trace keep their addresses if the group has them. Their queries go through the link.
#[test]
fn a_trace_goes_through_a_link_from_the_addresses_of_its_sources() {
    if !can_make() {
        return;
    }
    let folder = Folder::new("net-replay");
    let (trace, run) = (trace(&folder, 600, 300), folder.path().join("run"));
    let json = folder.path().join("net.json");
    let server = format!("{CATLAB} echo --address 10.53.0.1 --ports udp=5300,tcp=5300,doq=5301");
    let replayed = |network: &[&str]| {
        let output = net(&["run", "--rtt", "20ms", "--mechanism", "relay", "--no-check", "--server", &server])
            .args(network)
            .args(["--json", json.to_str().unwrap(), "--", CATLAB, "replay", trace.to_str().unwrap()])
            .args(["--server", "10.53.0.1:5300", "--ports", "doq=5301", "--insecure"])
            .args(["--quiet", "--lag-limit", "10s", "--force", "--out", run.to_str().unwrap()])
            .output()
            .unwrap();
        let (code, text, error) = ended(&output);
        assert_eq!(code, 0, "{text}{error}");
        let read = |path: &Path| -> Value { serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap() };
        std::fs::rename(run.join("summary.json"), folder.path().join("summary.json")).unwrap();
        std::fs::remove_dir_all(&run).unwrap();
        (read(&folder.path().join("summary.json")), read(&json))
    };
    let (summary, report_json) = replayed(&["--network", "198.18.0.0/15"]);
    let (answered, shortest) = answered_and_shortest(&summary);
    assert_eq!((answered, &summary["sent"]), (600, &600.into()), "{summary}");
    let replay = &summary["replay"];
    assert_eq!((&replay["source_mode"], &replay["sources"]), (&"addresses".into(), &300.into()), "{summary}");
    assert!(shortest >= 15_000.0, "{shortest}: {summary}");
    assert!(report_json["links"][0]["up"]["packets"].as_u64().unwrap() >= 600, "{report_json}");
    // A third of the sources uses TCP, a third QUIC.
    for transport in ["tcp", "doq"] {
        let over = &summary["transports"][transport];
        assert_eq!((&over["sent"], &over["answered"]), (&200.into(), &200.into()), "{transport}: {summary}");
    }
    // Without --network, the only group has all addresses.
    let (summary, report_json) = replayed(&[]);
    assert_eq!((&summary["replay"]["source_mode"], &summary["answered"]), (&"addresses".into(), &600.into()));
    assert!(report_json["links"][0]["up"]["packets"].as_u64().unwrap() >= 600, "{report_json}");
    // Addresses outside the group cannot be used: each source becomes a socket.
    let (summary, _) = replayed(&["--network", "203.0.113.0/24"]);
    assert_eq!(summary["replay"]["source_mode"], "sockets", "{summary}");
    assert_eq!(summary["answered"], 600, "{summary}");
}

/// A root server's clients, over IPv4 and IPv6, are more than the process may have open files.
#[test]
fn sources_of_a_root_server_do_not_need_an_open_file_each() {
    let Some(trace) = support::data("captures/lroot-20161006-1354-knot-live.pcap.xz") else { return };
    if !can_make() {
        return;
    }
    let folder = Folder::new("net-root");
    let run = folder.path().join("run");
    // The echo listens at both addresses of the hub.
    let server = format!("{CATLAB} echo --address :: --ports udp=5300,tcp=5300");
    let line = format!(
        "ulimit -n 1024; exec {CATLAB} replay {} --server 10.53.0.1:5300,[fd53:ca7::1]:5300 --quiet --lag-limit 10s \
         --speed 8 --force --out {}",
        trace.display(),
        run.display()
    );
    let output = net(&["run", "--rtt", "1ms", "--mechanism", "relay", "--no-check", "--server", &server])
        .args(["--", "sh", "-c", &line])
        .output()
        .unwrap();
    let (code, text, error) = ended(&output);
    assert!(matches!(code, 0 | 1), "{text}{error}");
    let summary = std::fs::read_to_string(run.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["replay"]["source_mode"], &summary["sent"]), (&"addresses".into(), &8_267.into()));
    assert!(summary["replay"]["sources"].as_u64().unwrap() > 1_024, "{summary}");
    assert!(summary["answered"].as_u64().unwrap() > 8_000, "{summary}");
}

#[test]
fn the_delay_cannot_be_measured_if_all_packets_are_lost() {
    if !can_make() {
        return;
    }
    let check =
        |rtt: &str| ended(&net(&["check", "--rtt", rtt, "--loss", "100%", "--mechanism", "relay"]).output().unwrap());
    let (code, _, error) = check("0ms");
    assert!(code == 0 && error.contains("not measured: nothing came back"), "{code} {error}");
    let (code, _, error) = check("20ms");
    assert!(code == 1 && error.contains("the delay could not be measured"), "{code} {error}");
}

/// A trace of `count` queries, 2 ms apart, from `sources` addresses in 198.18.0.0/15. A third goes over TCP, a third
/// over QUIC.
fn trace(folder: &Folder, count: u64, sources: u64) -> PathBuf {
    let path = folder.path().join("trace.txt");
    let mut writer = Writer::create(&path, Format::Text).unwrap();
    for number in 0..count {
        let qname: Name = format!("q{number}.example").parse().unwrap();
        let bytes = MessageBuilder::query(number as u16, qname.as_ref(), Rtype::A).build();
        let source = number % sources;
        let transport = [Transport::Tcp, Transport::Udp, Transport::Doq][source as usize % 3];
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 255, 0)) + source as u32);
        let (source, destination) = (SocketAddr::from((source, 4_711)), SocketAddr::from(([192, 0, 2, 1], 53)));
        let at_ns = 1_700_000_000_000_000_000 + 2_000_000 * number;
        writer.write(&Message { at_ns, source, destination, transport, bytes: &bytes }).unwrap();
    }
    writer.finish().unwrap();
    path
}

#[test]
fn the_next_run_removes_the_net_of_a_killed_run() {
    if !can_make() {
        return;
    }
    let folder = Folder::new("net-killed");
    let (path, name, namespaces) = file(&folder, 'k');
    let child = own(&folder, &["run", &path, "--no-check", "--", "sleep", "600"]).spawn().unwrap();
    until("the program runs in the net", || programs_in(&namespaces[1]).len() == 1);
    let programs = programs_in(&namespaces[1]);
    killed(child);
    assert!(namespaces.iter().all(|name| has_namespace(name)), "it had no time to remove them");
    until("the program ends with it", || programs.iter().all(|pid| !is_running(*pid)));
    assert!(ended(&own(&folder, &["list"]).output().unwrap()).1.contains(&format!("{name}\tleft over")));
    let (code, _, error) = ended(&own(&folder, &["run", &path, "--no-check", "--", "true"]).output().unwrap());
    assert_eq!(code, 0, "{error}");
    assert!(!namespaces.iter().any(|name| has_namespace(name)));
    assert!(!ended(&own(&folder, &["list"]).output().unwrap()).1.contains(&name));
}

#[test]
fn a_net_stays_until_it_is_taken_down_and_a_killed_keeper_is_cleaned_up() {
    if !can_make() {
        return;
    }
    let folder = Folder::new("net-stays");
    let (path, name, namespaces) = file(&folder, 's');
    let (code, text, error) = ended(&own(&folder, &["up", &path]).output().unwrap());
    assert_eq!(code, 0, "{error}");
    assert!(text.contains(&namespaces[0]) && text.contains(&namespaces[1]), "{text}");
    let (code, _, error) = ended(&own(&folder, &["up", &path]).output().unwrap());
    assert!(code == 2 && error.contains("already runs it"), "{error}");
    assert!(ended(&own(&folder, &["list"]).output().unwrap()).1.contains(&format!("{name}\tup")));
    let (code, text, error) = ended(&own(&folder, &["down", &name]).output().unwrap());
    assert!(code == 0 && text.contains("near up:"), "{text}{error}");
    assert!(!namespaces.iter().any(|name| has_namespace(name)));
    let (code, _, error) = ended(&own(&folder, &["down", &name]).output().unwrap());
    assert!(code == 2 && error.contains("no net"), "{error}");

    assert_eq!(ended(&own(&folder, &["up", &path]).output().unwrap()).0, 0);
    let listed = ended(&own(&folder, &["list"]).output().unwrap()).1;
    let keeper = listed.split_once("process ").unwrap().1.split('\t').next().unwrap();
    assert!(Command::new("kill").args(["-KILL", keeper]).status().unwrap().success());
    until("the keeper is gone", || !is_running(keeper.parse().unwrap()));
    assert!(namespaces.iter().all(|name| has_namespace(name)));
    assert_eq!(ended(&own(&folder, &["clean"]).output().unwrap()).0, 0);
    assert!(!namespaces.iter().any(|name| has_namespace(name)));
}

#[test]
fn a_signal_removes_the_net_and_the_exit_code_is_that_of_the_program() {
    if !can_make() {
        return;
    }
    let folder = Folder::new("net-signal");
    let (path, _, namespaces) = file(&folder, 'i');
    let failing = own(&folder, &["run", &path, "--no-check", "--", "sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(ended(&failing).0, 7);
    let mut child = own(&folder, &["run", &path, "--no-check", "--in", "hub", "--", "sleep", "600"]).spawn().unwrap();
    until("the program runs in the net", || programs_in(&namespaces[0]).len() == 1);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!namespaces.iter().any(|name| has_namespace(name)));
}

#[test]
fn nets_that_cannot_be_made_are_refused_with_a_reason() {
    for (arguments, reason) in [
        (&["run", "--", "true"][..], "--rtt 20ms"),
        (&["run", "--rtt", "20", "--", "true"], "not a duration"),
        (&["run", "--rtt", "20ms", "--loss", "200%", "--", "true"], "not a share"),
        (&["run", "--rtt", "20ms", "--in", "moon", "--", "true"], "no such group"),
        (&["run", "--rtt", "20ms"], "COMMAND"),
        (&["run", "--rtt", "1ms", "--no-check", "--", "nosuchprogram"], "nosuchprogram: no such program"),
        (&["run", "--rtt", "1ms", "--no-check", "--", "/etc/passwd"], "no such program, or not executable"),
        (&["run", "net.toml", "--loss", "1%", "--", "true"], "--loss"),
        (&["run", "none.toml", "--", "true"], "none.toml"),
        (&["down", "../x"], "no net"),
    ] {
        let (code, _, error) = ended(&net(arguments).output().unwrap());
        assert!(code == 2 && error.contains(reason), "{arguments:?}: {error}");
    }
    assert!(ended(&net(&["--help"]).output().unwrap()).1.replace("\u{1b}[0m", "").contains("--name 'q{n}.example'"));
}

/// The test programs (`sleep`) in a namespace.
fn programs_in(namespace: &str) -> Vec<u32> {
    let output = Command::new("ip").args(["netns", "pids", namespace]).output().unwrap();
    let pids = String::from_utf8_lossy(&output.stdout).split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let is_sleep = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    Vec::into_iter(pids).filter(is_sleep).collect()
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// The number of answered queries, and the shortest latency in microseconds.
fn answered_and_shortest(summary: &Value) -> (u64, f64) {
    let answered = summary["answered"].as_u64();
    let shortest = summary["latency_us"]["min"].as_f64();
    (answered.unwrap_or_default(), shortest.unwrap_or_default())
}
