//! Capabilities: a node needs at most the one for ports below 1024, which it opens once it can answer.
//!
//! It needs none for the rest: threads only ever lower themselves, limits on open files are raised to the hard limit,
//! and its files belong to its user.

use super::Enforced;
use crate::node::system::effective_user;
use caps::errors::CapsError;
use caps::{CapSet, Capability, CapsHashSet};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Ports from this one on are everyone's, unless the system says otherwise.
const UNPRIVILEGED_PORT: u16 = 1_024;

/// Whether it takes a privilege to open the port of an address.
pub(super) fn is_low(address: SocketAddr) -> bool {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first = first.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(UNPRIVILEGED_PORT);
    // Port 0 is any that is free, from the range of high ones.
    (1..first).contains(&address.port())
}

/// Root without capabilities may not read what belongs to others.
pub(super) fn warn_of_other_owner(dir: &Path) {
    let owner = std::fs::metadata(dir).map(|data| data.uid());
    if let (0, Ok(uid @ 1..)) = (effective_user(), owner) {
        let dir = dir.display();
        tracing::warn!(%dir, uid, "the node runs as root, but its directory is another user's: run it as that user");
    }
}

/// Drops all, for good: also from the bounding set, where the process may.
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
    // Without the bounding set only a program with file capabilities could get them back, which no_new_privs prevents.
    Ok(if is_bounded { Enforced::Fully } else { Enforced::Partly })
}

/// Says whether the bounding set has no others now.
fn drop_bounding(kept: &CapsHashSet) -> Result<bool, CapsError> {
    let mut is_bounded = true;
    for capability in caps::runtime::thread_all_supported().difference(kept) {
        if caps::has_cap(None, CapSet::Bounding, *capability)? {
            is_bounded &= caps::drop(None, CapSet::Bounding, *capability).is_ok();
        }
    }
    Ok(is_bounded)
}
