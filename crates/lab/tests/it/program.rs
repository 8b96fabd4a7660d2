//! `catlab load` as a program: errors have a clear message and the right exit code, and keep what was measured so far.

use crate::support::Folder;
use crate::support::program::{CATLAB, closed_tcp, closed_udp, ended};
use measure::Transport;
use report::Run;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testbed::echo::{Echo, EchoPlan};

fn load(server: &str, more: &[&str]) -> Command {
    let mut command = Command::new(CATLAB);
    command.env_remove("CATLAB_ALLOW").args(["load", "--quiet", "--server", server]);
    if !more.contains(&"--workers") {
        command.args(["--workers", "1"]);
    }
    command.args(more);
    command
}

fn echo(transport: Transport) -> (Echo, String) {
    let echo = Echo::start(&EchoPlan::new(&[transport]).unwrap()).unwrap();
    let address = echo.address(transport).to_string();
    (echo, address)
}

#[test]
fn a_malformed_line_is_reported_with_file_line_and_reason() {
    let folder = Folder::new("malformed");
    for (text, line, reason) in [
        ("www.example. A\nwww.example. NOSUCH\n", 2, "NOSUCH"),
        ("; all is well\nexample. A\n\nwww.example.\n", 4, "type"),
        ("a..example. A\n", 1, "a..example."),
    ] {
        let file = folder.path().join("queries.txt");
        std::fs::write(&file, text).unwrap();
        let output = load("127.0.0.1:9", &["--strict", "--queries", &file.to_string_lossy()]).output().unwrap();
        let (code, _, error) = ended(&output);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(&format!("queries.txt:{line}: ")) && error.contains(reason), "{error}");
    }
}

#[test]
fn a_truncated_binary_file_is_reported_with_its_offset() {
    let folder = Folder::new("cut-off");
    let file = folder.path().join("queries.bin");
    let query = b"\0\x1d\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
    std::fs::write(&file, [&query[..], &query[..20]].concat()).unwrap();
    let strictly = ["--strict", "--queries", &file.to_string_lossy()];
    let (code, _, error) = ended(&load("127.0.0.1:9", &strictly).output().unwrap());
    assert!(code == 2 && error.contains("queries.bin: byte 31: the file ends within a message"), "{error}");
}

#[test]
fn options_without_effect_are_refused() {
    let folder = Folder::new("no-effect");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    };
    let binary = file("queries.bin", b"\0\x1d\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01");
    let text = file("queries.txt", b"www.example. A\n");
    let updates = file("updates.txt", b"example.\nadd www 60 A 192.0.2.1\nsend\n");
    let clients = b"[queries]\npattern = 'q{n}.example'\nnames = 10\n[[clients]]\nname = 'a'\ncount = 1\n\
        transports = { udp = 1.0 }\nrate = { distribution = 'constant', mean = 1 }\n";
    let population = file("clients.toml", clients);
    let refused = |base: &[&str], option: &str| {
        let (code, _, error) =
            ended(&load("127.0.0.1:9", base).args(option.split(' ')).args(["--duration", "100ms"]).output().unwrap());
        assert_eq!(code, 2, "{base:?} {option}: {error}");
        error
    };
    let carried = ["--edns 1232", "--dnssec-ok", "--cookie", "--subnet 192.0.2.0/24", "--padding 128", "--no-recurse"];
    for option in carried {
        let error = refused(&["--queries", &binary], option);
        assert!(error.contains("queries.bin: its messages are binary and sent as they are"), "{option}: {error}");
    }
    let updating = ["--update-zone", "example", "--name", "q{n}.example"];
    let drawn = ["--names 5", "--types A", "--popularity random", "--nxdomain 0.5"];
    let connected = [
        "--transport udp",
        "--connections 8",
        "--pipeline 2",
        "--queries-per-connection 2",
        "--idle-timeout 1s",
        "--resumption 0.5",
        "--early-data 0.5",
    ];
    for (base, options) in [
        (&["--updates", &updates][..], &carried[..]),
        (&updating, &carried),
        (&["--updates", &updates], &drawn),
        (&["--queries", &text], &drawn),
        (&["--name", "q{n}.example"], &["--dialect dnsperf"]),
        (&["--population", &population], &drawn),
        (&["--population", &population], &connected),
    ] {
        for option in options {
            let error = refused(base, option);
            let name = option.split(' ').next().unwrap();
            assert!(error.contains("cannot be used with") && error.contains(name), "{base:?} {option}: {error}");
        }
    }
    for (option, wanted) in [("--check-share 0.5", "--expect-answers"), ("--freshness-interval 1s", "--freshness <")] {
        let error = refused(&["--name", "q{n}.example"], option);
        assert!(error.contains("not provided") && error.contains(wanted), "{option}: {error}");
    }
}

