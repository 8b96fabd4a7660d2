//! Our own server as a peer, through nothing but its command line.

use super::{PeerError, Setup, installed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `CATAMARAN_BIN`, or the one on PATH.
pub(super) fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CATAMARAN_BIN") {
        return Some(PathBuf::from(named));
    }
    installed("catamaran")
}

/// One node by `up`: node 1 answers on the port after the shared one.
pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let mut command = Command::new(program);
    let shared = setup.address.port() - 1;
    command.args(["up", "--nodes", "1", "--dir"]).arg(setup.folder.join("data"));
    command.arg("--port").arg(shared.to_string()).arg("--api-port").arg((shared - 10_000).to_string());
    for zone in &setup.zones {
        command.arg("--zone").arg(format!("{}={}", zone.apex, zone.file.display()));
    }
    if let Some(key) = &setup.key {
        command.arg("--update-key").arg(super::write(setup, "peer.key", &key_file(key))?);
    }
    Ok(command)
}

/// BIND's key file format.
fn key_file(key: &super::UpdateKey) -> String {
    let secret = data_encoding::BASE64.encode(&key.secret);
    format!("key \"{}\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{secret}\";\n}};\n", key.name)
}
