//! Every bound of this crate.

/// Zones of one hierarchy.
pub const ZONES_MAX: usize = 1_000_000;

/// Addresses of the servers of one zone.
pub const SERVERS_OF_ZONE_MAX: usize = 256;

/// Servers whose behavior is learnt.
pub const BEHAVIORS_MAX: usize = 1_000_000;

/// Bytes of `hierarchy.json`.
pub const INDEX_BYTES_MAX: u64 = 1 << 30;

/// Bytes of the rdata of a signature: the fixed part, the longest name, an Ed25519 signature.
pub const RRSIG_BYTES_MAX: usize = 18 + 255 + 64;
/// Bytes of a zone file.
pub const ZONE_FILE_BYTES_MAX: u64 = 4 << 30;

/// Zones that are loaded together: between two such steps what they let go is freed.
pub const EDITED_ZONES_MAX: usize = 1_000;

/// Bytes of a datagram of a server that is emulated (DNS flag day 2020; NSD's and our own default).
pub const DATAGRAM_BYTES_MAX: u16 = 1_232;

/// Addresses that no zone names and that are told one by one.
pub const STRANGERS_MAX: usize = 10_000;

/// Queries of a run that are remembered one by one: some 200 bytes each.
pub const UPSTREAM_MAX: usize = 2_000_000;

/// Levels of a hierarchy that is made up, the root one of them.
pub const SYNTH_DEPTH_MAX: usize = 16;

/// Servers of each zone of a hierarchy that is made up, but the root.
pub const SYNTH_SERVERS_MAX: usize = 13;

/// Addresses of each family in a hierarchy that is made up.
pub const SYNTH_ADDRESSES_MAX: u64 = 1 << 25;

/// Names and addresses that a survey of traffic remembers: of zones, of name servers, of what was answered for.
pub const SURVEYED_NAMES_MAX: usize = 4_000_000;

/// Bytes of all records that are kept of rebuilt zones, with what each takes beside its data.
pub const REBUILT_BYTES_MAX: usize = 2 << 30;

/// Names that were said not to exist, or not to have a type, that all zones being rebuilt remember.
pub const DENIED_NAMES_MAX: usize = 2_000_000;

/// Findings of one kind that a report lists; beyond it only their number grows.
pub const FINDINGS_LISTED_MAX: usize = 1_000;

/// Answers to one question that are listed beside the one that is kept; beyond it only their number grows.
pub const OTHER_ANSWERS_MAX: usize = 16;

/// Aliases of one response that are followed.
pub const ALIASES_MAX: usize = 32;

/// Questions of each kind to the resolver that is asked for what traffic does not hold.
pub const FETCHED_MAX: usize = 10_000;

/// Addresses of one family that a name is given whose own were not seen.
pub const MADE_ADDRESSES_MAX: usize = 13;

/// Bytes of all answers that are kept to be compared, with what each takes beside its data.
pub const OBSERVED_BYTES_MAX: usize = 1 << 30;

/// Answers to one question that are told apart.
pub const OBSERVED_OUTCOMES_MAX: usize = 64;

/// Answers that are looked at where aliases lead from one question to the next, for one answer that is compared.
pub const ALIAS_STEPS_MAX: usize = 10_000;
