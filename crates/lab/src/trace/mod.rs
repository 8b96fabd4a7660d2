//! Recorded traffic: queries as they were sent, byte for byte.

mod dnsperf;
mod pcap;
mod rpl;
mod synthesis;

pub use ::trace::rtype;
pub use dnsperf::read_dnsperf;
pub use pcap::{Capture, DNS_PORT, read_capture, read_pcap};
pub use rpl::read_rpl_raw;
pub use synthesis::{End, Synthesis, Turns};

use lzma_rust2::XzReader;
use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// How a query travelled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// One message of a stream, without its two bytes of length.
    Tcp,
}

/// One recorded message from a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// How it travelled.
    pub transport: Transport,
    /// The message.
    pub bytes: Vec<u8>,
}

/// A message between a client and a server, with its circumstances.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// When, since 1970.
    pub at: Duration,
    /// Whose: of a query the source, of a response the destination.
    pub client: IpAddr,
    /// At which of its ports.
    pub port: u16,
    /// What, and how.
    pub recorded: Recorded,
}

/// Why a trace cannot be read.
#[derive(Debug)]
pub enum TraceError {
    /// The file itself.
    File(io::Error),
    /// Its compression.
    Compression(String),
    /// Its format, and what is wrong.
    Format(&'static str, String),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Compression(what) => write!(f, "compressed bytes: {what}"),
            Self::Format(format, what) => write!(f, "{format}: {what}"),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<::trace::TraceError> for TraceError {
    fn from(error: ::trace::TraceError) -> Self {
        match error {
            ::trace::TraceError::File(error) => Self::File(error),
            other => Self::Format("trace", other.to_string()),
        }
    }
}

/// A whole file, unpacked when its name ends in `.xz`.
///
/// # Errors
/// [`TraceError::File`] or [`TraceError::Compression`].
pub fn read_whole(path: &Path) -> Result<Vec<u8>, TraceError> {
    let packed = std::fs::read(path).map_err(TraceError::File)?;
    if path.extension().is_none_or(|extension| extension != "xz") {
        return Ok(packed);
    }
    let mut bytes = Vec::new();
    XzReader::new(packed.as_slice(), true)
        .read_to_end(&mut bytes)
        .map_err(|error| TraceError::Compression(error.to_string()))?;
    Ok(bytes)
}

/// Every message of a trace whose format its name tells: `.dnsperf`, `.rpl`, otherwise a capture; each also as `.xz`.
///
/// # Errors
/// As the reader of that format.
pub fn read_any(path: &Path) -> Result<Vec<Recorded>, TraceError> {
    let name = path.to_string_lossy();
    let name = name.trim_end_matches(".xz");
    if name.ends_with(".dnsperf") {
        read_dnsperf(path)
    } else if name.ends_with(".rpl") {
        read_rpl_raw(path)
    } else {
        read_pcap(path)
    }
}
