//! Why a workload cannot be used.

use super::skipped::{NoQuery, Skipped};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a query file cannot be used.
#[derive(Debug)]
pub enum WorkloadError {
    /// The file cannot be read.
    File(PathBuf, io::Error),
    /// The compressed data is damaged.
    Compression(PathBuf, String),
    /// A line is not a query.
    Line {
        /// The file.
        file: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A message of a binary file is not a query.
    Message {
        /// The file.
        file: PathBuf,
        /// Offset of its two length bytes.
        offset: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file is a trace of this format.
    Trace(PathBuf, &'static str),
    /// The file is compressed in another format than xz.
    Packed(PathBuf),
    /// The file has complete messages, so options cannot be set in them.
    Whole(PathBuf),
    /// The file has no query. Has the skipped entries.
    Empty(PathBuf, Skipped),
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file, error) => write!(f, "{}: {error}", file.display()),
            Self::Compression(file, reason) => write!(f, "{}: cannot be unpacked: {reason}", file.display()),
            Self::Line { file, line, reason } => write!(f, "{}:{line}: {reason}", file.display()),
            Self::Message { file, offset, reason } => write!(f, "{}: byte {offset}: {reason}", file.display()),
            Self::Trace(file, format) => write!(
                f,
                "cannot use {0}: it is a trace ({format}), not a query file. Send it with `catlab replay`, or write \
                 its questions to a query file: catlab trace convert {0} --out queries.dnsperf",
                file.display()
            ),
            Self::Packed(file) => {
                write!(f, "cannot use {}: it is compressed, but not with xz. Unpack it first", file.display())
            }
            Self::Whole(file) => write!(
                f,
                "{}: its messages are binary and sent as they are: RD, EDNS, DO, cookie, subnet and padding cannot be \
                 set in them",
                file.display()
            ),
            Self::Empty(file, skipped) if skipped.count() > 0 => {
                write!(f, "{skipped}\ncannot use {}: it holds no query", file.display())
            }
            Self::Empty(file, _) => write!(f, "cannot use {}: it holds no query", file.display()),
        }
    }
}

impl std::error::Error for WorkloadError {}

/// Handles an invalid entry: skips it or returns the error.
pub(super) type Skip<'s> = &'s mut dyn FnMut(NoQuery, WorkloadError) -> Result<(), WorkloadError>;
