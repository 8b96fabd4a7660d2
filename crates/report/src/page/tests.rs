//! Tests of the charts' data.

use super::*;
use crate::{Client, ConnectionRow, Event, Quantiles, Recording, Row, Sample, Sighting, TransportRows};
use measure::Distribution;
use std::time::{Duration, UNIX_EPOCH};

/// A run with data for all charts.
fn run() -> Run {
    let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
    for second in 0..4u64 {
        recording.rows.push(Row {
            start_seconds: second as f64,
            span_seconds: 1.0,
            sent: 100,
            answered: 98,
            arrived: 98,
            timed_out: 2,
            rcodes: [("NOERROR".into(), 98)].into(),
            latency: Distribution::of([(100_000, 98), (1_000_000_000, 2)]),
            send_lag: Distribution::of([(50, 100)]),
            ..Row::default()
        });
    }
    for at in [0.5, 2.5] {
        recording.events.push(Event { at, kind: "fault".into(), text: "leader killed".into() });
    }
    let handshake_us = Quantiles { p50: 200.0, p99: 550.0, max: 610.0, n: 5, ..Quantiles::default() };
    let connections = vec![ConnectionRow { opened: 5, open: 5, handshake_us, ..ConnectionRow::default() }];
    recording.transports.insert("dot".into(), TransportRows { rows: recording.rows.clone(), connections });
    recording.samples = (0..4u32)
        .map(|second| Sample {
            at: f64::from(second),
            source: "pid 4711".into(),
            cpu_cores: Some(0.5),
            rss_bytes: Some(3e7),
            threads: Some(4),
            voluntary_switches: Some(100),
            udp_drops: Some(3),
            tcp_states: [("ESTABLISHED".to_owned(), 10)].into(),
            metrics: [("up".to_owned(), f64::from(second))].into(),
            ..Sample::default()
        })
        .collect();
    recording.sightings = vec![Sighting { at: 1.0, server: "127.0.0.1:53".into(), visible_us: Some(800.0) }];
    recording.clients =
        vec![Client { client: 1, sent: 400, answered: 392, p50_us: 1.0, p99_us: 2.0, ..Client::default() }];
    let total = recording.total();
    let (label, origin) = ("a run".into(), "test".into());
    Run { label, origin, summary: None, manifest: None, total, recording, notes: Vec::new() }
}

#[test]
fn all_time_axes_have_the_marks() {
    let runs = [run()];
    let figures = figures(&runs, &[intervals::of(&runs[0])]);
    let untimed: Vec<_> = figures.iter().filter(|figure| !figure.is_timed).map(|figure| figure.id.as_str()).collect();
    assert_eq!(untimed, ["percentiles", "cdf", "client-rates", "client-shares", "client-latency"]);
    assert!(figures.len() >= 20, "{}", figures.len());
    for figure in &figures {
        let title = figure.layout["xaxis"]["title"]["text"].as_str().unwrap_or_default();
        assert_eq!(title.starts_with("time in the run"), figure.is_timed, "{}: {title}", figure.id);
        let at: Vec<f64> = figure.layout["shapes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|shape| shape["yref"] == "paper" && shape["x0"] == shape["x1"])
            .filter_map(|shape| shape["x0"].as_f64())
            .collect();
        let numbers: Vec<_> = figure.layout["annotations"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|mark| mark["hovertext"].as_str().is_some_and(|text| text.contains("fault: leader killed")))
            .map(|mark| mark["text"].as_str().unwrap_or_default())
            .collect();
        let (times, texts): (&[f64], &[&str]) = if figure.is_timed { (&[0.5, 2.5], &["1", "2"]) } else { (&[], &[]) };
        assert_eq!((at.as_slice(), numbers.as_slice()), (times, texts), "{}", figure.id);
    }
}
