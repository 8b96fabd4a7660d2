//! Runs of other programs, so that old ones are drawn beside ours.

// Output of dnsperf and resperf.
mod dnsperf;
// dns-metrics of another program: kxdpgun -j.
mod kxdpgun;

use super::{Recording, Run};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Reads a file of another program's output.
///
/// # Errors
/// When it cannot be read, or is of no form that is known.
pub(super) fn read(path: &Path) -> Result<Run, Box<dyn std::error::Error>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let label = path.file_stem().map_or_else(|| name.to_string(), |stem| stem.to_string_lossy().into_owned());
    let run = if text.trim_start().starts_with('{') {
        kxdpgun::read(&text, label)
    } else if text.contains("Statistics:") {
        dnsperf::read(&text, label)
    } else {
        Err("neither a run folder of catlab, nor JSON lines of kxdpgun -j, nor the output of dnsperf or resperf".into())
    };
    run.map_err(|reason| format!("{name}: {reason}").into())
}

fn recording(since_ns: u64, timeout_seconds: f64) -> Recording {
    let timeout = Duration::try_from_secs_f64(timeout_seconds).unwrap_or_default();
    Recording::new(UNIX_EPOCH + Duration::from_nanos(since_ns), timeout)
}
