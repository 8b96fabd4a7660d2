//! Two processes load one server at the same time, and `catlab merge` makes one run of both.

use crate::support::Folder;
use measure::{Distribution, Transport};
use report::Run;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use testbed::echo::{Echo, EchoPlan};

/// Loads the server for ten seconds.
fn load(server: &str, rate: u64, out: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", server, "--transport", "tcp", "--connections", "8"]);
    command.args(["--rate", &rate.to_string(), "--duration", "10s", "--name", "q{n}.example"]);
    command.args(["--seed", &rate.to_string()]);
    command.arg("--out").arg(out).stdout(Stdio::null()).spawn().unwrap()
}

fn merge(folder: &Folder, runs: &[&str]) -> Output {
    let paths = runs.iter().map(|name| folder.path().join(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.arg("merge").args(paths).arg("--force").arg("--out").arg(folder.path().join("both")).output().unwrap()
}

#[test]
fn two_processes_merge_into_one_run() {
    let folder = Folder::new("merge");
    let echo = Echo::start(&EchoPlan::new(&[Transport::Tcp]).unwrap()).unwrap();
    let server = echo.address(Transport::Tcp).to_string();
    let loads = [("one", 400), ("two", 700)].map(|(name, rate)| load(&server, rate, &folder.path().join(name)));
    for mut load in loads {
        // Exit code 1: a busy machine made the run invalid.
        assert!(matches!(load.wait().unwrap().code(), Some(0 | 1)));
    }
    let output = merge(&folder, &["one", "two"]);
    let [one, two, both] = ["one", "two", "both"].map(|name| Run::read(&folder.path().join(name)).unwrap());
    assert_eq!(output.status.code(), Some(i32::from(one.is_invalid() || two.is_invalid())));
    let text = String::from_utf8_lossy(&output.stdout);
    let (seconds, _) = text.strip_prefix("sent       11000 in ").expect(&text).split_once(' ').unwrap();
    // On a busy machine, one process begins later.
    assert!((10.0..20.0).contains(&seconds.parse::<f64>().unwrap()), "{output:?}");

    assert_eq!((both.total.sent, both.total.answered), (11_000, 11_000));
    assert_eq!(echo.counts().queries_of(Transport::Tcp), 11_000);
    // Each histogram value is there, in its second.
    let parts = [&one, &two].map(|run| &run.total.latency);
    assert_eq!(both.total.latency, Distribution::sum(parts));
    let offset = two.recording.started.duration_since(one.recording.started);
    let apart = offset.unwrap_or_else(|error| error.duration());
    if apart.as_millis() < 500 {
        for (index, row) in both.recording.rows.iter().enumerate() {
            let sent = |run: &Run| run.recording.rows.get(index).map_or(0, |row| row.sent);
            assert_eq!(row.sent, sent(&one) + sent(&two), "second {index}");
        }
    }
    let figures = &both.summary.as_ref().unwrap().transports[&Transport::Tcp];
    let connections = figures.connections.as_ref().unwrap();
    assert_eq!((connections.opened, connections.open_max), (16, 16));
    assert_eq!(both.recording.rows.iter().map(|row| row.arrived).sum::<u64>(), 11_000);

    // The page and the manifest keep the settings of both runs.
    let manifest = both.manifest.as_ref().unwrap();
    let parts: Vec<_> = manifest.merged.iter().map(|part| (part.seed, part.command.join(" "))).collect();
    assert!(manifest.command[1] == "merge" && parts.len() == 2, "{manifest:?}");
    assert!(parts[0].0 == 400 && parts[0].1.contains("--rate 400"), "{parts:?}");
    assert!(parts[1].0 == 700 && parts[1].1.contains("--rate 700"), "{parts:?}");
    let html = report::page(std::slice::from_ref(&both), "both");
    assert_eq!(html.matches("<dt>made of</dt>").count(), 2);
    assert!(html.contains("--rate 700") && html.contains("seed 700") && html.contains("GB of memory"));
    assert!(!html.contains("<dt>seed</dt>"));

    // Runs at different times are not merged.
    let mut later = load(&server, 400, &folder.path().join("later"));
    later.wait().unwrap();
    let output = merge(&folder, &["one", "later"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did not overlap in time"), "{output:?}");
}
