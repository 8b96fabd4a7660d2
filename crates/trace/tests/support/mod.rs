//! Real captures, and what tshark reports about files.

mod data;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every capture of the real data. None if it is absent; the test says so.
pub(crate) fn captures() -> Vec<PathBuf> {
    data::data().map_or_else(Vec::new, |folder| data::captures(&folder))
}

/// Numbers of the packets that tshark finds malformed, from 1. `None` if it is not installed.
pub(crate) fn malformed(path: &Path) -> Option<BTreeSet<u64>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.desegment_tcp_streams:TRUE", "-Y", "_ws.malformed", "-T", "fields"]);
    let Ok(output) = command.args(["-e", "frame.number", "-r"]).arg(path).output() else {
        skip::peer("tshark");
        return None;
    };
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect())
}

/// A temporary folder.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catamaran-trace-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover temporary folder does no harm.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
