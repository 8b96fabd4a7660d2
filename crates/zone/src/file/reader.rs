//! One file, an entry at a time, through a buffer that grows up to the longest entry.

use super::Reason;
use super::source::{Input, Opened};
use crate::limits::ENTRY_BYTES_MAX;
use crate::text::TextError;
use crate::text::token::{Step, Token, tokenize};

/// How much is read at once.
const READ_BYTES: usize = 128 * 1024;

/// A file that is being read.
pub(super) struct Reader {
    input: Box<dyn Input>,
    buffer: Vec<u8>,
    /// What of the buffer was read.
    filled: usize,
    /// Where the next entry begins.
    next: usize,
    is_last: bool,
    /// The line on which the next entry begins.
    line: u32,
}

/// Why an entry cannot be read.
pub(super) struct EntryError {
    /// The line at fault.
    pub line: u32,
    pub reason: Reason,
    /// Nothing can be read after it.
    pub is_last: bool,
}

/// One entry; its tokens lie in [`Reader::octets`].
pub(super) struct Entry {
    /// Its first line.
    pub line: u32,
    /// It begins with white space.
    pub owner_omitted: bool,
}

impl Reader {
    pub(super) fn new(opened: Opened) -> (Self, String) {
        let reader = Self { input: opened.input, buffer: Vec::new(), filled: 0, next: 0, is_last: false, line: 1 };
        (reader, opened.name)
    }

    /// Bytes that were not read yet, as far as that is known.
    pub(super) fn bytes_left(&self) -> usize {
        self.input.bytes_left()
    }

    /// What the tokens of the last entry point into.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The next entry that has tokens; they are left in `tokens`. `None` at the end of the file.
    ///
    /// # Errors
    /// The line, the reason, and whether there may be more.
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

    /// What is wrong with the entry, `line` lines behind its first. Behind a quote that is open at the end of its
    /// line the next line is the next entry; other errors leave it open where entries begin, and end the file.
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

    /// Reads on, behind what is left of the buffer.
    fn fill(&mut self) -> Result<(), Reason> {
        self.buffer.copy_within(self.next..self.filled, 0);
        self.filled -= self.next;
        self.next = 0;
        if self.filled > ENTRY_BYTES_MAX {
            return Err(TextError::EntryLong.into());
        }
        // An entry is tokenised from its start again for each read, so reads grow with it.
        let wanted = self.filled + self.filled.max(READ_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let is_first = self.line == 1 && self.filled == 0;
        // Small pieces are put together first, or tokenising from the start would take time squared.
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
