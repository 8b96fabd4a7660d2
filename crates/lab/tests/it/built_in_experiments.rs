//! The built-in experiments: all can be planned, and some run at a small size. Their figures are not judged.

use crate::support::Folder;
use crate::support::program::CATLAB;
use experiment::definition::{Experiment, Size, built_in_names, built_in_text};
use experiment::results::{CellResult, Outcome};
use std::path::Path;
use std::process::{Command, Output};

fn experiment(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(CATLAB).current_dir(folder).arg("experiment").args(arguments).output().unwrap()
}

#[test]
fn the_plan_of_each_is_shown_in_each_size() {
    let folder = Folder::new("built-in-plans");
    for name in built_in_names() {
        let read = Experiment::parse(built_in_text(name).unwrap(), name).unwrap();
        let sizes: [(Size, &[&str]); 3] = [(Size::Here, &[]), (Size::Quick, &["--quick"]), (Size::Paper, &["--paper"])];
        for (size, option) in sizes {
            let output = experiment(folder.path(), &[&["show", name], option].concat());
            let text = String::from_utf8_lossy(&output.stdout);
            let error = String::from_utf8_lossy(&output.stderr);
            if read.has_size(size) {
                assert!(output.status.success() && text.starts_with(&read.title), "{name} {option:?}: {text}{error}");
            } else {
                assert!(!output.status.success() && error.contains("has no ["), "{name} {option:?}: {error}");
            }
        }
    }
}

/// Runs cells of an experiment. Returns their results if they could be measured here.
fn measured(name: &str, options: &[&str]) -> Vec<CellResult> {
    let folder = Folder::new("built-in");
    let output = experiment(folder.path(), &[&["run", name, "--quick"], options].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    // 1: a claim differs, or a busy machine made a cell INVALID.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {error}");
    let dir = folder.path().join("experiments").join(format!("{name}-quick"));
    let page = std::fs::read_to_string(dir.join("index.html")).unwrap();
    let cells = std::fs::read_dir(dir.join("cells")).unwrap().flatten();
    let mut results = Vec::new();
    for cell in cells {
        let result: CellResult =
            serde_json::from_slice(&std::fs::read(cell.path().join("cell.json")).unwrap()).unwrap();
        match &result.outcome {
            Outcome::Measured | Outcome::Invalid(_) => {
                let versions: Vec<&str> = result.servers.iter().map(|server| server.version.as_str()).collect();
                assert!(!versions.is_empty() && versions.iter().all(|version| !version.is_empty()), "{versions:?}");
                assert!(versions.iter().all(|version| page.contains(version)), "{versions:?}");
                results.push(result);
            }
            Outcome::NotMeasured(reasons) => skip::peer(format_args!("experiment {name}: {}", reasons.join("; "))),
            Outcome::Failed(reasons) => panic!("{name}: {reasons:?}"),
        }
    }
    results
}

#[test]
fn read_rate_runs() {
    for result in measured("read-rate", &["--only", "server=catamaran", "--set", "seconds=1"]) {
        assert!(result.figures["answered"] > 100.0 && result.figures["dns.cpu_us"] > 0.0, "{:?}", result.figures);
    }
}

#[test]
fn write_cost_runs_behind_links() {
    let only = ["--only", "server=catamaran", "--only", "rate=128", "--set", "seconds=2"];
    for result in measured("write-cost", &only) {
        let figure = |name: &str| result.figures[name];
        // No answer is faster than the round trip.
        assert!(figure("answered") > 100.0 && figure("mean_us") > 36_500.0, "{:?}", result.figures);
    }
}

#[test]
fn hierarchy_runs() {
    for result in measured("hierarchy", &["--only", "case=one", "--only", "case=twice", "--set", "zones=20"]) {
        let figure = |name: &str| result.figures[name];
        assert!(figure("upstream.queries") >= 20.0 && figure("asked.unanswered") <= 0.0, "{:?}", result.figures);
        assert!(result.servers.iter().any(|server| server.kind == "unbound"), "{:?}", result.servers);
    }
}
