//! Every bound of this crate.

/// Zones of one hierarchy.
pub const ZONES_MAX: usize = 1_000_000;

/// Addresses of the servers of one zone.
pub const SERVERS_OF_ZONE_MAX: usize = 256;

/// Servers with a learnt behavior.
pub const BEHAVIORS_MAX: usize = 1_000_000;

/// Bytes of `hierarchy.json`.
pub const INDEX_BYTES_MAX: u64 = 1 << 30;

/// Rdata of a signature: the fixed part, the longest name, an Ed25519 signature.
pub const RRSIG_BYTES_MAX: usize = 18 + 255 + 64;
/// Bytes of a zone file.
pub const ZONE_FILE_BYTES_MAX: u64 = 4 << 30;

/// Zones loaded in one step. Between two steps, released memory is freed.
pub const EDITED_ZONES_MAX: usize = 1_000;

/// Largest datagram of an emulated server (DNS flag day 2020; the default of NSD and of our server).
pub const DATAGRAM_BYTES_MAX: u16 = 1_232;

/// Listed addresses that no zone names.
pub const UNNAMED_ADDRESSES_MAX: usize = 10_000;

/// Recorded queries of a run, at about 200 bytes each.
pub const UPSTREAM_MAX: usize = 2_000_000;

/// Levels of a generated hierarchy, including the root.
pub const SYNTH_DEPTH_MAX: usize = 16;

/// Servers of each generated zone except the root.
pub const SYNTH_SERVERS_MAX: usize = 13;

/// Addresses of each family in a generated hierarchy.
pub const SYNTH_ADDRESSES_MAX: u64 = 1 << 25;

/// Names and addresses that a survey remembers: of zones, name servers and answers.
pub const SURVEYED_NAMES_MAX: usize = 4_000_000;

/// Memory of all records of rebuilt zones, in bytes.
pub const REBUILT_BYTES_MAX: usize = 2 << 30;

/// Denied names in all zones under construction.
pub const DENIED_NAMES_MAX: usize = 2_000_000;

/// Findings of one kind that a report lists. Further ones are only counted.
pub const FINDINGS_LISTED_MAX: usize = 1_000;

/// Other answers to one question that are listed. Further ones are only counted.
pub const OTHER_ANSWERS_MAX: usize = 16;

/// Aliases followed in one response.
pub const ALIASES_MAX: usize = 32;

/// Questions of each kind to the resolver that provides missing data.
pub const FETCHED_MAX: usize = 10_000;

/// Made-up addresses of one family for a name without known ones.
pub const MADE_ADDRESSES_MAX: usize = 13;

/// Memory of all answers that are kept for a comparison, in bytes.
pub const OBSERVED_BYTES_MAX: usize = 1 << 30;

/// Different answers to one question.
pub const OBSERVED_OUTCOMES_MAX: usize = 64;

/// Steps along aliases for one compared answer.
pub const ALIAS_STEPS_MAX: usize = 10_000;
