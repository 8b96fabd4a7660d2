//! `catamaran`: an authoritative nameserver that is replicated by Raft.
//!
//! This crate is the shell: sockets, files, clocks and threads. What a message means is decided in `wire`, `zone` and
//! `replica`.
//!
//! ```text
//!   query :  listen/udp, listen/tcp --> wire::parse --> zone::answer --> out          (packet workers)
//!   update:  listen --> update (authenticate, prescan) --> node/replica_thread --> update (sign) --> out
//!   admin :  cli --> api --> node/replica_thread
//! ```
#![deny(unsafe_code)]
// The print macros wait for the reader and panic when it is gone. `log::say` and `cli::output::print` do neither.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

// What every part uses.
#[cfg(test)]
mod allocations;
mod combiner;
mod limits;
mod log;
mod log_limit;
mod memory;
mod metrics;
mod problem;
mod protect;
mod signals;
mod stop;
mod token_buckets;
// What the user says.
mod cli;
// What is read at start.
mod config;
mod files;
mod tls;
// Clients.
mod listen;
mod service;
// Operators.
mod api;
// The replica and its peers.
mod node;
mod peer;
// What the process gives up before it serves anyone.
mod sandbox;

use clap::Parser;
use std::process::ExitCode;

/// Flat tails under many small allocations on many threads.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: allocations::Counting<mimalloc::MiMalloc> = allocations::Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    log::init(cli.log.unwrap_or_default().into());
    if cli.command.is_daemon() {
        protect::ignore_signals(cli.command.has_sandbox());
    }
    protect::protect();
    if !cli.command.has_sandbox() {
        log::start();
    }
    let result = match &cli.command {
        cli::Command::Up(args) => cli::up::run(args),
        cli::Command::Serve(args) => cli::serve::run(args, cli.log),
        cli::Command::Init(args) => cli::init::run(args),
        cli::Command::Join(args) => cli::join::run(args),
        cli::Command::Status(args) => cli::status::run(args),
        cli::Command::Zone(command) => cli::zone::run(command),
        cli::Command::Key(command) => cli::key::run(command),
        cli::Command::Policy(command) => cli::policy::run(command),
        cli::Command::Audit(command) => cli::audit::run(command),
        cli::Command::Cluster(command) => cli::cluster::run(command),
        cli::Command::Ddns(args) => cli::ddns::run(args),
    };
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

/// A directory for one test, removed with it.
#[cfg(test)]
fn test_dir(name: &str) -> TestDir {
    let dir = std::env::temp_dir().join(format!("catamaran-test-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the temporary directory can be written");
    TestDir(dir)
}

#[cfg(test)]
struct TestDir(std::path::PathBuf);

#[cfg(test)]
impl TestDir {
    fn path(&self) -> &std::path::Path {
        &self.0
    }
}

#[cfg(test)]
impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
