//! Every bound of TSIG keys and MACs.

/// Secrets of one key: two during a rollover, the old and the new.
pub const KEY_SECRETS_MAX: usize = 2;
/// Bytes of the id of a secret.
pub const SECRET_ID_BYTES: usize = 8;
/// Keys in a table.
pub const KEYS_MAX: usize = 100_000;
/// Bytes of a secret. HMAC hashes longer secrets first, so they gain nothing (RFC 2104 3).
pub const SECRET_BYTES_MAX: usize = 512;
/// Largest accepted fudge in seconds; a larger fudge of a client is reduced to this. It bounds how long identities of
/// requests must be remembered (RFC 8945 10 recommends 300).
pub const FUDGE_S_MAX: u16 = 300;
/// Bytes of the shortest truncated MAC of any algorithm (RFC 8945 5.2.2.1).
pub const MAC_BYTES_MIN: usize = 10;
/// Bytes of the longest MAC, that of HMAC-SHA512.
pub const MAC_BYTES_MAX: usize = 64;
