//! Every bound of this crate.

/// Zones of one hierarchy.
pub const ZONES_MAX: usize = 1_000_000;

/// Addresses of the servers of one zone.
pub const SERVERS_OF_ZONE_MAX: usize = 256;

/// Octets of `hierarchy.json`.
pub const INDEX_OCTETS_MAX: u64 = 1 << 30;
