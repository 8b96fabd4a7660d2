//! The folder of the real data.

use std::path::{Path, PathBuf};

/// The folder. `None` if it is absent; the test says so.
pub(crate) fn data() -> Option<PathBuf> {
    let named = std::env::var_os("CATAMARAN_DATA").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    if folder.is_dir() {
        return Some(folder);
    }
    skip::data(folder.display());
    None
}

/// Every capture in it.
pub(crate) fn captures(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder.join("captures")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}
