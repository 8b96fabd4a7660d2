//! Our binary form: small, checked, read fast, and read from any time on.
//!
//! ```text
//!   head | chunk | chunk | ... | index | end
//!
//!   head    16   0x89 "catrace", version, checksum of these
//!   chunk   44   "CHNK", messages, bytes packed, bytes unpacked, earliest, latest, packing, checksum of what
//!                follows, checksum of these; then the columns, packed with LZ4 where that makes them smaller
//!   index   24   "INDX", stretches, messages of the file, checksum of what follows, checksum of these; then of each
//!                stretch of chunks 24: where it begins, earliest, latest
//!   end     16   where the index begins, checksum of that, 0x89 "END"
//! ```
//!
//! Numbers are little-endian; times are nanoseconds since 1970; checksums are CRC-32C. A file without its end is read
//! from its beginning all the same: each chunk stands for itself. The columns are those of [`columns`].

// What is at the head of a chunk.
mod chunk;
// The messages of a chunk, column by column: read, and written.
mod columns;
mod filling;
// Where which time is.
mod index;
// Files.
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use reader::BinaryReader;
pub(crate) use writer::BinaryWriter;

/// How such a file begins: no text has this first byte.
pub(crate) const MAGIC: [u8; 8] = *b"\x89catrace";
/// How it ends.
const END: [u8; 4] = *b"\x89END";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 16;
const END_BYTES: usize = 16;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Writes numbers one behind the other, from the first byte on, and the rest as it is.
fn put<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    for part in parts {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    bytes
}

/// The same, with the checksum of what is before it in the four bytes at `at`.
fn sealed<const N: usize>(mut bytes: [u8; N], at: usize) -> [u8; N] {
    let checksum = crc32c::crc32c(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn is_sealed(bytes: &[u8], at: usize) -> bool {
    crc32c::crc32c(&bytes[..at]) == u32_at(bytes, at)
}

/// The first bytes of a file.
fn head() -> [u8; HEAD_BYTES] {
    sealed(put(&[&MAGIC, &VERSION.to_le_bytes()]), HEAD_BYTES - 4)
}
