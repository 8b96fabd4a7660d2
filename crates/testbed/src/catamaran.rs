//! Catamaran, used through its command line.

use super::error::PeerError;
use super::ports::{free_address, installed};
use super::setup::{Setup, create_folder};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable with the path of the program.
pub(super) const VARIABLE: &str = "CATAMARAN_BIN";

/// The program that [`VARIABLE`] names, the program in the folder of this program, or the program on PATH.
pub(super) fn program() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from).or_else(beside_this_program).or_else(|| installed("catamaran"))
}

/// A build puts all programs into one folder, and tests into its `deps` folder.
fn beside_this_program() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    own.ancestors().skip(1).take(2).map(|folder| folder.join("catamaran")).find(|path| path.is_file())
}

/// One node started by `up`. Node 1 answers on the port after each given one.
pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let data = setup.folder.join("data");
    if let Some(key) = setup.keys.first() {
        // `up` uses and permits an existing key.
        create_folder(&data)?;
        setup.write("data/update.key", &key.bind_text())?;
    }
    let api = match setup.statistics {
        Some(port) => port,
        None => free_address().map_err(|error| PeerError::Folder(data.clone(), error))?.port(),
    };
    let mut command = Command::new(program);
    command.args(["up", "--nodes", "1", "--dir"]).arg(&data);
    let (dot, doh) = setup.encryption.as_ref().map_or((None, None), |encryption| (encryption.dot, encryption.doh));
    for (option, port) in [
        ("--port", Some(setup.address.port())),
        ("--api-port", Some(api)),
        ("--dot-port", dot),
        ("--doq-port", dot),
        ("--doh-port", doh),
    ] {
        if let Some(port) = port {
            command.arg(option).arg((port - 1).to_string());
        }
    }
    for zone in &setup.zones {
        command.arg("--zone").arg(format!("{}={}", zone.apex, zone.file.display()));
    }
    Ok(command)
}
