//! The version and the configuration of a server.

use super::kind::Kind;
use std::path::Path;
use std::process::{Command, Stdio};

impl Kind {
    /// The first line that a program prints as its version. Empty if it does not run.
    #[must_use]
    pub fn version(self, program: &Path) -> String {
        let option = match self {
            Self::Catamaran | Self::PowerDns | Self::Dnsdist => "--version",
            Self::Bind | Self::Knot | Self::Unbound | Self::KnotResolver => "-V",
            Self::Nsd | Self::HaProxy => "-v",
            Self::CoreDns => "-version",
        };
        version(program, option)
    }

    /// How to install its program.
    #[must_use]
    pub const fn how_to_install(self) -> &'static str {
        match self {
            Self::Catamaran => "cargo build --release -p catamaran-server, or set CATAMARAN_BIN to the program",
            Self::Bind => "apt install bind9",
            Self::Knot => "apt install knot",
            Self::Nsd => "apt install nsd",
            Self::PowerDns => "apt install pdns-server pdns-backend-bind",
            Self::Unbound => "apt install unbound",
            Self::KnotResolver => "apt install knot-resolver",
            Self::Dnsdist => "apt install dnsdist",
            Self::HaProxy => "apt install haproxy",
            Self::CoreDns => "go install github.com/coredns/coredns@latest, or set CATAMARAN_COREDNS to the program",
        }
    }

    /// The file with its configuration, relative to the folder of the server.
    pub(crate) const fn configuration_file(self) -> &'static str {
        match self {
            Self::Catamaran => "data/node-1/catamaran.toml",
            Self::Nsd => "nsd.conf",
            Self::Knot => "knot.conf",
            Self::Bind => "named.conf",
            Self::PowerDns => "pdns.conf",
            Self::CoreDns => "Corefile",
            Self::Unbound => "unbound.conf",
            Self::KnotResolver => "kresd.conf",
            Self::Dnsdist => "dnsdist.conf",
            Self::HaProxy => "haproxy.cfg",
        }
    }
}

/// The first line that a program prints with this option. Empty if it does not run.
#[must_use]
pub fn version(program: &Path, option: &str) -> String {
    let Ok(output) = Command::new(program).arg(option).stdin(Stdio::null()).output() else { return String::new() };
    // NSD and PowerDNS print it to standard error.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}
