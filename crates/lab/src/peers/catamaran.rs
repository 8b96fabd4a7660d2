//! Our own server as a peer, through nothing but its command line.

use super::{PeerError, Setup, installed};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `CATAMARAN_BIN`, or the one beside this program, or the one on PATH.
pub(super) fn program() -> Option<PathBuf> {
    std::env::var_os("CATAMARAN_BIN").map(PathBuf::from).or_else(beside_this_program).or_else(|| installed("catamaran"))
}

/// A build leaves all programs in one folder, and tests in the `deps` of that folder.
fn beside_this_program() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    own.ancestors().skip(1).take(2).map(|folder| folder.join("catamaran")).find(|path| path.is_file())
}

/// One node by `up`: node 1 answers on the port after the shared one.
pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let data = setup.folder.join("data");
    if let Some(key) = &setup.key {
        // `up` takes up the key that it finds, and grants it.
        std::fs::create_dir_all(&data).map_err(|error| PeerError::Folder(data.clone(), error))?;
        super::write(setup, "data/update.key", &key_file(key))?;
    }
    let mut command = Command::new(program);
    command.args(["up", "--nodes", "1", "--dir"]).arg(&data);
    command.arg("--port").arg((setup.address.port() - 1).to_string());
    command.arg("--api-port").arg(api_port(&data)?.to_string());
    for zone in &setup.zones {
        command.arg("--zone").arg(format!("{}={}", zone.apex, zone.file.display()));
    }
    Ok(command)
}

/// A port whose successor was free a moment ago: node 1 listens there.
fn api_port(data: &Path) -> Result<u16, PeerError> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    Ok(free.map_err(|error| PeerError::Folder(data.to_owned(), error))?.port() - 1)
}

/// BIND's key file format.
fn key_file(key: &super::UpdateKey) -> String {
    let secret = data_encoding::BASE64.encode(&key.secret);
    format!("key \"{}\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{secret}\";\n}};\n", key.name)
}
