//! The build before this one, for the test of two builds in one cluster (`crates/server/tests/it/upgrade.rs`).

use crate::command::{command, run};
use crate::peers::folder;
use crate::test::PROFILE;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The last commit of feature level 2 (docs/internals/decisions/0013). Another one is pinned when a level is released.
const COMMIT: &str = "a117470898dc4e9eb5a9bab6207c1d83a97b95be";
/// Tells the test where the program is.
const VARIABLE: &str = "CATAMARAN_PREVIOUS";

fn home() -> PathBuf {
    folder().join("previous").join(&COMMIT[..12])
}

fn program() -> PathBuf {
    home().join("target").join(PROFILE).join("catamaran")
}

/// Tells tests where it is, if it is there.
pub(crate) fn tell(tests: &mut Command) {
    if program().exists() && std::env::var_os(VARIABLE).is_none() {
        tests.env(VARIABLE, program());
    }
}

/// Builds it, from what this repository has of that commit.
///
/// # Errors
/// When it cannot be built: then two builds cannot be tried together.
pub(crate) fn ensure() -> Result<(), String> {
    if program().exists() {
        return Ok(());
    }
    let missing = |reason| {
        format!("the build before this one cannot be made: {reason}; it takes a clone with commit {}", &COMMIT[..12])
    };
    build().map_err(missing)
}

fn build() -> Result<(), String> {
    let source = home().join("source");
    std::fs::create_dir_all(&source).map_err(|error| error.to_string())?;
    let archive = home().join("source.tar");
    let (archive, source) = (archive.to_str().ok_or("a path that is not UTF-8")?, source);
    // A clone without history has no such commit.
    run(command("git", &["archive", "--output", archive, COMMIT]))?;
    let mut tar = command("tar", &["xf", archive, "-C"]);
    tar.arg(&source);
    run(tar)?;
    let mut cargo = command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), &["build", "--locked"]);
    cargo.args(["--profile", PROFILE, "-p", "catamaran-server", "--bin", "catamaran"]);
    cargo.current_dir(&source).env("CARGO_TARGET_DIR", home().join("target")).stdin(Stdio::null());
    run(cargo)
}