#[test]
fn values_that_this_machine_cannot_use_are_refused() {
    for (option, value, reason) in [
        ("--source", "192.0.2.77", "--source 192.0.2.77: Cannot assign"),
        ("--sockets", "100000", "is out of range; write 1 to"),
        ("--workers", "0", "is out of range; write 1 to"),
        ("--timeout", "0s", "a timeout cannot be zero"),
    ] {
        let (code, _, error) =
            ended(&load("127.0.0.1:9", &["--name", "q{n}.example", option, value]).output().unwrap());
        assert!(code == 2 && error.contains(reason), "{option}: {error}");
    }
}

#[test]
fn a_rate_beyond_every_machine_ends() {
    let (_echo, address) = echo(Transport::Udp);
    let began = Instant::now();
    let more = ["--name", "q{n}.example", "--rate", "1e12", "--duration", "200ms", "--timeout", "500ms"];
    let (code, text, error) = ended(&load(&address, &more).output().unwrap());
    assert!(code == 1 && text.contains("of 200000000000 planned queries"), "{text}{error}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn a_missing_or_empty_file_is_reported() {
    let folder = Folder::new("empty");
    let file = folder.path().join("nothing.txt");
    std::fs::write(&file, "; no query\n").unwrap();
    for (file, reason) in [(file, "holds no query"), (folder.path().join("absent.txt"), "No such file")] {
        let output = load("127.0.0.1:9", &["--queries", &file.to_string_lossy()]).output().unwrap();
        let (code, _, error) = ended(&output);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(reason) && error.contains(&*file.to_string_lossy()), "{error}");
    }
}

#[test]
fn a_server_elsewhere_needs_i_own_this_target() {
    for server in ["192.0.2.1", "[2001:db8::1]:5300", "127.0.0.1:53,198.51.100.7"] {
        let (code, _, error) = ended(&load(server, &["--name", "q{n}.example"]).output().unwrap());
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("--i-own-this-target"), "{error}");
    }
}

#[test]
fn servers_elsewhere_in_other_options_are_refused_too() {
    let folder = Folder::new("strangers");
    let out = folder.path().join("run");
    let file = folder.path().join("clients.toml");
    let clients = "[queries]\npattern = 'q{n}.example'\nnames = 10\n[[clients]]\nname = 'a'\ncount = 1\n\
        transports = { udp = 1.0 }\nservers = { '192.0.2.1' = 1.0 }\nrate = { distribution = 'constant', mean = 1 }\n";
    std::fs::write(&file, clients).unwrap();
    let drawn = ["--name", "q{n}.example"];
    let probe = |servers: &[&'static str]| [&drawn[..], &["--freshness-zone", "example"], servers].concat();
    for more in [
        vec!["--population", file.to_str().unwrap()],
        probe(&["--freshness", "127.0.0.1:9,192.0.2.1"]),
        probe(&["--freshness", "127.0.0.1:9", "--freshness-via", "192.0.2.1"]),
    ] {
        let began = Instant::now();
        let line = load("127.0.0.1:9", &more).args(["--duration", "120s", "--out"]).arg(&out).output().unwrap();
        let (code, text, error) = ended(&line);
        assert!(code == 2 && error.contains("192.0.2.1:53: it is not on loopback"), "{more:?}: {text}{error}");
        assert!(!out.exists() && began.elapsed() < Duration::from_secs(60), "{more:?}: the run began");
    }
}

#[test]
fn a_server_elsewhere_is_loaded_with_i_own_this_target() {
    // A network namespace in which that address is ours.
    let network = "ip link set lo up && ip addr add 192.0.2.1/32 dev lo";
    let inside = |line: &str| Command::new("unshare").args(["-rn", "sh", "-c", line]).stdin(Stdio::null()).output();
    if !inside(network).is_ok_and(|output| output.status.success()) {
        skip::permission("making a network");
        return;
    }
    let plan = "--quiet --workers 1 --rate 100 --duration 1s --timeout 10s --lag-limit 10s --name 'q{n}.example'";
    let load = |before: &str, after: &str| {
        format!("env -u CATLAB_ALLOW {before} {CATLAB} load --server 192.0.2.1:5300 {plan} {after}; echo code $?")
    };
    let folder = Folder::new("owned-target");
    let echo = background_echo(&folder, "--address 192.0.2.1 --ports udp=5300");
    let loads = [load("", ""), load("", "--i-own-this-target"), load("CATLAB_ALLOW=192.0.2.0/24", "")].join("; ");
    let (_, text, error) = ended(&inside(&format!("{network}; {echo}; {loads}; kill -INT $echo; wait $echo")).unwrap());
    let codes: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("code ")).collect();
    assert_eq!(codes, ["2", "0", "0"], "{text}{error}");
    assert_eq!(text.matches("answered   100 (100.000 %)").count(), 2, "{text}{error}");
}

