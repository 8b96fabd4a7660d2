//! No command mixes its results with an earlier run, or destroys earlier results if it fails to start.

use crate::support::Folder;
use crate::support::program::CATLAB;
use measure::Transport;
use std::path::Path;
use std::process::Command;
use testbed::echo::{Echo, EchoPlan};

const OLD: &str = "old results";

/// The fields that identify a run.
const SUMMARY: &str = r#"{"schema_version": 20261127, "validity": {"valid": true, "reasons": []}}"#;

/// Files that identify a capacity search, a hierarchy, and the result of `hierarchy run`.
const CAPACITY: &str = r#"{"schema_version": 1, "tries": []}"#;
const TREE: &str = r#"{"form": 1, "zones": []}"#;
const RESOLUTION: &str = r#"{"zone_count": 1, "upstream": {}}"#;

/// Response of a server, for `zones build`.
const RESPONSE: &str = "RANGE_BEGIN 0 9
ADDRESS 192.0.2.1
ENTRY_BEGIN
REPLY QR AA NOERROR
SECTION QUESTION
www.example. IN A
SECTION ANSWER
www.example. 60 IN A 192.0.2.80
SECTION AUTHORITY
example. 60 IN NS ns.example.
ENTRY_END
RANGE_END
";

/// Each command that measures or builds, without --out, and a file of its results with its contents.
const COMMANDS: [(&str, &str, &str); 12] = [
    ("load --server 127.0.0.1:1 --name q.example --duration 1s", "summary.json", SUMMARY),
    ("load --server 127.0.0.1:1 --name q.example --duration 1s", "connections.jsonl", OLD),
    ("replay TRACE --server 127.0.0.1:1", "summary.json", SUMMARY),
    ("capacity --server 127.0.0.1:1 --name q.example", "capacity.json", CAPACITY),
    ("merge RUN RUN", "summary.json", SUMMARY),
    ("zones build RESPONSE", "hierarchy.json", TREE),
    ("zones synth --zones 5", "hierarchy.json", TREE),
    ("zones merge TREE TREE", "hierarchy.json", TREE),
    ("zones sign TREE", "hierarchy.json", TREE),
    ("zones sign-rsa TREE/zones/root.zone --zsk-bits 1024", "zsk-1024.zone", OLD),
    ("hierarchy run TREE --resolver unbound -- true", "report.json", RESOLUTION),
    ("hierarchy profile unbound", "unbound.conf", OLD),
];

fn catlab(line: &str, out: &Path, more: &[&str]) -> (i32, String) {
    let (options, program) = line.split_once(" -- ").map_or((line, None), |(line, program)| (line, Some(program)));
    let mut command = Command::new(CATLAB);
    command.args(options.split(' ')).arg("--out").arg(out).args(more);
    command.args(program.iter().flat_map(|program| ["--", program]));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text.into_owned())
}

#[test]
fn results_of_an_earlier_run_are_kept() {
    let folder = Folder::new("out-folders");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("trace.txt"), "q1.example A\nq2.example A\n").unwrap();
    std::fs::write(at("response.rpl"), RESPONSE).unwrap();
    let (code, text) = catlab("zones synth --zones 5", &at("tree"), &[]);
    assert_eq!(code, 0, "{text}");
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let load = format!("load --quiet --server {} --name q.example --duration 1s", echo.address(Transport::Udp));
    let (code, text) = catlab(&load, &at("run"), &[]);
    assert!(matches!(code, 0 | 1), "{text}");
    for (number, (line, name, old)) in COMMANDS.iter().enumerate() {
        let inputs = [("TRACE", "trace.txt"), ("RUN", "run"), ("TREE", "tree"), ("RESPONSE", "response.rpl")];
        let line = inputs
            .iter()
            .fold((*line).to_owned(), |line, (word, name)| line.replace(word, &at(name).to_string_lossy()));
        let out = at(&format!("out-{number}"));
        std::fs::create_dir(&out).unwrap();
        std::fs::write(out.join(name), old).unwrap();
        let (code, text) = catlab(&line, &out, &[]);
        assert!(code == 2 && text.contains("--force"), "{line}: {code} {text}");
        assert_eq!(text.contains("earlier run"), *old != OLD, "{line}: {text}");
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), *old, "{line}");
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1, "{line}");
        let can_sign = !line.contains("sign-rsa") || testbed::installed("dnssec-signzone").is_some();
        if line.starts_with("zones") && can_sign || line.starts_with("merge") {
            let (code, text) = catlab(&line, &out, &["--force"]);
            assert!(code == 0 || line.starts_with("merge") && code == 1, "{line}: {code} {text}");
            assert_ne!(std::fs::read_to_string(out.join(name)).unwrap(), *old, "{line}");
        }
    }
}

