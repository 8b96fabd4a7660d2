//! What is asked: queries from files or generators, made ready for the wire before the run.
//!
//! ```text
//!   dnsperf text | blob --> Messages --+
//!   dnsperf -u text ----> Messages ----+--> (Signer) --> Workload::fill, one message at a time
//!   name pattern, types --> Generator -+
//!   the same, a zone -----> Updates ---+
//! ```

// Messages that lie ready.
mod messages;
// Messages made while the run goes on.
mod generator;
mod updates;
// Signatures.
mod key;
mod signer;
mod template;
// What each query carries besides its question.
mod cookie;
mod extras;
// Files.
mod blob;
mod skipped;
mod text;
mod update_text;

pub(crate) use cookie::learned as learned_cookie;
pub use extras::{Extras, ExtrasError, PADDING_BLOCK_BYTES};
pub use generator::{Generator, NameDistribution, Popularity};
pub use key::{KeyError, TsigKey, without_secret};
pub use messages::Messages;
pub use signer::Signer;
pub use skipped::{NoQuery, Skipped};
pub use text::{Dialect, read_subnet};
pub use updates::Updates;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

/// A worker's messages. Cheap to clone; each worker has its own position.
#[derive(Clone, Debug)]
pub struct Workload {
    source: Source,
    learns_cookies: bool,
    signer: Option<Signer>,
}

/// Where they come from.
#[derive(Clone, Debug)]
enum Source {
    /// A list, in order, from its start again when it ends.
    Listed {
        /// The messages.
        messages: Arc<Messages>,
        /// Index of the next one.
        next: usize,
        /// How far one step goes: workers take turns.
        stride: usize,
    },
    /// Drawn one by one.
    Generated(Box<Generator>),
    /// Updates that are drawn one by one.
    Updates(Box<Updates>),
    /// Each comes with its time, out of a trace.
    Traced,
}

impl Workload {
    /// The list, in order, from its start again when it ends.
    #[must_use]
    pub const fn listed(messages: Arc<Messages>) -> Self {
        Self { source: Source::Listed { messages, next: 0, stride: 1 }, learns_cookies: false, signer: None }
    }

    /// Number of messages, if the workload is a list.
    #[must_use]
    pub fn listed_count(&self) -> Option<usize> {
        if let Source::Listed { messages, .. } = &self.source { Some(messages.len()) } else { None }
    }

    /// Nothing of its own: messages come with their times, out of a trace.
    #[must_use]
    pub const fn traced() -> Self {
        Self { source: Source::Traced, learns_cookies: false, signer: None }
    }

    /// What the generator draws.
    #[must_use]
    pub fn generated(generator: Generator) -> Self {
        Self { source: Source::Generated(Box::new(generator)), learns_cookies: false, signer: None }
    }

    /// Updates that are drawn.
    #[must_use]
    pub fn updates(updates: Updates) -> Self {
        Self { source: Source::Updates(Box::new(updates)), learns_cookies: false, signer: None }
    }

    /// The same, with the server's half of a cookie once one has come (RFC 7873 5.3), over UDP: connections are proof
    /// of an address without it.
    #[must_use]
    pub fn learning_cookies(self) -> Self {
        Self { learns_cookies: true, ..self }
    }

    /// Whether servers' halves of cookies are wanted.
    pub(crate) const fn learns_cookies(&self) -> bool {
        self.learns_cookies
    }

    /// The same, each message signed as it goes out.
    #[must_use]
    pub fn signed(self, signer: Signer) -> Self {
        Self { signer: Some(signer), ..self }
    }

    /// The share of worker `index` of `count`: of a list every `count`th message, of a generator its own stream.
    #[must_use]
    pub fn for_worker(&self, index: usize, count: usize) -> Self {
        let source = match &self.source {
            Source::Listed { messages, .. } => {
                Source::Listed { messages: Arc::clone(messages), next: index, stride: count }
            }
            Source::Generated(generator) => Source::Generated(Box::new(generator.fork(index as u64))),
            Source::Updates(updates) => Source::Updates(Box::new(updates.fork(index as u64))),
            Source::Traced => Source::Traced,
        };
        Self {
            source,
            learns_cookies: self.learns_cookies,
            signer: self.signer.as_ref().map(|signer| signer.for_worker(index)),
        }
    }

    /// Writes the next message into `out`, which is at least [`QUERY_BYTES_MAX`](crate::limits::QUERY_BYTES_MAX)
    /// long, and gives its length. Its ID is for the caller to set.
    pub fn fill(&mut self, out: &mut [u8]) -> usize {
        self.fill_with(out, &[])
    }

