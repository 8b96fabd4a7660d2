//! Decompresses files while reading: gzip, xz, zstd and LZ4, detected by their first bytes.

use crate::limits::{UNPACKED_BYTES, XZ_MEMORY_KIB_MAX};
use lzma_rust2::XzReader;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// Opens and decompresses a file. `-` is standard input.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let bytes: Box<dyn Read + Send> =
        if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    unpack(bytes)
}

fn unpack(bytes: Box<dyn Read + Send>) -> io::Result<Box<dyn BufRead + Send>> {
    let (first, rejoined) = peek(bytes, 6)?;
    let rejoined = BufReader::with_capacity(UNPACKED_BYTES, rejoined);
    Ok(match first[..] {
        [0x1F, 0x8B, ..] => buffered(flate2::bufread::MultiGzDecoder::new(rejoined)),
        [0x04, 0x22, 0x4D, 0x18, ..] => buffered(lz4_flex::frame::FrameDecoder::new(rejoined)),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            buffered(ruzstd::decoding::StreamingDecoder::new(rejoined).map_err(io::Error::other)?)
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0x00, ..] => {
            buffered(XzReader::new_mem_limit(rejoined, true, XZ_MEMORY_KIB_MAX))
        }
        _ => Box::new(rejoined),
    })
}

/// Returns the first `count` bytes, or fewer at the end, and a reader of all bytes.
pub(crate) fn peek<R: Read>(mut bytes: R, count: usize) -> io::Result<(Vec<u8>, impl Read + use<R>)> {
    let mut first = Vec::with_capacity(count);
    bytes.by_ref().take(count as u64).read_to_end(&mut first)?;
    Ok((first.clone(), PrependedReader { first: Cursor::new(first), rest: bytes }))
}

/// Like `chain`, but a read does not stop between the parts. So the first read returns the whole head of a file.
struct PrependedReader<R> {
    first: Cursor<Vec<u8>>,
    rest: R,
}

impl<R: Read> Read for PrependedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.first.read(out)?;
        if read == out.len() { Ok(read) } else { Ok(read + self.rest.read(&mut out[read..])?) }
    }
}

pub(crate) fn buffered(bytes: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(UNPACKED_BYTES, bytes))
}
