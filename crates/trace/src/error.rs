//! Why a trace cannot be read on.

use std::{fmt, io};

/// Why a trace cannot be read, or not to its end. What came before it stands.
#[derive(Debug)]
pub enum TraceError {
    /// The file, or how it is packed.
    File(io::Error),
    /// It is in none of the formats.
    Unknown,
    /// What the format forbids: which format, where in the file (bytes or line), and what.
    Format {
        /// Its name.
        format: &'static str,
        /// Where: bytes or lines from the beginning, as the format counts.
        at: u64,
        /// What is wrong there.
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
