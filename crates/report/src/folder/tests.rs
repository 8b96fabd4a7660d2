//! Tests of the run folder: files have the measured values, in the formats of other programs.

use super::*;
use crate::{ConnectionRow, Event, Limit, LimitSide, Row, Run, Timeouts, TransportRows, TransportSummary, Validity};
use measure::{Second, Transport};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catlab-folder-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
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

/// Two seconds: in the first, 3 of 4 queries are answered and one is answered late. In the second, both are answered.
fn recording() -> Recording {
    let mut recording =
        Recording::new(UNIX_EPOCH + Duration::from_nanos(1_795_254_615_000_000_000), Duration::from_millis(20));
    let mut first = Second::default();
    for (lag, latency, rcode) in [(1_000, 1_500_000, 0), (2_000, 1_700_000, 0), (1_000, 7_000_000, 3)] {
        first.sent(lag, 33);
        first.answered += 1;
        first.arrived += 1;
        first.bytes_received += 49;
        first.rcodes[rcode] += 1;
        first.record_latency(latency, latency - lag);
    }
    first.sent(1_000, 33);
    first.timed_out = 1;
    first.record_latency(20_001_000, 20_000_000);
    let mut second = Second::default();
    for _ in 0..2 {
        second.sent(1_000, 33);
        second.answered += 1;
        second.arrived += 1;
        second.bytes_received += 49;
        second.rcodes[11] += 1;
        second.record_latency(400_000, 399_000);
    }
    second.late = 1;
    recording.rows = vec![Row::new(0, &first), Row::new(1, &second)];
    let rows = recording.rows.clone();
    recording.transports.insert("udp".into(), TransportRows { rows, connections: Vec::new() });
    recording
}

fn with_connections() -> Recording {
    let mut recording = recording();
    let rows = recording.rows.clone();
    recording.timeouts = Timeouts { handshake: Duration::from_secs(3), idle: Duration::from_millis(1_500) };
    let connection = |at, opened, open| ConnectionRow {
        at,
        transport: "doq".into(),
        opened,
        open,
        failed: 1,
        resumed: 2,
        early_data: 1,
        early_queries: 4,
        early_answers: 3,
        ..ConnectionRow::default()
    };
    let connections = vec![connection(0.0, 5, 5), connection(1.0, 3, 7)];
    recording.transports.insert("doq".into(), TransportRows { rows, connections });
    recording
}

fn summary(recording: &Recording) -> Summary {
    let total = TransportSummary::from(&recording.total());
    Summary {
        schema_version: 20_261_121,
        transports: BTreeMap::from([(Transport::Udp, total.clone())]),
        total,
        replay: None,
        offered_rate: 3.0,
        achieved_rate: 2.5,
        duration_seconds: 2.0,
        validity: Validity { valid: true, reasons: Vec::new() },
        limit: Limit { side: LimitSide::Server, evidence: vec!["none".into()] },
        wrong_answers: Vec::new(),
        hosts: vec!["host".into()],
        agents: Vec::new(),
        seconds: crate::SecondFigures::default(),
        monitor: BTreeMap::new(),
        rtt: None,
        client_latency: None,
        partial: false,
        per_query: None,
    }
}

fn written(name: &str, recording: &Recording) -> Folder {
    let folder = Folder::new(name);
    let manifest =
        Manifest { command: vec!["catlab".into(), "load".into()], version: "0.1.0".into(), ..Manifest::default() };
    write(&folder.0, recording, &summary(recording), &manifest).unwrap();
    folder
}

#[test]
fn written_files_are_read_back() {
    let mut recording = with_connections();
    recording.events.push(Event { at: 0.5, kind: "fault".into(), text: "leader killed".into() });
    let folder = written("round", &recording);
    let Run { recording: found, summary, manifest, total, .. } = read(&folder.0).unwrap();
    assert_eq!((found.started, found.timeout), (recording.started, recording.timeout));
    assert_eq!(found.timeouts, recording.timeouts);
    assert_eq!(found.rows, recording.rows);
    for (transport, transport_rows) in &recording.transports {
        assert_eq!(
            (&found.transports[transport].rows, &found.transports[transport].connections),
            (&transport_rows.rows, &transport_rows.connections)
        );
    }
    assert_eq!(found.events, recording.events);
    assert_eq!(total, recording.total());
    assert_eq!((summary.unwrap().total.sent, manifest.unwrap().version.as_str()), (6, "0.1.0"));
    let names: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 10, "{names:?}");
}

#[test]
fn newer_versions_are_refused() {
    let folder = written("newer", &recording());
    let path = folder.0.join("summary.json");
    let text = std::fs::read_to_string(&path).unwrap();
    // The fields of a newer version are unknown, so only the version is read.
    for text in [text.replace("20261121", "20991231"), r#"{"schema_version": 20991231}"#.to_owned()] {
        std::fs::write(&path, text).unwrap();
        let error = read(&folder.0).unwrap_err().to_string();
        assert!(error.contains("schema_version 20991231") && error.contains("a newer one"), "{error}");
    }
}

