//! Every bound of this crate.

/// Octets of a name (RFC 1035 2.3.4).
pub const NAME_OCTETS_MAX: usize = 255;
/// Labels and pointers that are followed in one name.
pub const POINTER_COUNT_MAX: usize = 256;
/// Messages that wait for an answer of one server.
pub const IN_FLIGHT_MAX: usize = 256;
/// TCP connections to one server at once.
pub const CONNECTIONS_MAX: usize = 4;
