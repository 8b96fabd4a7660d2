//! Reads a run folder.

use super::interval_log::{self, Intervals, Timing};
use super::metrics::{self, Metrics};
use crate::summary::SCHEMA_VERSION;
use crate::{ConnectionRow, Manifest, Recording, Row, Run, Summary, Timeouts, TransportRows};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Why a file of a run folder could not be read.
#[derive(Debug)]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for ReadError {}

/// Reads a folder of `catlab load --out`. `summary.json` and `seconds.jsonl` are required.
///
/// # Errors
/// If a file cannot be read or is invalid.
pub fn read(folder: &Path) -> Result<Run, ReadError> {
    refuse_newer(folder)?;
    let summary: Summary = json(folder, "summary.json")?.ok_or_else(|| missing(folder, "summary.json"))?;
    let manifest: Option<Manifest> = json(folder, "manifest.json")?;
    let text = text(folder, "seconds.jsonl")?.ok_or_else(|| missing(folder, "seconds.jsonl"))?;
    let mut metrics =
        metrics::read(&text).map_err(|reason| ReadError { path: folder.join("seconds.jsonl"), reason })?;
    let timeout = metrics.header.get("timeout").and_then(serde_json::Value::as_f64).unwrap_or_default();
    let started = UNIX_EPOCH + Duration::from_nanos(metrics.since_ns);
    let timeout = Duration::try_from_secs_f64(timeout).unwrap_or_default();
    let mut recording = Recording::new(started, timeout);
    let more = metrics.header.get("additional_info");
    let seconds = |name: &str| more.and_then(|more| more[name].as_f64()).unwrap_or_default();
    let timeouts = |name: &str| Duration::try_from_secs_f64(seconds(name)).unwrap_or_default();
    recording.timeouts = Timeouts { handshake: timeouts("handshake_timeout"), idle: timeouts("idle_timeout") };
    add_rows(&mut recording, &mut metrics);
    for timing in Timing::ALL {
        let name = timing.file_name();
        if let Some(text) = self::text(folder, name)? {
            let log = interval_log::read(&text).map_err(|reason| ReadError { path: folder.join(name), reason })?;
            apply_log(&mut recording, timing, log);
        }
    }
    for row in lines::<ConnectionRow>(folder, "connections.jsonl")? {
        recording.transports.entry(row.transport.clone()).or_default().connections.push(row);
    }
    recording.samples = lines(folder, "monitor.jsonl")?;
    recording.events = lines(folder, "events.jsonl")?;
    recording.clients = lines(folder, "clients.jsonl")?;
    recording.sightings = lines(folder, "freshness.jsonl")?;
    let name = folder.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let label = name.unwrap_or_else(|| folder.display().to_string());
    let (total, summary) = (recording.total(), Some(summary));
    Ok(Run { label, origin: "catlab load".into(), summary, manifest, total, recording, notes: Vec::new() })
}

fn add_rows(recording: &mut Recording, metrics: &mut Metrics) {
    recording.rows = metrics.periodic.remove("").unwrap_or_default();
    for (transport, rows) in std::mem::take(&mut metrics.periodic) {
        recording.transports.insert(transport, TransportRows { rows, connections: Vec::new() });
    }
}

/// Replaces times by those of the log, which are more precise than the buckets of `seconds.jsonl`.
fn apply_log(recording: &mut Recording, timing: Timing, mut log: Intervals) {
    let mut replace_times = |rows: &mut [Row], tag: &str| {
        let Some(mut intervals) = log.remove(tag) else { return };
        for row in rows {
            if let Some(distribution) = intervals.remove(&((row.start_seconds * 1e3).round() as u64)) {
                *timing.of_mut(row) = distribution;
            }
        }
    };
    let is_only_one = recording.transports.len() == 1;
    for (transport, transport_rows) in &mut recording.transports {
        if !is_only_one {
            replace_times(&mut transport_rows.rows, transport);
        }
    }
    replace_times(&mut recording.rows, "");
    if is_only_one {
        for transport_rows in recording.transports.values_mut() {
            for (row_of_transport, row) in transport_rows.rows.iter_mut().zip(&recording.rows) {
                *timing.of_mut(row_of_transport) = timing.of(row).clone();
            }
        }
    }
}

/// Refuses a newer version: fields may be missing or have another meaning.
fn refuse_newer(folder: &Path) -> Result<(), ReadError> {
    #[derive(Deserialize)]
    struct VersionOnly {
        schema_version: u64,
    }
    let version: Option<VersionOnly> = json(folder, "summary.json")?;
    match version.map(|version| version.schema_version) {
        Some(found) if found > SCHEMA_VERSION.into() => Err(ReadError {
            path: folder.join("summary.json"),
            reason: format!(
                "it has schema_version {found}, but this catlab reads versions up to {SCHEMA_VERSION}; use the catlab \
                 that wrote it, or a newer one"
            ),
        }),
        _ => Ok(()),
    }
}

fn missing(folder: &Path, name: &str) -> ReadError {
    let reason = "it is missing; `catlab load --out DIR` writes run folders".into();
    ReadError { path: folder.join(name), reason }
}

fn text(folder: &Path, name: &str) -> Result<Option<String>, ReadError> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ReadError { path, reason: error.to_string() }),
    }
}

fn json<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, ReadError> {
    let parse = |text: String| {
        serde_json::from_str(&text).map_err(|error| ReadError { path: folder.join(name), reason: error.to_string() })
    };
    text(folder, name)?.map(parse).transpose()
}

fn lines<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Vec<T>, ReadError> {
    let text = text(folder, name)?.unwrap_or_default();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(index, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| ReadError { path: folder.join(name), reason: format!("line {}: {error}", index + 1) })
    };
    lines.map(parse).collect()
}
