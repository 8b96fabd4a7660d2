//! The limits of this crate, and the defaults and bounds of settings.

// Files.

/// Maximum size of a configuration, key or token file.
pub const SMALL_FILE_BYTES_MAX: u64 = 1 << 20;
/// Keys in a file of data keys.
pub const DATA_KEYS_MAX: usize = 16;
/// Minimum length of a TSIG secret without `--allow-short-secret`, in bytes.
pub const TSIG_SECRET_BYTES_MIN: usize = 16;
/// Files of the audit log, all of the same size.
pub const AUDIT_FILES_MAX: usize = 8;
/// Maximum size of a line of the audit log: two names of 1,004 characters, an address and numbers.
pub const AUDIT_LINE_BYTES_MAX: usize = 8 << 10;

// Zone files.

/// Maximum size on disk of all files of a zone.
pub const ZONE_FILE_BYTES_MAX: u64 = 4 << 30;
/// Maximum decompressed size of the compressed files of a zone: the API accepts no larger zone.
pub const DECOMPRESSED_BYTES_MAX: u64 = API_ZONE_BYTES_MAX as u64;
/// Maximum compression ratio beyond [`DECOMPRESSED_BYTES_FREE`]. Real zones reach 10, zones with generated names 30.
pub const DECOMPRESSED_RATIO_MAX: u64 = 100;
/// Decompressed bytes that are allowed at any compression ratio.
pub const DECOMPRESSED_BYTES_FREE: u64 = 32 << 20;
/// Maximum dictionary size of an xz file, in KiB: four times that of `xz -9`.
pub const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;

// Requests of the API.

/// Maximum size of a zone file that the API accepts.
pub const API_ZONE_BYTES_MAX: usize = 1 << 30;
/// Maximum size of an update policy as text that the API accepts. A policy of the maximum encoded size fits.
pub const API_POLICY_BYTES_MAX: usize = 4 << 20;
/// Maximum size of any other body that the API accepts.
pub const API_BODY_BYTES_MAX: usize = 64 << 10;
/// Time limit for the head of a request, including the silence before it.
pub const API_HEAD_MS: u64 = 5_000;

// Addresses.

/// Maximum length of the address of a node, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;
/// Addresses that a node listens on.
pub const LISTEN_ADDRESSES_MAX: usize = 64;
/// Names in `api.hosts`.
pub const API_HOSTS_MAX: usize = 64;

// Clients over UDP.

/// Maximum size of a response over UDP, even if the client advertises more.
pub const UDP_RESPONSE_BYTES_MAX: usize = 4_096;
/// Default size limit of a response over UDP (RFC 9715 3.1; DNS flag day 2020).
pub const UDP_PAYLOAD_DEFAULT: u16 = 1_232;
/// UDP workers of a node.
pub const UDP_WORKERS_MAX: usize = 64;

// Connections of clients.

/// Connections of a node, over TCP, TLS, HTTPS and QUIC together.
pub const TCP_CONNECTIONS_MAX: usize = 16_384;
/// Connections of one client (RFC 7766 6.2.2 lets a server limit them).
pub const TCP_CONNECTIONS_PER_CLIENT_MAX: usize = 2_048;
/// Idle timeout of a connection, and the time in which a client must read some of a response (RFC 7766 6.2.3).
pub const TCP_IDLE_MS: u64 = 10_000;
/// Default memory limit of all connections, including queued data. The maximum number of connections fits in it.
pub const CONNECTIONS_MEMORY_BYTES_MAX: usize = 1 << 30;
/// Minimum of that setting: some connections of each transport.
pub const CONNECTIONS_MEMORY_BYTES_MIN: usize = 1 << 20;
/// Default handshakes per second and client. Each costs the server a signature.
pub const HANDSHAKES_PER_SECOND: u32 = 100;
/// Default burst of handshakes of a client.
pub const HANDSHAKES_BURST: u32 = 500;

// Limits on the rate of responses.

/// Default rate of similar UDP responses per second and network.
pub const RATE_LIMIT_PER_SECOND: u32 = 50;
/// Its burst.
pub const RATE_LIMIT_BURST: u32 = 125;
/// Default rate of all UDP responses per second and network: 32 times that of one client, as in Knot 3.4 for a /24.
pub const RATE_LIMIT_ALL_PER_SECOND: u32 = 32 * RATE_LIMIT_PER_SECOND;
/// Its burst.
pub const RATE_LIMIT_ALL_BURST: u32 = 32 * RATE_LIMIT_BURST;
/// Default rate of all UDP responses per second and address: twice that of similar ones.
pub const RATE_LIMIT_ADDRESS_PER_SECOND: u32 = 2 * RATE_LIMIT_PER_SECOND;
/// Its burst.
pub const RATE_LIMIT_ADDRESS_BURST: u32 = 2 * RATE_LIMIT_BURST;
/// Maximum of each of these settings.
pub const RATE_LIMIT_MAX: u32 = 100_000_000;
/// Networks whose clients are not limited.
pub const RATE_LIMIT_EXEMPT_MAX: usize = 64;

// Zone transfers.

/// Default minimum rate of the client of a transfer, in bytes per second.
pub const TRANSFER_RATE_MIN: u64 = 64 << 10;
/// Time that a transfer has at any rate.
pub const TRANSFER_GRACE_MS: u64 = 60_000;
/// Bytes of old zone versions that one transfer keeps in memory.
pub const TRANSFER_HELD_BYTES_MAX: u64 = 256 << 20;

// Log and checkpoints.

/// Minimum of the log size that triggers a checkpoint. Each checkpoint costs an fsync.
pub const CHECKPOINT_BYTES_MIN: u64 = 64 << 10;
/// Default of the log size that triggers a checkpoint.
pub const CHECKPOINT_BYTES: u64 = 256 << 20;
/// Default of the entries that are kept before a checkpoint.
pub const CHECKPOINT_KEEP_ENTRIES: u64 = 200_000;
/// Default of the bytes of entries that are kept before a checkpoint.
pub const CHECKPOINT_KEEP_BYTES: u64 = 1 << 30;
/// Default number of seconds between two scrubs of log and checkpoints.
pub const SCRUB_INTERVAL_S: u64 = 7 * 24 * 3_600;

// Audit log, and memory.

/// Default of the total size of the audit log.
pub const AUDIT_BYTES_MAX: u64 = 1 << 30;
/// Minimum of that setting.
pub const AUDIT_BYTES_MIN: u64 = 1 << 20;
/// Minimum memory for the zones of a node: thousands of records, and copies during changes.
pub const ZONES_MEMORY_BYTES_MIN: u64 = 16 << 20;
