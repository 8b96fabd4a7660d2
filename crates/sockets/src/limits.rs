//! Every bound of this crate.

/// Maximum size of a message in a batch.
pub const MESSAGE_BYTES_MAX: usize = 4_096;
/// Messages per system call.
pub const BATCH_COUNT: usize = 64;
/// Longest query that fits every link, in bytes: the minimum MTU of IPv6 (RFC 8200 5) without headers. Longer queries
/// may be fragmented, and are not sent with segmentation offload.
pub const UNFRAGMENTED_BYTES_MAX: usize = 1_232;
/// Requested send and receive buffer of each socket.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Size of a read from a connection.
pub const STREAM_READ_BYTES: usize = 64 << 10;
/// Maximum number of unsent bytes per connection. Above it, no further queries are sent.
pub const STREAM_UNSENT_BYTES_MAX: usize = 256 << 10;
/// Maximum size of a message with a length of two bytes (RFC 1035 4.2.2).
pub const STREAM_MESSAGE_BYTES_MAX: usize = 65_535;
/// Events per poll of the connections.
pub const EVENTS_MAX: usize = 1_024;
/// TLS sessions kept for resumption per worker.
pub const TLS_TICKETS_MAX: usize = 32_768;
/// Bytes kept of a datagram. Matching only needs its beginning.
pub const RESPONSE_BYTES_KEPT: usize = 2_048;
