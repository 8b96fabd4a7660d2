//! Reads runs of other programs, to draw them next to ours.

// Output of dnsperf and resperf.
mod dnsperf;
// dns-metrics of other programs: kxdpgun -j.
mod kxdpgun;
mod recording;

use super::Run;
use std::path::Path;

/// Reads the output of another program.
///
/// # Errors
/// If it cannot be read, or its format is unknown.
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
