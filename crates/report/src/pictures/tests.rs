//! Tests that every chart is drawn, and says so if the run is invalid.

use super::*;
use crate::{
    Client, ConnectionRow, Event, Limit, LimitSide, Quantiles, Recording, Sample, Summary, TransportRows,
    TransportSummary, Validity,
};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// The charts of a run with all kinds of data.
const NAMES: [&str; 14] = [
    "percentiles",
    "cdf",
    "losses",
    "send-lag",
    "connections",
    "handshakes",
    "server-cpu",
    "server-memory",
    "client-rates",
    "client-shares",
    "client-latency",
    "seconds",
    "heat",
    "answers",
];

fn run(is_valid: bool) -> Run {
    let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
    for second in 0..4u64 {
        recording.rows.push(Row {
            start_seconds: second as f64,
            span_seconds: 1.0,
            sent: 1_000,
            answered: 990 + second,
            timed_out: 10 - second,
            rcodes: BTreeMap::from([("NOERROR".into(), 900), ("NXDOMAIN".into(), 90 + second)]),
            latency: Distribution::of((1..=1_000).map(|us| (us * 1_000 * (second + 1), 1))),
            send_lag: Distribution::of([(50, 990), (20_000, 10)]),
            ..Row::default()
        });
    }
    watched(&mut recording);
    recording.events.push(Event { at: 1.5, kind: "fault".into(), text: "leader <killed>".into() });
    let total = recording.total();
    let all = TransportSummary::from(&total);
    let reasons = if is_valid { Vec::new() } else { vec!["sent <too> late".to_owned(), "lost".to_owned()] };
    let summary = Summary {
        schema_version: 1,
        transports: BTreeMap::new(),
        total: all,
        replay: None,
        offered_rate: 1_000.0,
        achieved_rate: 991.0,
        duration_seconds: 4.0,
        validity: Validity { valid: is_valid, reasons },
        limit: Limit { side: LimitSide::Server, evidence: Vec::new() },
        wrong_answers: Vec::new(),
        hosts: Vec::new(),
        agents: Vec::new(),
        seconds: crate::SecondFigures::default(),
        monitor: BTreeMap::new(),
        rtt: None,
        client_latency: None,
        partial: false,
        per_query: None,
    };
    Run {
        label: "a run".into(),
        origin: "test".into(),
        summary: Some(summary),
        manifest: None,
        total,
        recording,
        notes: Vec::new(),
    }
}

/// Adds connections, monitoring and clients.
fn watched(recording: &mut Recording) {
    let handshake_us = Quantiles { p50: 200.0, p99: 550.0, max: 610.0, n: 5, ..Quantiles::default() };
    let row = |at, open| ConnectionRow { at, open, opened: 5, handshake_us, ..ConnectionRow::default() };
    let connections = vec![row(0.0, 5), row(1.0, 10), row(2.0, 15)];
    recording.transports.insert("dot".into(), TransportRows { rows: Vec::new(), connections });
    recording.samples = (0..4u32)
        .map(|second| Sample {
            at: f64::from(second),
            source: "pid 4711".into(),
            cpu_cores: (second > 0).then_some(0.5),
            rss_bytes: Some(3e7),
            ..Sample::default()
        })
        .collect();
    // Seven of ten clients were answered.
    recording.clients = (1..=10u64)
        .map(|client| Client {
            client,
            sent: 100 / client,
            p50_us: if client > 7 { 0.0 } else { 100.0 * client as f64 },
            p99_us: 900.0,
            expected: Some(100.0 / client as f64),
            ..Client::default()
        })
        .collect();
}

#[test]
fn several_latencies_are_drawn_by_name() {
    let path = std::env::temp_dir().join(format!("catlab-latencies-{}.svg", std::process::id()));
    let (one, other) = (run(true).total.latency, Distribution::of([(2_000_000, 5)]));
    latencies(&path, "Updates", &[("ours", &one), ("theirs", &other)]).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(["Updates", "ours", "theirs", "99.9 %"].iter().all(|part| text.contains(part)), "{text}");
    assert!(latencies(&path, "Nothing", &[]).is_err() && !path.exists());
}

#[test]
fn unanswered_clients_are_included() {
    let run = run(true);
    let points = clients::within(&run.recording.clients, |client| client.p50_us);
    assert_eq!((points.len(), points[0], points[6]), (7, (100e-6, 0.1), (700e-6, 0.7)));
}

#[test]
fn every_picture_is_drawn_with_its_marks() {
    let pictures = all(&[run(true)], ImageFormat::Svg);
    let texts: Vec<_> = pictures.iter().map(|picture| String::from_utf8(picture.draw().unwrap()).unwrap()).collect();
    let names: Vec<_> = pictures.iter().map(|picture| picture.file_name.strip_suffix(".svg").unwrap()).collect();
    assert_eq!(names, NAMES);
    for (name, text) in names.iter().zip(&texts) {
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{name}");
        assert!(!text.contains("INVALID"), "{name}");
        let has_time = !matches!(*name, "percentiles" | "cdf") && !name.starts_with("client-");
        assert_eq!(text.contains("leader &lt;killed&gt;"), has_time, "{name}");
        // The only URL is the XML namespace.
        assert_eq!(text.matches("http").count(), text.matches("http://www.w3.org/2000/svg").count(), "{name}");
    }
    assert!(texts[0].contains("99.9 %") && texts[0].contains("1 ms"), "{}", texts[0]);
    let says = |name: &str, words: &[&str]| {
        let at = NAMES.iter().position(|own| *own == name).unwrap();
        assert!(words.iter().all(|word| texts[at].contains(word)), "{name}: {}", texts[at]);
    };
    says("answers", &["NXDOMAIN", "timed out"]);
    says("server-cpu", &["cores", "0.5"]);
    says("server-memory", &["resident, MB", "30"]);
    says("connections", &["connections", "14"]);
    says("handshakes", &["200 us", "500 us"]);
    says("client-rates", &["a run expected", "queries a second"]);
    says("client-shares", &["all alike", "a run expected", "50 %"]);
    says("client-latency", &["p50", "p99", "100 us"]);
}

