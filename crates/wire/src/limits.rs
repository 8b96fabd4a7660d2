//! Every bound of this crate.

/// Octets of a name in wire form, root label included (RFC 1035 2.3.4).
pub const NAME_OCTETS_MAX: usize = 255;
/// Octets of a label (RFC 1035 2.3.4).
pub const LABEL_OCTETS_MAX: usize = 63;
/// Labels of a name, root label included.
pub const NAME_LABELS_MAX: usize = 128;
/// Octets of a message over TCP, and of a datagram that is received (RFC 1035 4.2.2).
pub const MESSAGE_OCTETS_MAX: usize = 65_535;
