//! A run of `catlab load` and its results.

use super::machine::{Meter, Used};
use report::Run;
use std::path::Path;
use std::process::Command;

/// Runs the command, which writes its results to `out`. Returns the CPU use of the tool and of the server's processes.
///
/// # Errors
/// If it could not run. An invalid run, such as one beyond the tool's limit, is not an error.
pub(crate) fn run(command: &mut Command, out: &Path, server: Vec<u32>) -> Result<(Run, Used), String> {
    let meter = Meter::start(server);
    let output = command.arg("--force").arg("--out").arg(out).output().map_err(|error| format!("catlab: {error}"))?;
    let used = meter.stop();
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("catlab: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok((Run::read(out).map_err(|error| error.to_string())?, used))
}

/// Answers that arrived in a whole second of sending.
pub(crate) fn answers_a_second(run: &Run) -> f64 {
    let whole = run.sending().count().max(1);
    run.sending().map(|row| row.arrived as f64).sum::<f64>() / whole as f64
}
