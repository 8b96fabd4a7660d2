//! Zone files as people keep them: plain or compressed, with an origin of their own or a given one.

use crate::limits::{XZ_MEMORY_KIB_MAX, ZONE_FILE_BYTES_MAX};
use crate::problem::{Exit, Problem};
use lzma_rust2::XzReader;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use wire::name::Name;

/// A `--zone` argument: `FILE` or `ORIGIN=FILE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ZoneArgument {
    pub(crate) origin: Option<Name>,
    pub(crate) file: PathBuf,
}

impl ZoneArgument {
    /// Reads the argument; a file whose name has an equals sign in it is taken as it is when it exists.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let plain = Self { origin: None, file: PathBuf::from(text) };
        let Some((origin, file)) = text.split_once('=').filter(|_| !plain.file.exists()) else { return Ok(plain) };
        let origin: Name = origin.parse().map_err(|error| {
            Problem::new(Exit::Usage, format!("`{origin}` is no name of a zone"), format!("{error:?}"))
                .hint("write ORIGIN=FILE as in `example.org=db.example`")
        })?;
        Ok(Self { origin: Some(origin), file: PathBuf::from(file) })
    }
}

/// Reads a file, decompressed where its first octets say that it is xz, zstd or gzip.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_limited(path, ZONE_FILE_BYTES_MAX)
}

fn read_limited(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let octets = super::read_bounded(path, bytes_max)?;
    let mut out = Bounded { octets: Vec::new(), bytes_max };
    match octets.get(..6) {
        Some([0xFD, b'7', b'z', b'X', b'Z', 0]) => {
            copy(&mut XzReader::new_mem_limit(&octets[..], true, XZ_MEMORY_KIB_MAX), &mut out)?;
        }
        Some([0x28, 0xB5, 0x2F, 0xFD, ..]) => {
            let mut rest = &octets[..];
            // A file may be several frames one after the other.
            while !rest.is_empty() {
                let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut rest)
                    .map_err(|error| io::Error::other(format!("damaged zstd: {error}")))?;
                copy(&mut frame, &mut out)?;
            }
        }
        Some([0x1F, 0x8B, ..]) => copy(&mut flate2::read::MultiGzDecoder::new(&octets[..]), &mut out)?,
        _ => return Ok(octets),
    }
    Ok(out.octets)
}

fn copy(from: &mut impl Read, to: &mut Bounded) -> io::Result<()> {
    let mut block = vec![0; 1 << 16];
    loop {
        match from.read(&mut block)? {
            0 => return Ok(()),
            count => to.write_all(&block[..count])?,
        }
    }
}

/// A vector that takes only so much: a small file may decompress to a very large one.
struct Bounded {
    octets: Vec<u8>,
    bytes_max: u64,
}

impl Write for Bounded {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if (self.octets.len() + octets.len()) as u64 > self.bytes_max {
            return Err(io::Error::other(format!("larger than {} octets when decompressed", self.bytes_max)));
        }
        self.octets.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lzma_rust2::{XzOptions, XzWriter};

    #[test]
    fn arguments_name_a_file_and_perhaps_an_origin() {
        let argument = ZoneArgument::parse("example.org=some/db").unwrap();
        assert_eq!(argument.origin.unwrap().to_string(), "example.org.");
        assert_eq!(argument.file, Path::new("some/db"));
        assert_eq!(ZoneArgument::parse("db").unwrap(), ZoneArgument { origin: None, file: "db".into() });
        assert_eq!(ZoneArgument::parse(".=root").unwrap().origin, Some(Name::root()));
        assert!(ZoneArgument::parse("a..b=db").unwrap_err().to_string().contains("a..b"));
        let dir = crate::test_dir("zone-argument");
        let odd = dir.path().join("a=b");
        std::fs::write(&odd, "").unwrap();
        assert_eq!(ZoneArgument::parse(odd.to_str().unwrap()).unwrap(), ZoneArgument { origin: None, file: odd });
    }

    #[test]
    fn compressed_files_are_read_and_bounded() {
        let dir = crate::test_dir("zone-source");
        let text = "example.test. 1 IN A 192.0.2.1\n".repeat(1_000);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(text.as_bytes()).unwrap();
        let mut xz = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
        xz.write_all(text.as_bytes()).unwrap();
        let zst = ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Uncompressed);
        for (name, octets) in [
            ("a", text.clone().into_bytes()),
            ("a.gz", gz.finish().unwrap()),
            ("a.xz", xz.finish().unwrap()),
            ("a.zst", zst),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, &octets).unwrap();
            assert_eq!(read(&path).unwrap(), text.as_bytes(), "{name}");
            assert!(read_limited(&path, 5_000).is_err(), "{name}");
            if name != "a" {
                std::fs::write(&path, &octets[..octets.len() / 2]).unwrap();
                assert!(read(&path).is_err(), "{name} cut in half");
            }
        }
    }

    #[test]
    fn a_damaged_xz_is_an_error_or_the_same() {
        let dir = crate::test_dir("zone-source-damaged");
        let text = "example.test. 1 IN A 192.0.2.1\n".repeat(50);
        let mut xz = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
        xz.write_all(text.as_bytes()).unwrap();
        let (good, path) = (xz.finish().unwrap(), dir.path().join("a.xz"));
        let mut refused = 0;
        for bit in 48..good.len() * 8 {
            let mut octets = good.clone();
            octets[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &octets).unwrap();
            match read(&path) {
                Ok(read) => assert_eq!(read, text.as_bytes(), "bit {bit}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused * 10 > (good.len() * 8 - 48) * 9, "{refused} of {} bits", good.len() * 8 - 48);
    }
}
