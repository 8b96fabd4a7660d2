//! `catamaran`: an authoritative nameserver that is replicated by Raft.
//!
//! This crate has the sockets, files, clocks and threads. The crates `wire`, `zone` and `replica` decide what messages
//! mean.
//!
//! ```text
//!   query :  listen/udp, listen/tcp --> answer (wire::parse, zone::answer) --> out          (packet workers)
//!   update:  listen --> update (authenticate, prescan) --> replica_host --> update (sign) --> out
//!   admin :  cli --> api --> replica_host
//! ```
#![deny(unsafe_code)]
// The print macros block while the reader is slow, and panic when it is gone. `log::say` and `cli::output::print` do
// neither.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

// Used by every part.
#[cfg(test)]
mod allocations;
mod combiner;
mod limits;
mod metrics;
mod sys;
mod threads;
mod token_buckets;
// Certificates and keys of connections.
mod tls;
// Receives messages of clients.
mod listen;
// Answers queries, from the zones that the replica publishes.
mod answer;
mod published;
// Queues updates and signed messages for the update threads.
mod update_queue;
// The update threads check and sign. They also start zone transfers.
mod transfer;
mod update;
// Runs the replica, and records what it changes.
mod audit_log;
mod replica_host;
// Connects the node with its peers, and renews certificates and keys.
mod peer;
mod trust;
// Operators.
mod api;
// A running node, composed of all that.
mod run;
// The commands that need the code of a node.
mod commands;

use cli::Cli;
use process::{log, protect};
use std::process::ExitCode;

/// Keeps tail latency low with many small allocations on many threads.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: allocations::Counting<mimalloc::MiMalloc> = allocations::Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let cli = Cli::parse_for(env!("CATAMARAN_VERSION"));
    log::init(cli.log.unwrap_or_default().into());
    if cli.is_daemon() {
        protect::ignore_signals(cli.has_sandbox());
    }
    protect::protect();
    if !cli.has_sandbox() {
        log::start();
    }
    let result = cli.run(&commands::Commands);
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            log::say(&problem);
            ExitCode::from(problem.exit as u8)
        }
    };
    log::flush();
    code
}
