//! Reads the bytes of headers.

use crate::tally::UnreadReason;

/// The bytes from `at` on. An error if the header is shorter.
pub(super) fn after(bytes: &[u8], at: usize) -> Result<&[u8], UnreadReason> {
    bytes.get(at..).ok_or(UnreadReason::HeaderMalformed)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Result<u16, UnreadReason> {
    after(bytes, at)?.first_chunk::<2>().map(|&bytes| u16::from_be_bytes(bytes)).ok_or(UnreadReason::HeaderMalformed)
}

pub(super) fn u32_le_at(bytes: &[u8], at: usize) -> Result<usize, UnreadReason> {
    let bytes = after(bytes, at)?.first_chunk::<4>().ok_or(UnreadReason::HeaderMalformed)?;
    Ok(u32::from_le_bytes(*bytes) as usize)
}
