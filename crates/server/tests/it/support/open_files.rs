//! Tests that open many files.

use super::tools::forbidden;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Lets this process open as many files as the system allows it at all; says whether these are enough.
pub(crate) fn may_open(files: u64) -> bool {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    }
    hard >= files || forbidden(&format!("opening {files} files"))
}
