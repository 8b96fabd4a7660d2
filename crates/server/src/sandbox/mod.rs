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
//! It is done before the first thread starts: capabilities and Landlock are a thread's own, and new threads inherit
//! them. What a kernel does not know is left out and said once.

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
    /// Not at all: it was turned off, or the kernel does not know it.
    #[default]
    No,
    /// As far as an older kernel knows it.
    Partly,
    Fully,
}

/// What the process has given up.
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
        let help = "How far a part of the sandbox is in force; 0: not, 1: as far as an older kernel can, 2: fully.";
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

/// What this process has given up.
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
    // Peers and operators have their sockets already; those for clients are opened once the node can answer.
    let tls = config.dns.tls.iter().flat_map(|tls| [&tls.dot, &tls.doh, &tls.doq]).flatten();
    let keeps_low_ports = config.dns.listen.iter().chain(tls).any(|address| capabilities::is_low(*address));
    enter(keeps_low_ports, &Files::of_node(config, file), seccomp::NODE_FAMILIES);
}

/// Enters the sandbox of a thread that resolves names of peers. It may read the system's files, and write none. The
/// node's system call filter, installed later, also covers this thread.
pub(crate) fn enter_as_resolver() {
    told("capabilities", capabilities::drop_all(false));
    told("Landlock", landlock::restrict(&Files::of_resolver()));
}

/// Gives up what `catamaran ddns` does not need. It resolves names, for which the C library reads files of the whole
/// system: only writing is restricted.
pub(crate) fn enter_as_ddns<'a>(writable: impl IntoIterator<Item = &'a Path>, metrics: Option<SocketAddr>) {
    let keeps_low_ports = metrics.is_some_and(capabilities::is_low);
    enter(keeps_low_ports, &Files::of_ddns(writable), seccomp::DDNS_FAMILIES);
}

fn enter(keeps_low_ports: bool, files: &Files, families: &[libc::c_int]) {
    let state = SandboxState {
        capabilities: told("capabilities", capabilities::drop_all(keeps_low_ports)),
        no_new_privs: told("no_new_privs", seccomp::set_no_new_privs()),
        landlock: told("Landlock", landlock::restrict(files)),
        seccomp: told("seccomp", seccomp::install(families)),
    };
    tracing::info!(
        capabilities = ?state.capabilities,
        no_new_privs = ?state.no_new_privs,
        landlock = ?state.landlock,
        seccomp = ?state.seccomp,
        keeps_low_ports,
        "in the sandbox"
    );
    // A process enters once.
    let _ = STATE.set(state);
}

/// An odd kernel is no reason not to serve: it is said, and the rest goes on.
fn told<E: Display>(part: &str, outcome: Result<Enforced, E>) -> Enforced {
    outcome.unwrap_or_else(|error| {
        tracing::warn!(part, %error, "a part of the sandbox is not in force");
        Enforced::No
    })
}