#[test]
fn a_missing_server_is_reported_over_udp() {
    let (_holder, closed) = closed_udp();
    let folder = Folder::new("nobody");
    let out = folder.path().join("run");
    let more = ["--name", "q{n}.example", "--rate", "100", "--duration", "1s", "--timeout", "500ms", "--out"];
    let (code, text, error) = ended(&load(&closed.to_string(), &more).arg(&out).output().unwrap());
    assert!(text.contains("nobody listens there"), "{text}{error}");
    assert_eq!(code, 1, "no answer at all is no valid run: {text}");
    let run = Run::read(&out).unwrap();
    assert_eq!((run.total.sent, run.total.answered, run.total.timed_out), (100, 0, 100));
}

#[test]
fn a_refused_connection_is_reported() {
    let (_holder, closed) = closed_tcp();
    for transport in ["tcp", "dot"] {
        let more = ["--transport", transport, "--name", "q{n}.example", "--duration", "1s"];
        let (code, text, error) = ended(&load(&closed.to_string(), &more).output().unwrap());
        assert_eq!(code, 2, "{text}{error}");
        assert!(error.contains("refused") && error.contains(&closed.to_string()), "{error}");
        // A run that did not start must not print a table of zeros.
        assert!(!text.contains("p99"), "{text}");
    }
}

