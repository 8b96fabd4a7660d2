//! Drops privileges before the process serves clients, to limit the damage if an attacker exploits a bug.
//!
//! ```text
//!   capabilities   drops all. CAP_NET_BIND_SERVICE stays if a port below 1024 must be opened later
//!   no_new_privs   started programs never get more privileges than this process
//!   landlock       allows writes to its own directories, and reads of its certificates and a few system files
//!   seccomp        allows the system calls that it uses. Others fail with EPERM, and the kernel logs them
//! ```
//!
//! The process enters the sandbox before it starts threads: capabilities and Landlock apply per thread, and new threads
//! inherit them. Parts that the kernel does not support are skipped, with one warning.

mod capabilities;
mod files;
mod landlock;
mod seccomp;
mod seccomp_calls;
mod state;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;

pub use files::Files;
pub use state::{Enforced, SandboxState};

static STATE: OnceLock<SandboxState> = OnceLock::new();

/// The state of the sandbox of this process.
pub fn state() -> SandboxState {
    STATE.get().copied().unwrap_or_default()
}

/// Enters the sandbox of a node whose data is in `dir`. `later` are the addresses that it opens when it can serve.
pub fn enter_as_node(dir: &Path, later: impl IntoIterator<Item = SocketAddr>, files: &Files) {
    capabilities::warn_of_other_owner(dir);
    let keeps_low_ports = later.into_iter().any(capabilities::is_low);
    enter(keeps_low_ports, files, seccomp::NODE_FAMILIES);
}

/// Enters the sandbox of a thread that resolves names of peers. It may read the system's files, and write none. The
/// node's system call filter, installed later, also covers this thread.
pub fn enter_as_resolver() {
    log_failure("capabilities", capabilities::drop_all(false));
    log_failure("Landlock", landlock::restrict(&Files::of_resolver()));
}

/// Enters the sandbox of `catamaran ddns`. To resolve names, the C library reads files of the whole system, so only
/// writing is restricted.
pub fn enter_as_ddns<'a>(writable: impl IntoIterator<Item = &'a Path>, metrics: Option<SocketAddr>) {
    let keeps_low_ports = metrics.is_some_and(capabilities::is_low);
    enter(keeps_low_ports, &Files::of_ddns(writable), seccomp::DDNS_FAMILIES);
}

fn enter(keeps_low_ports: bool, files: &Files, families: &[libc::c_int]) {
    let state = SandboxState {
        capabilities: log_failure("capabilities", capabilities::drop_all(keeps_low_ports)),
        no_new_privs: log_failure("no_new_privs", seccomp::set_no_new_privs()),
        landlock: log_failure("Landlock", landlock::restrict(files)),
        seccomp: log_failure("seccomp", seccomp::install(families)),
    };
    tracing::info!(
        capabilities = ?state.capabilities,
        no_new_privs = ?state.no_new_privs,
        landlock = ?state.landlock,
        seccomp = ?state.seccomp,
        keeps_low_ports,
        "entered the sandbox"
    );
    // A process enters the sandbox once.
    let _ = STATE.set(state);
}

/// Logs a failed part of the sandbox and continues: an unusual kernel must not prevent the node from serving.
fn log_failure<E: Display>(part: &str, outcome: Result<Enforced, E>) -> Enforced {
    outcome.unwrap_or_else(|error| {
        tracing::warn!(part, %error, "cannot enable a part of the sandbox");
        Enforced::No
    })
}
