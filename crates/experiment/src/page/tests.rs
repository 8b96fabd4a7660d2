//! Pages of made-up results.

use super::{publish, write};
use crate::definition::{Action, Experiment};
use crate::results::{Cell, CellResult, EventResult, Outcome, ServerResult};
use crate::run::COMMAND;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catlab-page-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("cells")).unwrap();
        Self(path)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

const DEFINITION: &str = r#"
title = "Rate & CPU <b>"
source = "A paper, table <i>"
question = "Does twice the CPU answer twice the queries <i>?"
limits = ["One machine | only <i>"]

[matrix]
server = ["ours", "bind", "<i>"]
cpu = [0.25, 0.5, 1]

[[claim]]
text = "ours: twice the CPU, twice the rate"
value = "rate[server=ours, cpu=1] / rate[server=ours, cpu=0.5]"
paper = 1.5
want = "1.9..2.1"

[[claim]]
text = "ours gains more than the paper's server"
value = "rate[server=ours, cpu=1] / (1.2 * rate[server=ours, cpu=0.5])"
paper = 1.1
want = ">= 1"
unit = "times <i>"

[[claim]]
text = "BIND survives its fault"
value = "rate[server=bind, cpu=1]"
want = ">= 1"

[[claim]]
text = "ours is slower than BIND"
value = "rate[server=ours, cpu=0.25] / rate[server=bind, cpu=0.25]"
want = "<= 1"

[[claim]]
text = "BIND <i> doubles"
value = "rate[server=bind, cpu=0.5] / rate[server=bind, cpu=0.25]"
want = "< 1.999"

[[claim]]
text = "the rate of ours is near 1000"
value = "rate[server=ours, cpu=1]"
want = ">= 1000"
unit = "1/s"

[[picture]]
title = "Rate by CPU"
figure = "rate"
by = "cpu"
lines = "server"
unit = "1/s"
paper = { "0.25" = 300.0, "0.5" = 450.0, "1" = 700.0 }

[[picture]]
title = "CPU time <i> of an answer"
figure = "dns.cpu_us"
by = "server"
lines = "cpu"
unit = "us"
"#;

fn experiment() -> Experiment {
    toml::from_str(DEFINITION).unwrap()
}

/// Three repeats of nine combinations: one has an INVALID repeat, one failed, one was not measured, one was not run.
fn fill(folder: &Path) {
    for (server, factor) in [("ours", 1_000.0), ("bind", 600.0), ("<i>", 300.0)] {
        for cpu in ["0.25", "0.5", "1"] {
            for repeat in 0..3u32 {
                if (server, cpu, repeat) == ("ours", "0.25", 0) || (server, cpu) == ("<i>", "0.25") {
                    continue;
                }
                let outcome = match (server, cpu, repeat) {
                    ("bind", "0.5", 1) => Outcome::Invalid(vec!["send lag of 3 ms <script>".into()]),
                    ("<i>", "0.5", _) => Outcome::Failed(vec!["dns did not start: port & address in use".into()]),
                    ("<i>", "1", 2) => Outcome::NotMeasured(vec!["named is missing".into()]),
                    _ => Outcome::Measured,
                };
                let noise = 1.0 + 0.03 * (f64::from(repeat) - 1.0);
                let rate = factor * cpu.parse::<f64>().unwrap() * noise;
                let is_measured = !matches!(outcome, Outcome::Failed(_) | Outcome::NotMeasured(_));
                let figures = [("rate".to_owned(), rate), ("dns.cpu_us".into(), 9_000.0 / factor * noise)];
                let event = EventResult {
                    seconds: 5.0,
                    server: "dns".into(),
                    node: None,
                    action: Action::Kill,
                    happened: repeat > 0,
                    reason: None,
                };
                let parameters = [("server".to_owned(), server.to_owned()), ("cpu".into(), cpu.into())];
                let result = CellResult {
                    cell: Cell { parameters: parameters.into(), repeat },
                    outcome,
                    figures: if is_measured { figures.into() } else { BTreeMap::new() },
                    commands: vec![format!("catlab load --server 127.0.0.1:5301 --name '<{{n}}>' # {server} {cpu}")],
                    servers: vec![ServerResult {
                        name: "dns".into(),
                        kind: server.into(),
                        version: "9.20 & more".into(),
                        configuration: format!("options {{ cpu {cpu}; }};\n"),
                    }],
                    runs: BTreeMap::new(),
                    events: if (server, cpu) == ("bind", "1") && repeat < 2 { vec![event] } else { Vec::new() },
                };
                let path = folder.join("cells").join(format!("{}-{cpu}-{repeat}", server.replace(['<', '>'], "")));
                std::fs::create_dir_all(&path).unwrap();
                std::fs::write(path.join("cell.json"), serde_json::to_vec(&result).unwrap()).unwrap();
            }
        }
    }
}

