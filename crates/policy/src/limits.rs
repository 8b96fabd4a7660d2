//! Every bound of an update policy and of its evaluation.

/// Rules of one policy.
pub const POLICY_RULES_MAX: usize = 10_000;
/// Rules of one policy that can apply to the same key. The leader's thread checks each record of an update against all
/// of them.
pub const KEY_RULES_MAX: usize = 256;
/// Types in one rule.
pub const RULE_TYPES_MAX: usize = 64;
/// `limit` lines of one policy.
pub const POLICY_LIMITS_MAX: usize = 1_000;
/// Bytes of one encoded policy, which is one log entry.
pub const POLICY_BYTES_MAX: usize = 1 << 20;
/// Bytes of all encoded policies together.
pub const POLICIES_BYTES_MAX: usize = 64 << 20;
/// Bytes of a socket path: the kernel's `sun_path` without its terminating byte.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Questions to the daemons of `external` rules about one update. An update that needs more is refused.
pub const EXTERNAL_QUESTIONS_MAX: usize = 1_000;
/// Zone records that one update may read, deleted or not. It bounds the leader's time and memory for an update whose
/// owners all have large RRsets.
pub const UPDATE_TOUCHED_RECORDS_MAX: usize = 100_000;
