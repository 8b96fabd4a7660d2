//! Every bound of an update policy, and of what one update reads to be judged.

/// Rules of one policy.
pub const POLICY_RULES_MAX: usize = 10_000;
/// Rules of one policy that can concern one and the same key: each record of an update is held against all of them, on
/// the thread of the leader.
pub const KEY_RULES_MAX: usize = 256;
/// Types that one rule names.
pub const RULE_TYPES_MAX: usize = 64;
/// Limits of one policy.
pub const POLICY_LIMITS_MAX: usize = 1_000;
/// Bytes of one encoded policy: it is one entry of the log.
pub const POLICY_BYTES_MAX: usize = 1 << 20;
/// Bytes of all encoded policies together.
pub const POLICIES_BYTES_MAX: usize = 64 << 20;
/// Bytes of the path of a socket: what the kernel takes (`sun_path`, with the byte that ends it).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Questions to the daemons of `external` rules about one update. An update of more is refused.
pub const EXTERNAL_QUESTIONS_MAX: usize = 1_000;
/// Records that one update may read from the zone, deleted or not: a bound on the leader's time and memory for one
/// update, whose owners may all hold large RRsets.
pub const UPDATE_TOUCHED_RECORDS_MAX: usize = 100_000;
