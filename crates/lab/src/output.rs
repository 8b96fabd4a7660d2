//! Output whose errors are ignored, so that a closed pipe does not end the program.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes to standard error. A closed pipe must not end a run: its exit code shows the result. The print macros of std
/// would panic.
pub fn eprint(words: Arguments<'_>) {
    let _heard = io::stderr().write_fmt(words);
}

/// Writes to standard output. A closed pipe or a full disk does not end an agent or a run, and does not change the exit
/// code. The results are in files.
pub fn print(words: Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _printed = out.write_fmt(words).and_then(|()| out.flush());
}
