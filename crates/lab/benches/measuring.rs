//! `cargo xtask bench measuring`: measures one faulty server with dnsperf and with catlab, and compares their results
//! (docs/history/measuring.md).

#[expect(dead_code, reason = "other benches use the rest")]
#[path = "support/command.rs"]
mod command;
#[path = "support/document.rs"]
mod document;
#[expect(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/support/faults.rs"]
mod faults;

use measure::{Row, Transport};
use report::{Run, duration};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use testbed::echo::{Echo, EchoPlan, Faults};

/// Queries per second, duration and timeout of both tools.
const RATE: &str = "1000";
const SECONDS: &str = "10";
const TIMEOUT_SECONDS: &str = "1";
/// The second with the fault, counted from 0.
const SECOND: u64 = 4;

fn main() -> ExitCode {
    command::run(
        "measuring",
        Options::parse(std::env::args().skip(1)),
        |options| &options.folder,
        |options| measure(options).map(|()| true),
    )
}

const HELP: &str = "\
cargo xtask bench measuring [--write DOCUMENT]

  --write FILE  put what was said between the marks of this document
";

struct Options {
    document: Option<PathBuf>,
    /// Temporary files of the programs.
    folder: PathBuf,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { document: None, folder: command::folder("measuring") };
        for given in command::options(words, HELP)? {
            match given.option.as_str() {
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.option)),
            }
        }
        Ok(options)
    }
}

fn measure(options: &Options) -> Result<(), String> {
    let folder = &options.folder;
    let queries = folder.join("queries");
    let names = (0..10_000).map(|number| format!("q{number}.example. A\n")).collect::<String>();
    std::fs::write(&queries, names).map_err(|error| error.to_string())?;
    let (late, dropping) = (SECOND, SECOND);
    let cases: [(&str, &dyn Fn() -> Faults); 4] = [
        ("No fault", &|| std::sync::Arc::new(|_| testbed::echo::Fault::None)),
        ("Stops for 200 ms in each second", &faults::stops_each_second),
        ("Drops 1 % of the queries in second 4", &|| faults::drops_in_one_second_of_ten(dropping)),
        ("Answers a tenth of the queries of second 4 after 1.5 s", &|| faults::answers_late_in(late)),
    ];
    let mut text = String::new();
    for (title, faults) in cases {
        let printed = serve(faults(), |server| dnsperf(server, &queries))?;
        let run = serve(faults(), |server| catlab(server, &queries, &folder.join("run")))?;
        // Writing into a string cannot fail.
        let _written =
            write!(text, "### {title}\n\ndnsperf 2.10:\n\n```text\n{printed}```\n\ncatlab:\n\n{}\n", seconds(&run));
    }
    println!("{text}");
    options.document.as_deref().map_or(Ok(()), |path| document::write(path, "cargo xtask bench measuring", &text))
}

fn serve<T>(faults: Faults, ask: impl FnOnce(SocketAddr) -> Result<T, String>) -> Result<T, String> {
    let plan = EchoPlan::new(&[Transport::Udp]).map_err(|error| error.to_string())?;
    let echo = Echo::start(&EchoPlan { faults, ..plan }).map_err(|error| error.to_string())?;
    ask(echo.address(Transport::Udp))
}

/// The part of dnsperf's output about the server: the seconds and the statistics.
fn dnsperf(server: SocketAddr, queries: &Path) -> Result<String, String> {
    let mut command = Command::new("dnsperf");
    command.args(["-s", &server.ip().to_string(), "-p", &server.port().to_string(), "-l", SECONDS, "-Q", RATE]);
    command.args(["-t", TIMEOUT_SECONDS, "-S", "1", "-d"]).arg(queries);
    let output = command.output().map_err(|error| format!("dnsperf: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds: Vec<&str> =
        text.lines().filter(|line| is_second(line)).map(|line| line.split(": ").nth(1).unwrap()).collect();
    let is_statistic = |line: &&str| {
        ["Queries ", "Average Latency", "Latency StdDev", "Run time"].iter().any(|head| line.trim().starts_with(head))
    };
    let warnings = warnings(&text) + &warnings(&String::from_utf8_lossy(&output.stderr));
    let statistics = text.lines().filter(is_statistic).fold(String::new(), |text, line| text + line + "\n");
    Ok(format!("  answers a second (-S 1): {}\n{warnings}{statistics}", seconds.join(" ")))
}

/// Counts the warnings by kind, ignoring the numbers in them.
fn warnings(text: &str) -> String {
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for line in text.lines().filter(|line| line.starts_with("[Timeout]") || line.contains("Warning")) {
        let kind: String = line.split(|letter: char| letter.is_ascii_digit()).next().unwrap_or_default().trim().into();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds.iter().map(|(kind, count)| format!("  {count} times: {kind} ..\n")).collect()
}

/// Whether the line looks like `1700000000.123456: 1000.021`.
fn is_second(line: &str) -> bool {
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    line.split_once(": ").is_some_and(|(at, rate)| is_number(at) && is_number(rate))
}

fn catlab(server: SocketAddr, queries: &Path, out: &Path) -> Result<Run, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--server", &server.to_string(), "--rate", RATE]);
    command.args(["--duration", &format!("{SECONDS}s"), "--timeout", &format!("{TIMEOUT_SECONDS}s")]);
    let output = command.arg("--queries").arg(queries).arg("--force").arg("--out").arg(out).output();
    let output = output.map_err(|error| format!("catlab: {error}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("catlab: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Run::read(out).map_err(|error| error.to_string())
}

/// `seconds.jsonl` and `latency.hlog` as a table, followed by the whole run.
fn seconds(run: &Run) -> String {
    let heads = ["second", "sent", "answered", "timed out", "late answers came", "p50", "p99", "max"];
    let mut out = format!("| {} |\n{}|\n", heads.join(" | "), "|---".repeat(heads.len()));
    let mut line = |head: &str, row: &Row| {
        let at = |quantile: f64| duration(Duration::from_nanos(row.latency.quantile(quantile)));
        let Row { sent, answered, timed_out, late, .. } = row;
        let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
        // Writing into a string cannot fail.
        let _written = writeln!(out, "| {head} | {sent} | {answered} | {timed_out} | {late} | {p50} | {p99} | {max} |");
    };
    for row in &run.recording.rows {
        line(&format!("{:.0}", row.start_seconds), row);
    }
    line("all", &run.total);
    let reasons = run.reasons_invalid();
    out + &if reasons.is_empty() { String::new() } else { format!("\nINVALID: {}\n", reasons.join("; ")) }
}
