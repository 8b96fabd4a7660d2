//! What others' bytes are thrown at: by libFuzzer where cargo-fuzz and a nightly toolchain are, otherwise by our own
//! altered seeds (`crates/server/examples/fuzz`, `crates/replica/src/testing/fuzz`, `crates/trace/src/testing.rs`).

use crate::command::{cargo, root, run};
use crate::memory::is_there;
use crate::test::PROFILE;
use crate::verify::with_tools;
use std::path::Path;

/// How long each target is run when nobody says.
const SECONDS: u64 = 60;
const EXAMPLE: [&str; 5] = ["--features", "testing", "--example", "fuzz", "-p"];
/// A crate that has targets.
struct Fuzzed {
    package: &'static str,
    /// What the names of its targets begin with in `fuzz/`.
    begin: &'static str,
    /// How long each is run in the gate: longer what all the world may send to, shorter what reads traces.
    gate_seconds: u64,
}

const REPLICA: Fuzzed = Fuzzed { package: "catamaran-replica", begin: "replica_", gate_seconds: 5 };
const TRACE: Fuzzed = Fuzzed { package: "catamaran-trace", begin: "trace_", gate_seconds: 2 };
/// Of messages as well, and what they come in.
const SERVER: Fuzzed = Fuzzed { package: "catamaran-server", begin: "", gate_seconds: 5 };
const CRATES: [Fuzzed; 3] = [SERVER, REPLICA, TRACE];

/// Runs one target, or all of them.
///
/// # Errors
/// When a target breaks, or an option is none.
pub(crate) fn fuzz(options: &[&str]) -> Result<(), String> {
    let (mut seconds, mut target) = (SECONDS, None);
    let mut words = options.iter();
    while let Some(&word) = words.next() {
        match word {
            "--seconds" => {
                let number = words.next().and_then(|number| number.parse().ok());
                seconds = number.ok_or("--seconds wants a number")?;
            }
            name if !name.starts_with('-') && target.is_none() => target = Some(name),
            other => return Err(format!("unknown option `{other}`: cargo xtask fuzz [--seconds N] [TARGET]")),
        }
    }
    if has_cargo_fuzz() {
        return by_libfuzzer(seconds, target);
    }
    println!("cargo-fuzz or a nightly toolchain is not here (cargo install cargo-fuzz): seeds are altered at random");
    let Some(target) = target else {
        return CRATES.iter().try_for_each(|fuzzed| by_altered_seeds(fuzzed, seconds, None));
    };
    let (fuzzed, target) = crate_of(target, &targets()?);
    by_altered_seeds(fuzzed, seconds, Some(target))
}

/// Whose target this is, and what it is called there. Those of the replica are known by their bare names too.
fn crate_of<'a>(target: &'a str, targets: &[String]) -> (&'static Fuzzed, &'a str) {
    for fuzzed in [&REPLICA, &TRACE] {
        if let Some(name) = target.strip_prefix(fuzzed.begin) {
            return (fuzzed, name);
        }
    }
    (if targets.iter().any(|name| name == target) { &SERVER } else { &REPLICA }, target)
}

/// All targets that have seeds for a short time, on any machine.
///
/// # Errors
/// When a target breaks.
pub(crate) fn shortly() -> Result<(), String> {
    CRATES.iter().try_for_each(|fuzzed| by_altered_seeds(fuzzed, fuzzed.gate_seconds, None))
}

fn by_altered_seeds(fuzzed: &Fuzzed, seconds: u64, target: Option<&str>) -> Result<(), String> {
    let seconds = seconds.to_string();
    let mut arguments = vec!["run", "--profile", PROFILE];
    arguments.extend(EXAMPLE);
    arguments.extend([fuzzed.package, "--", &seconds]);
    arguments.extend(target);
    cargo(&arguments)
}

/// Each with the seeds and what it found before; what it finds stays in `fuzz/corpus`.
fn by_libfuzzer(seconds: u64, target: Option<&str>) -> Result<(), String> {
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
        if target.is_none_or(|target| name == target || name.strip_prefix(REPLICA.begin) == Some(target)) {
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

    /// Where each crate lists its targets.
    const LISTS: [(&Fuzzed, &str); 3] = [
        (&SERVER, "crates/server/examples/fuzz/main.rs"),
        (&REPLICA, "crates/replica/src/testing/fuzz/mod.rs"),
        (&TRACE, "crates/trace/src/testing.rs"),
    ];

    /// Both ways of fuzzing have the same targets: a file for libFuzzer, and a place in a list for ourselves.
    #[test]
    fn each_target_of_libfuzzer_is_one_of_our_own() {
        let mut listed = Vec::new();
        for (fuzzed, list) in LISTS {
            let text = std::fs::read_to_string(root().join(list)).unwrap();
            let names = text.lines().filter_map(|line| line.trim().strip_prefix("Target { name: \"")?.split_once('"'));
            listed.extend(names.map(|(name, _)| format!("{}{name}", fuzzed.begin)));
        }
        listed.sort();
        assert_eq!(listed, targets().unwrap());
        let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        for name in &listed {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        }
    }

    #[test]
    fn a_target_is_known_by_its_name() {
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
