//! A process of `catamaran`: errors with exit codes, log output, signals, protection of its memory, the sandbox, and
//! its memory size.
#![deny(unsafe_code)]
// The print macros block while the reader is slow, and panic when it is gone. `log::say` does neither.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod limits;
// Errors and the end of the process.
mod exit;
pub mod problem;
pub mod stop;
// Log output.
pub mod log;
pub mod log_limit;
// Signals, and the protection of the process.
pub mod protect;
pub mod signals;
// Privileges that the process drops.
pub mod sandbox;
// Its user and its memory.
pub mod memory_size;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod user;
