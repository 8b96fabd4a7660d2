//! Tests that open many files.

use super::tools::forbidden;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::process::Command;

/// Raises this process's limit of open files to the system's maximum. Returns whether that is enough.
pub(crate) fn may_open(files: u64) -> bool {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    }
    hard >= files || forbidden(&format!("opening {files} files"))
}

/// Forbids a running process to open another file. Those that are open stay open.
pub(crate) fn forbid_more_files(pid: u32) {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let open: Vec<usize> = open.map(|file| file.file_name().to_str().unwrap().parse().unwrap()).collect();
    // The limit is one above the highest permitted number, and all lower numbers are taken.
    limit_open_files(pid, (0..).find(|number| !open.contains(number)).unwrap());
}

/// Sets how many files a running process may have open.
pub(crate) fn limit_open_files(pid: u32, files: usize) {
    let limit = format!("--nofile={files}:");
    let done = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status().unwrap();
    assert!(done.success());
}
