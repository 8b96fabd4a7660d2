//! Files of older builds that others could read: log, checkpoints and configuration were 0644, directories 0755.
//!
//! Only files of the cluster's layout are changed, if they belong to the user of this process and are not symbolic
//! links. Certificates do not change. Files with secrets were always 0600: if one is open, an operator did that.

use super::layout::Layout;
use std::ffi::OsStr;
use std::fs::{Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Restricts the files of a node, and the cluster's directory if it has the standard layout. Logs its changes. `config`
/// is the node's configuration, `data` its data.
pub fn node(config: &Path, data: &Path) {
    tighten(data);
    let files = entries(data).iter().filter(|file| tighten_quietly(file)).count();
    if files > 0 {
        tracing::info!(data = %data.display(), files, "restricted the files of the node's data to their owner");
    }
    // Lock, audit log and markers are beside the data, and their names begin with its name.
    let stem = data.file_name().unwrap_or_default().as_encoded_bytes();
    let is_beside = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(b"."))
    };
    entries(data.parent().unwrap_or(data)).iter().filter(is_beside).for_each(|file| tighten(file));
    let Some(dir) = config.parent().filter(|dir| data.parent() == Some(dir)) else { return };
    if !name(dir).as_encoded_bytes().starts_with(b"node-") {
        return;
    }
    for file in ["catamaran.toml", "node.log"] {
        tighten(&dir.join(file));
    }
    tighten(dir);
    if let Some(dir) = dir.parent() {
        cluster(dir);
    }
}

/// Restricts the directory of a cluster, and files that older builds left open.
pub fn cluster(dir: &Path) {
    let layout = Layout::new(dir);
    for file in [layout.lock(), layout.cluster_json(), super::layout::cluster_id_of(&layout.ca_cert())] {
        tighten(&file);
    }
    // A directory with other directories in it is shared, such as /etc, /tmp or a home directory.
    let is_foreign = |entry: &PathBuf| entry.is_dir() && !name(entry).as_encoded_bytes().starts_with(b"node-");
    match entries(dir).iter().find(|entry| is_foreign(entry)) {
        None => tighten(dir),
        Some(other) if is_open(dir) => tracing::warn!(
            dir = %dir.display(), other = %other.display(),
            "the cluster's directory contains another directory, so others can still read it: use a separate directory"
        ),
        Some(_) => {}
    }
}

fn tighten(path: &Path) {
    let mode = path.symlink_metadata().map(|found| found.mode() & 0o7777).unwrap_or_default();
    if tighten_quietly(path) {
        let path = path.display();
        tracing::info!(%path, "changed mode {:04o} to {:04o}: only the owner has access", mode, mode & !OTHERS);
    }
}

/// Removes the permissions of others. Returns whether the mode changed.
fn tighten_quietly(path: &Path) -> bool {
    let Ok(found) = path.symlink_metadata() else { return false };
    let is_ours = found.uid() == process::user::effective_user() && (found.is_file() || found.is_dir());
    is_ours && is_open_to_others(&found) && {
        let mode = found.mode() & 0o7777 & !OTHERS;
        std::fs::set_permissions(path, Permissions::from_mode(mode)).is_ok()
    }
}

fn is_open(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| is_open_to_others(&found))
}

fn is_open_to_others(found: &Metadata) -> bool {
    found.mode() & OTHERS != 0
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o777
    }

    fn open(dir: &Path, entries: &[&str]) {
        for entry in entries {
            let path = dir.join(entry);
            if entry.ends_with('/') {
                std::fs::create_dir_all(&path).unwrap();
                std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            } else {
                std::fs::write(&path, "x").unwrap();
                std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            }
        }
    }

    #[test]
    fn only_files_of_the_cluster_are_restricted() {
        let dir = process::testing::test_dir("tighten");
        let root = dir.path();
        open(root, &["cluster.json", "lock", "ca.pem", "api.token", "node-1/", "node-1/data/", "elsewhere"]);
        let node_files =
            ["catamaran.toml", "node.log", "node.pem", "data.lock", "data.audit.1", "data/log-1", "database"];
        open(&root.join("node-1"), &node_files);
        std::os::unix::fs::symlink(root.join("elsewhere"), root.join("node-1/data/link")).unwrap();
        std::fs::set_permissions(root, Permissions::from_mode(0o755)).unwrap();
        node(&root.join("node-1/catamaran.toml"), &root.join("node-1/data"));
        let closed = ["cluster.json", "lock", "node-1/catamaran.toml", "node-1/node.log", "node-1/data.lock"];
        for file in closed.iter().chain(&["node-1/data.audit.1", "node-1/data/log-1"]) {
            assert_eq!(mode(&root.join(file)), 0o600, "{file}");
        }
        for dir in ["", "node-1", "node-1/data"] {
            assert_eq!(mode(&root.join(dir)), 0o700, "{dir}");
        }
        for file in ["ca.pem", "api.token", "node-1/node.pem", "node-1/database", "elsewhere"] {
            assert_eq!(mode(&root.join(file)), 0o644, "{file}");
        }
        // A directory with others in it is not ours alone.
        open(root, &["other/"]);
        std::fs::set_permissions(root, Permissions::from_mode(0o755)).unwrap();
        cluster(root);
        assert_eq!((mode(root), mode(&root.join("other"))), (0o755, 0o755));
        // The directory of a configuration without the standard layout is not restricted.
        open(&root.join("other"), &["catamaran.toml", "data/"]);
        node(&root.join("other/catamaran.toml"), &root.join("other/data"));
        assert_eq!((mode(&root.join("other")), mode(&root.join("other/data"))), (0o755, 0o700));
    }
}
