//! An agent: carries out its part of runs that a controller elsewhere commands, one after the other.

// A folder for one run, and the run itself.
mod work;
// What it is told, and what it answers.
mod desk;
pub(crate) use desk::Desk;

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line to standard output and flushes it. Ignores errors: an agent must survive a closed standard output,
/// where `println!` panics.
pub(crate) fn print(line: impl Display) {
    let mut out = io::stdout().lock();
    let _printed = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Prints a line to standard error and ignores errors.
pub(crate) fn warn(line: impl Display) {
    let _printed = writeln!(io::stderr().lock(), "{line}");
}
