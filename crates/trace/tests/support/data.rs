//! Where the real data are.

use std::path::{Path, PathBuf};

/// Their folder; none, said plainly, when it is absent.
pub(crate) fn data() -> Option<PathBuf> {
    let named = std::env::var_os("CATAMARAN_DATA").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is absent", folder.display());
    None
}

/// Every capture in it.
pub(crate) fn captures(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder.join("captures")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}
