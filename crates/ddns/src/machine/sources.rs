//! Selects the addresses of this machine for a name.

use crate::address::{Addresses, Family, InterfaceAddress, is_public, is_usable};
use crate::config::NameConfig;
use crate::limits::ADDRESSES_MAX;

/// The addresses of the configured interfaces, or of all interfaces.
pub(super) fn of_interfaces(config: &NameConfig, family: Family, interfaces: &[InterfaceAddress]) -> Addresses {
    let is_listed = |interface: &str| {
        config.interfaces.is_empty()
            || config.interfaces.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => interface.starts_with(prefix),
                None => interface == pattern,
            })
    };
    let is_fit = |found: &&InterfaceAddress| {
        Family::of(&found.address) == family
            && !found.is_deprecated
            && (config.temporary || !found.is_temporary)
            && if config.private { is_usable(&found.address) } else { is_public(&found.address) }
            && is_listed(&found.interface)
    };
    // The set sorts and deduplicates the addresses before the limit applies.
    let fit: Addresses = interfaces.iter().filter(is_fit).map(|found| found.address).collect();
    fit.into_iter().take(ADDRESSES_MAX).collect()
}
