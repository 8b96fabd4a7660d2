//! Shared by tests that start servers.

pub(crate) mod echo_process;
pub(crate) mod engines;
pub(crate) mod far_end;
#[expect(dead_code, reason = "a bench uses the rest")]
pub(crate) mod faults;
pub(crate) mod namespaces;
pub(crate) mod nats;
pub(crate) mod program;
pub(crate) mod traffic;

use compare::recorded;
use compare::run::SERVERS;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use testbed::{Kind, ServedZone};

/// A file of recorded data beside the project or in `CATAMARAN_DATA`. Prints a skip if it is missing.
pub(crate) fn data(path: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("CATAMARAN_DATA").map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from);
    let found = Some(folder.join(path)).filter(|path| path.exists());
    if found.is_none() {
        skip::data(path);
    }
    found
}

/// Writes the root zone into the folder.
pub(crate) fn root_zone(folder: &Folder, zone: &Path) -> Vec<ServedZone> {
    let file = folder.path().join("root.zone");
    std::fs::write(&file, recorded::read_whole(zone).unwrap()).unwrap();
    vec![ServedZone::new(".", file)]
}

/// Whether a server of the comparison is missing. Prints the missing ones.
pub(crate) fn skip_unless_installed() -> bool {
    let missing: Vec<Kind> = SERVERS.into_iter().filter(|kind| kind.program().is_none()).collect();
    missing.iter().for_each(|kind| skip::peer(kind.label()));
    !missing.is_empty()
}

/// A temporary folder that is removed with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates it.
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("catlab-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If removal fails, a leftover folder in the temporary folder does no harm.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
