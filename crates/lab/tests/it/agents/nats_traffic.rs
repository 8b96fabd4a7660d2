//! What NATS carries: only heartbeats during a run, and files larger than the stream.

use super::{catlab, trace};
use crate::support::Folder;
use crate::support::nats::{Agent, Nats, Process, TIMEOUT, here, summary, until};
use fleet::limits::STREAM_BYTES_MAX;
use fleet::{Access, Bus, subjects};
use lab::limits::HEARTBEAT_INTERVAL;
use measure::Transport;
use report::limits::START_LATE_MAX;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testbed::echo::{Echo, EchoPlan};

/// Fetches a page of the monitoring port. `folder` holds the files of the NATS server.
fn monitored(folder: &Path, page: &str) -> serde_json::Value {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "ports")).unwrap();
    let ports: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut stream =
        TcpStream::connect(ports["monitoring"][0].as_str().unwrap().trim_start_matches("http://")).unwrap();
    write!(stream, "GET /{page} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// What a NATS server has carried: messages in and out, bytes in and out, JetStream requests, and messages in
/// JetStream.
fn carried(folder: &Path) -> [u64; 6] {
    let (whole, stream) = (monitored(folder, "varz"), monitored(folder, "jsz"));
    let of = |page: &serde_json::Value, name: &str| page[name].as_u64().unwrap();
    let [in_msgs, out_msgs, in_bytes, out_bytes] =
        ["in_msgs", "out_msgs", "in_bytes", "out_bytes"].map(|name| of(&whole, name));
    [in_msgs, out_msgs, in_bytes, out_bytes, of(&stream["api"], "total"), of(&stream, "messages")]
}

/// JetStream is not used while queries are sent, and agents begin at the same time.
#[test]
fn during_a_run_nats_carries_only_heartbeats() {
    const HEARTBEAT_BYTES_MAX: u64 = 512;
    let folder = Folder::new("agents-quiet");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &["-m", "-1"]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let names = ["a", "b"];
    let _agents = names.map(|name| Agent::start(&here, &url, name, folder.path(), &[]));
    let echo = Echo::start(&EchoPlan::new(&[Transport::Udp]).unwrap()).unwrap();
    let out = folder.path().join("run");
    let words = format!("replay {} --server {}", trace(&folder, 8_000, 200).display(), echo.address(Transport::Udp));
    let mut controller = Process(catlab(&words, &url, 2, &out).stdout(Stdio::null()).spawn().unwrap());
    let arrived = || echo.counts().queries_of(Transport::Udp);
    until("the first query", || (arrived() > 0).then_some(()));
    let (began, before) = (Instant::now(), carried(folder.path()));
    until("half of the queries", || (arrived() >= 4_000).then_some(()));
    let after = carried(folder.path());
    let took = began.elapsed();
    assert!(arrived() < 8_000, "the run ended before the test looked at it");
    let [in_msgs, out_msgs, in_bytes, out_bytes, api_requests, _] = std::array::from_fn(|at| after[at] - before[at]);
    // Each agent sends a heartbeat to the controller and the controller one to each agent, twice a second.
    let heartbeats_max = 4 * (took.as_millis() / HEARTBEAT_INTERVAL.as_millis() + 2) as u64;
    println!("{in_msgs} messages in, {out_msgs} out, {in_bytes} and {out_bytes} bytes in {took:?}");
    assert!(
        (1..=heartbeats_max).contains(&in_msgs) && out_msgs <= heartbeats_max,
        "{in_msgs} {out_msgs} of {heartbeats_max}"
    );
    assert!(in_bytes.max(out_bytes) <= heartbeats_max * HEARTBEAT_BYTES_MAX, "{in_bytes} {out_bytes}");
    assert_eq!((api_requests, after[5]), (0, before[5]), "JetStream got a request");
    let status = until("the end", || controller.0.try_wait().unwrap());
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    let summary = summary(&out);
    for row in summary["agents"].as_array().unwrap() {
        let late_us = row["start_late_us"].as_f64().unwrap();
        // A busy machine may be late. The report must name each agent that starts later than the limit.
        assert!((0.0..10_000_000.0).contains(&late_us), "{row}");
        let reason = format!("agent {} started", row["name"].as_str().unwrap());
        let is_reported = summary["validity"]["reasons"].to_string().contains(&reason);
        assert_eq!(is_reported, late_us > START_LATE_MAX.as_secs_f64() * 1e6, "{summary}");
    }
}

/// A chunk that does not fit into the stream is sent after other chunks were received. No chunk is lost.
#[test]
fn a_file_that_is_larger_than_the_stream_arrives() {
    let folder = Folder::new("agents-stream");
    let Some(server) = Nats::start(&here, "127.0.0.1", folder.path(), &[]) else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let (from, into, run) = (folder.path().join("from"), folder.path().join("into"), "0123456789abcdef");
    let bytes: Vec<u8> = (0..(STREAM_BYTES_MAX as u32 + (4 << 20)) / 4).flat_map(u32::to_be_bytes).collect();
    std::fs::write(&from, &bytes).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (sent, taken) = runtime.block_on(async {
        let bus = Bus::connect(&Access::plain(&url)).await.unwrap();
        bus.open_stream(run).await.unwrap();
        let subject = subjects::down(run, run, 0);
        let sending = bus.send_file(&subject, &from);
        let stream = async_nats::jetstream::new(async_nats::connect(&url).await.unwrap());
        let taking = async {
            let began = Instant::now();
            let stored_bytes =
                async || stream.get_stream(format!("catlab-{run}")).await.unwrap().cached_info().state.bytes;
            // Fills the stream until the next chunk does not fit.
            while stored_bytes().await < (STREAM_BYTES_MAX - (128 << 10)) as u64 {
                assert!(began.elapsed() < TIMEOUT, "the stream does not fill");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            bus.take_file(run, &subject, bytes.len() as u64, &into, TIMEOUT).await
        };
        let both = tokio::join!(sending, taking);
        bus.delete_stream(run).await.unwrap();
        both
    });
    sent.unwrap();
    taken.unwrap();
    assert!(std::fs::read(&into).unwrap() == bytes);
}