#[test]
fn a_certificate_that_does_not_match_is_reported() {
    let (_echo, address) = echo(Transport::Dot);
    let more = ["--transport", "dot", "--name", "q{n}.example", "--duration", "1s"];
    let (code, text, error) = ended(&load(&address, &more).output().unwrap());
    assert_eq!(code, 2, "{text}{error}");
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn ctrl_c_keeps_what_was_measured_over_each_transport() {
    for transport in Transport::ALL {
        let (_echo, address) = echo(transport);
        let folder = Folder::new(&format!("interrupted-{transport}"));
        let out = folder.path().join("run");
        let label = transport.to_string();
        let more =
            ["--name", "q{n}.example", "--rate", "500", "--duration", "60s", "--insecure", "--transport", &label];
        let mut command = load(&address, &more);
        command.args(["--timeout", "2s", "--json-events", "--out"]).arg(&out);
        let began = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The first event comes when the first second can no longer change: it and the timeout are over.
        let (mut events, mut text) = (BufReader::new(child.stdout.take().unwrap()), String::new());
        events.read_line(&mut text).unwrap();
        let interrupted = Instant::now();
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        events.read_to_string(&mut text).unwrap();
        let (code, _, error) = ended(&child.wait_with_output().unwrap());
        // Much less than the planned minute.
        assert!(interrupted.elapsed() < Duration::from_secs(30), "{transport}: {:?}", interrupted.elapsed());
        assert!(matches!(code, 0 | 1), "{transport}: {text}{error}");
        let run = Run::read(&out).unwrap();
        let figures = run.figures();
        let sent_max = (500.0 * began.elapsed().as_secs_f64()).ceil() as u64;
        assert!((300..=sent_max).contains(&figures.sent), "{transport}: {} of {sent_max}", figures.sent);
        assert_eq!((figures.answered, figures.sent), (run.total.answered, run.total.sent));
        assert_eq!(figures.answered + figures.timed_out + figures.interrupted, figures.sent, "{transport}");
        // The rate covers the time that the run ran. Of the planned, it would be 25 at most.
        assert!((200.0..550.0).contains(&run.achieved_rate()), "{transport}: {}", run.achieved_rate());
        // The last event has the same figures and the validity.
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((&last["event"], &last["sent"]), (&"end".into(), &figures.sent.into()), "{transport}: {text}");
        assert_eq!(last["validity"]["valid"], !run.is_invalid(), "{transport}: {text}");
    }
}

/// Runs a shell command with a new file system of this size at `at`; `None` where mounting is not allowed.
fn with_small_disk(at: &Path, size: &str, line: &str) -> Option<Output> {
    let mount = format!("mount -t tmpfs -o size={size} none {}", at.display());
    let inside = |line: &str| Command::new("unshare").args(["-rm", "sh", "-c", line]).output();
    let is_allowed = inside(&mount).is_ok_and(|output| output.status.success());
    is_allowed.then(|| inside(&format!("{mount} && {line}; code=$?; ls {} >&2; exit $code", at.display())).unwrap())
}

#[test]
fn a_full_disk_is_reported_and_the_summary_printed() {
    let (_echo, address) = echo(Transport::Udp);
    let folder = Folder::new("full");
    let run = "--workers 1 --name 'q{n}.example' --rate 500 --duration 2s";
    let line = format!("{CATLAB} load --quiet --server {address} {run} --out {}", folder.path().display());
    let Some(output) = with_small_disk(folder.path(), "8k", &line) else {
        skip::permission("mounting a small file system");
        return;
    };
    let (code, text, error) = ended(&output);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("No space left on device") && error.contains("free some space"), "{error}");
    assert!(text.contains("1,000") || text.contains("1000"), "the results are printed: {text}");
    // Files are complete or absent.
    assert!(!error.contains(".part"), "{error}");
}

#[test]
fn results_are_kept_when_the_summary_cannot_be_printed() {
    let (_echo, address) = echo(Transport::Udp);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let gone = || std::io::pipe().unwrap().1;
    for (name, out) in [("full", Stdio::from(full())), ("gone", Stdio::from(gone()))] {
        let folder = Folder::new(&format!("unprinted-{name}"));
        let run = folder.path().join("run");
        let more = ["--name", "q{n}.example", "--rate", "200", "--duration", "1s"];
        let child = load(&address, &more).arg("--out").arg(&run).stdout(out).stderr(Stdio::piped()).spawn().unwrap();
        let (code, _, error) = ended(&child.wait_with_output().unwrap());
        // A busy machine may make the run invalid. A panic exits with 101.
        assert!(matches!(code, 0 | 1), "{name}: {code} {error}");
        assert_eq!(Run::read(&run).unwrap().total.sent, 200, "{name}");
    }
    let folder = Folder::new("unprinted");
    let [run, both, capacity] = ["run", "both", "capacity"].map(|name| folder.path().join(name).display().to_string());
    let more = ["--name", "q{n}.example", "--rate", "200", "--duration", "1s", "--out", &run];
    assert!(matches!(ended(&load(&address, &more).output().unwrap()).0, 0 | 1));
    let search = "--from 100 --to 100 --try-for 200ms --repeats 1 --workers 1 --lag-limit 1s";
    for (line, file) in [
        (format!("merge {run} {run} --out {both}"), format!("{both}/summary.json")),
        (
            format!("capacity --server {address} --name q.example {search} --out {capacity}"),
            format!("{capacity}/capacity.json"),
        ),
    ] {
        let output = Command::new(CATLAB).args(line.split(' ')).stdout(full()).output().unwrap();
        let (code, _, error) = ended(&output);
        assert!(matches!(code, 0 | 1 | 3) && Path::new(&file).exists(), "{line}: {code} {error}");
    }
}

#[test]
fn a_disk_filled_by_rows_loses_only_the_rows() {
    let (_echo, address) = echo(Transport::Udp);
    let folder = Folder::new("full-of-rows");
    let run = "--workers 1 --name 'q{n}.example' --rate 20000 --duration 2s --parquet";
    let line = format!("{CATLAB} load --quiet --server {address} {run} --out {}", folder.path().display());
    let Some(output) = with_small_disk(folder.path(), "300k", &line) else {
        skip::permission("mounting a small file system");
        return;
    };
    let (code, text, error) = ended(&output);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("queries.parquet could not be written: No space left on device"), "{error}");
    assert!(text.contains("40000"), "the results are printed: {text}");
    assert!(error.contains("\nsummary.json") && !error.contains(".part"), "{error}");
}

