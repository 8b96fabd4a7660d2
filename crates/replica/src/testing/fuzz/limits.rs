//! Bounds of what is thrown, and of what comes of it.

/// Chunks of an input that are looked at.
pub(super) const CHUNKS_MAX: usize = 64;
/// Bytes of an input.
pub(super) const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Outputs of a member until it rests.
pub(super) const OUTPUTS_MAX: usize = 10_000;
