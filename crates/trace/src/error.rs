//! Errors of reading traces.

use std::{fmt, io};

/// Why a trace cannot be read to its end. Messages before the error remain valid.
#[derive(Debug)]
pub enum TraceError {
    /// An error of the file or of its compression.
    File(io::Error),
    /// The format is unknown.
    Unknown,
    /// The content is malformed.
    Format {
        /// Name of the format.
        format: &'static str,
        /// Position, in bytes or lines, depending on the format.
        at: u64,
        /// The reason.
        what: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Unknown => f.write_str("unknown format; name it with --format"),
            Self::Format { format, at, what } => write!(f, "{format}: at {at}: {what}"),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}
