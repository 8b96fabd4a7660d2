//! What the tests that start servers have in common.

use lab::peers::{Kind, ServedZone};
use lab::trace;
use std::path::{Path, PathBuf};

/// A file of the real data that lies beside the project, or in `CATAMARAN_DATA`; `None`, said plainly, when it is
/// absent.
pub(crate) fn data(path: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("CATAMARAN_DATA").map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from);
    let found = Some(folder.join(path)).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: {path} is not there");
    }
    found
}

/// Whether everything is asked, and not a part of it.
pub(crate) fn is_full() -> bool {
    std::env::var_os("CATAMARAN_TEST_FULL").is_some_and(|value| value == "1")
}

/// The root zone, unpacked into the folder.
pub(crate) fn root_zone(folder: &Folder, zone: &Path) -> Vec<ServedZone> {
    let file = folder.path().join("root.zone");
    std::fs::write(&file, trace::read_whole(zone).unwrap()).unwrap();
    vec![ServedZone { apex: ".".into(), file }]
}

/// Whether a server that is compared is missing; each that is, is named.
pub(crate) fn skip_unless_installed() -> bool {
    let missing: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.program().is_none()).collect();
    missing.iter().for_each(|kind| println!("skipped: {} is not installed", kind.label()));
    !missing.is_empty()
}

/// A folder that goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes it.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catlab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind in the system's temporary folder harms nobody.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
