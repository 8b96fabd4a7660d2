//! A hash that is quick: enough to tell messages apart, not for tables that strangers fill.

/// Of these octets.
pub(crate) fn of(octets: &[u8]) -> u64 {
    let mut state = octets.len() as u64;
    let mut chunks = octets.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight octets"));
        state = (state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    for &octet in chunks.remainder() {
        state = (state ^ u64::from(octet)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    state
}