    /// The same, with a cookie that was learned; none when it is empty.
    pub(crate) fn fill_with(&mut self, out: &mut [u8], cookie: &[u8]) -> usize {
        let mut length = match &mut self.source {
            Source::Listed { messages, next, stride } => {
                let message = messages.at(*next % messages.len());
                *next = (*next + *stride) % (messages.len() * *stride);
                out[..message.len()].copy_from_slice(message);
                message.len()
            }
            Source::Generated(generator) => generator.fill(out),
            Source::Updates(updates) => updates.fill(out),
            Source::Traced => 0,
        };
        if !cookie.is_empty() {
            length = cookie::add(out, length, cookie);
        }
        match &mut self.signer {
            Some(signer) => signer.sign(out, length),
            None => length,
        }
    }
}

impl Workload {
    /// The question of an answer once more, as a query without anything else; `None` when it has none.
    #[must_use]
    pub fn ask_again(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let mut at = 12;
        while *answer.get(at)? != 0 {
            at += 1 + usize::from(*answer.get(at)?);
        }
        let question = answer.get(12..at + 5)?;
        // RD as in the answer (RFC 1035 4.1.1), one question.
        let mut query = vec![0, 0, answer[2] & 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend_from_slice(question);
        Some(query)
    }
}

/// Why a query file is no use.
#[derive(Debug)]
pub enum WorkloadError {
    /// The file cannot be read.
    File(PathBuf, io::Error),
    /// Its compression is broken.
    Compression(PathBuf, String),
    /// A line is no query.
    Line {
        /// Where.
        file: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A message of a binary file is no query.
    Message {
        /// Where.
        file: PathBuf,
        /// Offset of its two bytes of length.
        offset: usize,
        /// What is wrong.
        reason: String,
    },
    /// Its messages are whole, and something was to be set in them.
    Whole(PathBuf),
    /// The file holds no query. Has the skipped entries.
    Empty(PathBuf, Skipped),
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file, error) => write!(f, "{}: {error}", file.display()),
            Self::Compression(file, reason) => write!(f, "{}: cannot be unpacked: {reason}", file.display()),
            Self::Line { file, line, reason } => write!(f, "{}:{line}: {reason}", file.display()),
            Self::Message { file, offset, reason } => write!(f, "{}: byte {offset}: {reason}", file.display()),
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

/// Bytes that tell a binary file from text: a length and a header.
const HEADER_BYTES_READ: usize = 14;

/// Options for reading a query file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Text dialect. Without it the dialect is detected.
    pub dialect: Option<Dialect>,
    /// Read the file as binary, without looking at its content.
    pub is_binary: bool,
    /// Fail at the first invalid entry. Otherwise invalid entries are skipped and counted.
    pub is_strict: bool,
}

/// Reads a query file: text (dnsperf and its dialects) or binary (each message after its length in two bytes). The
/// content decides which. Both may be `.xz` files.
///
/// # Errors
/// [`WorkloadError`] if the file holds no query, or in strict mode for the first invalid entry.
pub fn read(path: &Path, reading: Reading, extras: &Extras) -> Result<(Messages, Skipped), WorkloadError> {
    let bytes = read_bytes(path)?;
    let Reading { dialect, is_strict, .. } = reading;
    // Text has no byte of zero; each header of a query has several.
    let is_binary = bytes.iter().take(HEADER_BYTES_READ).any(|&byte| byte == 0);
    let is_found_binary = dialect.is_none() && (is_binary || blob::looks_like(&bytes));
    let mut skipped = Skipped::default();
    let mut skip = |reason, error: WorkloadError| {
        if is_strict {
            return Err(error);
        }
        skipped.add(reason, || error.to_string());
        Ok(())
    };
    let messages = if reading.is_binary || is_found_binary {
        if *extras != Extras::default() {
            return Err(WorkloadError::Whole(path.to_owned()));
        }
        blob::read(path, &bytes, &mut skip)?
    } else {
        text::read(path, &bytes, (dialect, extras), &mut skip)?
    };
    if messages.len() == 0 { Err(WorkloadError::Empty(path.to_owned(), skipped)) } else { Ok((messages, skipped)) }
}

/// Handles an invalid entry: skips it or returns the error.
type Skip<'s> = &'s mut dyn FnMut(NoQuery, WorkloadError) -> Result<(), WorkloadError>;

/// Reads a file of updates as `dnsperf -u` takes them; also as `.xz`.
///
/// # Errors
/// [`WorkloadError`] with file, line and reason.
pub fn read_updates(path: &Path) -> Result<Messages, WorkloadError> {
    let messages = update_text::read(path, &read_bytes(path)?)?;
    if messages.len() == 0 { Err(WorkloadError::Empty(path.to_owned(), Skipped::default())) } else { Ok(messages) }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, WorkloadError> {
    use crate::trace::{TraceError, read_whole};
    read_whole(path).map_err(|error| match error {
        TraceError::File(error) => WorkloadError::File(path.to_owned(), error),
        other => WorkloadError::Compression(path.to_owned(), other.to_string()),
    })
}
