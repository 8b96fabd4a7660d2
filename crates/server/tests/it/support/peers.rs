//! Name servers of other projects.

use super::tools::missing;
use testbed::{Kind, Peer, Setup, start};

/// Starts a server. If it is not installed, the test is skipped and listed.
pub(crate) fn start_peer(kind: Kind, setup: &Setup) -> Option<Peer> {
    if kind.program().is_none() {
        let package = if kind == Kind::Bind { "bind9" } else { kind.label() };
        missing(kind.label(), &format!("apt-get install {package}"));
        return None;
    }
    Some(start(kind, setup).unwrap_or_else(|error| panic!("{error}")))
}
