//! Refuses input that cannot be read twice.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Refuses files that cannot be read twice: pipes, sockets, devices, and `-` (standard input). It does not open the
/// file, because opening a pipe would block. Missing files and folders pass; opening them fails later.
///
/// # Errors
///
/// The path is one of these. The error says what to do instead.
pub fn refuse_stream(path: &Path) -> io::Result<()> {
    let is_stream = || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if path.as_os_str() != "-" && !is_stream() {
        return Ok(());
    }
    let path = path.display();
    let what = format!("{path}: it is read more than once, so it cannot come from a pipe; write it to a file first");
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}
