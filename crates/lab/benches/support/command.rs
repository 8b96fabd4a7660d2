//! A bench as a command: options that each have a value, a folder for what programs leave behind, an exit code.

#[path = "ending.rs"]
mod ending;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One option of the command line.
pub(crate) struct OptionValue {
    pub(crate) word: String,
    pub(crate) value: String,
}

impl OptionValue {
    /// The value as a number.
    pub(crate) fn number(&self) -> Result<u64, String> {
        self.number_of(&self.value)
    }

    fn number_of(&self, value: &str) -> Result<u64, String> {
        value.parse().map_err(|_| format!("{} {value}: not a number", self.word))
    }

    /// The value as a list, a comma between.
    pub(crate) fn list(&self) -> Vec<String> {
        self.value.split(',').map(str::to_owned).collect()
    }

    /// The value as a list of numbers.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>, String> {
        self.value.split(',').map(|value| self.number_of(value)).collect()
    }

    /// The value as some of these names.
    pub(crate) fn some_of(&self, names: &[&str]) -> Result<Vec<String>, String> {
        let list = self.list();
        match list.iter().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(format!("{} {name}: not one of {}", self.word, names.join(", "))),
            None => Ok(list),
        }
    }
}

/// The root of the workspace: cargo runs benches in the directory of their crate.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The options of a command line; `--help` prints the help and ends the program, an option without a value is an error.
pub(crate) fn options(words: impl Iterator<Item = String>, help: &str) -> Result<Vec<OptionValue>, String> {
    // Cargo's own, to harnesses.
    let mut words = words.filter(|word| word != "--bench");
    let mut given = Vec::new();
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "--help" | "-h") {
            print!("{help}");
            std::process::exit(0);
        }
        let value = words.next().ok_or_else(|| format!("{word} wants a value\n{help}"))?;
        given.push(OptionValue { word, value });
    }
    Ok(given)
}

/// Where the programs of a bench may leave files; [`run`] makes it and removes it.
pub(crate) fn folder(bench: &str) -> PathBuf {
    std::env::temp_dir().join(format!("catlab-bench-{bench}-{}", std::process::id()))
}

/// Runs a bench with its options: 0 when every budget was met, 1 when not, 2 with the reason when it could not be run.
/// A signal that ends it ends all that it has started.
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
        // A folder that stays behind in the system's temporary folder harms nobody.
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
