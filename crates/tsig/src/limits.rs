//! Every bound of TSIG keys and MACs.

/// Secrets that one key has at a time: the old and the new one while they are rolled over.
pub const KEY_SECRETS_MAX: usize = 2;
/// Bytes by which the secrets of a key are told apart.
pub const SECRET_ID_BYTES: usize = 8;
/// Keys in a table.
pub const KEYS_MAX: usize = 100_000;
/// Bytes of a secret; longer ones are hashed by HMAC first and gain nothing (RFC 2104 3).
pub const SECRET_BYTES_MAX: usize = 512;
/// Seconds by which Time Signed may be off, whatever larger fudge a client asks for: it bounds how long identities of
/// requests must be remembered (RFC 8945 10 recommends 300).
pub const FUDGE_S_MAX: u16 = 300;
/// Bytes of a truncated MAC, whatever the algorithm (RFC 8945 5.2.2.1).
pub const MAC_BYTES_MIN: usize = 10;
/// Bytes of the longest MAC, that of HMAC-SHA512.
pub const MAC_BYTES_MAX: usize = 64;
