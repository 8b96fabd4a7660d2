//! Writes traces: our text and binary formats, query files of dnsperf, and captures.

use crate::binary::BinaryWriter;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::message::{Message, Transport};
use crate::reader::Format;
use crate::{mnemonics, text};
use flate2::Compression;
use flate2::write::GzEncoder;
use lz4_flex::frame::{AutoFinishEncoder, FrameEncoder};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Writes a trace.
pub struct Writer {
    out: OutputFile,
    format: Format,
    /// The next sequence number of each TCP stream, so that readers can reassemble it.
    sequences: BTreeMap<(SocketAddr, SocketAddr), u32>,
    /// Messages of the binary format that are not written yet.
    binary: BinaryWriter,
    /// Messages that the format cannot hold.
    left_out: u64,
    /// Number of messages in the file.
    written: u64,
}

enum OutputFile {
    Plain(Box<dyn Write + Send>),
    Gzip(GzEncoder<Box<dyn Write + Send>>),
    Lz4(Box<AutoFinishEncoder<Box<dyn Write + Send>>>),
}

/// LINKTYPE_RAW.
const RAW: u32 = 101;
/// Data of one segment: with its headers it fits into an IPv4 packet.
const SEGMENT_BYTES_MAX: usize = 65_000;
/// Streams with a remembered sequence number.
const SEQUENCES_MAX: usize = 1 << 20;

impl Writer {
    /// Creates the file. `-` is standard output. The extensions `.gz` and `.lz4` compress it.
    ///
    /// # Errors
    ///
    /// The file cannot be created, or the format cannot be written.
    pub fn create(path: &Path, format: Format) -> io::Result<Self> {
        let file: Box<dyn Write + Send> = if path.as_os_str() == "-" {
            Box::new(BufWriter::new(io::stdout()))
        } else {
            Box::new(BufWriter::new(File::create(path)?))
        };
        let ends = |ending: &str| path.extension().is_some_and(|extension| extension == ending);
        let mut out = match () {
            () if ends("gz") => OutputFile::Gzip(GzEncoder::new(file, Compression::default())),
            () if ends("lz4") => OutputFile::Lz4(Box::new(FrameEncoder::new(file).auto_finish())),
            () => OutputFile::Plain(file),
        };
        let mut binary = BinaryWriter::default();
        match format {
            Format::Text => text::begin(out.write())?,
            Format::Dnsperf => {}
            Format::Binary => binary.begin(out.write())?,
            Format::Capture => begin_capture(out.write())?,
            other => {
                let what = format!("cannot write {}; write pcap, text, binary or dnsperf", other.label());
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
        }
        Ok(Self { out, format, sequences: BTreeMap::new(), binary, left_out: 0, written: 0 })
    }

    /// Writes a message.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&mut self, message: &Message<'_>) -> io::Result<()> {
        let left_out = self.left_out;
        self.write_message(message)?;
        self.written += u64::from(self.left_out == left_out);
        Ok(())
    }

    fn write_message(&mut self, message: &Message<'_>) -> io::Result<()> {
        match self.format {
            Format::Text => text::write(message, self.out.write()),
            Format::Binary => {
                self.left_out += u64::from(!self.binary.write(message, self.out.write())?);
                Ok(())
            }
            Format::Dnsperf => match wire::parse::FirstQuestion::read(message.bytes) {
                Ok(question) if !message.is_response() => {
                    let qtype = mnemonics::rtype_mnemonic(question.qtype);
                    writeln!(self.out.write(), "{} {qtype}", question.qname)
                }
                _ => {
                    self.left_out += 1;
                    Ok(())
                }
            },
            _ => self.capture(message),
        }
    }

