//! A recorded message, and a file of them.

use lzma_rust2::XzReader;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use trace::Transport;

/// One recorded message from a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// The transport: UDP or TCP.
    pub transport: Transport,
    /// The message.
    pub bytes: Vec<u8>,
}

/// Why a trace cannot be read.
#[derive(Debug)]
pub enum TraceError {
    /// The file cannot be read.
    File(io::Error),
    /// The compressed data is invalid.
    Compression(String),
    /// The format, and the error in it.
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

impl From<trace::TraceError> for TraceError {
    fn from(error: trace::TraceError) -> Self {
        match error {
            trace::TraceError::File(error) => Self::File(error),
            other => Self::Format("trace", other.to_string()),
        }
    }
}

/// Reads a whole file, and decompresses it if its name ends in `.xz`.
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
