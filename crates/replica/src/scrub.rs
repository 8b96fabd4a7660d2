//! Reads one file of a replica's directory again and returns the damage in it. A shell does this from time to time
//! while the replica runs. Otherwise damage could go unnoticed until too many disks have some.
//!
//! A finding may be a write in progress or a file that was just recycled. The caller checks again later.

use crate::checkpoint::{self, CheckpointError, CheckpointReader};
use crate::disk::{DiskError, DiskRead};
use crate::log::{self, Damage};

/// A damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Damage in the log.
    Log(log::LogDamage),
    /// Damage in a checkpoint.
    Checkpoint(checkpoint::CheckpointDamage),
}

impl core::fmt::Display for Finding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Log(damage) => damage.fmt(f),
            Self::Checkpoint(damage) => damage.fmt(f),
        }
    }
}

/// Checks a file. Files of other kinds have no findings.
///
/// # Errors
/// [`DiskError`]: the file cannot be read, or no longer exists.
pub fn check_file(disk: &dyn DiskRead, file: &str) -> Result<Vec<Finding>, DiskError> {
    if checkpoint::is_checkpoint(file) {
        let read = CheckpointReader::open_file(disk, file.to_owned());
        return match read.and_then(|reader| reader.for_each_item(disk, |_, _| {})) {
            Ok(()) => Ok(Vec::new()),
            Err(CheckpointError::Damage(damage)) => Ok(vec![Finding::Checkpoint(damage)]),
            Err(CheckpointError::Disk(error)) => Err(error),
        };
    }
    let found = log::check_file(disk, file)?;
    // A format that is unknown to this software is not damage.
    let is_damaged = |damage: &log::LogDamage| !matches!(damage.what, Damage::Version(_));
    Ok(found.into_iter().filter(is_damaged).map(Finding::Log).collect())
}
