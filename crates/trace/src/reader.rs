//! Any trace, whatever its format.

use crate::capture::CaptureReader;
use crate::dnsperf::DnsperfReader;
use crate::dnstap::{DnstapReader, is_dnstap};
use crate::error::TraceError;
use crate::fsdb::FsdbReader;
use crate::held::Held;
use crate::message::Message;
use crate::tally::Tally;
use crate::text::{MAGIC, TextReader};
use crate::unpack;
use crate::zeek::ZeekReader;
use std::io::BufRead;
use std::path::Path;

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// pcap or pcapng.
    Capture,
    /// dnstap in Frame Streams.
    Dnstap,
    /// Our text.
    Text,
    /// dnsperf's query file.
    Dnsperf,
    /// Zeek's `dns.log`.
    Zeek,
    /// LDplayer's text.
    Fsdb,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Capture, Self::Dnstap, Self::Text, Self::Dnsperf, Self::Zeek, Self::Fsdb];

    /// Its name on command lines.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Capture => "pcap",
            Self::Dnstap => "dnstap",
            Self::Text => "text",
            Self::Dnsperf => "dnsperf",
            Self::Zeek => "zeek",
            Self::Fsdb => "fsdb",
        }
    }
}

/// How a trace is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its format; found out by its beginning, if none is said.
    pub format: Option<Format>,
    /// Of captures: at which ports servers answer.
    pub ports: Vec<u16>,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, ports: vec![53] }
    }
}

/// Reads a trace, one message after the other.
pub struct Reader {
    source: Source,
    format: Format,
    held: Held,
    tally: Tally,
    last_ns: u64,
}

enum Source {
    Capture(CaptureReader),
    Dnstap(DnstapReader),
    Text(TextReader),
    Dnsperf(DnsperfReader),
    Zeek(ZeekReader),
    Fsdb(FsdbReader),
}

/// So many octets tell a format.
const FIRST_OCTETS: usize = 32;

/// Opens a trace; `-` is standard input. Packed ones (gzip, xz, zstd, LZ4) are unpacked.
///
/// # Errors
/// [`TraceError`] when it cannot be opened, or its format is not known.
pub fn open(path: &Path, options: &Options) -> Result<Reader, TraceError> {
    let (first, octets) = unpack::peek(unpack::open(path)?, FIRST_OCTETS)?;
    let octets = unpack::buffered(octets);
    let format = options.format.or_else(|| format_of(&first, path)).ok_or(TraceError::Unknown)?;
    let source = match format {
        Format::Capture => Source::Capture(CaptureReader::new(octets, options.ports.clone())?),
        Format::Dnstap => Source::Dnstap(DnstapReader::new(octets)),
        Format::Text => Source::Text(TextReader::new(octets)),
        Format::Dnsperf => Source::Dnsperf(DnsperfReader::new(octets)),
        Format::Zeek => Source::Zeek(ZeekReader::new(octets)),
        Format::Fsdb => Source::Fsdb(FsdbReader::new(octets)),
    };
    Ok(Reader { source, format, held: Held::default(), tally: Tally::default(), last_ns: 0 })
}

/// Reads lines of our text, as [`crate::write_line`] writes them: what a program gives that was given such lines.
#[must_use]
pub fn read_lines(lines: Box<dyn BufRead + Send>) -> Reader {
    let source = Source::Text(TextReader::new(lines));
    Reader { source, format: Format::Text, held: Held::default(), tally: Tally::default(), last_ns: 0 }
}

/// What the first octets, and where they cannot tell the name of the file, say.
fn format_of(first: &[u8], path: &Path) -> Option<Format> {
    /// Byte orders of pcap, its variant with nanoseconds, and the section header of pcapng.
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
    if is_dnstap(first) {
        return Some(Format::Dnstap);
    }
    let begins =
        [(MAGIC, Format::Text), ("#fsdb", Format::Fsdb), ("#separator", Format::Zeek), ("#fields", Format::Zeek)];
    let named = begins.into_iter().find(|(word, _)| first.starts_with(word.as_bytes())).map(|(_, format)| format);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    named.or_else(|| name.contains(".dnsperf").then_some(Format::Dnsperf))
}

impl Reader {
    /// The next message, in the order of the trace; `None` at its end. After an error there is no more.
    ///
    /// # Errors
    /// [`TraceError`] when the trace cannot be read on; what came before stands.
    #[expect(clippy::should_implement_trait, reason = "a message is lent until the next call")]
    pub fn next(&mut self) -> Result<Option<Message<'_>>, TraceError> {
        while self.held.len() == 0 {
            let (held, tally) = (&mut self.held, &mut self.tally);
            let goes_on = match &mut self.source {
                Source::Capture(source) => source.advance(held, tally)?,
                Source::Dnstap(source) => source.advance(held, tally)?,
                Source::Text(source) => source.advance(held, tally)?,
                Source::Dnsperf(source) => source.advance(held, tally)?,
                Source::Zeek(source) => source.advance(held, tally)?,
                Source::Fsdb(source) => source.advance(held, tally)?,
            };
            if !goes_on && self.held.len() == 0 {
                return Ok(None);
            }
        }
        let message = self.held.pop();
        if let Some(message) = &message {
            self.tally.backwards += u64::from(message.at_ns < self.last_ns);
            self.last_ns = message.at_ns;
        }
        Ok(message)
    }

    /// What was read so far, and what was not.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Its format.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }
}
