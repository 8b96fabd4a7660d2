//! `catlab net` as a program: DNS through a link, what a crash leaves and who removes it, and what is refused.
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::Folder;
use trace::{Format, Message, Transport, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");
/// What a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn net(arguments: &[&str]) -> Command {
    let mut command = Command::new(CATLAB);
    command.env_remove("CATLAB_ALLOW").arg("net").args(arguments).stdin(Stdio::null());
    command
}

/// The same with records of its own: other tests, which clean up as well, have nothing to do with it.
fn own(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = net(arguments);
    command.env("CATLAB_RUN_DIR", folder.path().join("nets"));
    command
}

/// Exit code, standard output and standard error.
fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Whether nets can be made here; a test says that it is skipped, and fails with `CI=true` where there is a TUN.
fn can_make() -> bool {
    let output = net(&["run", "--rtt", "0ms", "--no-check", "--mechanism", "relay", "--", "true"]).output().unwrap();
    let (code, _, error) = ended(&output);
    if code != 0 {
        println!("skipped: no net can be made here: {error}");
        assert!(std::env::var("CI").as_deref() != Ok("true") || !has_tun(), "{error}");
    }
    code == 0
}

/// Where the kernel has no TUN nothing can be made, and nobody is to blame.
fn has_tun() -> bool {
    Path::new("/dev/net/tun").exists()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has_namespace(name: &str) -> bool {
    Path::new("/var/run/netns").join(name).exists()
}

/// A file of one group, with a name of its own; the names of its namespaces.
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
fn dns_goes_through_a_link_and_takes_its_time() {
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
    // That none came sooner than asked is told above; the load's own clock goes by the kernel's stamps, and rounds.
    assert!(shortest >= 15_000.0, "{shortest}: {summary}");
    let told = read(&json);
    let link = &told["links"][0];
    assert!(link["up"]["packets"].as_u64().unwrap() >= answered, "{told}");
    assert_eq!(link["down"]["lost"], 0);
    assert!(told["checked"][0]["udp_rtt_us"]["q1"].as_f64().unwrap() >= 20_000.0, "{told}");
}

/// Sources of a trace keep their addresses where the group has them, and their queries go through the link.
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
    let (summary, told) = replayed(&["--network", "198.18.0.0/15"]);
    let (answered, shortest) = answered_and_shortest(&summary);
    assert_eq!((answered, &summary["sent"]), (600, &600.into()), "{summary}");
    let replay = &summary["replay"];
    assert_eq!((&replay["source_mode"], &replay["sources"]), (&"addresses".into(), &300.into()), "{summary}");
    assert!(shortest >= 15_000.0, "{shortest}: {summary}");
    assert!(told["links"][0]["up"]["packets"].as_u64().unwrap() >= 600, "{told}");
    // A third of the sources goes over TCP, a third over QUIC.
    for transport in ["tcp", "doq"] {
        let over = &summary["transports"][transport];
        assert_eq!((&over["sent"], &over["answered"]), (&200.into(), &200.into()), "{transport}: {summary}");
    }
    // The only group of a net has all addresses, if nobody says which.
    let (summary, told) = replayed(&[]);
    assert_eq!((&summary["replay"]["source_mode"], &summary["answered"]), (&"addresses".into(), &600.into()));
    assert!(told["links"][0]["up"]["packets"].as_u64().unwrap() >= 600, "{told}");
    // Addresses that the group does not have are none to send from: each source is a socket then.
    let (summary, _) = replayed(&["--network", "203.0.113.0/24"]);
    assert_eq!(summary["replay"]["source_mode"], "sockets", "{summary}");
    assert_eq!(summary["answered"], 600, "{summary}");
}

/// A root server's clients, of both families, are more than this process may have files open.
#[test]
fn the_sources_of_a_root_server_need_no_file_each() {
    let Some(trace) = support::data("captures/lroot-20161006-1354-knot-live.pcap.xz") else { return };
    if !can_make() {
        return;
    }
    let folder = Folder::new("net-root");
    let run = folder.path().join("run");
    // At both addresses of the hub.
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
fn a_loss_of_all_leaves_the_delay_unmeasured() {
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

/// A trace of so many queries, two milliseconds apart, of so many sources in 198.18.0.0/15: a third of them over TCP, a
/// third over QUIC.
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
fn the_next_run_removes_what_a_killed_one_has_left() {
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
fn a_signal_removes_the_net_and_a_program_s_exit_code_is_the_run_s() {
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
fn what_cannot_be_made_is_refused_with_words() {
    for (arguments, word) in [
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
        assert!(code == 2 && error.contains(word), "{arguments:?}: {error}");
    }
    assert!(ended(&net(&["--help"]).output().unwrap()).1.replace("\u{1b}[0m", "").contains("--name 'q{n}.example'"));
}

/// The programs in a namespace that are not those which enter it.
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

/// Queries that were answered, and the shortest latency in us.
fn answered_and_shortest(summary: &Value) -> (u64, f64) {
    let answered = summary["answered"].as_u64();
    let shortest = summary["latency_us"]["min"].as_f64();
    (answered.unwrap_or_default(), shortest.unwrap_or_default())
}
