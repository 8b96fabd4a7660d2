//! Reads one file entry by entry, through a buffer that grows up to the longest entry.

use super::Reason;
use super::source::{Input, Opened};
use crate::limits::ENTRY_BYTES_MAX;
use crate::text::TextError;
use crate::text::token::{Step, Token, tokenize};

/// Bytes per read.
const READ_BYTES: usize = 128 * 1024;

/// A file being read.
pub(super) struct Reader {
    input: Box<dyn Input>,
    buffer: Vec<u8>,
    /// The bytes read so far that are still in the buffer.
    filled: usize,
    /// Offset of the next entry.
    next: usize,
    is_last: bool,
    /// The line of the next entry.
    line: u32,
}

/// Why an entry cannot be read.
pub(super) struct EntryError {
    /// The line at fault.
    pub line: u32,
    pub reason: Reason,
    /// Whether the rest of the file cannot be read.
    pub is_last: bool,
}

/// An entry. Its tokens are in [`Reader::as_bytes`].
pub(super) struct Entry {
    /// Its first line.
    pub line: u32,
    /// Whether it starts with white space.
    pub owner_omitted: bool,
}

impl Reader {
    pub(super) fn new(opened: Opened) -> (Self, String) {
        let reader = Self { input: opened.input, buffer: Vec::new(), filled: 0, next: 0, is_last: false, line: 1 };
        (reader, opened.name)
    }

    /// Number of unread bytes, if known.
    pub(super) fn bytes_left(&self) -> usize {
        self.input.bytes_left()
    }

    /// The buffer that the tokens of the last entry point into.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads the next entry with tokens into `tokens`. `None` at the end of the file.
    ///
    /// # Errors
    /// The line, the reason, and whether reading can continue.
    pub(super) fn entry(&mut self, tokens: &mut Vec<Token>) -> Result<Option<Entry>, EntryError> {
        loop {
            let step = match tokenize(&self.buffer[..self.filled], self.next, self.is_last, tokens) {
                Ok(step) => step,
                Err((line, error)) => return Err(self.skip(line, error)),
            };
            match step {
                Step::Entry { next, lines, owner_omitted } => {
                    let line = self.line;
                    self.next = next;
                    self.line += lines;
                    if !tokens.is_empty() {
                        return Ok(Some(Entry { line, owner_omitted }));
                    }
                }
                Step::More => self.fill().map_err(|reason| EntryError { line: self.line, reason, is_last: true })?,
                Step::End => return Ok(None),
            }
        }
    }

    /// The error in an entry, `line` lines after its first. After an unclosed quote, the next line is the next entry.
    /// After other errors the start of the next entry is unknown, so the file ends.
    fn skip(&mut self, line: u32, error: TextError) -> EntryError {
        let at_fault = self.line + line;
        let mut ends = (self.next..self.filled).filter(|&at| self.buffer[at] == b'\n');
        match ends.nth(line as usize).filter(|_| error == TextError::QuoteOpen) {
            Some(end) => {
                self.next = end + 1;
                self.line = at_fault + 1;
                EntryError { line: at_fault, reason: error.into(), is_last: false }
            }
            None => EntryError { line: at_fault, reason: error.into(), is_last: true },
        }
    }

    /// Reads more bytes after the rest of the buffer.
    fn fill(&mut self) -> Result<(), Reason> {
        self.buffer.copy_within(self.next..self.filled, 0);
        self.filled -= self.next;
        self.next = 0;
        if self.filled > ENTRY_BYTES_MAX {
            return Err(TextError::EntryLong.into());
        }
        // Each read tokenises the entry from its start again, so reads grow with the entry.
        let wanted = self.filled + self.filled.max(READ_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let is_first = self.line == 1 && self.filled == 0;
        // Small pieces are collected first. Otherwise tokenising from the start would take quadratic time.
        while self.filled < wanted && !self.is_last {
            let len = self.input.read(&mut self.buffer[self.filled..wanted]).map_err(Reason::Source)?;
            self.filled += len.min(wanted - self.filled);
            self.is_last = len == 0;
        }
        match &self.buffer[..self.filled] {
            [0xEF, 0xBB, 0xBF, ..] if is_first => Err(Reason::ByteOrderMark("UTF-8")),
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] if is_first => Err(Reason::ByteOrderMark("UTF-16")),
            _ => Ok(()),
        }
    }
}
