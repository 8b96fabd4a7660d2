//! An agent: carries out its part of runs that a controller elsewhere commands, one after the other.

// A folder for one run, and the run itself.
mod work;
// What it is told, and what it answers.
mod desk;
pub(crate) use desk::Desk;

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line on standard output, at once. An agent serves its runs whether its reader is there or not, so this does
/// not fail: `println!` would end the agent.
pub(crate) fn print(line: impl Display) {
    let mut out = io::stdout().lock();
    let _printed = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The same on standard error.
pub(crate) fn warn(line: impl Display) {
    let _printed = writeln!(io::stderr().lock(), "{line}");
}