#[test]
fn running_out_of_ports_is_reported_and_results_are_kept() {
    let folder = Folder::new("ports");
    let out = folder.path().join("run");
    // A network namespace with sixty ports. Each query uses one, and closed connections keep theirs for a while.
    let network = "ip link set lo up && echo '40000 40060' > /proc/sys/net/ipv4/ip_local_port_range";
    let inside = |line: &str| Command::new("unshare").args(["-rn", "sh", "-c", line]).stdin(Stdio::null()).output();
    if !inside(network).is_ok_and(|output| output.status.success()) {
        skip::permission("making a network");
        return;
    }
    let echo = background_echo(&folder, "--ports tcp=5300");
    let plan =
        "--transport tcp --connections 2 --queries-per-connection 1 --rate 500 --duration 4s --name 'q{n}.example'";
    let load = format!("{CATLAB} load --quiet --workers 1 --server 127.0.0.1:5300 {plan} --out {}", out.display());
    let line = format!("{network}; {echo}; {load}; code=$?; kill -INT $echo; wait $echo; exit $code");
    let (code, text, error) = ended(&inside(&line).unwrap());
    assert!(code == 2 && error.contains("every local port is in use"), "{code} {text}{error}");
    assert!(text.contains("INVALID") && text.contains("every local port is in use"), "{text}");
    let total = Run::read(&out).unwrap().total;
    assert!((20..=62).contains(&total.answered), "{}", total.answered);
}

#[test]
fn running_low_on_ports_is_reported() {
    // A network namespace with a hundred ports.
    let network = "ip link set lo up && echo '40000 40099' > /proc/sys/net/ipv4/ip_local_port_range";
    let inside = |line: &str| Command::new("unshare").args(["-rn", "sh", "-c", line]).stdin(Stdio::null()).output();
    if !inside(network).is_ok_and(|output| output.status.success()) {
        skip::permission("making a network");
        return;
    }
    let folder = Folder::new("few-ports");
    let echo = background_echo(&folder, "--ports tcp=5300");
    let plan = "--transport tcp --rate 500 --duration 1s --name 'q{n}.example'";
    let load = format!("{CATLAB} load --quiet --workers 2 --server 127.0.0.1:5300 {plan}");
    let line = format!(
        "{network}; {echo}; {load} --connections 47; {load} --connections 20 --source 127.0.0.2,127.0.0.3; \
         {load} --connections 20 --source 127.0.0.4; kill -INT $echo; wait $echo; exit 0"
    );
    let (_, text, error) = ended(&inside(&line).unwrap());
    let port_lines: Vec<_> = text.lines().filter(|line| line.contains("local ports")).collect();
    let towards = "in use towards 127.0.0.1:5300 over tcp";
    assert!(port_lines[0].contains(&format!("at most 94 of 100 local ports (94.0 %) {towards}")), "{text}{error}");
    assert!(port_lines[0].contains("about to run out: name more addresses with --source"), "{text}");
    assert!(port_lines[1].contains(&format!("at most 40 of 200 local ports (20.0 %) {towards}")), "{text}{error}");
    assert!(port_lines[2].contains(&format!("at most 40 of 100 local ports (40.0 %) {towards}")), "{text}{error}");
    // Connections of the earlier runs are closed and still hold their ports.
    assert!(port_lines[2].contains("more in TIME-WAIT") && port_lines[2].contains("may run out"), "{text}");
}

/// A shell command that starts `catlab echo` in the background and waits until it listens. Its PID is in `$echo`.
fn background_echo(folder: &Folder, options: &str) -> String {
    let log = folder.path().join("echo").display().to_string();
    let listening = format!("for i in $(seq 600); do grep -q :5300 {log} && break; sleep 0.1; done");
    format!("{CATLAB} echo {options} > {log} 2>&1 & echo=$!; {listening}")
}

