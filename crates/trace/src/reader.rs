//! The reader of all formats.

use crate::binary::{self, BinaryReader};
use crate::capture::CaptureReader;
use crate::cdns::{CdnsReader, is_cdns};
use crate::dnsperf::DnsperfReader;
use crate::dnstap::{DnstapReader, DnstapSide, is_dnstap};
use crate::dnsviz::DnsvizReader;
use crate::error::TraceError;
use crate::fsdb::FsdbReader;
use crate::message::Message;
use crate::message_queue::MessageQueue;
use crate::rpl::RplReader;
use crate::tally::Tally;
use crate::text::{MAGIC, TextReader};
use crate::unpack;
use crate::zeek::{self, ZeekReader};
use std::fs::File;
use std::io::{BufRead, Read, Seek};
use std::ops::RangeInclusive;
use std::path::Path;

/// Format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// pcap or pcapng.
    Capture,
    /// dnstap in Frame Streams.
    Dnstap,
    /// C-DNS.
    Cdns,
    /// Our text format.
    Text,
    /// Our binary format.
    Binary,
    /// Query file of dnsperf.
    Dnsperf,
    /// `dns.log` of Zeek.
    Zeek,
    /// Text of LDplayer.
    Fsdb,
    /// A replay scenario.
    Rpl,
    /// JSON of DNSViz.
    Dnsviz,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 10] = [
        Self::Capture,
        Self::Dnstap,
        Self::Cdns,
        Self::Text,
        Self::Binary,
        Self::Dnsperf,
        Self::Zeek,
        Self::Fsdb,
        Self::Rpl,
        Self::Dnsviz,
    ];

    /// Name on the command line.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Capture => "pcap",
            Self::Dnstap => "dnstap",
            Self::Cdns => "cdns",
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Dnsperf => "dnsperf",
            Self::Zeek => "zeek",
            Self::Fsdb => "fsdb",
            Self::Rpl => "rpl",
            Self::Dnsviz => "dnsviz",
        }
    }
}

/// Options of reading a trace.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format. By default it is detected.
    pub format: Option<Format>,
    /// Server ports in captures and Zeek logs.
    pub ports: Vec<u16>,
    /// dnstap sides to read. If empty, the first side of [`DnstapSide::ALL`] that the log has is read.
    pub dnstap: Vec<DnstapSide>,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, ports: vec![53], dnstap: Vec::new() }
    }
}

/// Reads a trace message by message.
pub struct Reader {
    source: Source,
    format: Format,
    queue: MessageQueue,
    tally: Tally,
    last_ns: u64,
}

enum Source {
    Capture(CaptureReader),
    Dnstap(DnstapReader),
    Cdns(Box<CdnsReader>),
    Text(TextReader),
    Binary(Box<BinaryReader>),
    Dnsperf(DnsperfReader),
    Zeek(ZeekReader),
    Fsdb(FsdbReader),
    Rpl(Box<RplReader>),
    Dnsviz(DnsvizReader),
}

/// Bytes that are enough to detect a format.
const FIRST_BYTES: usize = 32;

/// Opens a trace. `-` is standard input. Compressed files (gzip, xz, zstd, LZ4) are decompressed.
///
/// # Errors
///
/// [`TraceError`] if the file cannot be opened, or its format is unknown.
pub fn open(path: &Path, options: &Options) -> Result<Reader, TraceError> {
    let (first, bytes) = unpack::peek(unpack::open(path)?, FIRST_BYTES)?;
    let mut bytes = unpack::buffered(bytes);
    let format = match options.format.or_else(|| detect(&first, path)).ok_or(TraceError::Unknown)? {
        Format::Dnsviz if options.format.is_none() && zeek::begins_json(bytes.fill_buf()?) => Format::Zeek,
        format => format,
    };
    if format == Format::Binary
        && let Some(file) = unpacked(path)?
    {
        return Ok(Reader::new(Source::Binary(Box::new(BinaryReader::of_file(file)?)), format));
    }
    Reader::of_bytes(bytes, format, options)
}

/// Returns the reader of a format.
fn source_of(bytes: Box<dyn BufRead + Send>, format: Format, options: &Options) -> Result<Source, TraceError> {
    Ok(match format {
        Format::Capture => Source::Capture(CaptureReader::new(bytes, options.ports.clone())?),
        Format::Dnstap => Source::Dnstap(DnstapReader::new(bytes, &options.dnstap)),
        Format::Cdns => Source::Cdns(Box::new(CdnsReader::new(bytes))),
        Format::Text => Source::Text(TextReader::new(bytes)),
        Format::Binary => Source::Binary(Box::new(BinaryReader::new(bytes))),
        Format::Dnsperf => Source::Dnsperf(DnsperfReader::new(bytes)),
        Format::Zeek => Source::Zeek(ZeekReader::new(bytes, options.ports.clone())),
        Format::Fsdb => Source::Fsdb(FsdbReader::new(bytes)),
        Format::Rpl => Source::Rpl(Box::new(RplReader::new(bytes))),
        Format::Dnsviz => Source::Dnsviz(DnsvizReader::new(bytes)?),
    })
}

