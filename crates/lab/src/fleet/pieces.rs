//! A file in pieces that fit a message, and back: each has its number, how many there are, and a checksum.

use crate::limits::PIECE_BYTES_MAX;
use std::fmt;
use std::io::{self, Read, Write};

/// Number, count and CRC-32C of what follows, 32 bits each in network order.
const HEAD_BYTES: usize = 12;
/// Bytes of the file in a piece.
const BODY_BYTES_MAX: usize = PIECE_BYTES_MAX - HEAD_BYTES;

/// Cuts.
#[derive(Debug)]
pub struct Pieces<R> {
    input: R,
    left: u64,
    next: u32,
    count: u32,
}

impl<R: Read> Pieces<R> {
    /// Of a file that is so long.
    ///
    /// # Errors
    /// It is longer than numbers go.
    pub fn new(input: R, bytes: u64) -> io::Result<Self> {
        let count = count_of(bytes).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(Self { input, left: bytes, next: 0, count })
    }

    /// The next; `None` after the last.
    ///
    /// # Errors
    /// The file cannot be read, or has become shorter.
    pub fn cut(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.next == self.count {
            return Ok(None);
        }
        let bytes = self.left.min(BODY_BYTES_MAX as u64) as usize;
        let mut piece = vec![0; HEAD_BYTES + bytes];
        let (head, body) = piece.split_at_mut(HEAD_BYTES);
        self.input.read_exact(body)?;
        head[..4].copy_from_slice(&self.next.to_be_bytes());
        head[4..8].copy_from_slice(&self.count.to_be_bytes());
        head[8..].copy_from_slice(&crc32c::crc32c(body).to_be_bytes());
        self.left -= bytes as u64;
        self.next += 1;
        Ok(Some(piece))
    }
}

/// Pieces of a file; one that is empty has one too.
fn count_of(bytes: u64) -> Option<u32> {
    u32::try_from(bytes.div_ceil(BODY_BYTES_MAX as u64).max(1)).ok()
}

/// Puts together.
#[derive(Debug)]
pub struct Joining<W> {
    out: W,
    next: u32,
    count: u32,
    left: u64,
}

impl<W: Write> Joining<W> {
    /// A file that is so long.
    ///
    /// # Errors
    /// It is longer than numbers go.
    pub fn new(out: W, bytes: u64) -> Result<Self, PieceError> {
        Ok(Self { out, next: 0, count: count_of(bytes).ok_or(PieceError::Count)?, left: bytes })
    }

    /// Takes the next; one that came before is passed over. Gives whether it was the last.
    ///
    /// # Errors
    /// [`PieceError`]; the file is no use then.
    pub fn take(&mut self, piece: &[u8]) -> Result<bool, PieceError> {
        let (head, body) = piece.split_at_checked(HEAD_BYTES).ok_or(PieceError::Short)?;
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (number, count, checksum) = (word(0), word(4), word(8));
        if count != self.count {
            return Err(PieceError::Count);
        }
        if crc32c::crc32c(body) != checksum {
            return Err(PieceError::Checksum(number));
        }
        if number < self.next {
            return Ok(self.next == self.count);
        }
        if number > self.next {
            return Err(PieceError::Missing(self.next));
        }
        if body.len() as u64 != self.left.min(BODY_BYTES_MAX as u64) {
            return Err(PieceError::Length(number));
        }
        self.out.write_all(body).map_err(PieceError::Write)?;
        self.left -= body.len() as u64;
        self.next += 1;
        if self.next == self.count {
            self.out.flush().map_err(PieceError::Write)?;
        }
        Ok(self.next == self.count)
    }
}

/// Why pieces are no file.
#[derive(Debug)]
pub enum PieceError {
    /// One has no head.
    Short,
    /// There are not as many as the file has.
    Count,
    /// One is not what was sent.
    Checksum(u32),
    /// One has not come, and those after it have.
    Missing(u32),
    /// One is not as long as it must be.
    Length(u32),
    /// It cannot be written.
    Write(io::Error),
}

impl fmt::Display for PieceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("a piece of the file has no head"),
            Self::Count => f.write_str("the file has another number of pieces than was announced"),
            Self::Checksum(number) => write!(f, "piece {number} of the file is damaged"),
            Self::Missing(number) => write!(f, "piece {number} of the file has not come"),
            Self::Length(number) => write!(f, "piece {number} of the file has another length than was announced"),
            Self::Write(error) => write!(f, "the file cannot be written: {error}"),
        }
    }
}

impl std::error::Error for PieceError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(file: &[u8]) -> Vec<Vec<u8>> {
        let mut pieces = Pieces::new(file, file.len() as u64).unwrap();
        std::iter::from_fn(|| pieces.cut().unwrap()).collect()
    }

    #[test]
    fn what_is_cut_is_put_together() {
        for bytes in [0, 1, BODY_BYTES_MAX, BODY_BYTES_MAX + 1, 3 * BODY_BYTES_MAX - 1] {
            let file: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
            let pieces = cut(&file);
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES_MAX));
            let mut out = Vec::new();
            let mut joining = Joining::new(&mut out, bytes as u64).unwrap();
            for (index, piece) in pieces.iter().enumerate() {
                assert_eq!(joining.take(piece).unwrap(), index + 1 == pieces.len(), "{bytes}");
                // A piece that comes again changes nothing.
                assert_eq!(joining.take(piece).unwrap(), index + 1 == pieces.len(), "{bytes}");
            }
            assert_eq!(out, file);
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let file = vec![7; 3 * BODY_BYTES_MAX];
        let pieces = cut(&file);
        let joining = || Joining::new(Vec::new(), file.len() as u64).unwrap();
        assert!(matches!(joining().take(&pieces[0][..7]), Err(PieceError::Short)));
        assert!(matches!(joining().take(&pieces[1]), Err(PieceError::Missing(0))));
        let mut damaged = pieces[0].clone();
        damaged[100] ^= 1;
        assert!(matches!(joining().take(&damaged), Err(PieceError::Checksum(0))));
        assert!(matches!(Joining::new(Vec::new(), 1).unwrap().take(&pieces[0]), Err(PieceError::Count)));
        let mut short = Joining::new(Vec::new(), file.len() as u64 - 1).unwrap();
        short.take(&pieces[0]).unwrap();
        short.take(&pieces[1]).unwrap();
        assert!(matches!(short.take(&pieces[2]), Err(PieceError::Length(2))));
        // A file that has become shorter.
        assert!(Pieces::new(&file[1..], file.len() as u64).unwrap().cut().is_ok());
        assert!(Pieces::new(&file[..5], 6).unwrap().cut().is_err());
    }
}
