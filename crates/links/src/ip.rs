//! The `ip` program of iproute2, which makes what is asked for here.

use std::io;
use std::process::{Command, Stdio};

/// Runs `ip` with words.
///
/// # Errors
/// `ip` is not there, or failed: what it was asked for and what it said.
pub fn ip<S: AsRef<str>>(words: &[S]) -> io::Result<()> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let output = Command::new("ip")
        .args(&words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run ip (iproute2): {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let hint = if said.contains("not permitted") || said.contains("denied") { "; this needs root" } else { "" };
    Err(io::Error::other(format!("ip {}: {}{hint}", words.join(" "), said.trim())))
}