    /// Messages left out because the format cannot hold them.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of messages written.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Format of the file.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Completes the file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        if self.format == Format::Binary {
            self.binary.end(self.out.write())?;
        }
        match self.out {
            OutputFile::Plain(mut out) => out.flush(),
            OutputFile::Gzip(out) => out.finish()?.flush(),
            OutputFile::Lz4(mut out) => out.flush(),
        }
    }

    fn capture(&mut self, message: &Message<'_>) -> io::Result<()> {
        let Message { at_ns, source, destination, transport, bytes } = *message;
        // RFC 1035 4.2.2: the length field in a stream has two bytes.
        let bytes_max = match transport {
            Transport::Udp => SEGMENT_BYTES_MAX,
            Transport::Tcp => MESSAGE_BYTES_MAX,
            _ => 0,
        };
        let (is_one_family, seconds) = (source.is_ipv4() == destination.is_ipv4(), at_ns / 1_000_000_000);
        let Some(seconds) = u32::try_from(seconds).ok().filter(|_| is_one_family && bytes.len() <= bytes_max) else {
            self.left_out += 1;
            return Ok(());
        };
        let at = (seconds, (at_ns % 1_000_000_000) as u32);
        if transport == Transport::Udp {
            return packet(self.out.write(), at, source, destination, None, bytes);
        }
        if self.sequences.len() >= SEQUENCES_MAX {
            self.sequences.clear();
        }
        let next = self.sequences.entry((source, destination)).or_insert(1);
        let framed = [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
        for part in framed.chunks(SEGMENT_BYTES_MAX) {
            packet(self.out.write(), at, source, destination, Some(*next), part)?;
            *next = next.wrapping_add(part.len() as u32);
        }
        Ok(())
    }
}

impl OutputFile {
    fn write(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out,
            Self::Lz4(out) => out,
        }
    }
}

/// Writes the header of a pcap file with nanoseconds, in network byte order, so that files are the same everywhere.
fn begin_capture(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&0xA1B2_3C4D_u32.to_be_bytes())?;
    out.write_all(&[0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0])?;
    out.write_all(&0x0004_0000_u32.to_be_bytes())?;
    out.write_all(&RAW.to_be_bytes())
}

/// Writes a packet, with its time in seconds and nanoseconds. With a sequence number it is TCP, otherwise UDP.
fn packet(
    out: &mut dyn Write,
    (seconds, nanoseconds): (u32, u32),
    source: SocketAddr,
    destination: SocketAddr,
    sequence: Option<u32>,
    payload: &[u8],
) -> io::Result<()> {
    let mut segment = Vec::with_capacity(20 + payload.len());
    segment.extend_from_slice(&source.port().to_be_bytes());
    segment.extend_from_slice(&destination.port().to_be_bytes());
    let (protocol, checksum_at) = match sequence {
        None => {
            segment.extend_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
            segment.extend_from_slice(&[0; 2]);
            (17, 6)
        }
        Some(sequence) => {
            segment.extend_from_slice(&sequence.to_be_bytes());
            // Acknowledgment number 1, five words of header, PSH and ACK, a window.
            segment.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0]);
            (6, 16)
        }
    };
    segment.extend_from_slice(payload);
    let mut header = ip_header(source.ip(), destination.ip(), protocol, segment.len());
    // RFC 768, RFC 9293 3.1: covers the addresses, the protocol, the length and the whole segment.
    let bytes = (segment.len() as u32).to_be_bytes();
    let addresses = if source.is_ipv4() { &header[12..20] } else { &header[8..40] };
    let checksum = match sum(&[addresses, &[0, protocol], &bytes, &segment]) {
        // RFC 768: zero means no checksum.
        0 => 0xFFFF,
        checksum => checksum,
    };
    segment[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    if source.is_ipv4() {
        let checksum = sum(&[&header]);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    let bytes = ((header.len() + segment.len()) as u32).to_be_bytes();
    out.write_all(&seconds.to_be_bytes())?;
    out.write_all(&nanoseconds.to_be_bytes())?;
    out.write_all(&bytes)?;
    out.write_all(&bytes)?;
    out.write_all(&header)?;
    out.write_all(&segment)
}

fn ip_header(source: IpAddr, destination: IpAddr, protocol: u8, bytes: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(40);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header.extend_from_slice(&[0x45, 0]);
            header.extend_from_slice(&((20 + bytes) as u16).to_be_bytes());
            header.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
            header.extend_from_slice(&source.octets());
            header.extend_from_slice(&destination.octets());
        }
        (source, destination) => {
            let bytes_of = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            header.extend_from_slice(&[0x60, 0, 0, 0]);
            header.extend_from_slice(&(bytes as u16).to_be_bytes());
            header.extend_from_slice(&[protocol, 64]);
            header.extend_from_slice(&bytes_of(source));
            header.extend_from_slice(&bytes_of(destination));
        }
    }
    header
}

/// The Internet checksum (RFC 1071).
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for word in part.chunks(2) {
            sum += u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
    }
    !(sum as u16)
}
