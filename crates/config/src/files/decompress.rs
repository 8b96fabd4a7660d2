//! Reads zone files as streams. Compressed files are recognized by their first bytes. Sizes are limited, since a small
//! file may decompress to a very large one.
//!
//! The limits apply to all files of a zone together, including `$INCLUDE`.

use crate::limits::{
    DECOMPRESSED_BYTES_FREE, DECOMPRESSED_BYTES_MAX, DECOMPRESSED_RATIO_MAX, XZ_MEMORY_KIB_MAX, ZONE_FILE_BYTES_MAX,
};
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

/// Usual compression ratio of zone files, to estimate the memory for a zone.
const RATIO_EXPECTED: u64 = 8;

/// Bytes that identify a format.
const MAGIC_BYTES: usize = 6;

/// Bytes read so far, over all files of one zone.
#[derive(Clone, Default)]
pub(super) struct Budget(Rc<Counts>);

#[derive(Default)]
struct Counts {
    /// Read from the disk, in total and from compressed files.
    read: Cell<u64>,
    compressed: Cell<u64>,
    /// Decompressed bytes.
    decompressed: Cell<u64>,
}

impl Budget {
    fn count_read(&self, bytes: u64, is_compressed: bool) -> io::Result<()> {
        let Counts { read, compressed, .. } = &*self.0;
        read.set(read.get() + bytes);
        if is_compressed {
            compressed.set(compressed.get() + bytes);
        }
        if read.get() <= ZONE_FILE_BYTES_MAX {
            return Ok(());
        }
        Err(io::Error::other(format!("the zone's files are larger than {ZONE_FILE_BYTES_MAX} bytes")))
    }

    fn count_decompressed(&self, bytes: u64) -> io::Result<()> {
        let Counts { compressed, decompressed, .. } = &*self.0;
        decompressed.set(decompressed.get() + bytes);
        let (from, to) = (compressed.get(), decompressed.get());
        if to > DECOMPRESSED_BYTES_MAX {
            return Err(io::Error::other(format!(
                "larger than {DECOMPRESSED_BYTES_MAX} bytes when decompressed, which is the limit of a zone"
            )));
        }
        if to > DECOMPRESSED_BYTES_FREE + DECOMPRESSED_RATIO_MAX * from {
            return Err(io::Error::other(format!(
                "{from} compressed bytes decompress to more than {to}, which is unusual for a zone file. If the file \
                 is right, decompress it first"
            )));
        }
        Ok(())
    }
}

/// A file that is being read.
pub(super) struct ZoneReader {
    form: Form,
    budget: Budget,
    /// Estimate of the remaining bytes.
    expected: u64,
}

/// The bytes of the file.
type Source = BufReader<Counted<Chain<Cursor<Vec<u8>>, File>>>;

enum Form {
    Plain(Source),
    Gzip(Box<flate2::bufread::MultiGzDecoder<Source>>),
    Xz(Box<XzReader<Source>>),
    Zstd(Zstd),
}

impl ZoneReader {
    /// Opens a file. Its bytes count against `budget`.
    pub(super) fn open(path: &Path, budget: &Budget) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        if length > ZONE_FILE_BYTES_MAX {
            return Err(io::Error::other(format!("larger than {ZONE_FILE_BYTES_MAX} bytes")));
        }
        let mut magic = Vec::new();
        (&mut file).take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
        let (form, is_compressed): (fn(Source) -> Form, _) = match magic.as_slice() {
            [0xFD, b'7', b'z', b'X', b'Z', 0] => {
                (|source| Form::Xz(Box::new(XzReader::new_mem_limit(source, true, XZ_MEMORY_KIB_MAX))), true)
            }
            [0x28, 0xB5, 0x2F, 0xFD, ..] => (|source| Form::Zstd(Zstd::Between(Some(source))), true),
            [0x1F, 0x8B, ..] => (|source| Form::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(source))), true),
            _ => (Form::Plain, false),
        };
        let inner = Cursor::new(magic).chain(file);
        let source = BufReader::new(Counted { inner, budget: budget.clone(), is_compressed });
        let expected = if is_compressed { (length * RATIO_EXPECTED).min(DECOMPRESSED_BYTES_MAX) } else { length };
        Ok(Self { form: form(source), budget: budget.clone(), expected })
    }
}

impl Read for ZoneReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.form {
            Form::Plain(source) => return source.read(buffer),
            Form::Gzip(decoder) => decoder.read(buffer)?,
            Form::Xz(decoder) => decoder.read(buffer)?,
            Form::Zstd(frames) => frames.read(buffer)?,
        };
        self.budget.count_decompressed(count as u64)?;
        Ok(count)
    }
}

