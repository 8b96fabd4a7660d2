//! The state of the handler of backups.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Reads backups, one at a time.
pub(crate) struct Backups {
    /// Directory of the replica's files.
    pub(super) data: PathBuf,
    /// A single permit.
    pub(super) permits: Arc<Semaphore>,
}

impl Backups {
    pub(crate) fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), permits: Arc::new(Semaphore::new(1)) }
    }
}
