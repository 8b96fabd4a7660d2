//! The `ip` program of iproute2.

use std::io;
use std::process::{Command, Stdio};

/// Runs `ip` with these arguments.
///
/// # Errors
///
/// `ip` is missing or failed. The error has the arguments and the output.
pub fn ip<S: AsRef<str>>(arguments: &[S]) -> io::Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let output = Command::new("ip")
        .args(&arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run ip (iproute2): {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let error_text = String::from_utf8_lossy(&output.stderr);
    let hint =
        if error_text.contains("not permitted") || error_text.contains("denied") { "; this needs root" } else { "" };
    Err(io::Error::other(format!("ip {}: {}{hint}", arguments.join(" "), error_text.trim())))
}
