//! What the process gives up before it serves anyone, so that a bug in what reads strangers' messages gives a stranger
//! little.
//!
//! ```text
//!   capabilities   all but CAP_NET_BIND_SERVICE, and that one too where no port below 1024 is to be opened later
//!   no_new_privs   no program that it starts gets more rights than it has
//!   landlock       files: writes to its own directories, reads of its certificates and a few files of the system
//!   seccomp        system calls: those that it uses; any other fails with EPERM, and the kernel logs it
//! ```
//!
//! The process enters the sandbox before it starts threads: capabilities and Landlock apply per thread, and new threads
//! inherit them. Parts that the kernel does not support are skipped, with one warning.

mod capabilities;
mod files;
mod landlock;
mod seccomp;
mod seccomp_calls;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::metrics::text::{Kind, Page};
use files::Files;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;

/// How far one part of the sandbox is in force.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Enforced {
    /// Disabled, or unknown to the kernel.
    #[default]
    No,
    /// As far as an older kernel supports it.
    Partly,
    Fully,
}

/// The state of the sandbox of a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct SandboxState {
    pub(crate) capabilities: Enforced,
    pub(crate) no_new_privs: Enforced,
    pub(crate) landlock: Enforced,
    pub(crate) seccomp: Enforced,
}

impl SandboxState {
    /// Writes its metrics.
    pub(crate) fn write(self, page: &mut Page) {
        let help = "Enforcement of a part of the sandbox; 0: off, 1: as far as an older kernel supports it, 2: full.";
        let mut family = page.family("catamaran_sandbox", Kind::Gauge, help);
        for (part, enforced) in self.parts() {
            family.series(&[("part", part)], enforced as u8);
        }
    }

    fn parts(self) -> [(&'static str, Enforced); 4] {
        [
            ("capabilities", self.capabilities),
            ("no_new_privs", self.no_new_privs),
            ("landlock", self.landlock),
            ("seccomp", self.seccomp),
        ]
    }
}

static STATE: OnceLock<SandboxState> = OnceLock::new();

/// The state of the sandbox of this process.
pub(crate) fn state() -> SandboxState {
    STATE.get().copied().unwrap_or_default()
}

/// Enters the sandbox of a node, if its configuration enables that. `file` is the configuration file.
pub(crate) fn enter_as_node(config: &Config, file: &Path) {
    if !config.sandbox.is_on() {
        tracing::warn!("the sandbox is off (`sandbox` in the configuration)");
        return;
    }
    capabilities::warn_of_other_owner(&config.dir);
    // The sockets for peers and operators are open already. Those for clients are opened when the node can serve.
    let tls = config.dns.tls.iter().flat_map(|tls| [&tls.dot, &tls.doh, &tls.doq]).flatten();
    let keeps_low_ports = config.dns.listen.iter().chain(tls).any(|address| capabilities::is_low(*address));
    enter(keeps_low_ports, &Files::of_node(config, file), seccomp::NODE_FAMILIES);
}

/// Enters the sandbox of a thread that resolves names of peers. It may read the system's files, and write none. The
/// node's system call filter, installed later, also covers this thread.
pub(crate) fn enter_as_resolver() {
    log_failure("capabilities", capabilities::drop_all(false));
    log_failure("Landlock", landlock::restrict(&Files::of_resolver()));
}

/// Enters the sandbox of `catamaran ddns`. To resolve names, the C library reads files of the whole system, so only
/// writing is restricted.
pub(crate) fn enter_as_ddns<'a>(writable: impl IntoIterator<Item = &'a Path>, metrics: Option<SocketAddr>) {
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