/// Opens the file if it is seekable and not compressed.
fn unpacked(path: &Path) -> Result<Option<File>, TraceError> {
    if path.as_os_str() == "-" || !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path)?;
    let mut first = [0; binary::MAGIC.len()];
    // A shorter file is not compressed either. Its reader reports the early end.
    let is_ours = match file.read_exact(&mut first) {
        Ok(()) => first == binary::MAGIC,
        Err(_) => false,
    };
    file.rewind()?;
    Ok(Some(file).filter(|_| is_ours))
}

/// Reads lines of our text format, as [`crate::write_line`] writes them, such as the output of a filter program.
#[must_use]
pub fn read_lines(lines: Box<dyn BufRead + Send>) -> Reader {
    Reader::new(Source::Text(TextReader::new(lines)), Format::Text)
}

/// Detects the format from the first bytes of an unpacked trace or, if that fails, from the file name.
#[must_use]
pub fn detect(first: &[u8], path: &Path) -> Option<Format> {
    /// pcap in both byte orders, pcap with nanoseconds, and the section header of pcapng.
    const CAPTURES: [[u8; 4]; 5] = [
        [0xD4, 0xC3, 0xB2, 0xA1],
        [0xA1, 0xB2, 0xC3, 0xD4],
        [0x4D, 0x3C, 0xB2, 0xA1],
        [0xA1, 0xB2, 0x3C, 0x4D],
        [0x0A, 0x0D, 0x0D, 0x0A],
    ];
    if CAPTURES.iter().any(|magic| first.starts_with(magic)) {
        return Some(Format::Capture);
    }
    if first.starts_with(&binary::MAGIC) {
        return Some(Format::Binary);
    }
    if is_dnstap(first) {
        return Some(Format::Dnstap);
    }
    if is_cdns(first) {
        return Some(Format::Cdns);
    }
    let begins =
        [(MAGIC, Format::Text), ("#fsdb", Format::Fsdb), ("#separator", Format::Zeek), ("#fields", Format::Zeek)];
    let known = begins.into_iter().find(|(prefix, _)| first.starts_with(prefix.as_bytes())).map(|(_, format)| format);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Or a log of Zeek, which its first line shows. The DNSViz reader refuses other JSON.
    let is_json = first.trim_ascii_start().starts_with(b"{");
    let by_name = || match &name {
        name if name.contains(".dnsperf") => Some(Format::Dnsperf),
        name if name.contains(".rpl") => Some(Format::Rpl),
        _ => None,
    };
    known.or(is_json.then_some(Format::Dnsviz)).or_else(by_name)
}

impl Reader {
    fn new(source: Source, format: Format) -> Self {
        Self { source, format, queue: MessageQueue::default(), tally: Tally::default(), last_ns: 0 }
    }

    /// Reads from a stream instead of a file.
    pub(crate) fn of_bytes(
        bytes: Box<dyn BufRead + Send>,
        format: Format,
        options: &Options,
    ) -> Result<Self, TraceError> {
        Ok(Self::new(source_of(bytes, format, options)?, format))
    }

    /// Returns the next message, in the order of the trace. `None` at the end, and after an error.
    ///
    /// # Errors
    ///
    /// [`TraceError`] if the trace cannot be read further. Earlier messages remain valid.
    #[expect(clippy::should_implement_trait, reason = "a message is lent until the next call")]
    pub fn next(&mut self) -> Result<Option<Message<'_>>, TraceError> {
        self.fill_queue()?;
        let message = self.queue.pop();
        if let Some(message) = &message {
            self.tally.backwards += u64::from(message.at_ns < self.last_ns);
            self.last_ns = message.at_ns;
        }
        Ok(message)
    }

    /// The time of the next message, without taking the message.
    ///
    /// # Errors
    ///
    /// As [`Reader::next`].
    pub fn next_ns(&mut self) -> Result<Option<u64>, TraceError> {
        self.fill_queue()?;
        Ok(self.queue.first_ns())
    }

    /// Restricts the reader to a range of times (nanoseconds since 1970). It skips only what is easy to skip, such as
    /// chunks of the binary format, so other messages may still come. Skipped messages are in no tally.
    ///
    /// # Errors
    ///
    /// [`TraceError`] if the file cannot be read.
    pub fn narrow(&mut self, times: &RangeInclusive<u64>) -> Result<(), TraceError> {
        match &mut self.source {
            Source::Binary(source) => source.narrow(times),
            _ => Ok(()),
        }
    }

    /// Reads until there is a message, or to the end.
    fn fill_queue(&mut self) -> Result<(), TraceError> {
        let (queue, tally) = (&mut self.queue, &mut self.tally);
        while queue.len() == 0 {
            let has_more = match &mut self.source {
                Source::Capture(source) => source.advance(queue, tally)?,
                Source::Dnstap(source) => source.advance(queue, tally)?,
                Source::Cdns(source) => source.advance(queue, tally)?,
                Source::Text(source) => source.advance(queue, tally)?,
                Source::Binary(source) => source.advance(queue, tally)?,
                Source::Dnsperf(source) => source.advance(queue, tally)?,
                Source::Zeek(source) => source.advance(queue, tally)?,
                Source::Fsdb(source) => source.advance(queue, tally)?,
                Source::Rpl(source) => source.advance(queue, tally)?,
                Source::Dnsviz(source) => source.advance(queue, tally),
            };
            if !has_more {
                break;
            }
        }
        Ok(())
    }

    /// Counts of read and unread data so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Format of the trace.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }
}
