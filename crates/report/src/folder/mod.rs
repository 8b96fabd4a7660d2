//! The run folder. Each file is complete or absent.
//!
//! ```text
//!    Recording, Summary, Manifest -> write -> DIR/{summary,manifest,shotgun}.json, {seconds,..}.jsonl, *.hlog
//!    DIR -> read -> Run
//! ```

// seconds.jsonl: DNS-OARC dns-metrics.
pub(super) mod metrics;
// shotgun.json for the master branch of DNS Shotgun, shotgun.jsonl for another branch.
mod shotgun;
mod shotgun_lines;
// *.hlog: HdrHistogram interval logs.
mod interval_log;
// Reads a folder.
mod read;

pub use read::{ReadError, read};

use super::{Manifest, Recording, Summary};
use interval_log::Timing;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The file that only exists if the run is invalid.
const INVALID: &str = "INVALID.txt";

/// Why a file of the run folder was not written.
#[derive(Debug)]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, source } = self;
        let hint = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space, or name another folder",
            io::ErrorKind::PermissionDenied => "; name a folder that may be written",
            _ => "",
        };
        write!(formatter, "{} could not be written: {source}{hint}. The results are on standard output", path.display())
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Writes a run to an existing folder.
///
/// # Errors
/// If a file cannot be written. Earlier files are complete, this and later ones are absent.
pub fn write(folder: &Path, recording: &Recording, summary: &Summary, manifest: &Manifest) -> Result<(), WriteError> {
    mark_invalid(folder, summary)?;
    write_file(folder, "summary.json", |out| json(out, summary))?;
    let with_validity = Manifest { validity: Some(summary.validity.clone()), ..manifest.clone() };
    write_file(folder, "manifest.json", |out| json(out, &with_validity))?;
    write_file(folder, "seconds.jsonl", |out| metrics::write(out, recording, &summary.validity, manifest))?;
    write_file(folder, "shotgun.json", |out| shotgun::write(out, recording, &summary.validity))?;
    write_file(folder, "shotgun.jsonl", |out| shotgun_lines::write(out, recording, &summary.validity))?;
    for timing in Timing::ALL {
        write_file(folder, timing.file_name(), |out| interval_log::write(out, recording, &summary.validity, timing))?;
    }
    let connections: Vec<_> =
        recording.transports.values().flat_map(|transport_rows| &transport_rows.connections).collect();
    if !connections.is_empty() {
        write_file(folder, "connections.jsonl", |out| lines(out, connections))?;
    }
    if !recording.samples.is_empty() {
        write_file(folder, "monitor.jsonl", |out| lines(out, &recording.samples))?;
    }
    if !recording.events.is_empty() {
        write_file(folder, "events.jsonl", |out| lines(out, &recording.events))?;
    }
    if !recording.clients.is_empty() {
        write_file(folder, "clients.jsonl", |out| lines(out, &recording.clients))?;
    }
    Ok(())
}

/// Marks the folder of an invalid run with a file, because some result formats have no field for it.
fn mark_invalid(folder: &Path, summary: &Summary) -> Result<(), WriteError> {
    if summary.validity.valid {
        return Ok(());
    }
    write_file(folder, INVALID, |out| writeln!(out, "{}", summary.validity.reasons.join("\n")))
}

/// Writes another file of a run as JSON.
///
/// # Errors
/// If it cannot be written. No partial file remains.
pub fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> Result<(), WriteError> {
    write_file(folder, name, |out| json(out, value))
}

/// Writes another file of a run with one JSON value per line.
///
/// # Errors
/// If it cannot be written. No partial file remains.
pub fn write_lines<T: Serialize>(
    folder: &Path,
    name: &str,
    values: impl IntoIterator<Item = T>,
) -> Result<(), WriteError> {
    write_file(folder, name, |out| lines(out, values))
}

/// Writes to a temporary file and renames it, so that no reader sees a partial file.
fn write_file(
    folder: &Path,
    name: &str,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    let path = folder.join(name);
    let part_path = folder.join(format!("{name}.part"));
    let result = File::create(&part_path).and_then(|file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        // Some file systems report only here that they are full.
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
        std::fs::rename(&part_path, &path)
    });
    result.map_err(|source| {
        // A leftover does not change the error.
        let _removed = std::fs::remove_file(&part_path);
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

#[cfg(test)]
mod tests;