/// The number of handshake messages that waited, and of all of them.
fn handshakes(text: &str) -> (u64, u64) {
    let line = text.lines().find(|part| part.contains("messages of handshakes")).expect("a line on handshakes");
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn handshakes_that_wait_for_this_tool_are_reported() {
    for transport in ["dot", "doq"] {
        let (_echo, address) = echo(transport.parse().unwrap());
        let more = ["--transport", transport, "--insecure", "--name", "q{n}.example", "--duration", "1s"];
        // Too many handshakes at once for one core to process in a millisecond.
        let (_, text, _) = ended(&load(&address, &[&more[..], &["--connections", "512"]].concat()).output().unwrap());
        let (behind, all) = handshakes(&text);
        assert!(all >= 512 && behind >= 32 && behind <= all, "{transport}: {text}");
        // One connection never queues behind others, but on a slow machine QUIC retransmits (RFC 9002, 6.2).
        let (_, text, _) = ended(&load(&address, &[&more[..], &["--connections", "1"]].concat()).output().unwrap());
        assert!((1..64).contains(&handshakes(&text).1), "{transport}: {text}");
    }
    let (_echo, address) = echo(Transport::Udp);
    let (_, text, _) = ended(&load(&address, &["--name", "q{n}.example", "--duration", "1s"]).output().unwrap());
    assert!(!text.contains("handshakes") && text.contains("local ports"), "{text}");
}

#[test]
fn a_folder_that_cannot_be_made_is_reported_before_the_run() {
    let began = Instant::now();
    let more = ["--name", "q{n}.example", "--duration", "120s", "--out", "/proc/run"];
    let (code, _, error) = ended(&load("127.0.0.1:9", &more).output().unwrap());
    assert!(code == 2 && error.contains("/proc/run") && began.elapsed() < Duration::from_secs(60), "{error}");
}

#[test]
fn a_plan_that_cannot_be_kept_is_invalid_and_its_rate_is_not_overstated() {
    let (_echo, address) = echo(Transport::Udp);
    let folder = Folder::new("too-much");
    let out = folder.path().join("run");
    // No core sends this fast. Overdue queries are sent after the planned second.
    let more = ["--name", "q{n}.example", "--rate", "10000000", "--duration", "1s", "--out"];
    let (code, text, _) = ended(&load(&address, &more).arg(&out).output().unwrap());
    assert_eq!(code, 1, "{text}");
    let run = Run::read(&out).unwrap();
    assert!(run.is_invalid() && run.duration_seconds() > 1.5, "{}", run.duration_seconds());
    let best = run.recording.rows.iter().map(|row| row.arrived).max().unwrap() as f64;
    // The last second is not a whole one, so its rate may be higher than its number of answers says.
    let most = best * run.duration_seconds().ceil() / run.duration_seconds();
    assert!(run.achieved_rate() <= most, "{} a second, {best} in the best second", run.achieved_rate());
    assert!((9_990_000.0..10_010_000.0).contains(&run.offered_rate()), "{}", run.offered_rate());
    assert!(text.contains(" a second of 10000000.0 planned\n"), "{text}");
}

#[test]
fn the_self_check_runs_the_plan_first_and_marks_are_kept() {
    let folder = Folder::new("self-check");
    let (_echo, server) = echo(Transport::Tcp);
    let (marks, run) = (folder.path().join("marks.txt"), folder.path().join("run"));
    std::fs::create_dir_all(&run).unwrap();
    let mut child =
        load(&server, &["--transport", "tcp", "--name", "q{n}.example", "--rate", "200", "--duration", "6s"])
            .args(["--self-check", "--marks", &marks.to_string_lossy(), "--out", &run.to_string_lossy()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
    // The marks file is created when the run begins, after the self-check.
    let start = Instant::now();
    while !marks.exists() && start.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::write(&marks, "fault a line from outside\n").unwrap();
    // A busy machine may make the run invalid; this test does not check that.
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 1)));
    let checked = std::fs::read_to_string(run.join("self-check.json")).unwrap();
    assert!(checked.contains("\"sent\": 1200"), "{checked}");
    let summary = std::fs::read_to_string(run.join("summary.json")).unwrap();
    assert!(summary.contains("the self-check against an echo server"), "{summary}");
    let events = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert!(events.contains("\"kind\":\"fault\",\"text\":\"a line from outside\""), "{events}");
}
