//! Tests that open many files.

use super::tools::forbidden;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises this process's limit of open files to the system's maximum. Returns whether that is enough.
pub(crate) fn may_open(files: u64) -> bool {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    }
    hard >= files || forbidden(&format!("opening {files} files"))
}
