//! Integers in messages, in network order.

/// Two bytes at `at`, in network order.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&chunk| u16::from_be_bytes(chunk))
}

/// Four bytes at `at`, in network order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&chunk| u32::from_be_bytes(chunk))
}
