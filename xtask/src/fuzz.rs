//! Fuzzes the parsers: with libFuzzer if cargo-fuzz and a nightly toolchain are installed, otherwise with a built-in
//! mutator of seeds. The targets are in `crates/server/examples/fuzz`, `crates/replica/src/testing/fuzz` and
//! `crates/trace/src/testing.rs`.

use crate::command::{cargo, root, run};
use crate::memory::is_there;
use crate::programs::PROFILE;
use crate::verify::with_tools;
use std::path::Path;

/// Default duration for each target.
const SECONDS: u64 = 60;
const EXAMPLE: [&str; 5] = ["--features", "testing", "--example", "fuzz", "-p"];
/// A crate with fuzz targets.
struct Fuzzed {
    package: &'static str,
    /// Prefix of its target names in `fuzz/`.
    prefix: &'static str,
    /// Seconds for each target in the gate. Parsers of network input get more than readers of traces.
    gate_seconds: u64,
}

const REPLICA: Fuzzed = Fuzzed { package: "catamaran-replica", prefix: "replica_", gate_seconds: 5 };
const TRACE: Fuzzed = Fuzzed { package: "catamaran-trace", prefix: "trace_", gate_seconds: 2 };
/// DNS messages of all crates, and the framing of transports.
const SERVER: Fuzzed = Fuzzed { package: "catamaran-server", prefix: "", gate_seconds: 5 };
const CRATES: [Fuzzed; 3] = [SERVER, REPLICA, TRACE];

/// Runs one target, or all of them.
///
/// # Errors
/// A target fails, or an option is unknown.
pub(crate) fn fuzz(options: &[&str]) -> Result<(), String> {
    let (mut seconds, mut target) = (SECONDS, None);
    let mut words = options.iter();
    while let Some(&word) = words.next() {
        match word {
            "--seconds" => {
                let number = words.next().and_then(|number| number.parse().ok());
                seconds = number.ok_or("--seconds needs a number")?;
            }
            name if !name.starts_with('-') && target.is_none() => target = Some(name),
            other => return Err(format!("unknown option `{other}`: cargo xtask fuzz [--seconds N] [TARGET]")),
        }
    }
    if has_cargo_fuzz() {
        return with_libfuzzer(seconds, target);
    }
    println!("cargo-fuzz or a nightly toolchain is missing (cargo install cargo-fuzz): using the built-in mutator");
    let Some(target) = target else {
        return CRATES.iter().try_for_each(|fuzzed| with_mutator(fuzzed, seconds, None));
    };
    let (fuzzed, target) = crate_of(target, &targets()?);
    with_mutator(fuzzed, seconds, Some(target))
}

/// The crate of a target, and its name there. Targets of the replica are also accepted without their prefix.
fn crate_of<'a>(target: &'a str, targets: &[String]) -> (&'static Fuzzed, &'a str) {
    for fuzzed in [&REPLICA, &TRACE] {
        if let Some(name) = target.strip_prefix(fuzzed.prefix) {
            return (fuzzed, name);
        }
    }
    (if targets.iter().any(|name| name == target) { &SERVER } else { &REPLICA }, target)
}

/// Runs all targets briefly with the built-in mutator, which works on any machine.
///
/// # Errors
/// A target fails.
pub(crate) fn shortly() -> Result<(), String> {
    CRATES.iter().try_for_each(|fuzzed| with_mutator(fuzzed, fuzzed.gate_seconds, None))
}

fn with_mutator(fuzzed: &Fuzzed, seconds: u64, target: Option<&str>) -> Result<(), String> {
    let seconds = seconds.to_string();
    let mut arguments = vec!["run", "--profile", PROFILE];
    arguments.extend(EXAMPLE);
    arguments.extend([fuzzed.package, "--", &seconds]);
    arguments.extend(target);
    cargo(&arguments)
}

/// Runs the targets with libFuzzer, starting from the seeds and from `fuzz/corpus`, which keeps new inputs.
fn with_libfuzzer(seconds: u64, target: Option<&str>) -> Result<(), String> {
    let corpus = root().join("fuzz/corpus");
    let folder = corpus.to_string_lossy();
    for fuzzed in &CRATES {
        let mut seeds = vec!["run", "--profile", PROFILE];
        seeds.extend(EXAMPLE);
        seeds.extend([fuzzed.package, "--", "seeds", &folder]);
        cargo(&seeds)?;
    }
    let time = format!("-max_total_time={seconds}");
    for name in targets()? {
        if target.is_none_or(|target| name == target || name.strip_prefix(REPLICA.prefix) == Some(target)) {
            std::fs::create_dir_all(corpus.join(&name)).map_err(|error| error.to_string())?;
            let mut fuzz = with_tools(&["+nightly", "fuzz", "run", &name, "--", &time]);
            fuzz.env_remove("RUSTUP_TOOLCHAIN").current_dir(root());
            run(fuzz)?;
        }
    }
    Ok(())
}

/// The names of the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let stem = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = files.flatten().filter_map(|file| stem(&file.path())).collect();
    names.sort();
    Ok(names)
}

fn has_cargo_fuzz() -> bool {
    let mut help = with_tools(&["fuzz", "--version"]);
    help.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    is_there(&["+nightly", "--version"]) && help.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of targets of each crate.
    const LISTS: [(&Fuzzed, &str); 3] = [
        (&SERVER, "crates/server/examples/fuzz/main.rs"),
        (&REPLICA, "crates/replica/src/testing/fuzz/mod.rs"),
        (&TRACE, "crates/trace/src/testing.rs"),
    ];

    /// Both kinds of fuzzing have the same targets: a file for libFuzzer, and an entry in a list for the mutator.
    #[test]
    fn both_kinds_of_fuzzing_have_the_same_targets() {
        let mut listed = Vec::new();
        for (fuzzed, list) in LISTS {
            let text = std::fs::read_to_string(root().join(list)).unwrap();
            let names = text.lines().filter_map(|line| line.trim().strip_prefix("Target { name: \"")?.split_once('"'));
            listed.extend(names.map(|(name, _)| format!("{}{name}", fuzzed.prefix)));
        }
        listed.sort();
        assert_eq!(listed, targets().unwrap());
        let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        for name in &listed {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        }
    }

    #[test]
    fn a_target_name_selects_its_crate() {
        let targets = targets().unwrap();
        let of = |name| {
            let (fuzzed, bare) = crate_of(name, &targets);
            (fuzzed.package, bare)
        };
        assert_eq!(of("compose"), ("catamaran-server", "compose"));
        assert_eq!(of("replica_update"), ("catamaran-replica", "update"));
        assert_eq!(of("update"), ("catamaran-replica", "update"));
        assert_eq!(of("trace_cdns"), ("catamaran-trace", "cdns"));
    }
}
