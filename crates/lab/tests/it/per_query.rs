//! The rows of `queries.parquet` agree with the summary of the same run, query for query.

use crate::support::Folder;
use lab::results;
use load::engine::{Pace, Plan, TlsPlan, run};
use load::per_query::PerQuery;
use load::schedule::{Arrivals, Schedule};
use load::workload::{Extras, Generator, NameDistribution, Popularity, Workload};
use measure::{Quantiles, QueryFileCounts, Transport};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use report::{Rules, Summary, TransportSummary};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use testbed::echo::{Echo, EchoPlan, Fault, ReceivedQuery};
use wire::number::Rtype;

const TIMEOUT: Duration = Duration::from_secs(2);
/// The delay of late answers.
const DELAY: Duration = Duration::from_millis(2_500);

/// The digits of `q123.example.`.
fn number(query: &ReceivedQuery<'_>) -> u64 {
    let label = &query.message[14..13 + usize::from(query.message[12])];
    std::str::from_utf8(label).unwrap().parse().unwrap()
}

/// A run of 600 queries a second for two seconds with `queries.parquet`. Returns its summary and rows.
fn measured(folder: &Path, transport: Transport, faults: fn(&ReceivedQuery<'_>) -> Fault) -> (Summary, Vec<Row>) {
    let echo = EchoPlan { faults: Arc::new(faults), ..EchoPlan::new(&[transport]).unwrap() };
    let echo = Echo::start(&echo).unwrap();
    let names = NameDistribution {
        pattern: "q{n}.example".into(),
        count: 1_000_000,
        popularity: Popularity::Sequential,
        nxdomain_share: 0.0,
    };
    let types = [(Rtype::A, 0.5), (Rtype::AAAA, 0.5)];
    let workload = Workload::generated(Generator::new(names, &types, Extras::default(), 1).unwrap());
    let schedule = Schedule::constant(600.0, Duration::from_secs(2), Arrivals::Even).unwrap();
    let rows = PerQuery::create(folder).unwrap();
    let plan = Plan {
        transport,
        timeout: TIMEOUT,
        worker_count: 2,
        tls: TlsPlan { is_insecure: true, ..TlsPlan::default() },
        per_query: Some(rows.sink()),
        ..Plan::new(vec![echo.address(transport)], workload, Pace::Open(schedule))
    };
    let outcome = run(&plan, |_| 0).unwrap();
    let summary = results::summary(&plan, &outcome, &Rules::default());
    let written = rows.finish(outcome.started, TIMEOUT, &summary.validity.to_string()).unwrap();
    assert_eq!(written, QueryFileCounts { rows: summary.total.sent, dropped: 0 });
    let file = SerializedFileReader::new(File::open(folder.join("queries.parquet")).unwrap()).unwrap();
    let facts = file.metadata().file_metadata().key_value_metadata().unwrap();
    let fact = |key: &str| facts.iter().find(|fact| fact.key == key).unwrap().value.clone().unwrap();
    assert_eq!((fact("catlab.timeout_ns"), fact("catlab.dropped")), (TIMEOUT.as_nanos().to_string(), "0".into()));
    assert_eq!(fact("catlab.validity"), summary.validity.to_string());
    let rows = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    (summary, rows)
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    row.get_column_iter().find(|(own, _)| *own == name).unwrap().1
}

fn text(row: &Row, name: &str) -> Option<String> {
    match field(row, name) {
        Field::Str(text) => Some(text.clone()),
        Field::Null => None,
        other => panic!("{name}: {other:?}"),
    }
}

fn whole(row: &Row, name: &str) -> Option<i64> {
    match field(row, name) {
        Field::Long(value) => Some(*value),
        Field::Int(value) => Some(i64::from(*value)),
        Field::Null => None,
        other => panic!("{name}: {other:?}"),
    }
}

fn count(rows: &[Row], which: impl Fn(&Row) -> bool) -> u64 {
    rows.iter().filter(|row| which(row)).count() as u64
}

/// Recomputes every figure of the summary about queries from the rows.
fn agree(rows: &[Row], total: &TransportSummary) {
    let with = |fate: &str| count(rows, |row| text(row, "outcome").as_deref() == Some(fate));
    assert_eq!(rows.len() as u64, total.sent);
    assert_eq!(with("answered"), total.answered);
    assert_eq!(with("timed_out") + with("late"), total.timed_out);
    assert_eq!(with("connection_lost"), total.connection_lost);
    assert_eq!(with("interrupted"), total.interrupted);
    let in_time = || rows.iter().filter(|row| text(row, "outcome").as_deref() == Some("answered"));
    let mut rcodes = BTreeMap::new();
    for row in in_time() {
        *rcodes.entry(text(row, "rcode").unwrap()).or_default() += 1;
    }
    assert_eq!(rcodes, total.rcodes);
    assert_eq!(in_time().filter(|row| *field(row, "truncated") == Field::Bool(true)).count() as u64, total.truncated);
    // A query without an answer in time is in the distributions with the timeout.
    let [planned, sent] = ["planned_ns", "sent_ns"].map(|name| move |row: &Row| whole(row, name).unwrap());
    let is_in_time = |row: &Row| text(row, "outcome").as_deref() == Some("answered");
    let timeout = TIMEOUT.as_nanos() as i64;
    let latency =
        |row: &Row| if is_in_time(row) { whole(row, "latency_ns") } else { Some(sent(row) - planned(row) + timeout) };
    let service = |row: &Row| if is_in_time(row) { whole(row, "service_ns") } else { Some(timeout) };
    for (name, quantiles, value) in [
        ("latency", &total.latency_us, &latency as &dyn Fn(&Row) -> Option<i64>),
        ("service", &total.service_us, &service),
        ("send lag", &total.send_lag_us, &|row| Some(sent(row) - planned(row))),
    ] {
        let mut values: Vec<i64> = rows.iter().map(|row| value(row).unwrap().max(1)).collect();
        values.sort_unstable();
        assert_eq!(values.len() as u64, quantiles.n);
        let Quantiles { min, p50, p99, max, .. } = *quantiles;
        for (quantile, us) in [(0.0, min), (0.5, p50), (0.99, p99), (1.0, max)] {
            let at = (values.len() as f64 * quantile).ceil() as usize;
            let exact = values[at.max(1) - 1] as f64 / 1e3;
            assert!((us - exact).abs() <= 0.001 * exact + 0.001, "{name} {quantile}: {us} {exact}");
        }
    }
}

#[test]
fn rows_agree_over_udp_with_losses_late_duplicate_and_truncated_answers() {
    let folder = Folder::new("rows-udp");
    let (summary, rows) = measured(folder.path(), Transport::Udp, |query| match number(query) % 40 {
        0 => Fault::Drop,
        1 => Fault::Twice,
        2 => Fault::Rcode(5),
        3 => Fault::Truncated,
        4 => Fault::OtherQuestion,
        5 => Fault::Delay(DELAY),
        _ => Fault::None,
    });
    let total = &summary.total;
    assert!(total.late > 0 && total.duplicate > 0 && total.mismatched > 0 && total.truncated > 0);
    agree(&rows, total);
    // Late answers that arrived before the run ended.
    let late = |row: &Row| text(row, "outcome").as_deref() == Some("late");
    assert_eq!(count(&rows, late), total.late);
    for row in rows.iter().filter(|row| late(row)) {
        let latency = Duration::from_nanos(whole(row, "latency_ns").unwrap() as u64);
        let qname = text(row, "qname").unwrap();
        let number: u64 = qname.trim_start_matches('q').split_once('.').unwrap().0.parse().unwrap();
        // A busy machine may answer other queries late too.
        let least = if number % 40 == 5 { DELAY } else { TIMEOUT };
        assert!((least..4 * DELAY).contains(&latency), "{qname} {latency:?}");
    }
    for row in &rows {
        let name = text(row, "qname").unwrap();
        assert!(name.starts_with('q') && name.ends_with(".example."), "{name}");
        assert!(matches!(text(row, "qtype").as_deref(), Some("A" | "AAAA")));
        assert_eq!((text(row, "transport").as_deref(), whole(row, "client")), (Some("udp"), None));
        let bytes = whole(row, "query_bytes").unwrap();
        // Header, the name with its length bytes, type and class.
        assert_eq!(bytes as usize, 12 + name.len() + 1 + 4);
        assert!(whole(row, "response_bytes").is_none_or(|response| response == bytes));
    }
    assert!(!folder.path().join("queries.parquet.part").exists());
}

#[test]
fn rows_agree_over_connections_that_are_closed() {
    for transport in [Transport::Tcp, Transport::Doq, Transport::Doh] {
        let folder = Folder::new(&format!("rows-{transport}"));
        let (summary, rows) = measured(folder.path(), transport, |query| match number(query) {
            at if at % 100 == 7 => Fault::Drop,
            at if at % 300 == 9 => Fault::CloseUnanswered,
            _ => Fault::None,
        });
        assert!(summary.total.timed_out > 0, "{transport}");
        assert!(summary.total.connection_lost > 0, "{transport}");
        agree(&rows, &summary.total);
        for row in &rows {
            assert_eq!(text(row, "transport"), Some(transport.to_string()));
            assert!((0..16).contains(&whole(row, "client").unwrap()));
        }
    }
}

#[test]
fn the_program_writes_rows_with_parquet() {
    let folder = Folder::new("rows-program");
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let server = echo.address(Transport::Udp).to_string();
    let load = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
        command.args(["load", "--quiet", "--server", &server, "--name", "q{n}.example"]);
        command.args(["--rate", "500", "--duration", "1s", "--parquet"]).args(more).output().unwrap()
    };
    let output = load(&["--self-check", "--out", &folder.path().to_string_lossy()]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("500 rows in queries.parquet\n"), "{stdout}");
    let summary = std::fs::read_to_string(folder.path().join("summary.json")).unwrap();
    let summary: Summary = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary.per_query, Some(QueryFileCounts { rows: 500, dropped: 0 }));
    let file = SerializedFileReader::new(File::open(folder.path().join("queries.parquet")).unwrap()).unwrap();
    assert_eq!(file.metadata().file_metadata().num_rows(), 500);
    let output = load(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--out"));
}

#[test]
fn a_missing_folder_is_named() {
    let error = results::write_error(PerQuery::create(Path::new("/nowhere")).unwrap_err()).to_string();
    assert!(error.contains("/nowhere/queries.parquet could not be written"), "{error}");
}
