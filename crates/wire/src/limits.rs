//! Every bound of this crate.

/// Bytes of a name in wire form, root label included (RFC 1035 2.3.4).
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a label (RFC 1035 2.3.4).
pub const LABEL_BYTES_MAX: usize = 63;
/// Labels of a name, root label included.
pub const NAME_LABELS_MAX: usize = 128;
/// Bytes of a message over TCP, and of a datagram that is received (RFC 1035 4.2.2).
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// Bytes of a message's header (RFC 1035 4.1.1).
pub const HEADER_BYTES: usize = 12;
/// Bytes of the rdata of one record (RFC 1035 3.2.1).
pub const RDATA_BYTES_MAX: usize = 65_535;
/// Compression pointers followed for one name. More are never useful: each except the last leads to a label.
pub const POINTERS_PER_NAME_MAX: usize = NAME_LABELS_MAX;
/// Labels and pointers read for all names of one message together. So even a message of 65,535 bytes in which every
/// owner is a long chain of pointers costs only a fraction of a millisecond.
pub const NAME_STEPS_MAX: u32 = 262_144;
/// Names in the composer's table for compression. It bounds the work for a name.
pub const COMPRESSION_ENTRIES_MAX: usize = 64;
/// Labels of apex and MNAME together, and of a question before the apex, for a prepared SOA. They all have room in the
/// composer's table.
pub const SOA_FORM_LABELS_MAX: usize = COMPRESSION_ENTRIES_MAX / 2;
/// A compression pointer has fourteen bits (RFC 1035 4.1.4).
pub const POINTER_TARGET_MAX: usize = 0x3FFF;
/// The smallest payload size. Smaller requested values count as this (RFC 6891 6.2.3).
pub const UDP_PAYLOAD_MIN: u16 = 512;
/// Extended errors in one response (RFC 8914 allows any number).
pub const EDE_MAX: usize = 2;
