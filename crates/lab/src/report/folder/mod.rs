//! The run folder: each file whole or absent.
//!
//! ```text
//!   Recording, Summary, Manifest -> write -> DIR/{summary,manifest,shotgun}.json, {seconds,..}.jsonl, *.hlog
//!   DIR -> read -> Run
//! ```

// seconds.jsonl: DNS-OARC dns-metrics.
pub(super) mod metrics;
// shotgun.json for the master branch of DNS Shotgun, shotgun.jsonl for another branch.
mod shotgun;
mod shotgun_lines;
// *.hlog: HdrHistogram interval logs.
mod interval_log;
// A folder back into memory.
mod read;

pub use read::{ReadError, read};

use super::{Manifest, Recording, Summary};
use interval_log::Timing;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The file that only a folder has whose run is not valid.
const INVALID: &str = "INVALID.txt";

/// Why a file of the run folder is not there.
#[derive(Debug)]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, source } = self;
        let advice = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space, or name another folder",
            io::ErrorKind::PermissionDenied => "; name a folder that may be written",
            _ => "",
        };
        write!(
            formatter,
            "{} could not be written: {source}{advice}. What was measured stands on the standard output",
            path.display()
        )
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Writes a run into a folder that exists.
///
/// # Errors
/// At the first file that cannot be written; those before it are whole, it and those after it are absent.
pub fn write(folder: &Path, recording: &Recording, summary: &Summary, manifest: &Manifest) -> Result<(), WriteError> {
    sign(folder, summary)?;
    put(folder, "summary.json", |out| json(out, summary))?;
    let judged = Manifest { validity: Some(summary.validity.clone()), ..manifest.clone() };
    put(folder, "manifest.json", |out| json(out, &judged))?;
    put(folder, "seconds.jsonl", |out| metrics::write(out, recording, &summary.validity, manifest))?;
    put(folder, "shotgun.json", |out| shotgun::write(out, recording, &summary.validity))?;
    put(folder, "shotgun.jsonl", |out| shotgun_lines::write(out, recording, &summary.validity))?;
    for timing in Timing::ALL {
        put(folder, timing.file_name(), |out| interval_log::write(out, recording, &summary.validity, timing))?;
    }
    let connections: Vec<_> = recording.transports.values().flat_map(|account| &account.connections).collect();
    if !connections.is_empty() {
        put(folder, "connections.jsonl", |out| lines(out, connections))?;
    }
    if !recording.samples.is_empty() {
        put(folder, "monitor.jsonl", |out| lines(out, &recording.samples))?;
    }
    if !recording.events.is_empty() {
        put(folder, "events.jsonl", |out| lines(out, &recording.events))?;
    }
    if !recording.clients.is_empty() {
        put(folder, "clients.jsonl", |out| lines(out, &recording.clients))?;
    }
    Ok(())
}

/// A folder whose figures do not mean what they say has a file that says so: some files have no place for it, and their
/// readers look for none.
fn sign(folder: &Path, summary: &Summary) -> Result<(), WriteError> {
    if summary.validity.valid {
        return Ok(());
    }
    put(folder, INVALID, |out| writeln!(out, "{}", summary.validity.reasons.join("\n")))
}

/// Writes one more file of a run, a JSON value.
///
/// # Errors
/// When it cannot be written; it is absent then.
pub fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> Result<(), WriteError> {
    put(folder, name, |out| json(out, value))
}

/// Writes one more file of a run, a JSON value a line.
///
/// # Errors
/// When it cannot be written; it is absent then.
pub fn write_lines<T: Serialize>(
    folder: &Path,
    name: &str,
    values: impl IntoIterator<Item = T>,
) -> Result<(), WriteError> {
    put(folder, name, |out| lines(out, values))
}

/// Writes beside, then renames: nobody finds half a file.
fn put(folder: &Path, name: &str, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), WriteError> {
    let path = folder.join(name);
    let passing = folder.join(format!("{name}.part"));
    let written = File::create(&passing).and_then(|file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        // Some file systems tell only here that they are full.
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
        std::fs::rename(&passing, &path)
    });
    written.map_err(|source| {
        // What is left of it is of no use; that it may stay changes nothing of the error.
        let _removed = std::fs::remove_file(&passing);
        WriteError { path, source }
    })
}

fn json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

fn lines<T: Serialize>(out: &mut impl Write, values: impl IntoIterator<Item = T>) -> io::Result<()> {
    for value in values {
        serde_json::to_writer(&mut *out, &value)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Nanoseconds since 1970 of a time in the run.
fn unix_ns(recording: &Recording, seconds: f64) -> u64 {
    let started = recording.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    started + (seconds * 1e9) as u64
}

#[cfg(test)]
mod tests;
