//! Tests that merging loses nothing and keeps each value in its second.

use super::*;
use crate::{Client, Event, Sample};
use measure::Second;
use std::time::Duration;

/// A run that began `offset_ms` after a fixed time, with these latencies in each of its seconds.
fn run(label: &str, offset_ms: u64, seconds: &[&[u64]]) -> Run {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400) + Duration::from_millis(offset_ms);
    let mut recording = Recording::new(started, Duration::from_secs(1));
    for (index, latencies) in seconds.iter().enumerate() {
        let mut second = Second::default();
        for latency in *latencies {
            second.sent(1_000, 40);
            second.answered += 1;
            second.rcodes[0] += 1;
            second.record_latency(latency * 1_000_000, latency * 1_000_000);
        }
        recording.rows.push(Row::new(index as u64, &second));
    }
    let at = |at: usize| ConnectionRow { at: at as f64, transport: "tcp".into(), open: 10, ..ConnectionRow::default() };
    let connections = (0..seconds.len()).map(at).collect();
    recording.transports.insert("tcp".into(), TransportRows { rows: recording.rows.clone(), connections });
    recording.clients = vec![Client { client: 0, ..Client::default() }, Client { client: 1, ..Client::default() }];
    recording.events = vec![Event { at: 0.25, kind: "note".into(), text: label.into() }];
    recording.samples = vec![Sample { at: 0.5, source: "pid 1".into(), ..Sample::default() }];
    let total = TransportSummary::from(&recording.total());
    let sent = total.sent;
    let summary = Summary {
        schema_version: 1,
        transports: BTreeMap::from([(
            Transport::Tcp,
            TransportSummary {
                connections: Some(ConnectionSummary { opened: 10, open_max: 10, ..ConnectionSummary::default() }),
                ..total.clone()
            },
        )]),
        total,
        replay: None,
        offered_rate: sent as f64 / seconds.len() as f64,
        achieved_rate: sent as f64 / seconds.len() as f64,
        duration_seconds: seconds.len() as f64,
        validity: Validity { valid: true, reasons: Vec::new() },
        limit: Limit { side: LimitSide::Server, evidence: vec!["seen".into()] },
        wrong_answers: Vec::new(),
        hosts: vec!["here".into()],
        agents: Vec::new(),
        seconds: crate::SecondFigures::default(),
        monitor: BTreeMap::new(),
        rtt: None,
        client_latency: None,
        partial: false,
        per_query: None,
    };
    let total = recording.total();
    let (label, origin) = (label.into(), "catlab load".into());
    Run { label, origin, summary: Some(summary), manifest: None, total, recording, notes: Vec::new() }
}

#[test]
fn seconds_are_added_to_the_nearest() {
    let runs = [run("a", 1_300, &[&[3], &[4, 5], &[6]]), run("b", 0, &[&[10], &[20], &[30]])];
    let (merged, summary) = merge(&runs).unwrap();
    assert_eq!(merged.started, runs[1].recording.started);
    let sent: Vec<_> = merged.rows.iter().map(|row| row.sent).collect();
    assert_eq!(sent, [1, 2, 3, 1]);
    assert_eq!(merged.transports["tcp"].rows, merged.rows);
    let parts = runs.iter().map(|run| &run.total.latency);
    assert_eq!(merged.total().latency, super::super::Distribution::sum(parts));
    assert_eq!((summary.total.sent, summary.total.answered, summary.total.latency_us.n), (7, 7, 7));
    // The values are 3, 4, 5, 6, 10, 20 and 30 ms.
    assert!((summary.total.latency_us.p50 / 6_000.0 - 1.0).abs() < 1e-3, "{}", summary.total.latency_us.p50);
    let open: Vec<_> = merged.transports["tcp"].connections.iter().map(|row| row.open).collect();
    assert_eq!(open, [10, 20, 20, 10]);
    let connections = summary.transports[&Transport::Tcp].connections.as_ref().unwrap();
    assert_eq!((connections.opened, connections.open_max), (20, 20));
    // From the start of the first run to the end of the last.
    assert!((summary.duration_seconds - 4.3).abs() < 1e-6 && (summary.offered_rate - 7.0 / 4.3).abs() < 1e-6);
}

#[test]
fn clients_events_and_samples_appear_once_each() {
    let runs = [run("a", 0, &[&[1], &[1]]), run("b", 400, &[&[1], &[1]])];
    let (merged, summary) = merge(&runs).unwrap();
    assert_eq!(merged.clients.iter().map(|client| client.client).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let events: Vec<_> = merged.events.iter().map(|event| (event.at, event.text.as_str())).collect();
    assert_eq!(events, [(0.25, "a"), (0.65, "b")]);
    assert_eq!(merged.samples.len(), 1);
    assert_eq!(summary.limit.evidence, ["a: seen", "b: seen"]);
    assert_eq!(summary.hosts, ["here"]);
}

#[test]
fn a_sum_with_an_invalid_run_is_invalid() {
    let mut runs = [run("a", 0, &[&[1]]), run("b", 0, &[&[1]])];
    let summary = runs[1].summary.as_mut().unwrap();
    summary.validity = Validity { valid: false, reasons: vec!["late".into()] };
    summary.limit.side = LimitSide::Tool;
    let (_, merged) = merge(&runs).unwrap();
    assert_eq!((merged.validity.valid, merged.limit.side), (false, LimitSide::Tool));
    assert_eq!(merged.validity.reasons, ["b: late"]);
}

#[test]
fn invalid_sums_are_refused() {
    let one = run("a", 0, &[&[1], &[1]]);
    assert!(matches!(merge(std::slice::from_ref(&one)), Err(MergeError::NoRun(_))));
    let later = run("b", 2_000, &[&[1]]);
    assert_eq!(merge(&[one.clone(), later]).unwrap_err(), MergeError::Apart("b".into(), "a".into()));
    let mut other = run("b", 0, &[&[1]]);
    other.recording.timeout = Duration::from_secs(2);
    assert_eq!(merge(&[one, other]).unwrap_err(), MergeError::Timeouts("b".into(), "a".into()));
}
