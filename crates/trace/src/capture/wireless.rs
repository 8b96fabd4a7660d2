//! Frames of 802.11 (Wi-Fi) and the radiotap headers before them.

use super::header_bytes::{after, u16_at};
use crate::limits::LAYERS_MAX;
use crate::tally::UnreadReason;

/// Bits in the first byte of the presence bitmap (radiotap.org). The first field is a time, the second flags.
const HAS_TIME: u8 = 1 << 0;
const HAS_FLAGS: u8 = 1 << 1;
/// Highest bit of a bitmap word of four bytes: another word follows.
const HAS_MORE: u8 = 1 << 7;
/// Flag: the frame header is padded to a multiple of four bytes.
const IS_PADDED: u8 = 1 << 5;

/// Returns the logical link control header inside a frame with a radiotap header.
pub(super) fn radiotap(frame: &[u8]) -> Result<&[u8], UnreadReason> {
    let frame_at = usize::from(u16_at(frame, 2)?.swap_bytes());
    let header = frame.get(..frame_at).ok_or(UnreadReason::HeaderMalformed)?;
    let presents = after(header, 4)?.chunks_exact(4).take(LAYERS_MAX);
    let words = presents.take_while(|word| word[3] & HAS_MORE != 0).count() + 1;
    let (first, fields) = (after(header, 4)?.first().copied().unwrap_or(0), 4 + 4 * words);
    let flags_at = if first & HAS_TIME != 0 { fields.next_multiple_of(8) + 8 } else { fields };
    let flags = if first & HAS_FLAGS != 0 { header.get(flags_at).copied().unwrap_or(0) } else { 0 };
    data(after(frame, frame_at)?, flags & IS_PADDED != 0)
}

/// Returns the body of a data frame (IEEE 802.11 9.2 and 9.3.2).
pub(super) fn data(frame: &[u8], is_padded: bool) -> Result<&[u8], UnreadReason> {
    let &[kind, flags] = frame.first_chunk().ok_or(UnreadReason::HeaderMalformed)?;
    let (is_data, has_data, has_qos) = (kind & 0x0C == 0x08, kind & 0x40 == 0, kind & 0x80 != 0);
    if !is_data || !has_data {
        return Err(UnreadReason::NotIp);
    }
    if flags & 0x40 != 0 {
        return Err(UnreadReason::EncapsulatedWifi);
    }
    // Frames between two access points have a fourth address.
    let address_end = if flags & 3 == 3 { 30 } else { 24 };
    let (qos, control) = (usize::from(has_qos) * 2, usize::from(has_qos && flags & 0x80 != 0) * 4);
    let length = address_end + qos + control;
    let body = after(frame, if is_padded { length.next_multiple_of(4) } else { length })?;
    // An aggregate holds several frames, each after its addresses and length. Only the first is read.
    let is_aggregate = has_qos && frame.get(address_end).is_some_and(|qos| qos & 0x80 != 0);
    if is_aggregate { after(body, 14) } else { Ok(body) }
}