#[test]
fn seconds_are_dns_metrics() {
    let folder = written("metrics", &with_connections());
    let text = folder.text("seconds.jsonl");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| (line["type"].as_str().unwrap(), line["subid"].as_str())).collect();
    let block = |subid| [("stats_periodic", subid), ("stats_periodic", subid), ("stats_sum", subid)];
    let expected = [&[("header", None)][..], &block(None), &block(Some("doq")), &block(Some("udp"))].concat();
    assert_eq!(kinds, expected);
    // The types of the schema: identifiers are strings, counts are integers.
    assert!(lines.iter().all(|line| line["runid"] == "1795254615000000000"));
    assert_eq!((&lines[0]["schema_version"], &lines[0]["stats_interval"]), (&20_240_530.into(), &1.0.into()));
    assert_eq!(lines[0]["generator"], "catlab");
    assert_eq!(lines[0]["additional_info"]["validity"]["valid"], true);
    let first = &lines[1];
    let golden = r#"{"since":1795254615000000000,"until":1795254616000000000,"queries":4,"responses":3,"timeouts":1,
        "interrupted":0,"unexpected":0,"discarded":0,"response_rcodes":{"NOERROR":2,"NXDOMAIN":1}}"#;
    for (field, value) in serde_json::from_str::<Value>(golden).unwrap().as_object().unwrap() {
        assert_eq!(&first[field], value, "{field}");
    }
    let latency = &first["response_latency"];
    assert!(["avg", "min", "max", "stddev"].iter().all(|field| latency[field].is_u64()), "{latency}");
    let buckets: Vec<Vec<u64>> = serde_json::from_value(latency["buckets"].clone()).unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket[2]).sum::<u64>(), 4);
    assert!(
        buckets
            .iter()
            .all(|bucket| bucket[0] <= bucket[1] && (bucket[1] - bucket[0]) as f64 <= 0.032 * bucket[0] as f64)
    );
    assert!(buckets[0][0] <= 1_500_000 && buckets[0][1] >= 1_500_000, "{buckets:?}");
    assert_eq!(lines[2]["unexpected"], 1);
    let quic = &lines[4]["conn_info"];
    assert_eq!(
        (&quic["type"], &quic["handshakes"], &quic["handshakes_failed"]),
        (&"quic_conn".into(), &5.into(), &1.into())
    );
    assert_eq!(lines[9]["conn_info"]["packets_received"], 6);
}

#[test]
fn shotgun_finds_every_field_of_its_version() {
    let folder = written("shotgun", &with_connections());
    let file: Value = serde_json::from_str(&folder.text("shotgun.json")).unwrap();
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut expected = "version merged stats_interval_ms timeout_ms idle_timeout_ms handshake_timeout_ms discarded \
        stats_sum stats_periodic validity"
        .split(' ')
        .collect::<Vec<_>>();
    expected.sort_unstable();
    assert_eq!(fields(&file), expected);
    assert_eq!(
        (&file["version"], &file["merged"], &file["timeout_ms"]),
        (&20_200_527.into(), &false.into(), &20.into())
    );
    assert_eq!((&file["handshake_timeout_ms"], &file["idle_timeout_ms"]), (&3_000.into(), &1_500.into()));
    let mut expected = "since_ms until_ms requests ongoing answers conn_active conn_handshakes conn_resumed \
        conn_quic_0rtt_loaded quic_0rtt_sent quic_0rtt_answered conn_handshakes_failed rcode_noerror rcode_formerr \
        rcode_servfail rcode_nxdomain rcode_notimp rcode_refused rcode_yxdomain rcode_yxrrset rcode_nxrrset \
        rcode_notauth rcode_notzone rcode_badvers rcode_badkey rcode_badtime rcode_badmode rcode_badname rcode_badalg \
        rcode_badtrunc rcode_badcookie rcode_other latency"
        .split_whitespace()
        .collect::<Vec<_>>();
    expected.sort_unstable();
    let [sum, first] = [&file["stats_sum"], &file["stats_periodic"][0]];
    assert_eq!((fields(sum), fields(first)), (expected.iter().map(|field| (*field).to_owned()).collect(), fields(sum)));
    let latency: Vec<u64> = serde_json::from_value(first["latency"].clone()).unwrap();
    let mut golden = vec![0; 21];
    (golden[1], golden[7], golden[20]) = (2, 1, 1);
    assert_eq!(latency, golden);
    assert_eq!((&first["requests"], &first["answers"], &first["rcode_nxdomain"]), (&4.into(), &3.into(), &1.into()));
    assert_eq!((&sum["since_ms"], &sum["until_ms"], &sum["requests"]), (&0.into(), &2_000.into(), &6.into()));
    assert_eq!((&sum["conn_handshakes"], &sum["conn_active"], &sum["rcode_other"]), (&10.into(), &7.into(), &2.into()));
    // Connections with early data and queries sent as early data are different counts.
    let early = [&sum["conn_quic_0rtt_loaded"], &sum["quic_0rtt_sent"], &sum["quic_0rtt_answered"]];
    assert_eq!(early, [2, 8, 6]);
}

