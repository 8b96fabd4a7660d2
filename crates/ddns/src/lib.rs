//! The client that keeps a name on a changing address (`catamaran ddns`), with any server of RFC 2136.
//!
//! ```text
//!   netlink --> interfaces --+                       +--> state file
//!                            +--> machine (decides) -+--> message --> exchange --> response --> outcome --> machine
//!   probe   --> outside -----+                       +--> metrics, log
//! ```
//!
//! What is done is decided in `machine`, which knows no clock, socket or file; `daemon` drives it.
#![forbid(unsafe_code)]
// The print macros panic when the reader of the output is gone.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod limits;

// What the operator says.
pub mod config;
// Addresses, and what is remembered of them.
pub mod address;
pub mod state;
// What to do next.
pub mod machine;
pub mod outcome;
// What is said to servers, and what they say.
mod files;
pub mod message;

// How it is done: clocks, files, sockets.
mod exchange;
mod metrics;
mod netlink;
mod probe;
mod time;
// All of it together.
mod daemon;
pub use daemon::{Daemon, Ended, Manner, Stopper};
