//! Capabilities: a node needs at most the one for ports below 1024, which it opens when it can serve.
//!
//! Nothing else needs a capability: threads only lower their priority, the limit of open files is raised only to the
//! hard limit, and the files belong to the node's user.

use super::state::Enforced;
use crate::user::effective_user;
use caps::errors::CapsError;
use caps::{CapSet, Capability, CapsHashSet};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Default of the first port that needs no privilege.
const UNPRIVILEGED_PORT: u16 = 1_024;

/// Whether the port of an address needs a privilege.
pub(super) fn is_low(address: SocketAddr) -> bool {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first = first.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(UNPRIVILEGED_PORT);
    // Port 0 means any free port, which is always a high one.
    (1..first).contains(&address.port())
}

/// Warns if root, which loses its capabilities, cannot access the files of another user.
pub(super) fn warn_of_other_owner(dir: &Path) {
    let owner = std::fs::metadata(dir).map(|data| data.uid());
    if let (0, Ok(uid @ 1..)) = (effective_user(), owner) {
        let dir = dir.display();
        tracing::warn!(%dir, uid, "the node runs as root, but another user owns its directory: run it as that user");
    }
}

/// Drops all capabilities irrevocably, also from the bounding set if the process may.
pub(super) fn drop_all(keeps_low_ports: bool) -> Result<Enforced, CapsError> {
    let has = |capability| caps::has_cap(None, CapSet::Permitted, capability);
    let mut kept = CapsHashSet::new();
    if keeps_low_ports && has(Capability::CAP_NET_BIND_SERVICE)? {
        kept.insert(Capability::CAP_NET_BIND_SERVICE);
    }
    let is_bounded = drop_bounding(&kept)?;
    // Kernels before 4.3 have no ambient set.
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    // If the bounding set remains, only a program with file capabilities could regain them, which no_new_privs
    // prevents.
    Ok(if is_bounded { Enforced::Fully } else { Enforced::Partly })
}

/// Returns whether the bounding set now has no others.
fn drop_bounding(kept: &CapsHashSet) -> Result<bool, CapsError> {
    let mut is_bounded = true;
    for capability in caps::runtime::thread_all_supported().difference(kept) {
        if caps::has_cap(None, CapSet::Bounding, *capability)? {
            is_bounded &= caps::drop(None, CapSet::Bounding, *capability).is_ok();
        }
    }
    Ok(is_bounded)
}
