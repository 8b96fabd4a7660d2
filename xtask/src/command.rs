//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    // Read from the environment at run time, because clones that share a target folder share this program.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&own).parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command that starts in the root of the workspace.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// A program that runs with the lowest priority, in the root of the workspace.
pub(crate) fn background(program: &Path) -> Command {
    let mut background = command("nice", &["-n", "19"]);
    background.arg(program);
    background
}

/// Runs cargo with its output shown.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    run(command(&cargo_path(), arguments))
}

/// The path of the cargo that runs this program.
pub(crate) fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// Runs a command with its output shown.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let shown = format!("{command:?}").replace('"', "");
    eprintln!("xtask: {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` exited with {status}")),
        Err(error) => Err(format!("cannot run `{shown}`: {error}")),
    }
}

/// Whether a program is on PATH or in the system directories.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin", "/sbin"]).any(|folder| Path::new(folder).join(program).is_file())
}
