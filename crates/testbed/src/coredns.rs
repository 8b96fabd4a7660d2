//! CoreDNS with its file plugin. `cargo xtask bench read` builds it if it is missing and Go is installed.

use super::error::PeerError;
use super::ports::installed;
use super::setup::{ServedZone, Setup};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable with the path of the program.
pub(super) const VARIABLE: &str = "CATAMARAN_COREDNS";

/// The program that [`VARIABLE`] names, or the installed one.
pub(super) fn program() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from).or_else(|| installed("coredns"))
}

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let (ip, port) = (setup.address.ip(), setup.address.port());
    let block = |zone: &ServedZone| {
        let (apex, file) = (&zone.apex, zone.file.display());
        format!("{apex}:{port} {{\n bind {ip}\n file {file} {{\n reload 0\n }}\n}}\n")
    };
    let text: String = setup.zones.iter().map(block).chain([setup.lines.clone()]).collect();
    let config = setup.write("Corefile", &text)?;
    let mut command = Command::new(program);
    command.arg("-conf").arg(config);
    if let Some(threads) = setup.threads {
        command.env("GOMAXPROCS", threads.to_string());
    }
    Ok(command)
}
