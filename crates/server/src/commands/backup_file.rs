//! Backups as files: reading one, and checking it.

use crate::replica_host::data_key::to_replica;
use crate::replica_host::disk::StartReads;
use config::files::data_key::DataKeys;
use process::problem::{Exit, Problem};
use replica::{Backup, RestoreFailure};
use std::path::Path;

/// Reads the whole backup, as a restore does, with these data keys if they are given.
pub(super) fn verify(file: &Path, keys: Option<&DataKeys>) -> Result<u64, Problem> {
    let (disk, name) = source(file)?;
    let damaged = |error| Problem::new(Exit::Failed, "the backup is damaged", error).at(file.display());
    let backup = Backup::open(&disk, &name).map_err(damaged)?;
    let Some(keys) = keys else { return backup.verify(&disk).map_err(damaged) };
    let none = || Problem::new(Exit::Input, "cannot read the data key", "the file has no key");
    backup.verify_with_key(&disk, &to_replica(keys).ok_or_else(none)?).map_err(|error| match error {
        RestoreFailure::DataKey(_) => Problem::new(Exit::Failed, "the data key does not open the backup", error).hint(
            "run this on a machine of the cluster, with its directory as --dir; during a data key rotation, retry",
        ),
        error => Problem::new(Exit::Failed, "the backup is damaged", error).at(file.display()),
    })
}

/// A reader of a file's directory, and the file's name.
pub(super) fn source(file: &Path) -> Result<(StartReads, String), Problem> {
    let name = file.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Problem::new(Exit::Usage, "cannot read the backup", "the path has no file name").at(file.display())
    })?;
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((StartReads::new(dir), name.to_owned()))
}