#[test]
fn current_shotgun_files_have_lines() {
    let mut recording = with_connections();
    // A second in which only a late answer arrived, and no query was sent to divide by.
    recording.rows.push(Row { start_seconds: 2.0, span_seconds: 1.0, late: 1, ..Row::default() });
    let folder = written("shotgun-lines", &recording);
    let before: Value = serde_json::from_str(&folder.text("shotgun.json")).unwrap();
    assert_eq!(before["stats_periodic"].as_array().unwrap().len(), 2);
    let lines: Vec<Value> =
        folder.text("shotgun.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["header", "stats_periodic", "stats_periodic", "stats_sum"]);
    let header = format!(
        r#"{{"runid":"catlab-1795254615000","type":"header","schema_version":20221207,"generator":"catlab",
        "generator_version":"{}","time_units_per_sec":1000,"stats_interval":1000,"timeout":20,"discarded":0,
        "merged":false,"validity":{{"valid":true,"reasons":[]}}}}"#,
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(lines[0], serde_json::from_str::<Value>(&header).unwrap());
    let mut buckets = vec![0; 21];
    (buckets[1], buckets[7], buckets[20]) = (2, 1, 1);
    let mut first = lines[1].clone();
    assert_eq!(first["response_latency"].take(), serde_json::json!({ "buckets": buckets }));
    let golden = r#"{"runid":"catlab-1795254615000","type":"stats_periodic","since":0,"until":1000,"queries":4,
        "responses":3,"timeouts":1,"response_rcodes":{"NOERROR":2,"NXDOMAIN":1},"response_latency":null,
        "conn_active":5,"conn_handshakes":6,"conn_handshakes_failed":1,"conn_resumed":2,"conn_quic_0rtt_loaded":1,
        "quic_0rtt_sent":4,"quic_0rtt_answered":3}"#;
    assert_eq!(first, serde_json::from_str::<Value>(golden).unwrap());
    let sum = &lines[3];
    assert_eq!((&sum["until"], &sum["queries"], &sum["conn_active"]), (&2_000.into(), &6.into(), &7.into()));
    // Shotgun has no name for this RCODE.
    assert_eq!(sum["response_rcodes"]["other"], 2);
}

#[test]
fn interval_logs_have_one_interval_per_second() {
    let folder = written("hlog", &recording());
    let text = folder.text("latency.hlog");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.contains(&"#[MaxValueDivisor: 1000000.000]"), "{text}");
    assert!(lines.contains(&"#[valid]"), "{text}");
    assert!(lines.contains(&"#[StartTime: 1795254615.000 (seconds since epoch)]"), "{text}");
    let intervals: Vec<_> = lines.iter().filter(|line| !line.starts_with('#')).collect();
    assert!(intervals[0].starts_with("0.000,1.000,20.0") && intervals[1].starts_with("1.000,1.000,0.40"), "{text}");
    // Deflated V2: the cookie 0x1c849304, in base64.
    assert!(intervals.iter().all(|line| line.contains(",HISTFAAA")), "{text}");
}

#[test]
fn a_full_disk_is_reported_and_leaves_no_partial_file() {
    // Linux' device that is always full.
    if !Path::new("/dev/full").exists() {
        skip::platform("/dev/full");
        return;
    }
    let folder = Folder::new("full");
    std::os::unix::fs::symlink("/dev/full", folder.0.join("seconds.jsonl.part")).unwrap();
    let recording = recording();
    let error = write(&folder.0, &recording, &summary(&recording), &Manifest::default()).unwrap_err();
    assert!(error.path.ends_with("seconds.jsonl") && error.source.kind() == io::ErrorKind::StorageFull, "{error:?}");
    assert!(error.to_string().contains("free some space"), "{error}");
    let mut names: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["manifest.json", "summary.json"]);
}

#[test]
fn errors_name_the_problem_in_a_folder() {
    let folder = written("wrong", &recording());
    std::fs::write(folder.0.join("events.jsonl"), "{\"at\":1,\"kind\":\"fault\",\"text\":\"x\"}\n{\n").unwrap();
    let error = read(&folder.0).unwrap_err().to_string();
    assert!(error.contains("events.jsonl: line 2"), "{error}");
    std::fs::remove_file(folder.0.join("seconds.jsonl")).unwrap();
    let error = read(&folder.0).unwrap_err().to_string();
    assert!(error.contains("seconds.jsonl: it is missing"), "{error}");
}
