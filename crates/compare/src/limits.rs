//! Every bound of this crate.

/// Bytes of a name (RFC 1035 2.3.4).
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum number of labels and pointers in one name.
pub const POINTER_COUNT_MAX: usize = 256;
/// Messages in flight to one server.
pub const IN_FLIGHT_MAX: usize = 256;
/// Concurrent TCP connections to one server.
pub const CONNECTIONS_MAX: usize = 4;
