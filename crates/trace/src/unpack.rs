//! Files, unpacked while they are read: gzip, xz, zstd and LZ4, told by their first octets.

use crate::limits::{UNPACKED_BLOCKS_MAX, UNPACKED_OCTETS};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The octets of a file, unpacked; those of standard input when it is called `-`.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let octets: Box<dyn Read + Send> =
        if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    unpack(octets)
}

fn unpack(octets: Box<dyn Read + Send>) -> io::Result<Box<dyn BufRead + Send>> {
    let (first, whole) = peek(octets, 6)?;
    let whole = BufReader::with_capacity(UNPACKED_OCTETS, whole);
    Ok(match first[..] {
        [0x1F, 0x8B, ..] => buffered(flate2::bufread::MultiGzDecoder::new(whole)),
        [0x04, 0x22, 0x4D, 0x18, ..] => buffered(lz4_flex::frame::FrameDecoder::new(whole)),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            buffered(ruzstd::decoding::StreamingDecoder::new(whole).map_err(io::Error::other)?)
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0x00, ..] => buffered(unpack_xz(whole)?),
        _ => Box::new(whole),
    })
}

/// The first octets, as many of so many as there are; and all of them.
pub(crate) fn peek<R: Read>(mut octets: R, count: usize) -> io::Result<(Vec<u8>, impl Read + use<R>)> {
    let mut first = Vec::with_capacity(count);
    octets.by_ref().take(count as u64).read_to_end(&mut first)?;
    Ok((first.clone(), Rejoined { first: Cursor::new(first), rest: octets }))
}

/// As `chain`, in whole reads: who looks for the head of a file finds it in the first.
struct Rejoined<R> {
    first: Cursor<Vec<u8>>,
    rest: R,
}

impl<R: Read> Read for Rejoined<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.first.read(out)?;
        if read == out.len() { Ok(read) } else { Ok(read + self.rest.read(&mut out[read..])?) }
    }
}

pub(crate) fn buffered(octets: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(UNPACKED_OCTETS, octets))
}

/// The library unpacks into a writer; a thread of its own lets it be read.
fn unpack_xz(mut packed: impl BufRead + Send + 'static) -> io::Result<Unpacking> {
    let (sender, receiver) = sync_channel(UNPACKED_BLOCKS_MAX);
    let work = move || {
        let mut blocks = Blocks { sender, block: Vec::with_capacity(UNPACKED_OCTETS) };
        let ended = match lzma_rs::xz_decompress(&mut packed, &mut blocks) {
            Ok(()) => blocks.flush(),
            // Whoever read it is gone.
            Err(lzma_rs::error::Error::IoError(error)) if error.kind() == io::ErrorKind::BrokenPipe => return,
            Err(error) => blocks.flush().and(Err(io::Error::other(format!("xz: {error:?}")))),
        };
        if let Err(error) = ended {
            // Nobody may listen any more.
            let _ = blocks.sender.send(Err(error));
        }
    };
    std::thread::Builder::new().name("unpack".into()).spawn(work)?;
    Ok(Unpacking { receiver, block: Cursor::default() })
}

struct Blocks {
    sender: SyncSender<io::Result<Vec<u8>>>,
    block: Vec<u8>,
}

impl Write for Blocks {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let taken = octets.len().min(UNPACKED_OCTETS - self.block.len());
        self.block.extend_from_slice(&octets[..taken]);
        if self.block.len() == UNPACKED_OCTETS {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(UNPACKED_OCTETS));
        self.sender.send(Ok(block)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

struct Unpacking {
    receiver: Receiver<io::Result<Vec<u8>>>,
    block: Cursor<Vec<u8>>,
}

impl Read for Unpacking {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.block.read(out)? {
                0 if out.is_empty() => return Ok(0),
                0 => match self.receiver.recv() {
                    Ok(block) => self.block = Cursor::new(block?),
                    Err(_) => return Ok(0),
                },
                read => return Ok(read),
            }
        }
    }
}
