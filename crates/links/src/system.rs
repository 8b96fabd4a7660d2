//! System calls that std has no name for.
#![expect(unsafe_code, reason = "setns has no safe form in std")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Puts the calling thread into a network namespace.
pub(crate) fn enter(name: &str) -> io::Result<()> {
    let path = Path::new("/var/run/netns").join(name);
    let file = File::open(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("the namespace {}: {error}", path.display())))?;
    // SAFETY: setns reads two integers; the descriptor is open until the end of this function.
    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
