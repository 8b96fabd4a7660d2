//! Limits of fuzz inputs and their effects.

/// Chunks of an input that are used.
pub(super) const CHUNKS_MAX: usize = 64;
/// Bytes of an input.
pub(super) const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Outputs of a member after one input.
pub(super) const OUTPUTS_MAX: usize = 10_000;
