//! The gate: every check that must pass before a change lands. It changes no files.

use crate::bench;
use crate::command::{cargo, command, has, root, run};
use crate::fuzz;
use crate::memory;
use crate::peers;
use crate::sim::{self, Length};
use crate::test::{self, Extent};
use crate::tidy;
use crate::torture;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs all checks.
///
/// # Errors
/// The first check that fails.
pub(crate) fn verify() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    tidy::run()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    docs()?;
    deny()?;
    memory::check()?;
    instructions()?;
    fuzz::shortly()?;
    test::run(Extent::Subset)?;
    match sim::run(new_seeds()?)? {
        (_, 0) => torture::shortly(),
        (_, failed) => Err(format!("{failed} simulated clusters failed")),
    }
}

/// Compares instruction counts with their limits. Without valgrind this is skipped, or an error with `CI=true`.
fn instructions() -> Result<(), String> {
    if has("valgrind") {
        return bench::instructions();
    }
    println!("{}", uncounted(peers::is_ci())?);
    Ok(())
}

/// The result if instructions cannot be counted.
fn uncounted(must_be_counted: bool) -> Result<String, String> {
    let why = "valgrind is not installed, so instructions are not counted";
    if must_be_counted {
        return Err(format!("{why}, which is required with CI=true: apt-get install valgrind"));
    }
    Ok(format!("skipped: {why}"))
}

/// A minute of simulated clusters with new seeds, which follow from the time. The simulator prints the first seed, and
/// a command that repeats each failed seed.
fn new_seeds() -> Result<Length, String> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| format!("wrong clock: {error}"))?;
    // There are more seeds per second than a second of simulation uses, so that two gates have none in common.
    Ok(Length::Seconds { seconds: 60, first_seed: since_1970.as_secs() * SEEDS_PER_SECOND })
}

const SEEDS_PER_SECOND: u64 = 1_000;

/// Applies the fixes that tools suggest.
///
/// # Errors
/// When a tool fails.
pub(crate) fn fix() -> Result<(), String> {
    cargo(&["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"])?;
    cargo(&["fmt", "--all"])
}

fn docs() -> Result<(), String> {
    let mut doc = command("cargo", &["doc", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    run(doc)
}

fn deny() -> Result<(), String> {
    if !has_deny() {
        cargo(&["install", "cargo-deny", "--locked", "--root", "target/tools"])?;
    }
    // Offline, cargo-deny needs all crates of the lock file, including those for other systems, which a build does not
    // fetch.
    cargo(&["fetch", "--locked"])?;
    run(with_tools(&["deny", "--offline", "check", "bans", "licenses", "sources"]))?;
    // A failed download does not fail the gate; a finding does.
    match run(with_tools(&["deny", "fetch", "db"])) {
        Ok(()) => run(with_tools(&["deny", "check", "--disable-fetch", "advisories"])),
        Err(_) => {
            println!("skipped: cannot fetch the advisory database");
            Ok(())
        }
    }
}

pub(crate) fn with_tools(arguments: &[&str]) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = root().join("target/tools/bin");
    let mut cargo = command("cargo", arguments);
    cargo.env("PATH", format!("{}:{path}", tools.display()));
    cargo
}

fn has_deny() -> bool {
    has("cargo-deny") || root().join("target/tools/bin/cargo-deny").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_seed_follows_from_the_time() {
        let Length::Seconds { seconds, first_seed } = new_seeds().unwrap() else { panic!("not a time") };
        assert!(seconds == 60 && first_seed > 1_700_000_000 * SEEDS_PER_SECOND && first_seed % SEEDS_PER_SECOND == 0);
    }

    #[test]
    fn missing_valgrind_is_an_error_only_if_counts_are_required() {
        assert!(uncounted(false).is_ok_and(|text| text.starts_with("skipped: ")));
        assert!(uncounted(true).is_err_and(|reason| reason.ends_with("apt-get install valgrind")));
    }
}