/// The hierarchy that the command names does not exist.
#[test]
fn a_hierarchy_run_that_does_not_begin_keeps_earlier_results() {
    let folder = Folder::new("out-folders-resolution");
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("report.json"), RESOLUTION).unwrap();
    let line = format!("hierarchy run {} --force -- true", folder.path().join("none").display());
    let (code, text) = catlab(&line, &out, &[]);
    assert_eq!(code, 2, "{text}");
    assert_eq!(std::fs::read_to_string(out.join("report.json")).unwrap(), RESOLUTION, "{text}");
}

#[test]
fn a_run_that_does_not_begin_keeps_the_run_that_it_would_replace() {
    let folder = Folder::new("out-folders-force");
    let out = folder.path().join("run");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("summary.json"), SUMMARY).unwrap();
    // No server listens on this port, so the connections cannot be opened.
    let line = "load --quiet --transport tcp --server 127.0.0.1:1 --name q.example --duration 1s --force";
    let (code, text) = catlab(line, &out, &[]);
    assert_eq!(code, 2, "{text}");
    assert!(!text.contains("p99.9") && text.contains("127.0.0.1:1"), "no table of zeros: {text}");
    assert_eq!(std::fs::read_to_string(out.join("summary.json")).unwrap(), SUMMARY);
    let new = folder.path().join("new");
    assert_eq!(catlab(&line.replace(" --force", ""), &new, &[]).0, 2);
    assert!(!new.exists(), "a run that never began leaves nothing");
}

/// Each command that writes a single file.
const FILE_COMMANDS: [&str; 9] = [
    "profile fit TRACE",
    "report TRACE",
    "zones harvest TRACE --resolver 127.0.0.1:1",
    "trace convert TRACE",
    "trace cut TRACE --until 1",
    "trace merge TRACE TRACE",
    "trace synth --interval 1ms --count 10",
    "trace mutate TRACE",
    "trace anonymize TRACE --key KEY",
];

#[test]
fn a_file_is_not_overwritten_without_force() {
    let folder = Folder::new("out-folders-file");
    let at = |name: &str| folder.path().join(name);
    let (trace, out) = (at("queries.txt"), at("day.pcap"));
    let (code, text) = catlab("trace synth --interval 1ms --count 10 --name q.example", &trace, &[]);
    assert_eq!(code, 0, "{text}");
    std::fs::write(at("trace.key"), "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n").unwrap();
    std::fs::write(&out, OLD).unwrap();
    for line in FILE_COMMANDS {
        let line = line.replace("TRACE", &trace.to_string_lossy()).replace("KEY", &at("trace.key").to_string_lossy());
        let (code, text) = catlab(&line, &out, &[]);
        assert!(code == 2 && text.contains("--force"), "{line}: {text}");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), OLD, "{line}");
    }
    for line in ["zones harvest TRACE --resolver 127.0.0.1:1 --force", "trace cut TRACE --force"] {
        let (code, text) = catlab(&line.replace("TRACE", &trace.to_string_lossy()), &trace, &[]);
        assert!(code == 2 && text.contains("is the file that is read"), "{line}: {text}");
    }
    // A capture cannot hold queries over TLS, so no message would be written.
    let nothing = format!("trace mutate {} --transport dot --force", trace.display());
    assert_eq!(catlab(&nothing, &out, &[]).0, 2);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), OLD, "a file is replaced as a whole");
    let cut = format!("trace cut {} --force", trace.display());
    let (code, text) = catlab(&cut, &out, &[]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(std::fs::read(&out).unwrap()[..4], [0xa1, 0xb2, 0x3c, 0x4d], "a capture");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no partial file is left");
    let none = format!("trace cut {} --from 100 --force", trace.display());
    let (code, text) = catlab(&none, &out, &[]);
    assert!(code == 0 && text.contains("no message was selected"), "{text}");
}
