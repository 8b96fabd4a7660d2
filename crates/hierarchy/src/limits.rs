//! Every bound of this crate.

/// Zones of one hierarchy.
pub const ZONES_MAX: usize = 1_000_000;

/// Addresses of the servers of one zone.
pub const SERVERS_OF_ZONE_MAX: usize = 256;

/// Octets of `hierarchy.json`.
pub const INDEX_OCTETS_MAX: u64 = 1 << 30;

/// Names and addresses that a survey of traffic remembers: of zones, of name servers, of what was answered for.
pub const SURVEYED_NAMES_MAX: usize = 4_000_000;

/// Octets of all records that are kept of rebuilt zones, with what each takes beside its data.
pub const REBUILT_OCTETS_MAX: usize = 2 << 30;

/// Names that were said not to exist, or not to have a type, that all zones being rebuilt remember.
pub const DENIED_NAMES_MAX: usize = 2_000_000;

/// Findings of one kind that a report lists; beyond it only their number grows.
pub const FINDINGS_LISTED_MAX: usize = 1_000;

/// Aliases of one response that are followed.
pub const ALIASES_MAX: usize = 32;

/// Questions of each kind to the resolver that is asked for what traffic does not hold.
pub const FETCHED_MAX: usize = 10_000;

/// Addresses of one family that a name is given whose own were not seen.
pub const MADE_ADDRESSES_MAX: usize = 13;
