//! An invalid run is marked as such, with the reason, in every output: files, terminal output, and metrics.

use crate::support::Folder;
use measure::Transport;
use parquet::file::reader::{FileReader, SerializedFileReader};
use report::Run;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use testbed::echo::{Echo, EchoPlan};

/// Part of the reason when the send lag limit is zero.
const REASON: &str = "of the send lag is";

fn catlab(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_catlab")).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text.into_owned())
}

fn says(what: &str, text: &str) {
    assert!(text.contains("INVALID") && text.contains(REASON), "{what}: {}", &text[..text.len().min(2_000)]);
}

fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A run with a lag limit that is never or always kept. Checks its output during the run.
fn load(out: &Path, limit: &str, code: i32) -> String {
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let server = echo.address(Transport::Udp).to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_catlab"))
        .args(["load", "--workers", "1", "--server", &server, "--name", "q{n}.example", "--rate", "200"])
        .args(["--duration", "6s", "--timeout", "3s", "--lag-limit", limit, "--parquet", "--dnsperf-text"])
        .args(["--freshness", &server, "--freshness-zone", "example"])
        .args(["--prometheus", "127.0.0.1:0", "--prometheus-wait", "60s", "--force", "--out"])
        .arg(out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().unwrap();
    let address = first.strip_prefix("metrics at http://").unwrap().strip_suffix("/metrics").unwrap().to_owned();
    for line in lines.by_ref().take(6) {
        printed += &(line + "\n");
    }
    // The endpoint stays up until the final values have been read.
    let mut metrics = String::new();
    while !metrics.contains("of the whole run") {
        std::thread::sleep(std::time::Duration::from_millis(20));
        metrics = get(&address);
    }
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    printed.extend(lines.map(|line| line + "\n"));
    assert_eq!(child.wait().unwrap().code(), Some(code), "{text}{printed}");
    if code == 1 {
        says("the view", &printed);
        says("the endpoint", &metrics);
        assert!(metrics.contains("\ncatlab_valid 0\n"), "{metrics}");
        says("dnsperf's text", text.split("Statistics:").next().unwrap());
        says("the summary", text.split("Statistics:").nth(1).unwrap());
    } else {
        assert!(metrics.contains("\ncatlab_valid 1\n"), "{metrics}");
        assert!(
            ![&printed, &metrics, &text].into_iter().any(|text| text.contains("INVALID")),
            "{printed}{metrics}{text}"
        );
    }
    text
}

fn validity_of_parquet(file: &Path) -> String {
    let file = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let facts = file.metadata().file_metadata().key_value_metadata().unwrap();
    facts.iter().find(|fact| fact.key == "catlab.validity").unwrap().value.clone().unwrap()
}

/// Counts the pixels in the colour of warnings in each PNG, in the lines of the reason.
fn red_below_titles(folder: &Path) -> Vec<usize> {
    let count = |picture: &Path| {
        let mut reader = png::Decoder::new(BufReader::new(File::open(picture).unwrap())).read_info().unwrap();
        let mut points = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut points).unwrap();
        let row = frame.width as usize * 3;
        let lines = &points[46 * row..80 * row];
        lines.chunks_exact(3).filter(|point| point[0] > 150 && point[1] < 150 && point[2] < 150).count()
    };
    std::fs::read_dir(folder).unwrap().map(|entry| count(&entry.unwrap().path())).collect()
}

