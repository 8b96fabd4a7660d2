//! What others' octets are thrown at: by libFuzzer where cargo-fuzz and a nightly toolchain are, otherwise by our own
//! altered seeds (`crates/replica/src/testing/fuzz`, `crates/trace/src/testing.rs`).

use crate::command::{cargo, root, run};
use crate::memory::is_there;
use crate::test::PROFILE;
use crate::verify::with_tools;
use std::path::Path;

/// How long each target is run when nobody says.
const SECONDS: u64 = 60;
/// The same in the gate: of the replica, which all the world may write to, and of what reads traces.
const SECONDS_OF_GATE: u64 = 5;
const SECONDS_OF_GATE_TRACE: u64 = 2;
const EXAMPLE: [&str; 5] = ["--features", "testing", "--example", "fuzz", "-p"];
/// The crates that have targets, and what the names of these begin with in `fuzz/`.
const CRATES: [(&str, &str); 2] = [("catamaran-replica", "replica_"), ("catamaran-trace", "trace_")];

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
        return CRATES.into_iter().try_for_each(|(name, _)| by_altered_seeds(name, seconds, None));
    };
    // Those of the replica are known by their bare names too.
    let of = CRATES.into_iter().find_map(|(name, begin)| Some((name, target.strip_prefix(begin)?)));
    let (name, target) = of.unwrap_or((CRATES[0].0, target));
    by_altered_seeds(name, seconds, Some(target))
}

/// All targets that have seeds for a short time, on any machine.
///
/// # Errors
/// When a target breaks.
pub(crate) fn shortly() -> Result<(), String> {
    by_altered_seeds(CRATES[0].0, SECONDS_OF_GATE, None)?;
    by_altered_seeds(CRATES[1].0, SECONDS_OF_GATE_TRACE, None)
}

fn by_altered_seeds(name: &str, seconds: u64, target: Option<&str>) -> Result<(), String> {
    let seconds = seconds.to_string();
    let mut arguments = vec!["run", "--profile", PROFILE];
    arguments.extend(EXAMPLE);
    arguments.extend([name, "--", &seconds]);
    arguments.extend(target);
    cargo(&arguments)
}

/// Each with the seeds and what it found before; what it finds stays in `fuzz/corpus`.
fn by_libfuzzer(seconds: u64, target: Option<&str>) -> Result<(), String> {
    let corpus = root().join("fuzz/corpus");
    let folder = corpus.to_string_lossy();
    for (name, _) in CRATES {
        let mut seeds = vec!["run", "--profile", PROFILE];
        seeds.extend(EXAMPLE);
        seeds.extend([name, "--", "seeds", &folder]);
        cargo(&seeds)?;
    }
    let time = format!("-max_total_time={seconds}");
    for name in targets()? {
        if target.is_none_or(|target| name == target || name.strip_prefix("replica_") == Some(target)) {
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
