//! What a program tells its user, beside its results.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes to standard error. That nobody reads it any more is no reason to end what goes on: its end tells by its exit
/// code. The macros of std of that kind panic.
pub fn say(words: Arguments<'_>) {
    let _heard = io::stderr().write_fmt(words);
}
