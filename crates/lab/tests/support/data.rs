//! Where the real data is.

use std::path::PathBuf;

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
