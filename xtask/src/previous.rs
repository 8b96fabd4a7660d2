//! Builds an older version, for the test with two builds in one cluster (`crates/server/tests/it/upgrade.rs`).

use crate::command::{cargo_path, command, run};
use crate::peers::folder;
use crate::programs::PROFILE;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The last commit of feature level 2 (docs/internals/decisions/0013). It changes when a level is released.
const COMMIT: &str = "a117470898dc4e9eb5a9bab6207c1d83a97b95be";
/// The environment variable with the path of the program.
const VARIABLE: &str = "CATAMARAN_PREVIOUS";

fn home() -> PathBuf {
    folder().join("previous").join(&COMMIT[..12])
}

fn program() -> PathBuf {
    home().join("target").join(PROFILE).join("catamaran")
}

/// Sets the variable for tests, if the program exists.
pub(crate) fn set_environment(tests: &mut Command) {
    if program().exists() && std::env::var_os(VARIABLE).is_none() {
        tests.env(VARIABLE, program());
    }
}

/// Builds the program from this commit in the repository.
///
/// # Errors
/// The program cannot be built.
pub(crate) fn ensure() -> Result<(), String> {
    if program().exists() {
        return Ok(());
    }
    let missing =
        |reason| format!("cannot build the older version: {reason}; it needs a clone with commit {}", &COMMIT[..12]);
    build().map_err(missing)
}

fn build() -> Result<(), String> {
    let source = home().join("source");
    std::fs::create_dir_all(&source).map_err(|error| error.to_string())?;
    let archive = home().join("source.tar");
    let (archive, source) = (archive.to_str().ok_or("a path that is not UTF-8")?, source);
    // A shallow clone does not have this commit.
    run(command("git", &["archive", "--output", archive, COMMIT]))?;
    let mut tar = command("tar", &["xf", archive, "-C"]);
    tar.arg(&source);
    run(tar)?;
    let mut cargo = command(&cargo_path(), &["build", "--locked"]);
    cargo.args(["--profile", PROFILE, "-p", "catamaran-server", "--bin", "catamaran"]);
    cargo.current_dir(&source).env("CARGO_TARGET_DIR", home().join("target")).stdin(Stdio::null());
    run(cargo)
}