impl zone::file::Input for ZoneReader {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        let count = Read::read(self, buffer).map_err(|error| error.to_string())?;
        self.expected = self.expected.saturating_sub(count as u64);
        Ok(count)
    }

    fn bytes_left(&self) -> usize {
        self.expected as usize
    }
}

/// A sequence of zstd frames.
enum Zstd {
    Between(Option<Source>),
    Within(Box<StreamingDecoder<Source, ruzstd::decoding::FrameDecoder>>),
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self {
                Self::Between(source) => {
                    let Some(mut next) = source.take() else { return Ok(0) };
                    if next.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let frame = StreamingDecoder::new(next)
                        .map_err(|error| io::Error::other(format!("damaged zstd: {error}")))?;
                    *self = Self::Within(Box::new(frame));
                }
                Self::Within(frame) => {
                    let count = frame.read(buffer)?;
                    if count > 0 || buffer.is_empty() {
                        return Ok(count);
                    }
                    let Self::Within(frame) = std::mem::replace(self, Self::Between(None)) else { return Ok(0) };
                    *self = Self::Between(Some(frame.into_inner()));
                }
            }
        }
    }
}

/// Counts the bytes read from the disk.
struct Counted<R> {
    inner: R,
    budget: Budget,
    is_compressed: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.budget.count_read(count as u64, self.is_compressed)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lzma_rust2::{XzOptions, XzWriter};
    use std::io::Write;

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        ZoneReader::open(path, &Budget::default())?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A text in all forms.
    fn forms(text: &[u8]) -> [(&'static str, Vec<u8>); 3] {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(text).unwrap();
        let mut xz = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
        xz.write_all(text).unwrap();
        let zst = ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest);
        [("a.gz", gz.finish().unwrap()), ("a.xz", xz.finish().unwrap()), ("a.zst", zst)]
    }

    #[test]
    fn decompression_bombs_are_refused() {
        let dir = process::testing::test_dir("decompress-bomb");
        let length = (DECOMPRESSED_BYTES_FREE + DECOMPRESSED_BYTES_FREE / 2) as usize;
        for (name, bytes) in forms(&vec![b'\n'; length]) {
            let path = dir.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("which is unusual for a zone file"), "{name}: {error}");
            // Two files of a zone have one budget.
            let half = length / 3 * 2;
            let (_, bytes) = forms(&vec![b'\n'; half]).into_iter().find(|(form, _)| *form == name).unwrap();
            std::fs::write(&path, &bytes).unwrap();
            let budget = Budget::default();
            let open = || ZoneReader::open(&path, &budget).unwrap().read_to_end(&mut Vec::new());
            assert_eq!(open().unwrap(), half);
            assert!(open().is_err(), "{name}");
        }
        let budget = Budget::default();
        budget.count_read(DECOMPRESSED_BYTES_MAX, true).unwrap();
        budget.count_decompressed(DECOMPRESSED_BYTES_MAX).unwrap();
        assert!(budget.count_decompressed(1).unwrap_err().to_string().contains("which is the limit of a zone"));
        assert!(budget.count_read(ZONE_FILE_BYTES_MAX, false).is_err());
    }

    #[test]
    fn compressed_files_are_read() {
        let dir = process::testing::test_dir("decompress");
        let text = "example.test. 1 IN A 192.0.2.1\n".repeat(1_000);
        let plain = ("a", text.clone().into_bytes());
        for (name, bytes) in forms(text.as_bytes()).into_iter().chain([plain]) {
            let path = dir.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path).unwrap(), text.as_bytes(), "{name}");
            if name != "a" {
                std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
                assert!(read(&path).is_err(), "{name} cut in half");
            }
        }
    }

    #[test]
    fn a_damaged_xz_is_detected_or_harmless() {
        let dir = process::testing::test_dir("decompress-damaged");
        let text = "example.test. 1 IN A 192.0.2.1\n".repeat(50);
        let mut xz = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
        xz.write_all(text.as_bytes()).unwrap();
        let (good, path) = (xz.finish().unwrap(), dir.path().join("a.xz"));
        let mut refused = 0;
        for bit in 48..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).unwrap();
            match read(&path) {
                Ok(read) => assert_eq!(read, text.as_bytes(), "bit {bit}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused * 10 > (good.len() * 8 - 48) * 9, "{refused} of {} bits", good.len() * 8 - 48);
    }
}
