//! No command mixes its results with an earlier run, or destroys earlier results if it fails to start.
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use std::path::Path;
use std::process::Command;
use support::Folder;

const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");
const OLD: &str = "old results";

/// The fields that identify a run.
const SUMMARY: &str = r#"{"schema_version": 20261127, "validity": {"valid": true, "reasons": []}}"#;

/// Each command that writes a folder, without --out, and the name of a result file.
const COMMANDS: [(&str, &str); 11] = [
    ("load --server 127.0.0.1:1 --name q.example --duration 1s", "summary.json"),
    ("load --server 127.0.0.1:1 --name q.example --duration 1s", "connections.jsonl"),
    ("replay TRACE --server 127.0.0.1:1", "queries.parquet"),
    ("capacity --server 127.0.0.1:1 --name q.example", "capacity.json"),
    ("merge RUN RUN", "manifest.json"),
    ("zones build TRACE", "hierarchy.json"),
    ("zones synth --zones 5", "hierarchy.json"),
    ("zones merge TREE TREE", "hierarchy.json"),
    ("zones sign TREE", "hierarchy.json"),
    ("hierarchy run TREE --resolver unbound -- true", "upstream.txt"),
    ("hierarchy profile unbound", "unbound.conf"),
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
    let (code, text) = catlab("zones synth --zones 5", &at("tree"), &[]);
    assert_eq!(code, 0, "{text}");
    for (number, (line, name)) in COMMANDS.iter().enumerate() {
        let line =
            line.replace("TRACE", &at("trace.txt").to_string_lossy()).replace("RUN", &at("run").to_string_lossy());
        let line = line.replace("TREE", &at("tree").to_string_lossy());
        let out = at(&format!("out-{number}"));
        std::fs::create_dir(&out).unwrap();
        std::fs::write(out.join(name), OLD).unwrap();
        let (code, text) = catlab(&line, &out, &[]);
        assert!(code == 2 && text.contains("--force"), "{line}: {code} {text}");
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), OLD, "{line}");
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1, "{line}");
    }
}

#[test]
fn a_run_that_does_not_begin_leaves_a_run_that_it_was_to_replace() {
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
fn a_file_is_not_written_over() {
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
    // A capture cannot hold queries over TLS, so no message would be written.
    let nothing = format!("trace mutate {} --transport dot --force", trace.display());
    assert_eq!(catlab(&nothing, &out, &[]).0, 2);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), OLD, "a file is replaced as a whole");
    let cut = format!("trace cut {} --force", trace.display());
    let (code, text) = catlab(&cut, &out, &[]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(std::fs::read(&out).unwrap()[..4], [0xa1, 0xb2, 0x3c, 0x4d], "a capture");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no part is left");
    let none = format!("trace cut {} --from 100 --force", trace.display());
    let (code, text) = catlab(&none, &out, &[]);
    assert!(code == 0 && text.contains("no message was selected"), "{text}");
}
