//! A dynamic DNS client (`catamaran ddns`) for any server with RFC 2136 updates.
//!
//! ```text
//!   netlink --> interfaces --+                       +--> state file
//!                            +--> machine (decides) -+--> message --> exchange --> response --> outcome --> machine
//!   probe   --> public addr -+                       +--> metrics, log
//! ```
//!
//! The state machine in `machine` makes all decisions, without clocks, sockets and files. `daemon` drives it.
#![forbid(unsafe_code)]
// The print macros panic when the reader of the output is gone.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod limits;

// Settings.
pub mod config;
// Addresses, and the state file.
pub mod address;
pub mod state;
// The state machine.
pub mod machine;
pub mod outcome;
// Messages to and from servers.
mod files;
pub mod message;

// Clocks, files and sockets.
mod exchange;
mod metrics;
mod netlink;
mod probe;
mod time;
// The event loop.
mod daemon;
pub use daemon::{Daemon, ExitReason, RunOptions, Stopper};
