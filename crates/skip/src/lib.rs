//! Why a test did not run, as a value: tests print it as one line, and `cargo xtask test` reads it back.
//!
//! A test that skips itself, wholly or in part, calls the function of its cause, for example `skip::peer("knotd")`.
#![forbid(unsafe_code)]

pub mod stalls;

use std::fmt;

/// Why something was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A program to test against is not installed, or in another version.
    Peer,
    /// This machine does not permit an action, for example because the tests do not run as root.
    Permission,
    /// This kernel, network or build does not have what is tested.
    Platform,
    /// A file that is not part of the repository is missing.
    Data,
    /// It takes long and runs only with `cargo xtask test --full`.
    Full,
}

impl Cause {
    const ALL: [Self; 5] = [Self::Peer, Self::Permission, Self::Platform, Self::Data, Self::Full];

    /// The word for this cause in a printed line.
    const fn word(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Permission => "permission",
            Self::Platform => "platform",
            Self::Data => "data",
            Self::Full => "full",
        }
    }

    /// Whether this is an error with `CI=true` and with `--full`: the machine can be prepared.
    pub const fn is_of_machine(self) -> bool {
        matches!(self, Self::Peer | Self::Permission)
    }
}

/// Something that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Why it was skipped.
    pub cause: Cause,
    /// What is missing, not permitted, or left out.
    pub what: String,
}

/// Prefix of the printed line.
const PREFIX: &str = "skipped [";

impl Skip {
    /// Parses a printed line. Returns `None` for all other lines.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, what) = line.strip_prefix(PREFIX)?.split_once("] ")?;
        let cause = Cause::ALL.into_iter().find(|cause| cause.word() == word)?;
        Some(Self { cause, what: what.to_owned() })
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A line each: error messages of the system may have several.
        write!(f, "{PREFIX}{}] {}", self.cause.word(), self.what.trim_end().replace('\n', "; "))
    }
}

/// Skips because a program is not installed.
///
/// # Panics
/// With `CI=true` and with `--full`.
pub fn peer(program: impl fmt::Display) {
    skip(Cause::Peer, program);
}

/// Skips because this machine does not permit an action, such as "making a network namespace".
///
/// # Panics
/// With `CI=true` and with `--full`.
pub fn permission(action: impl fmt::Display) {
    skip(Cause::Permission, action);
}

/// Skips because this kernel, network or build lacks a feature.
pub fn platform(feature: impl fmt::Display) {
    skip(Cause::Platform, feature);
}

/// Skips because a file is missing that is not part of the repository.
pub fn data(file: impl fmt::Display) {
    skip(Cause::Data, file);
}

/// Skips because something takes long. It runs with `cargo xtask test --full`.
pub fn full(what: impl fmt::Display) {
    skip(Cause::Full, what);
}

/// Whether tests run with `cargo xtask test --full`.
pub fn is_full_run() -> bool {
    std::env::var("CATAMARAN_TEST_FULL").is_ok_and(|value| value == "1")
}

/// Whether nothing may be missing on this machine: with `CI=true` and with `--full`.
pub fn is_all_required() -> bool {
    is_full_run() || std::env::var("CI").is_ok_and(|value| value == "true")
}

fn skip(cause: Cause, what: impl fmt::Display) {
    let skip = Skip { cause, what: what.to_string() };
    println!("{skip}");
    assert!(!cause.is_of_machine() || !is_all_required(), "with CI=true or --full this is an error: {skip}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_skip_is_read_back() {
        for cause in Cause::ALL {
            let skip = Skip { cause, what: "a disk that hangs [root]: no".into() };
            assert_eq!(Skip::parse(&skip.to_string()), Some(skip));
        }
        let skip = Skip { cause: Cause::Permission, what: "a mount: denied\nby root\n".into() };
        assert_eq!(skip.to_string(), "skipped [permission] a mount: denied; by root");
    }

    #[test]
    fn other_lines_are_no_skips() {
        for line in ["skipped 3 entries of the query file", "skipped: knotd", "skipped [other] knotd", "a test"] {
            assert_eq!(Skip::parse(line), None, "{line}");
        }
    }
}
