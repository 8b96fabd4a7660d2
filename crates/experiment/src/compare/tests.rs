//! Comparisons of made-up folders.

use super::*;
use crate::results::{Cell, CellResult, Outcome, ServerResult};
use crate::run::{DEFINITION, cell_folder};
use std::path::{Path, PathBuf};

const TEXT: &str = "title = 'Rate'\nsource = 'None'\nquestion = 'Is it faster?'\nrepeats = 3\n\
                    [variables]\nseconds = 3\n[matrix]\ncpu = [0.5, 1]\n\
                    [[server]]\nname = 'dns'\nkind = 'bind'\n\
                    [[load]]\nrun = 'load --server {dns.address} --duration {seconds}s'\n\
                    [[claim]]\ntext = 'Twice the CPU'\nvalue = 'rate[cpu=1] / rate[cpu=0.5]'\n\
                    want = '>= 1.9'\nunit = 'times'\n";

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catlab-compare-{}-{name}", std::process::id()));
        let _left = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A run: the rates of each repeat with half a CPU, the factor of a whole one, and when its loads started.
    fn run(name: &str, definition: &str, version: &str, rates: &[f64], factor: f64, started: f64) -> Self {
        let folder = Self::new(name);
        std::fs::write(folder.0.join(DEFINITION), definition).unwrap();
        for (repeat, rate) in (0..).zip(rates) {
            for (cpu, factor) in [("0.5", 1.0), ("1", factor)] {
                let cell = Cell { parameters: [("cpu".to_owned(), cpu.to_owned())].into(), repeat };
                folder.write(&result(cell, version, rate * factor), started + f64::from(repeat));
            }
        }
        folder
    }

    fn write(&self, result: &CellResult, started: f64) {
        let path = cell_folder(&self.0, &result.cell);
        std::fs::create_dir_all(path.join("load")).unwrap();
        std::fs::write(path.join("cell.json"), serde_json::to_vec(result).unwrap()).unwrap();
        let manifest = serde_json::json!({"started": started, "kernel": "6.1", "cpu": "Fast", "cpu_count": 2});
        std::fs::write(path.join("load/manifest.json"), manifest.to_string()).unwrap();
    }

    fn read(&self) -> MeasuredRun {
        MeasuredRun::read(&self.0).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

fn result(cell: Cell, version: &str, rate: f64) -> CellResult {
    let (kind, configuration) = ("bind".to_owned(), String::new());
    CellResult {
        cell,
        outcome: Outcome::Measured,
        figures: [("rate".to_owned(), rate), ("p50_us".into(), 1e6 / rate)].into(),
        commands: Vec::new(),
        servers: vec![ServerResult { name: "dns".into(), kind, version: version.to_owned(), configuration }],
        runs: [(String::new(), "load".to_owned())].into(),
        events: Vec::new(),
    }
}

const RATES: [f64; 3] = [1_000.0, 1_100.0, 1_200.0];

#[test]
fn claims_and_figures_of_both_runs_are_compared() {
    let a = Folder::run("whole-a", TEXT, "9.18", &RATES, 2.0, 1_000.0);
    let b = Folder::run("whole-b", TEXT, "9.20", &RATES.map(|rate| 2.0 * rate), 1.5, 2_000.0);
    let found = Comparison::new(&a.read(), &b.read()).unwrap();
    let claim = &found.claims[0];
    assert_eq!((claim.verdict_a, claim.verdict_b), (Some(Verdict::Holds), Some(Verdict::Differs)));
    assert_eq!((claim.pair.ratio.unwrap().value, claim.pair.differs), (0.75, Difference::Lower));
    let rate = &found.cells[0].figures[0];
    assert_eq!((rate.figure.as_str(), rate.pair.ratio.unwrap().value), ("rate", 2.0));
    assert_eq!((rate.pair.differs, found.cells[0].figures.len()), (Difference::Higher, 2));
    assert_eq!((found.is_interleaved, found.definition_differences.len()), (Some(false), 0));
    let text = found.text();
    for part in [
        "verdict A  verdict B  A    B   B/A  interval of B/A                   differs  claim\n",
        "holds      differs    2  1.5  0.75  0.75 to 0.75, range of 3 repeats  lower    Twice the CPU (times)\n",
        "cpu=0.5  rate    1,100  2,200       2  2 to 2, range of 3 repeats",
        "dns  bind  A  9.18\n  dns  bind  B  9.20\n",
        "Warning: the runs are not interleaved: all of A was measured first",
        "1 of 1 claims, 4 of 4 figures",
        "2 cores of Fast, Linux 6.1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["claims"][0]["ratio"]["interval"]["repeats"], 3);
    assert_eq!((&json["claims"][0]["verdict_b"], &json["claims"][0]["differs"]), (&"differs".into(), &"lower".into()));
    assert_eq!(json["cells"][1]["figures"][0]["a"]["value"], 2_200.0);
}

#[test]
fn the_same_run_differs_in_nothing() {
    let a = Folder::run("same", TEXT, "9.18", &RATES, 2.0, 1_000.0);
    let found = Comparison::new(&a.read(), &a.read()).unwrap();
    assert!(found.cells.iter().flat_map(|cell| &cell.figures).all(|one| one.pair.differs == Difference::Within));
    let text = found.text();
    assert!(!text.contains("Warning") && text.contains("dns  bind  A, B  9.18\n"), "{text}");
    assert!(text.contains("0 of 1 claims, 0 of 4 figures"), "{text}");
}

#[test]
fn runs_are_interleaved_if_they_took_as_many_turns_as_repeats() {
    let a = Folder::run("inter-a", TEXT, "9.18", &RATES, 2.0, 1_000.0);
    let b = Folder::run("inter-b", TEXT, "9.18", &RATES, 2.0, 1_001.5);
    assert_eq!(Comparison::new(&a.read(), &b.read()).unwrap().is_interleaved, Some(true));
    // Two of its repeats before `a`, and one after.
    let around = Folder::run("inter-around", TEXT, "9.18", &RATES, 2.0, 997.5);
    around.write(
        &result(Cell { parameters: [("cpu".to_owned(), "1".to_owned())].into(), repeat: 2 }, "9.18", 5.0),
        1_003.0,
    );
    let found = Comparison::new(&a.read(), &around.read()).unwrap();
    assert_eq!(found.is_interleaved, Some(false));
    assert!(found.text().contains("fewer turns than they have repeats"), "{}", found.text());
}

#[test]
fn other_definitions_and_missing_repeats_are_named() {
    let a = Folder::run("other-a", TEXT, "9.18", &RATES, 2.0, 1_000.0);
    let b = Folder::run("other-b", &TEXT.replace("seconds = 3", "seconds = 10"), "9.18", &RATES, 2.0, 2_000.0);
    let parameters = [("cpu".to_owned(), "1".to_owned())];
    let failed = CellResult {
        outcome: Outcome::Failed(vec!["dns did not start".into()]),
        ..result(Cell { parameters: parameters.into(), repeat: 1 }, "9.18", 5.0)
    };
    b.write(&failed, 2_000.0);
    let found = Comparison::new(&a.read(), &b.read()).unwrap();
    let claim = &found.claims[0];
    assert_eq!((claim.verdict_b, claim.pair.b, claim.pair.ratio), (Some(Verdict::NotMeasured), None, None));
    assert_eq!(claim.pair.differs, Difference::NotMeasured);
    // The repeats that both have.
    let rate = &found.cells[1].figures[0].pair;
    assert_eq!(rate.ratio.map(|ratio| ratio.interval.repeats), Some(2));
    let text = found.text();
    for part in [
        "Warning: the definitions differ: variables.seconds is `3` in A and `10` in B\n",
        "  cpu=1: A 3 measured; B 2 measured, 1 failed\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn cells_and_claims_of_one_run_are_listed() {
    let smaller = TEXT.replace("[0.5, 1]", "[0.5]").replace("rate[cpu=1] / ", "").replace("Twice the CPU", "It runs");
    let a = Folder::run("part-a", TEXT, "9.18", &RATES, 2.0, 1_000.0);
    let b = Folder::run("part-b", &smaller, "9.18", &RATES, 2.0, 2_000.0);
    std::fs::remove_dir_all(b.0.join("cells/cpu=1,repeat=0")).unwrap();
    std::fs::remove_dir_all(b.0.join("cells/cpu=1,repeat=1")).unwrap();
    std::fs::remove_dir_all(b.0.join("cells/cpu=1,repeat=2")).unwrap();
    let found = Comparison::new(&a.read(), &b.read()).unwrap();
    let claims: Vec<_> =
        found.claims.iter().map(|claim| (claim.claim.as_str(), claim.verdict_a, claim.verdict_b)).collect();
    assert_eq!(claims, [("Twice the CPU", Some(Verdict::Holds), None), ("It runs", None, Some(Verdict::Holds))]);
    assert!(found.text().contains("  cpu=1: A 3 measured; B not part of this run\n"), "{}", found.text());
    // A server that only one run has.
    let mut own = result(Cell { parameters: [("cpu".to_owned(), "0.5".to_owned())].into(), repeat: 0 }, "", 5.0);
    own.servers = vec![ServerResult::external("dns", ([127, 0, 0, 1], 53).into())];
    b.write(&own, 2_000.0);
    let text = Comparison::new(&a.read(), &b.read()).unwrap().text();
    let line = "  dns  external  B     a server at 127.0.0.1:53, not started by this run\n";
    assert!(text.contains(line) && !text.contains("external  A"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let a = Folder::run("error-a", TEXT, "9.18", &RATES, 2.0, 1_000.0);
    let other = Folder::run("error-b", &TEXT.replace("'Rate'", "'Latency'"), "9.18", &RATES, 2.0, 1_000.0);
    let error = Comparison::new(&a.read(), &other.read()).unwrap_err();
    assert!(error.contains("different experiments, \"Rate\" and \"Latency\""), "{error}");
    let read = |path: &Path| MeasuredRun::read(path).err().unwrap();
    assert!(read(Path::new("/missing")).contains("name the folder of one experiment"));
    let empty = Folder::run("error-c", TEXT, "9.18", &[], 2.0, 1_000.0);
    assert!(read(&empty.0).contains("it has no results"));
}
