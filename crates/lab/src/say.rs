//! Output that cannot fail: a reader that has gone does not end the program.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes to standard error. That nobody reads it any more is no reason to end what goes on: its end tells by its exit
/// code. The macros of std of that kind panic.
pub fn say(words: Arguments<'_>) {
    let _heard = io::stderr().write_fmt(words);
}

/// Writes to standard output. A closed pipe or a full disk ends neither an agent nor a run, and does not change the
/// exit code: the results are in files.
pub fn print(words: Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _printed = out.write_fmt(words).and_then(|()| out.flush());
}