#[test]
fn titles_mark_invalid_runs() {
    for picture in [
        heat(&run(false), &Frame::of(&[run(false)])),
        percentiles(&[run(false)]),
        cumulative_latency(&[run(true), run(false)]),
        losses(&[run(false)]),
        send_lag(&[run(false)]),
        connections::open(&[run(false)]),
        connections::handshakes(&[run(false)]),
        server::processor(&[run(false)]),
        server::memory(&[run(false)]),
        clients::rates(&[run(false)]),
        clients::shares(&[run(false)]),
        clients::latencies(&[run(false)]),
    ] {
        let text = String::from_utf8(picture.unwrap().draw(ImageFormat::Svg).unwrap()).unwrap();
        assert!(text.contains("(INVALID: a run)") && text.contains("sent &lt;too&gt; late (and 1 more)"), "{text}");
    }
    let both = percentiles(&[run(true), run(false), run(false)]).unwrap();
    let text = String::from_utf8(both.draw(ImageFormat::Svg).unwrap()).unwrap();
    assert!(text.contains("a run: sent &lt;too&gt; late (and 1 more); a run: sent"), "{text}");
}

#[test]
fn long_reasons_are_cut_at_the_picture_edge() {
    let mut long = run(false);
    long.summary.as_mut().unwrap().validity.reasons = vec!["0123456789 ".repeat(40)];
    let text = String::from_utf8(percentiles(&[long]).unwrap().draw(ImageFormat::Svg).unwrap()).unwrap();
    let reason = text.lines().find(|line| line.contains("0123456789 ")).unwrap().trim();
    assert!(reason.ends_with('…') && (100..200).contains(&reason.len()), "{reason}");
}

#[test]
fn runs_without_latency_have_fewer_pictures() {
    let mut run = run(true);
    run.total.latency = Distribution::default();
    run.recording.rows.iter_mut().for_each(|row| row.latency = Distribution::default());
    assert!(
        percentiles(std::slice::from_ref(&run)).is_none()
            && heat(&run, &Frame::of(std::slice::from_ref(&run))).is_none()
    );
    assert!(answers(&run, &Frame::of(std::slice::from_ref(&run))).is_some());
}

/// Columns and rows of a PNG with non-white pixels in this area.
fn ink(picture: &[u8], columns: std::ops::Range<usize>, rows: std::ops::Range<usize>) -> usize {
    let mut reader = png::Decoder::new(std::io::Cursor::new(picture)).read_info().unwrap();
    let mut points = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut points).unwrap();
    assert_eq!((frame.width, frame.height, frame.color_type), (1_800, 840, png::ColorType::Rgb));
    let is_ink = |(x, y): (usize, usize)| points[(y * 1_800 + x) * 3..][..3].iter().any(|&part| part < 0xF0);
    rows.flat_map(|y| columns.clone().map(move |x| (x, y))).filter(|&at| is_ink(at)).count()
}

#[test]
fn a_png_has_title_and_tick_labels() {
    let pictures = all(&[run(true)], ImageFormat::Png);
    let files: Vec<_> = pictures.iter().map(|picture| picture.draw().unwrap()).collect();
    assert_eq!(pictures.len(), NAMES.len());
    for (picture, file) in pictures.iter().zip(&files) {
        // Letters cover a part of their line: more than nothing, and less than boxes.
        for (what, columns, rows) in
            [("title", 0..1_800, 20..60), ("ticks", 60..160, 60..700), ("axis", 160..1_800, 780..830)]
        {
            let all = columns.len() * rows.len();
            let share = ink(file, columns, rows) as f64 / all as f64;
            assert!((0.001..0.3).contains(&share), "{} {what}: {share}", picture.file_name);
        }
    }
    let same_but_invalid = percentiles(&[run(false)]).unwrap().draw(ImageFormat::Png).unwrap();
    let title = |picture: &[u8]| ink(picture, 0..1_800, 20..60);
    assert!(title(&same_but_invalid) > title(&files[0]) * 3 / 2);
    // The reason is below the title.
    let reason = |picture: &[u8]| ink(picture, 200..1_600, 50..74);
    assert!(reason(&files[0]) < 100 && reason(&same_but_invalid) > 1_000, "{}", reason(&same_but_invalid));
}

#[test]
fn each_second_has_its_figures() {
    let run = run(true);
    let series = |name: &str| crate::second_series(&run, name).unwrap();
    let seconds: Vec<_> = (0..4_u32).map(f64::from).collect();
    let shares: Vec<_> = seconds.iter().map(|second| (second + 0.5, (990.0 + second) / 1_000.0)).collect();
    assert_eq!(series("share"), shares);
    assert_eq!(series("max_us").iter().map(|(_, us)| us.round()).collect::<Vec<_>>(), [1e3, 2e3, 3e3, 4e3]);
    assert_eq!(series("monitor.1.rss_bytes"), seconds.iter().map(|second| (*second, 3e7)).collect::<Vec<_>>());
    // The first sample has no CPU time, and there is no second source.
    assert_eq!((series("monitor.1.cpu_cores").len(), series("monitor.2.rss_bytes").len()), (3, 0));
    for name in ["latency", "monitor.0.rss_bytes", "monitor.1.colour", "monitor.rss_bytes"] {
        assert!(!crate::is_second_series(name) && crate::second_series(&run, name).is_none(), "{name}");
    }
}
