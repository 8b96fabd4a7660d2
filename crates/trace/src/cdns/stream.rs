//! Reads CBOR from a file: one whole item of bounded size at a time. Checks the structure while copying.

use super::cbor::{ARRAY, BREAK, BYTES, MAP, TAG, TEXT, argument, argument_bytes};
use crate::error::TraceError;
use crate::limits::{CDNS_BLOCK_BYTES_MAX, CDNS_DEPTH_MAX};
use std::io::{self, BufRead, Read};

/// Bytes that are copied without a check of the available data: numbers and short names.
const FEW_BYTES: usize = 64;

/// The items of a file.
pub(super) struct Stream {
    bytes: Box<dyn BufRead + Send>,
    at: u64,
}

impl Stream {
    pub(super) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// Enters an array. Returns the number of its items, or `None` if a break ends it.
    pub(super) fn array(&mut self) -> Result<Option<u64>, TraceError> {
        let mut bytes = Vec::new();
        let (first, argument) = self.head(&mut bytes)?;
        if first >> 5 == ARRAY { Ok(argument) } else { Err(format_error(self.at, "expected an array")) }
    }

    /// Consumes the break that ends an array, if it is next.
    pub(super) fn takes_break(&mut self) -> Result<bool, TraceError> {
        let next = self.bytes.fill_buf()?.first().copied();
        match next {
            None => Err(truncated(self.at)),
            Some(BREAK) => {
                self.bytes.consume(1);
                self.at += 1;
                Ok(true)
            }
            Some(_) => Ok(false),
        }
    }

    /// Copies the next item.
    pub(super) fn item(&mut self, out: &mut Vec<u8>) -> Result<(), TraceError> {
        /// Remaining items of one level: a number, or until a break.
        enum Level {
            Items(u64),
            UntilBreak,
        }
        let mut levels = vec![Level::Items(1)];
        while let Some(level) = levels.last_mut() {
            match level {
                Level::Items(0) => {
                    levels.pop();
                    continue;
                }
                Level::Items(items) => *items -= 1,
                Level::UntilBreak if self.takes_break()? => {
                    out.push(BREAK);
                    levels.pop();
                    continue;
                }
                Level::UntilBreak => {}
            }
            let (first, argument) = self.head(out)?;
            let nested = match (first >> 5, argument) {
                (BYTES | TEXT, Some(length)) => {
                    self.copy(length, out)?;
                    continue;
                }
                (ARRAY, Some(items)) => Level::Items(items),
                (MAP, Some(pairs)) => {
                    let items = pairs.checked_mul(2);
                    Level::Items(items.ok_or_else(|| format_error(self.at, "a map with too many pairs"))?)
                }
                (BYTES | TEXT | ARRAY | MAP, None) => Level::UntilBreak,
                (TAG, _) => Level::Items(1),
                _ => continue,
            };
            if levels.len() == CDNS_DEPTH_MAX {
                return Err(format_error(self.at, "items are nested too deeply"));
            }
            levels.push(nested);
        }
        Ok(())
    }

    /// Copies the first byte and the argument of an item.
    fn head(&mut self, out: &mut Vec<u8>) -> Result<(u8, Option<u64>), TraceError> {
        let start = out.len();
        self.copy(1, out)?;
        let first = out[start];
        let bytes = argument_bytes(first).filter(|_| first != BREAK);
        self.copy(bytes.ok_or_else(|| format_error(self.at - 1, "expected an item"))? as u64, out)?;
        Ok((first, argument(first, &out[start + 1..])))
    }

    /// Copies bytes. Allocates no more than there is data.
    fn copy(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<(), TraceError> {
        if bytes > CDNS_BLOCK_BYTES_MAX.saturating_sub(out.len()) as u64 {
            return Err(format_error(self.at, "a block larger than 64 MiB"));
        }
        let mut small = [0; FEW_BYTES];
        let copied = match small.get_mut(..bytes as usize) {
            Some(small) => self.bytes.read_exact(small).map(|()| {
                out.extend_from_slice(small);
                bytes
            }),
            None => self.bytes.by_ref().take(bytes).read_to_end(out).map(|copied| copied as u64),
        };
        match copied {
            Ok(copied) => {
                self.at += copied;
                if copied == bytes { Ok(()) } else { Err(truncated(self.at)) }
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(truncated(self.at)),
            Err(error) => Err(error.into()),
        }
    }
}

fn truncated(at: u64) -> TraceError {
    format_error(at, "the file ends within a block")
}

/// An error at a position.
pub(super) fn format_error(at: u64, what: &str) -> TraceError {
    TraceError::Format { format: "cdns", at, what: what.into() }
}
