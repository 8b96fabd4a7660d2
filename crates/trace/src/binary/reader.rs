//! Reads binary traces, from the beginning or from any time.

use super::chunk::{self, Packing};
use super::columns::Columns;
use super::index::{self, Index, Span};
use super::{END, END_BYTES, HEAD_BYTES, VERSION, head, is_sealed, u32_at, u64_at};
use crate::error::TraceError;
use crate::message_queue::MessageQueue;
use crate::tally::Tally;
use crate::unpack::buffered;
use lz4_flex::block::decompress_into;
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;

/// Reads a binary trace.
pub(crate) struct BinaryReader {
    bytes: Box<dyn BufRead + Send>,
    /// The same file, if it is seekable.
    file: Option<File>,
    /// Position of the next byte.
    at: u64,
    is_begun: bool,
    is_ended: bool,
    columns: Columns,
    packed: Vec<u8>,
    /// Messages of the chunks read so far.
    messages: u64,
    /// The wanted times, and their position.
    span: Option<Span>,
    index: Option<Index>,
}

impl BinaryReader {
    /// Reads from beginning to end.
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self {
            bytes,
            file: None,
            at: 0,
            is_begun: false,
            is_ended: false,
            columns: Columns::default(),
            packed: Vec::new(),
            messages: 0,
            span: None,
            index: None,
        }
    }

    /// Reads a seekable file.
    pub(crate) fn of_file(file: File) -> io::Result<Self> {
        Ok(Self { file: Some(file.try_clone()?), ..Self::new(buffered(file)) })
    }

    /// Restricts the reader to these times. Chunks outside are skipped, by the index or by their heads.
    pub(crate) fn narrow(&mut self, times: &RangeInclusive<u64>) -> Result<(), TraceError> {
        self.span = Some(Span { from_ns: *times.start(), to_ns: *times.end() });
        if let Some(file) = &self.file {
            // Errors at the end of the file are reported when the reader gets there.
            self.index = read_index(file).ok().flatten();
            self.go_to(self.at)?;
        }
        Ok(())
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        loop {
            match self.columns.next() {
                Ok(Some(message)) => {
                    tally.records += 1;
                    tally.messages += 1;
                    queue.push(message);
                    return Ok(true);
                }
                Ok(None) => {}
                Err(what) => {
                    self.is_ended = true;
                    self.columns = Columns::default();
                    return Err(self.format_error(what));
                }
            }
            if self.is_ended {
                return Ok(false);
            }
            // Nothing is read after an error or the end.
            self.is_ended = true;
            if !self.chunk()? {
                return Ok(false);
            }
            self.is_ended = false;
        }
    }

    /// Reads the next wanted chunk. Returns false at the end.
    fn chunk(&mut self) -> Result<bool, TraceError> {
        if !self.is_begun {
            self.begin()?;
        }
        loop {
            if let (Some(span), Some(index)) = (self.span, &self.index) {
                match index.next_at(self.at, span) {
                    None => return Ok(false),
                    Some(at) if at > self.at => self.go_to(at)?,
                    Some(_) => {}
                }
            }
            if self.bytes.fill_buf()?.is_empty() {
                return Err(self.format_error("the file is incomplete: it was cut short, or its writer was stopped"));
            }
            let mut kind = [0; 4];
            self.fill(&mut kind)?;
            match kind {
                chunk::KIND => {}
                index::KIND => return self.end().map(|()| false),
                _ => return Err(self.format_error("expected a chunk or the index")),
            }
            let mut bytes = [0; chunk::HEAD_BYTES];
            bytes[..4].copy_from_slice(&kind);
            self.fill(&mut bytes[4..])?;
            let head = chunk::Head::read(&bytes).map_err(|what| self.format_error(what))?;
            self.messages += head.messages as u64;
            if self.span.is_none_or(|span| head.overlaps(span)) {
                return self.unpack(&head).map(|()| true);
            }
            self.pass_over(head.packed_bytes as u64)?;
        }
    }

    fn begin(&mut self) -> Result<(), TraceError> {
        self.is_begun = true;
        let mut bytes = [0; HEAD_BYTES];
        self.fill(&mut bytes)?;
        if bytes == head() {
            return Ok(());
        }
        let is_ours = bytes[..8] == head()[..8] && is_sealed(&bytes, HEAD_BYTES - 4);
        Err(match u32_at(&bytes, 8) {
            version if is_ours => {
                self.format_error(&format!("version {version}; this program reads version {VERSION}"))
            }
            _ => self.format_error("the head of the file is damaged, or of another format"),
        })
    }

    fn unpack(&mut self, head: &chunk::Head) -> Result<(), TraceError> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.resize(head.packed_bytes, 0);
        self.fill(&mut packed)?;
        if crc32c::crc32c(&packed) != head.checksum {
            return Err(self.format_error("a chunk is damaged: wrong checksum"));
        }
        let buffer = self.columns.buffer(head.unpacked_bytes);
        let is_filled = match head.packing {
            Packing::Plain if packed.len() == buffer.len() => {
                buffer.copy_from_slice(&packed);
                true
            }
            Packing::Plain => false,
            Packing::Lz4 => decompress_into(&packed, buffer).is_ok_and(|bytes| bytes == buffer.len()),
        };
        if !is_filled {
            return Err(self.format_error("a chunk cannot be unpacked"));
        }
        self.packed = packed;
        self.columns.begin(head).map_err(|what| self.format_error(what))
    }

    /// Reads the index, and checks that it and the file are complete.
    fn end(&mut self) -> Result<(), TraceError> {
        let index_at = self.at - 4;
        let mut bytes = [0; index::HEAD_BYTES];
        bytes[..4].copy_from_slice(&index::KIND);
        self.fill(&mut bytes[4..])?;
        let head = index::Head::read(&bytes).map_err(|what| self.format_error(what))?;
        let mut entries = vec![0; head.bytes];
        self.fill(&mut entries)?;
        head.index(&entries).map_err(|what| self.format_error(what))?;
        let mut end = [0; END_BYTES];
        self.fill(&mut end)?;
        if !is_end(&end) || u64_at(&end, 0) != index_at {
            return Err(self.format_error("the end of the file is damaged"));
        }
        if self.span.is_none() && head.messages != self.messages {
            let what = format!("a chunk is missing: {} messages of {}", self.messages, head.messages);
            return Err(self.format_error(&what));
        }
        match self.bytes.fill_buf()?.is_empty() {
            true => Ok(()),
            false => Err(self.format_error("unexpected data after the end")),
        }
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), TraceError> {
        match self.bytes.read_exact(out) {
            Ok(()) => {
                self.at += out.len() as u64;
                Ok(())
            }
            Err(error) => Err(self.read_error(error)),
        }
    }

    fn pass_over(&mut self, bytes: u64) -> Result<(), TraceError> {
        let skipped = io::copy(&mut self.bytes.by_ref().take(bytes), &mut io::sink())?;
        self.at += skipped;
        if skipped == bytes { Ok(()) } else { Err(self.read_error(io::ErrorKind::UnexpectedEof.into())) }
    }

    /// Continues at another position.
    fn go_to(&mut self, at: u64) -> Result<(), TraceError> {
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(at))?;
            self.bytes = buffered(file.try_clone()?);
            self.at = at;
        }
        Ok(())
    }

    fn read_error(&self, error: io::Error) -> TraceError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.format_error("the file ends within a chunk or its index"),
            _ => error.into(),
        }
    }

    fn format_error(&self, what: &str) -> TraceError {
        TraceError::Format { format: "binary", at: self.at, what: what.into() }
    }
}

fn is_end(bytes: &[u8; END_BYTES]) -> bool {
    is_sealed(bytes, 8) && bytes[12..] == END
}

/// Reads the index at the end of a file. `None` if it is incomplete.
fn read_index(mut file: &File) -> io::Result<Option<Index>> {
    let length = file.seek(SeekFrom::End(0))?;
    let Some(end_at) = length.checked_sub(END_BYTES as u64) else { return Ok(None) };
    file.seek(SeekFrom::Start(end_at))?;
    let mut end = [0; END_BYTES];
    file.read_exact(&mut end)?;
    if !is_end(&end) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(u64_at(&end, 0)))?;
    let mut head = [0; index::HEAD_BYTES];
    file.read_exact(&mut head)?;
    let Ok(head) = index::Head::read(&head) else { return Ok(None) };
    let mut entries = vec![0; head.bytes];
    file.read_exact(&mut entries)?;
    Ok(head.index(&entries).ok())
}
