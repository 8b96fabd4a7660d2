//! Checks of the store, the only core crate with `unsafe`: every interleaving (loom), every access (AddressSanitizer,
//! miri).
//!
//! Loom runs on any toolchain. The others need nightly, and miri its component. Missing ones are skipped with a
//! message.

use crate::command::{command, run, target};
use std::process::{Command, Stdio};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the checks that are installed.
///
/// # Errors
/// The first check that fails.
pub(crate) fn check() -> Result<(), String> {
    let loom = ["test", "-p", "catamaran-store", "--release", "--test", "loom"];
    run(with_flags("loom", "--cfg loom", &loom))?;
    if is_there(&["+nightly", "--version"]) && cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        // Documentation tests are not built with `--target`.
        let asan = ["+nightly", "test", "-p", "catamaran-store", "--lib", "--tests", "--target", TARGET];
        run(with_flags("asan", "-Zsanitizer=address --cfg asan", &asan))?;
    } else {
        println!("skipped: AddressSanitizer needs a nightly toolchain");
    }
    if is_there(&["+nightly", "miri", "--version"]) {
        run(with_flags("miri", "", &["+nightly", "miri", "test", "-p", "catamaran-store", "--lib"]))?;
    } else {
        println!("skipped: miri is not installed");
    }
    Ok(())
}

/// Each check has its own target folder, because its compiler flags rebuild everything.
fn with_flags(name: &str, flags: &str, arguments: &[&str]) -> Command {
    // `cargo` on PATH is the proxy of rustup, which knows `+nightly`. CARGO names the cargo of one toolchain.
    let mut cargo = command("cargo", arguments);
    cargo.env("CARGO_TARGET_DIR", target().join(name)).env_remove("RUSTUP_TOOLCHAIN");
    if !flags.is_empty() {
        cargo.env("RUSTFLAGS", flags);
    }
    cargo
}

/// Whether cargo supports these arguments here.
pub(crate) fn is_there(arguments: &[&str]) -> bool {
    let mut cargo = command("cargo", arguments);
    cargo.env_remove("RUSTUP_TOOLCHAIN").stdout(Stdio::null()).stderr(Stdio::null());
    cargo.status().is_ok_and(|status| status.success())
}
