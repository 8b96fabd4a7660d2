//! Other servers as primaries for updates, with one zone and one key. Each syncs its journal or database to disk for
//! every update.

use super::zone::APEX;
use std::path::{Path, PathBuf};
use testbed::{Kind, Peer, PeerError, ServedZone, Setup, UpdateKey};

/// Starts a server. Returns it with its key file, or `None` if it is not installed. Journals are never trimmed, because
/// the cost of trimming is not measured.
pub(crate) fn start(kind: Kind, folder: &Path, zone: &Path) -> Result<Option<(Peer, PathBuf)>, String> {
    let address = testbed::free_address().map_err(|error| error.to_string())?;
    let zones = vec![ServedZone::new(APEX, zone)];
    let setup = Setup { keys: vec![key()], threads: None, keeps_changes: true, ..Setup::new(folder, address, zones) };
    match testbed::start(kind, &setup) {
        Ok(peer) => Ok(Some((peer, make_key(folder)?))),
        Err(PeerError::Missing(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn key() -> UpdateKey {
    UpdateKey { name: "bench.".into(), secret: b"catamaran bench write secret key".to_vec() }
}

/// Writes the key file for signed updates.
pub(crate) fn make_key(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join("update.key");
    std::fs::write(&path, key().bind_text()).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
