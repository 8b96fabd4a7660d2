//! No command mixes its results with those of an earlier run, or destroys them when it cannot begin.
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use std::path::Path;
use std::process::Command;
use support::Folder;

const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");
const OLD: &str = "old results";

/// Each command that measures or builds, without --out, and a file of its results.
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
    std::fs::write(out.join("summary.json"), OLD).unwrap();
    // Nobody listens there: the connections cannot be opened.
    let line = "load --quiet --transport tcp --server 127.0.0.1:1 --name q.example --duration 1s --force";
    let (code, text) = catlab(line, &out, &[]);
    assert_eq!(code, 2, "{text}");
    assert!(!text.contains("p99.9") && text.contains("127.0.0.1:1"), "no table of zeros: {text}");
    assert_eq!(std::fs::read_to_string(out.join("summary.json")).unwrap(), OLD);
    let new = folder.path().join("new");
    assert_eq!(catlab(&line.replace(" --force", ""), &new, &[]).0, 2);
    assert!(!new.exists(), "a run that never began leaves nothing");
}

#[test]
fn a_capture_is_not_written_over() {
    let folder = Folder::new("out-folders-capture");
    let (queries, out) = (folder.path().join("queries.txt"), folder.path().join("day.pcap"));
    std::fs::write(&queries, "q1.example A\n").unwrap();
    std::fs::write(&out, OLD).unwrap();
    let line = format!("zones harvest {} --resolver 127.0.0.1:1", queries.display());
    let (code, text) = catlab(&line, &out, &[]);
    assert!(code == 2 && text.contains("--force"), "{text}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), OLD);
}
