//! Runs the simulator as a test, one test per seed.

use crate::command::{background, cargo, target};
use crate::programs::PROFILE;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// How long to simulate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// This many seeds, from the first.
    Seeds(u64),
    /// Seeds from `first_seed` on, for this many seconds.
    Seconds { seconds: u64, first_seed: u64 },
}

/// Runs the simulator, prints its output, and returns how many seeds passed and failed. It uses the program of the test
/// build, because a separate build would have other features.
///
/// # Errors
/// The program is missing, or exits without its closing line.
pub(crate) fn run(length: Length) -> Result<(u64, u64), String> {
    let arguments = match length {
        Length::Seeds(seeds) => vec!["--seeds".to_owned(), seeds.to_string()],
        Length::Seconds { seconds, first_seed } => {
            vec!["--seconds".to_owned(), seconds.to_string(), "--first-seed".to_owned(), first_seed.to_string()]
        }
    };
    let mut sim = background(&target().join(PROFILE).join("catamaran-sim"));
    sim.args(arguments).stdout(Stdio::piped());
    let mut child = sim.spawn().map_err(|error| format!("cannot start the simulator: {error}"))?;
    let stdout = child.stdout.take().expect("standard output is piped");
    let mut closing = None;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        println!("{line}");
        closing = closing_line(&line).or(closing);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match closing {
        Some((passed, failed)) if status.success() == (failed == 0) => Ok((passed, failed)),
        _ => Err(format!("the simulator exited with {status}")),
    }
}

/// Builds the simulator and runs it with its own options.
///
/// # Errors
/// The simulator does not build, or a seed fails.
pub(crate) fn with_options(options: &[&str]) -> Result<(), String> {
    cargo(&[&["run", "--quiet", "--profile", PROFILE, "-p", "catamaran-sim", "--"], options].concat())
}

/// Reads `seeds: 300 passed, 0 failed`.
fn closing_line(line: &str) -> Option<(u64, u64)> {
    let (passed, failed) = line.strip_prefix("seeds: ")?.split_once(" passed, ")?;
    Some((passed.parse().ok()?, failed.strip_suffix(" failed")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_counts() {
        assert_eq!(closing_line("seeds: 299 passed, 1 failed"), Some((299, 1)));
        assert_eq!(closing_line("seed 4 FAILED: election_safety"), None);
    }
}