#[test]
fn the_page_has_all_claims_and_names_every_cell_without_a_result() {
    let folder = Folder::new("whole");
    fill(&folder.0);
    let verdicts = write(&folder.0, &experiment()).unwrap();
    assert_eq!(verdicts.counts(), "1 ahead, 1 holds, 1 undecided, 3 not measured");
    assert!(!verdicts.has_differing());
    let outline = "holds          ours: twice the CPU, twice the rate: 2 (2 to 2, range of 3 repeats); source 1.5\n";
    assert!(verdicts.outline().starts_with(outline), "{}", verdicts.outline());
    let (html, readme) = (folder.text("index.html"), folder.text("README.md"));
    for part in [
        "repeat 2: INVALID: send lag of 3 ms &lt;script>",
        "repeats 1, 2, 3: failed: dns did not start: port &amp; address in use",
        "repeat 3: not measured: named is missing",
        "2 measured, 1 not run",
        "3 not run",
        "repeat 1: failed: kill of dns at 5 s did not happen",
    ] {
        assert!(readme.replace("\n  ", " ").contains(part), "{part}: {readme}");
        let part = part.replace('>', "&gt;");
        assert!(html.contains(&part), "{part}: {html}");
    }
    // The pictures say it too.
    for part in ["Not all repeats are drawn", "cpu=0.25, server=ours: 2 measured, 1 not run; 5 more combinations"] {
        assert!(folder.text("picture-1.svg").contains(part), "{part}");
    }
    for name in ["picture-1.png", "picture-2.png"] {
        assert!(std::fs::read(folder.0.join(name)).unwrap().starts_with(b"\x89PNG"), "{name}");
    }
    for part in [
        "- dns, bind, 9.20 &amp; more\n",
        "](picture-1.svg)",
        "](picture-2.png)",
        "One machine \\| only &lt;i>",
        "**not measured**",
        "](cells.csv)",
    ] {
        assert!(readme.contains(part), "{part}: {readme}");
    }
    // All claims have three repeats, so the table does not repeat it.
    assert!(readme.contains("In parentheses: range of 3 repeats.") && readme.contains("| 2 (2 to 2) |"), "{readme}");
    let csv = folder.text("cells.csv");
    assert!(csv.starts_with("cpu,server,repeat,outcome,rate"), "{csv}");
    assert!(csv.contains("\n0.5,bind,2,INVALID,") && csv.contains("\n1,bind,1,"), "{csv}");
    let json: Vec<serde_json::Value> = serde_json::from_str(&folder.text("claims.json")).unwrap();
    let verdicts: Vec<_> = json.iter().filter_map(|row| row["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["holds", "ahead", "not measured", "not measured", "not measured", "undecided"]);
    assert_eq!((json[1]["paper"].as_f64(), json[1]["interval"]["repeats"].as_u64()), (Some(1.1), Some(3)));
    assert!((json[1]["here"].as_f64().unwrap() - 5.0 / 3.0).abs() < 1e-9 && json[2]["here"].is_null());
    // The figures that a claim compares, each with its servers.
    let used = json[3]["figures"].as_array().unwrap();
    assert_eq!((&used[1]["figure"], &used[1]["cell"]["server"]), (&"rate".into(), &"bind".into()));
    assert_eq!((used[0]["median"].as_f64(), used[1]["median"].as_f64()), (None, Some(150.0)));
    assert_eq!(used[1]["servers"], serde_json::json!(["bind 9.20 & more"]));
    assert_eq!((&json[0]["experiment"], &json[1]["unit"]), (&"Rate & CPU <b>".into(), &"times <i>".into()));
}

#[test]
fn the_page_has_no_markup_of_results_and_no_scripts() {
    let folder = Folder::new("escapes");
    fill(&folder.0);
    write(&folder.0, &experiment()).unwrap();
    let html = folder.text("index.html");
    for wrong in ["<script", "<i>", "<img", "CPU <b>", "http://", "'<{n}>'"] {
        let found = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(wrong), "{wrong}");
    }
    for part in
        ["Rate &amp; CPU &lt;b&gt;", "9.20 &amp; more", "--name '&lt;{n}&gt;' # ours 0.25", "options { cpu 0.5; };"]
    {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!folder.text("README.md").contains("<i>"));
}

#[test]
fn cells_of_another_size_are_shown_as_left_over() {
    let folder = Folder::new("sizes");
    fill(&folder.0);
    let small = Experiment {
        matrix: [("server".to_owned(), vec![crate::definition::Value("ours".into())])]
            .into_iter()
            .chain([("cpu".to_owned(), experiment().matrix["cpu"].clone())])
            .collect(),
        claims: experiment().claims.into_iter().take(3).collect(),
        ..experiment()
    };
    let verdicts = write(&folder.0, &small).unwrap();
    assert_eq!(verdicts.claims[2].reasons, ["server=bind is not part of this run"]);
    assert!(folder.text("index.html").contains("measured earlier; no longer in the matrix"));
    assert!(!folder.text("picture-1.svg").contains("bind"));
}

#[test]
fn what_cannot_be_shown_is_an_error() {
    let folder = Folder::new("errors");
    let refused = |change: fn(&mut Experiment)| {
        let mut experiment = experiment();
        change(&mut experiment);
        write(&folder.0, &experiment).unwrap_err()
    };
    let error = refused(|experiment| experiment.claims[0].value = "rate[cpu=1".into());
    assert!(error.contains("ours: twice the CPU") && error.contains("column 11"), "{error}");
    let error = refused(|experiment| experiment.pictures[0].by = "core".into());
    assert!(error.contains("\"Rate by CPU\": there is no parameter `core`; parameters: cpu, server"), "{error}");
    let cell = folder.0.join("cells/broken");
    std::fs::create_dir_all(&cell).unwrap();
    std::fs::write(cell.join("cell.json"), "{}").unwrap();
    let error = refused(|_| ());
    assert!(error.contains("broken/cell.json: missing field") && error.contains("remove this file"), "{error}");
}

#[test]
fn a_published_page_has_its_pictures_and_its_command() {
    let folder = Folder::new("published");
    fill(&folder.0);
    write(&folder.0, &experiment()).unwrap();
    std::fs::write(folder.0.join("picture-3.svg"), "of a picture that is gone").unwrap();
    write(&folder.0, &experiment()).unwrap();
    std::fs::write(folder.0.join(COMMAND), "catlab experiment run rate --only cpu=1\n").unwrap();
    for name in ["rate", "rate-quick"] {
        let page = publish(&folder.0, name, &folder.0.join("docs")).unwrap();
        assert_eq!(page, folder.0.join(format!("docs/{name}.md")));
        let text = std::fs::read_to_string(page).unwrap();
        let command = "```sh\ncatlab experiment run rate --only cpu=1\n```\n";
        assert!(text.contains(command) && !text.contains("PNG"), "{text}");
        assert!(!folder.0.join(format!("docs/{name}-3.svg")).exists());
        let csv = std::fs::read_to_string(folder.0.join(format!("docs/{name}.csv"))).unwrap();
        assert!(text.contains(&format!("]({name}.csv)")) && csv == folder.text("cells.csv"), "{text}");
        for number in [1, 2] {
            assert!(text.contains(&format!("]({name}-{number}.svg)")), "{text}");
            assert!(folder.0.join(format!("docs/{name}-{number}.svg")).exists(), "{number}");
        }
    }
    assert!(publish(&folder.0.join("cells"), "rate", &folder.0).unwrap_err().contains("README.md"));
}

#[test]
fn an_experiment_without_any_result_has_a_page() {
    let folder = Folder::new("empty");
    let verdicts = write(&folder.0, &experiment()).unwrap();
    assert_eq!(verdicts.counts(), "6 not measured");
    assert_eq!(folder.text("index.html").matches("<td class=\"outcome bad\">3 not run</td>").count(), 9);
}

#[test]
fn the_machine_is_that_of_the_run_folders() {
    let folder = Folder::new("machine");
    fill(&folder.0);
    let cell = folder.0.join("cells/ours-1-0");
    let text = std::fs::read_to_string(cell.join("cell.json")).unwrap();
    std::fs::write(cell.join("cell.json"), text.replace(r#""runs":{}"#, r#""runs":{"":"run"}"#)).unwrap();
    std::fs::create_dir_all(cell.join("run")).unwrap();
    let manifest = r#"{"kernel": "6.1", "cpu": "Fast <2>", "cpu_count": 1, "memory_bytes": 2000000000}"#;
    std::fs::write(cell.join("run/manifest.json"), manifest).unwrap();
    write(&folder.0, &experiment()).unwrap();
    assert!(folder.text("README.md").ends_with("- 1 core of Fast &lt;2>, Linux 6.1, 2.0 GB of memory\n"));
    assert!(folder.text("index.html").contains("1 core of Fast &lt;2&gt;, Linux 6.1, 2.0 GB of memory"));
}
