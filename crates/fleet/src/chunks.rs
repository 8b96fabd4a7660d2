//! Splits a file into chunks that fit a message, and joins them. Each has its number, the count and a checksum.

use crate::limits::CHUNK_BYTES_MAX;
use std::fmt;
use std::io::{self, Read, Write};

/// Number, count and CRC-32C of the body, 32 bits each in network order.
const HEAD_BYTES: usize = 12;
/// Maximum number of file bytes in a chunk.
const BODY_BYTES_MAX: usize = CHUNK_BYTES_MAX - HEAD_BYTES;

/// Splits a file into chunks.
#[derive(Debug)]
pub struct ChunkReader<R> {
    input: R,
    bytes_left: u64,
    next: u32,
    count: u32,
}

impl<R: Read> ChunkReader<R> {
    /// For a file of `bytes` bytes.
    ///
    /// # Errors
    /// If the file has too many chunks.
    pub fn new(input: R, bytes: u64) -> io::Result<Self> {
        let count = count_of(bytes).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(Self { input, bytes_left: bytes, next: 0, count })
    }

    /// The next chunk. `None` after the last one.
    ///
    /// # Errors
    /// If the file cannot be read, or has become shorter.
    pub fn next_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.next == self.count {
            return Ok(None);
        }
        let bytes = self.bytes_left.min(BODY_BYTES_MAX as u64) as usize;
        let mut chunk = vec![0; HEAD_BYTES + bytes];
        let (head, body) = chunk.split_at_mut(HEAD_BYTES);
        self.input.read_exact(body)?;
        head[..4].copy_from_slice(&self.next.to_be_bytes());
        head[4..8].copy_from_slice(&self.count.to_be_bytes());
        head[8..].copy_from_slice(&crc32c::crc32c(body).to_be_bytes());
        self.bytes_left -= bytes as u64;
        self.next += 1;
        Ok(Some(chunk))
    }
}

/// Number of chunks of a file. An empty file has one.
fn count_of(bytes: u64) -> Option<u32> {
    u32::try_from(bytes.div_ceil(BODY_BYTES_MAX as u64).max(1)).ok()
}

/// Joins chunks to a file.
#[derive(Debug)]
pub struct ChunkWriter<W> {
    out: W,
    next: u32,
    count: u32,
    bytes_left: u64,
}

impl<W: Write> ChunkWriter<W> {
    /// For a file of `bytes` bytes.
    ///
    /// # Errors
    /// If the file has too many chunks.
    pub fn new(out: W, bytes: u64) -> Result<Self, ChunkError> {
        Ok(Self { out, next: 0, count: count_of(bytes).ok_or(ChunkError::Count)?, bytes_left: bytes })
    }

    /// Writes the next chunk and skips a repeated one. Returns whether it was the last.
    ///
    /// # Errors
    /// [`ChunkError`]. The file is unusable then.
    pub fn write_chunk(&mut self, chunk: &[u8]) -> Result<bool, ChunkError> {
        let (head, body) = chunk.split_at_checked(HEAD_BYTES).ok_or(ChunkError::Short)?;
        let number_at = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (number, count, checksum) = (number_at(0), number_at(4), number_at(8));
        if count != self.count {
            return Err(ChunkError::Count);
        }
        if crc32c::crc32c(body) != checksum {
            return Err(ChunkError::Checksum(number));
        }
        if number < self.next {
            return Ok(self.next == self.count);
        }
        if number > self.next {
            return Err(ChunkError::Missing(self.next));
        }
        if body.len() as u64 != self.bytes_left.min(BODY_BYTES_MAX as u64) {
            return Err(ChunkError::Length(number));
        }
        self.out.write_all(body).map_err(ChunkError::Write)?;
        self.bytes_left -= body.len() as u64;
        self.next += 1;
        if self.next == self.count {
            self.out.flush().map_err(ChunkError::Write)?;
        }
        Ok(self.next == self.count)
    }
}

/// Why chunks cannot be joined.
#[derive(Debug)]
pub enum ChunkError {
    /// A chunk has no header.
    Short,
    /// The count does not match the length of the file.
    Count,
    /// A chunk was damaged.
    Checksum(u32),
    /// A chunk is missing.
    Missing(u32),
    /// A chunk has the wrong length.
    Length(u32),
    /// The file cannot be written.
    Write(io::Error),
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("a chunk of the file has no header"),
            Self::Count => f.write_str("the file has a different number of chunks than announced"),
            Self::Checksum(number) => write!(f, "chunk {number} of the file is damaged"),
            Self::Missing(number) => write!(f, "chunk {number} of the file is missing"),
            Self::Length(number) => write!(f, "chunk {number} of the file has a different length than announced"),
            Self::Write(error) => write!(f, "cannot write the file: {error}"),
        }
    }
}

impl std::error::Error for ChunkError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_chunk(file: &[u8]) -> Vec<Vec<u8>> {
        let mut chunks = ChunkReader::new(file, file.len() as u64).unwrap();
        std::iter::from_fn(|| chunks.next_chunk().unwrap()).collect()
    }

    #[test]
    fn chunks_reassemble_to_the_file() {
        for bytes in [0, 1, BODY_BYTES_MAX, BODY_BYTES_MAX + 1, 3 * BODY_BYTES_MAX - 1] {
            let file: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
            let chunks = next_chunk(&file);
            assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES_MAX));
            let mut out = Vec::new();
            let mut writer = ChunkWriter::new(&mut out, bytes as u64).unwrap();
            for (index, chunk) in chunks.iter().enumerate() {
                assert_eq!(writer.write_chunk(chunk).unwrap(), index + 1 == chunks.len(), "{bytes}");
                // A repeated chunk changes nothing.
                assert_eq!(writer.write_chunk(chunk).unwrap(), index + 1 == chunks.len(), "{bytes}");
            }
            assert_eq!(out, file);
        }
    }

    #[test]
    fn damaged_chunks_are_rejected() {
        let file = vec![7; 3 * BODY_BYTES_MAX];
        let chunks = next_chunk(&file);
        let writer = || ChunkWriter::new(Vec::new(), file.len() as u64).unwrap();
        assert!(matches!(writer().write_chunk(&chunks[0][..7]), Err(ChunkError::Short)));
        assert!(matches!(writer().write_chunk(&chunks[1]), Err(ChunkError::Missing(0))));
        let mut damaged = chunks[0].clone();
        damaged[100] ^= 1;
        assert!(matches!(writer().write_chunk(&damaged), Err(ChunkError::Checksum(0))));
        assert!(matches!(ChunkWriter::new(Vec::new(), 1).unwrap().write_chunk(&chunks[0]), Err(ChunkError::Count)));
        let mut short = ChunkWriter::new(Vec::new(), file.len() as u64 - 1).unwrap();
        short.write_chunk(&chunks[0]).unwrap();
        short.write_chunk(&chunks[1]).unwrap();
        assert!(matches!(short.write_chunk(&chunks[2]), Err(ChunkError::Length(2))));
        // A file that has become shorter.
        assert!(ChunkReader::new(&file[1..], file.len() as u64).unwrap().next_chunk().is_ok());
        assert!(ChunkReader::new(&file[..5], 6).unwrap().next_chunk().is_err());
    }
}
