//! The settings of a resolver.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use wire::number::Rtype;

/// The address of every resolver, in a network namespace of its own.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The port of every resolver.
pub const PORT: u16 = 53;

/// A DS or DNSKEY record of the root.
#[derive(Clone, Debug)]
pub struct RootKey {
    /// DS or DNSKEY.
    pub rtype: Rtype,
    /// Its rdata in presentation format, as words.
    pub words: Vec<String>,
}

/// The settings of a resolver.
#[derive(Clone, Debug)]
pub struct ResolverSetup {
    /// Its folder. Paths in the configuration start with it.
    pub folder: PathBuf,
    /// The file of root hints; `None` leaves them to the resolver.
    pub hints: Option<PathBuf>,
    /// Validate with these keys of the root; `None` turns validation off.
    pub anchor: Option<Vec<RootKey>>,
    /// Accept expired signatures. Only for Unbound and BIND.
    pub accepts_expired: bool,
    /// QNAME minimisation; `None` leaves it to the resolver.
    pub minimisation: Option<bool>,
    /// Query servers over IPv4 only.
    pub ipv4_only: bool,
}

impl ResolverSetup {
    /// The keys of the anchor.
    pub(super) fn keys(&self) -> impl Iterator<Item = &RootKey> {
        self.anchor.iter().flatten()
    }

    /// The path of the root hints.
    pub(super) fn hints_path(&self) -> Option<String> {
        self.hints.as_deref().map(|path: &Path| path.display().to_string())
    }
}

/// A switch in the syntax of several resolvers.
pub(super) const fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}
