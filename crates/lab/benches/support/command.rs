//! The command line of a bench: options with one value each, a temporary folder, and an exit code.

#[path = "ending.rs"]
mod ending;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One option of the command line.
pub(crate) struct OptionValue {
    pub(crate) option: String,
    pub(crate) value: String,
}

impl OptionValue {
    /// The value as a number.
    pub(crate) fn number(&self) -> Result<u64, String> {
        self.number_of(&self.value)
    }

    fn number_of(&self, value: &str) -> Result<u64, String> {
        value.parse().map_err(|_| format!("{} {value}: not a number", self.option))
    }

    /// The value as a comma-separated list.
    pub(crate) fn list(&self) -> Vec<String> {
        self.value.split(',').map(str::to_owned).collect()
    }

    /// The value as a list of numbers.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>, String> {
        self.value.split(',').map(|value| self.number_of(value)).collect()
    }

    /// The value as a list of these names.
    pub(crate) fn some_of(&self, names: &[&str]) -> Result<Vec<String>, String> {
        let list = self.list();
        match list.iter().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(format!("{} {name}: not one of {}", self.option, names.join(", "))),
            None => Ok(list),
        }
    }
}

/// The root of the workspace. Cargo runs benches in the directory of their crate.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Parses the options. `--help` prints the help and exits, and an option without a value is an error.
pub(crate) fn options(words: impl Iterator<Item = String>, help: &str) -> Result<Vec<OptionValue>, String> {
    // Cargo passes this option to every bench.
    let mut words = words.filter(|word| word != "--bench");
    let mut given = Vec::new();
    while let Some(option) = words.next() {
        if matches!(option.as_str(), "--help" | "-h") {
            print!("{help}");
            std::process::exit(0);
        }
        let value = words.next().ok_or_else(|| format!("{option} wants a value\n{help}"))?;
        given.push(OptionValue { option, value });
    }
    Ok(given)
}

/// The folder for temporary files of a bench. [`run`] creates and removes it.
pub(crate) fn folder(bench: &str) -> PathBuf {
    std::env::temp_dir().join(format!("catlab-bench-{bench}-{}", std::process::id()))
}

/// Runs a bench. Exits with 0 if every budget was met, 1 if not, and 2 with the reason if it could not run. A signal
/// stops the bench and everything it started.
pub(crate) fn run<O>(
    bench: &str,
    options: Result<O, String>,
    folder: impl FnOnce(&O) -> &Path,
    work: impl FnOnce(&O) -> Result<bool, String>,
) -> ExitCode {
    let done = options.and_then(|options| {
        let folder = folder(&options);
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        ending::prepare(folder);
        let done = work(&options);
        ending::wait_if_begun();
        // A leftover in the system's temporary folder does no harm.
        let _removed = std::fs::remove_dir_all(folder);
        done
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench {bench}: {error}");
            ExitCode::from(2)
        }
    }
}