#[test]
fn every_output_of_an_invalid_run_is_marked_invalid() {
    let folder = Folder::new("validity");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = folder.path().join("run");
    let text = load(&run, "0us", 1);
    let file = |name: &str| std::fs::read_to_string(run.join(name)).unwrap();
    for name in ["latency.hlog", "service.hlog", "send_lag.hlog"] {
        says(name, &file(name));
    }
    assert!(file("INVALID.txt").contains(REASON));
    let json = |name: &str| serde_json::from_str::<Value>(file(name).lines().next().unwrap()).unwrap();
    let whole = |name: &str| serde_json::from_str::<Value>(&file(name)).unwrap();
    for (name, validity) in [
        ("summary.json", whole("summary.json")["validity"].clone()),
        ("manifest.json", whole("manifest.json")["validity"].clone()),
        ("freshness.json", whole("freshness.json")["validity"].clone()),
        ("seconds.jsonl", json("seconds.jsonl")["additional_info"]["validity"].clone()),
        ("shotgun.json", json("shotgun.json")["validity"].clone()),
        ("shotgun.jsonl", json("shotgun.jsonl")["validity"].clone()),
    ] {
        assert_eq!(validity["valid"], false, "{name}");
        assert!(validity["reasons"][0].as_str().unwrap().contains(REASON), "{name}: {validity}");
    }
    says("queries.parquet", &validity_of_parquet(&run.join("queries.parquet")));

    // What is made from the run: plots and merged runs.
    let pictures = ["--svg", &at("svg"), "--png", &at("png")];
    let (code, printed) = catlab(&[&["report", &at("run"), "--out", &at("page.html")][..], &pictures].concat());
    assert_eq!(code, 0, "{printed}");
    let page = std::fs::read_to_string(at("page.html")).unwrap();
    says("the page", &page[page.find("<body>").unwrap()..page.find("<nav>").unwrap()]);
    let pictures: Vec<_> = std::fs::read_dir(at("svg")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pictures.len() >= 4, "{pictures:?}");
    for picture in pictures {
        says(&picture.to_string_lossy(), &std::fs::read_to_string(&picture).unwrap());
    }
    let reasons = || red_below_titles(&folder.path().join("png"));
    assert!(reasons().len() >= 4 && reasons().iter().all(|&red| red > 500), "{:?}", reasons());
    let (code, printed) = catlab(&["compare", &at("run"), &at("run")]);
    assert_eq!(code, 2, "{printed}");
    says("compare", &printed);
    let (_, printed) = catlab(&["compare", &at("run"), &at("run"), "--force"]);
    says("compare --force", &printed);
    let (_, printed) = catlab(&["merge", &at("run"), &at("run"), "--out", &at("merged")]);
    says("merge", &printed);
    says("the merged folder", &std::fs::read_to_string(folder.path().join("merged/latency.hlog")).unwrap());
    assert!(folder.path().join("merged/INVALID.txt").exists());
    std::fs::write(at("old.txt"), format!("{text}\n")).unwrap();
    let old = Run::read(Path::new(&at("old.txt"))).unwrap();
    assert!(old.notes[0].contains("INVALID") && old.notes[0].contains(REASON), "{:?}", old.notes);

    // A valid run in the same folder removes the mark.
    load(&run, "10s", 0);
    assert!(!run.join("INVALID.txt").exists());
    assert_eq!(validity_of_parquet(&run.join("queries.parquet")), "valid");
    assert!(file("latency.hlog").contains("#[valid]"));
    assert_eq!(whole("manifest.json")["validity"]["valid"], true);
    let (code, printed) = catlab(&["report", &at("run"), "--out", &at("page.html"), "--png", &at("png"), "--force"]);
    assert_eq!(code, 0, "{printed}");
    assert!(reasons().iter().all(|&red| red == 0), "{:?}", reasons());
}

#[test]
fn a_capacity_search_marks_invalid_tries() {
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let server = echo.address(Transport::Udp).to_string();
    let plan = ["--name", "q{n}.example", "--from", "100", "--to", "100", "--try-for", "1s", "--repeats", "1"];
    let limits = ["--lag-limit", "0us", "--timeout", "200ms", "--pause", "1ms"];
    let (_, printed) = catlab(&[&["capacity", "--server", &server][..], &plan, &limits].concat());
    says("capacity", &printed);
    let (_, printed) = catlab(&[&["capacity", "--json", "--server", &server][..], &plan, &limits].concat());
    assert!(printed.contains("\"valid\": false") && printed.contains(REASON), "{printed}");
}
