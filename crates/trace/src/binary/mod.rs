//! The binary format: small, checksummed, fast, and seekable by time.
//!
//! ```text
//!   head | chunk | chunk | ... | index | end
//!
//!   head    16   0x89 "catrace", version, checksum of them
//!   chunk   44   "CHNK", messages, bytes packed, bytes unpacked, earliest, latest, packing, checksum of the
//!                columns, checksum of the head; then the columns, packed with LZ4 if that makes them smaller
//!   index   24   "INDX", entries, messages of the file, checksum of the entries, checksum of the head; then for
//!                each entry 24: position, earliest, latest
//!   end     16   position of the index, its checksum, 0x89 "END"
//! ```
//!
//! Numbers are little-endian; times are nanoseconds since 1970; checksums are CRC-32C. A file without its end can
//! still be read from the beginning, because each chunk is independent. [`columns`] describes the columns.

// Heads of chunks.
mod chunk;
// Columns: reading and writing.
mod chunk_builder;
mod columns;
// Index.
mod index;
// Files.
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use reader::BinaryReader;
pub(crate) use writer::BinaryWriter;

/// First bytes of a file. No text starts with the first one.
pub(crate) const MAGIC: [u8; 8] = *b"\x89catrace";
/// Last bytes of a file.
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

/// Concatenates the parts. The rest of the array stays zero.
fn concat_parts<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    for part in parts {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    bytes
}

/// Writes the checksum of the bytes before `at` into the four bytes at `at`.
fn sealed<const N: usize>(mut bytes: [u8; N], at: usize) -> [u8; N] {
    let checksum = crc32c::crc32c(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn is_sealed(bytes: &[u8], at: usize) -> bool {
    crc32c::crc32c(&bytes[..at]) == u32_at(bytes, at)
}

/// The head of a file.
fn head() -> [u8; HEAD_BYTES] {
    sealed(concat_parts(&[&MAGIC, &VERSION.to_le_bytes()]), HEAD_BYTES - 4)
}
