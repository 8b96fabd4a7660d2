//! The identity of a node: its secrets and certificates, and the lock of its directory.

use crate::sys::block_size;
use crate::tls::session::{CurrentTls, PeerFiles};
use config::Config;
use config::files::api_token::ApiToken;
use config::files::data_key::DataKeys;
use config::files::token::fill_random;
use config::files::{cluster_id, layout};
use process::problem::{Exit, Problem};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for another process to release the directory.
const LET_GO_MS: u64 = 5_000;

/// Hint for a data key that cannot be read.
const RESTORE_FILES: &str = "restore both files; or remove the node (`catamaran cluster remove`) and join a new one, \
                          which gets the key from the other members";

/// The identity of a node.
pub(crate) struct Identity {
    /// TLS configuration for connections between nodes, and the files that it came from.
    pub(crate) tls: Arc<CurrentTls>,
    pub(crate) peer_files: PeerFiles,
    pub(crate) token: ApiToken,
    pub(crate) data_keys: DataKeys,
    /// The id of the cluster, derived from its first CA. It prevents connections between nodes of different clusters.
    pub(crate) cluster_id: [u8; 16],
    /// A random number, new at each start. It identifies the process.
    pub(crate) boot_id: u64,
    pub(crate) seed: u64,
    /// Bytes of a physical block of the disk. It is read before the sandbox hides the devices.
    pub(crate) block_bytes: u64,
    _lock: File,
}

impl Identity {
    pub(crate) fn load(config: &Config) -> Result<Self, Problem> {
        let unreadable = |what: &str, path: &Path| {
            let (what, path) = (what.to_owned(), path.display().to_string());
            move |error: io::Error| {
                let hint = advice(&error, "create the node's files with `catamaran up`, `init` or `join`");
                Problem::new(Exit::Input, format!("cannot read {what}"), error).at(path).hint(hint)
            }
        };
        std::fs::create_dir_all(&config.dir)
            .and_then(|()| std::fs::read_dir(&config.dir))
            .map_err(unreadable("the data directory", &config.dir))?;
        let peer = &config.peer;
        let peer_files =
            PeerFiles { ca: peer.ca_file.clone(), cert: peer.cert_file.clone(), key: peer.key_file.clone() };
        let roots = peer_files.roots().map_err(unreadable("the CA's certificate", &peer.ca_file))?;
        let id_file = layout::cluster_id_of(&peer.ca_file);
        let cluster_id =
            cluster_id::load_or_make(&id_file, &roots[0]).map_err(unreadable("the cluster's id", &id_file))?;
        let data_keys = config.data_key().load().map_err(|error| {
            let is_there = config.data_key_file.exists();
            let hint = is_there.then(|| advice(&error, RESTORE_FILES));
            let problem = unreadable("the data key", &config.data_key_file)(error);
            if let Some(hint) = hint { problem.hint(hint) } else { problem }
        })?;
        let random = || {
            let mut bytes = [0; 8];
            let failed = |error| Problem::new(Exit::Failed, "cannot get a random number", error);
            fill_random(&mut bytes).map(|()| u64::from_be_bytes(bytes)).map_err(failed)
        };
        Ok(Self {
            tls: peer_files
                .load_with(roots)
                .map(|tls| Arc::new(CurrentTls::new(tls)))
                .map_err(|error| unreadable("certificate or key", peer_files.at_fault())(error))?,
            peer_files,
            token: ApiToken::load(&config.api.token_file)
                .map_err(unreadable("the API token", &config.api.token_file))?,
            data_keys,
            cluster_id,
            boot_id: random()?,
            seed: random()?,
            block_bytes: block_size::of_directory(&config.dir),
            _lock: lock(&config.dir)?,
        })
    }
}

/// The hint for a file that cannot be read. If only the permission is missing, nothing is lost.
fn advice(error: &io::Error, otherwise: &str) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return otherwise.to_owned();
    }
    format!("nothing is lost, so remove nothing: {}", process::user::access_hint("read"))
}

/// Locks the directory: two processes that write one log would destroy it.
fn lock(data: &Path) -> Result<File, Problem> {
    let path = layout::lock_of(data);
    let failed = |error: io::Error| {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let problem = Problem::new(Exit::Failed, "cannot lock the data directory", error).at(path.display());
        if is_denied { problem.hint(process::user::access_hint("write")) } else { problem }
    };
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    let deadline = Instant::now() + Duration::from_millis(LET_GO_MS);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
            // A process that was just killed may still hold the lock.
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20))
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(Problem::new(
                    Exit::InUse,
                    "the data directory is in use",
                    "another process runs this node",
                )
                .at(data.display())
                .hint("stop that process first: `fuser` on the lock file prints its id"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_error_does_not_suggest_removing_the_node() {
        let denied = advice(&io::ErrorKind::PermissionDenied.into(), RESTORE_FILES);
        assert!(denied.starts_with("nothing is lost") && !denied.contains("cluster remove"), "{denied}");
        assert_eq!(advice(&io::Error::other("damaged"), RESTORE_FILES), RESTORE_FILES);
        // The certificate reader adds the file's name, and the error keeps its kind.
        let named = config::files::of_file(Path::new("node.key"), &io::ErrorKind::PermissionDenied.into());
        assert!(named.to_string().starts_with("node.key: ") && advice(&named, "other").starts_with("nothing is lost"));
    }
}
