//! The queries of a run, from files or generators. Files are converted to wire format before the run.
//!
//! ```text
//!   dnsperf text | blob --> Messages --+
//!   dnsperf -u text ----> Messages ----+--> (Signer) --> Workload::fill, one message at a time
//!   name pattern, types --> Generator -+
//!   the same, a zone -----> Updates ---+
//! ```

// Stored messages.
mod messages;
// Messages generated during the run.
mod generator;
mod name_list;
mod updates;
// Signatures.
mod key;
mod signer;
mod template;
// Parts of a query besides its question.
mod cookie;
mod extras;
// Files.
mod blob;
mod skipped;
mod text;
mod update_text;
// Errors.
mod error;

pub(crate) use cookie::learned as learned_cookie;
pub use error::WorkloadError;
pub use extras::{Extras, ExtrasError, PADDING_BLOCK_BYTES};
pub use generator::{Generator, NameDistribution, Popularity};
pub use key::{KeyError, TsigKey};
pub use messages::Messages;
pub use name_list::NameList;
pub use signer::Signer;
pub use skipped::{NoQuery, Skipped};
pub use text::{Dialect, read_subnet};
pub use updates::Updates;

use lzma_rust2::XzReader;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// A worker's messages. Cheap to clone. Each worker has its own position.
#[derive(Clone, Debug)]
pub struct Workload {
    source: Source,
    learns_cookies: bool,
    signer: Option<Signer>,
}

/// The source of the messages.
#[derive(Clone, Debug)]
enum Source {
    /// A list, repeated from its start.
    Listed {
        /// The messages.
        messages: Arc<Messages>,
        /// Index of the next one.
        next: usize,
        /// Step to the next message of this worker. Workers take turns.
        stride: usize,
    },
    /// Generated queries.
    Generated(Box<Generator>),
    /// Generated updates.
    Updates(Box<Updates>),
    /// Messages of a trace, which have their own times.
    Traced,
}

impl Workload {
    /// Repeats a list of messages.
    #[must_use]
    pub const fn listed(messages: Arc<Messages>) -> Self {
        Self { source: Source::Listed { messages, next: 0, stride: 1 }, learns_cookies: false, signer: None }
    }

    /// Number of messages, if the workload is a list.
    #[must_use]
    pub fn listed_count(&self) -> Option<usize> {
        if let Source::Listed { messages, .. } = &self.source { Some(messages.len()) } else { None }
    }

    /// Has no messages of its own, because a trace provides them with their times.
    #[must_use]
    pub const fn traced() -> Self {
        Self { source: Source::Traced, learns_cookies: false, signer: None }
    }

    /// The queries of a generator.
    #[must_use]
    pub fn generated(generator: Generator) -> Self {
        Self { source: Source::Generated(Box::new(generator)), learns_cookies: false, signer: None }
    }

    /// Generated updates.
    #[must_use]
    pub fn updates(updates: Updates) -> Self {
        Self { source: Source::Updates(Box::new(updates)), learns_cookies: false, signer: None }
    }

    /// Adds the server cookie to queries once it is known (RFC 7873 5.3). Only over UDP: a connection already proves
    /// the client's address.
    #[must_use]
    pub fn learning_cookies(self) -> Self {
        Self { learns_cookies: true, ..self }
    }

    /// Whether server cookies are learned.
    pub(crate) const fn learns_cookies(&self) -> bool {
        self.learns_cookies
    }

    /// Signs each message before it is sent.
    #[must_use]
    pub fn signed(self, signer: Signer) -> Self {
        Self { signer: Some(signer), ..self }
    }

    /// The share of worker `index` of `count`: every `count`th message of a list, or its own random stream of a
    /// generator.
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

    /// Writes the next message to `out`, which has at least [`QUERY_BYTES_MAX`](crate::limits::QUERY_BYTES_MAX) bytes.
    /// Returns its length. The caller sets the ID.
    pub fn fill(&mut self, out: &mut [u8]) -> usize {
        self.fill_with(out, &[])
    }

    /// The same, with a learned cookie. An empty cookie means none.
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
    /// A query with the question of an answer and nothing else. `None` if the answer has no question.
    #[must_use]
    pub fn ask_again(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let mut at = 12;
        while *answer.get(at)? != 0 {
            at += 1 + usize::from(*answer.get(at)?);
        }
        let question = answer.get(12..at + 5)?;
        // Copies RD from the answer (RFC 1035 4.1.1). One question.
        let mut query = vec![0, 0, answer[2] & 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend_from_slice(question);
        Some(query)
    }
}

/// Bytes that distinguish a binary file from text: a length and a header.
const HEADER_BYTES_READ: usize = 14;

/// First bytes of gzip, LZ4, zstd and xz files.
const PACKED: [&[u8]; 4] =
    [&[0x1F, 0x8B], &[0x04, 0x22, 0x4D, 0x18], &[0x28, 0xB5, 0x2F, 0xFD], &[0xFD, b'7', b'z', b'X', b'Z', 0x00]];

/// Rejects traces and compressed files. Otherwise their bytes would be sent as queries.
fn check_kind(path: &Path, bytes: &[u8]) -> Result<(), WorkloadError> {
    use ::trace::Format;
    if PACKED.iter().any(|magic| bytes.starts_with(magic)) {
        return Err(WorkloadError::Packed(path.to_owned()));
    }
    match ::trace::detect(bytes, path) {
        None | Some(Format::Dnsperf) => Ok(()),
        Some(format) => Err(WorkloadError::Trace(path.to_owned(), format.label())),
    }
}

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

/// Reads a query file. It is text (dnsperf and its dialects) or binary (each message after a length of two bytes),
/// detected by its content. Both may be `.xz` files.
///
/// # Errors
/// [`WorkloadError`] if the file has no query, or in strict mode for the first invalid entry.
pub fn read(path: &Path, reading: Reading, extras: &Extras) -> Result<(Messages, Skipped), WorkloadError> {
    let bytes = read_bytes(path)?;
    let Reading { dialect, is_strict, .. } = reading;
    if !reading.is_binary && dialect.is_none() {
        check_kind(path, &bytes)?;
    }
    // Text has no zero bytes. Each header of a query has several.
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

/// Reads a file of updates in the format of `dnsperf -u`, which may be an `.xz` file.
///
/// # Errors
/// [`WorkloadError`] with file, line and reason.
pub fn read_updates(path: &Path) -> Result<Messages, WorkloadError> {
    let messages = update_text::read(path, &read_bytes(path)?)?;
    if messages.len() == 0 { Err(WorkloadError::Empty(path.to_owned(), Skipped::default())) } else { Ok(messages) }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, WorkloadError> {
    let packed = std::fs::read(path).map_err(|error| WorkloadError::File(path.to_owned(), error))?;
    if path.extension().is_none_or(|extension| extension != "xz") {
        return Ok(packed);
    }
    let mut bytes = Vec::new();
    let unpacked = XzReader::new(packed.as_slice(), true).read_to_end(&mut bytes);
    unpacked.map_err(|error| WorkloadError::Compression(path.to_owned(), format!("compressed bytes: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_and_compressed_files_are_no_query_files() {
        let kind = |name: &str, bytes: &[u8]| check_kind(Path::new(name), bytes).map_err(|error| error.to_string());
        let refused = kind("day.pcap", &[0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0]).unwrap_err();
        assert_eq!(
            refused,
            "cannot use day.pcap: it is a trace (pcap), not a query file. Send it with `catlab replay`, or write its \
             questions to a query file: catlab trace convert day.pcap --out queries.dnsperf"
        );
        assert!(kind("day", b"#separator \\x09\n").unwrap_err().contains("a trace (zeek)"));
        assert!(kind("q.gz", &[0x1F, 0x8B, 8, 0]).unwrap_err().contains("Unpack it first"));
        // Text, and a binary message.
        for (name, bytes) in
            [("q", &b"example.com A\n"[..]), ("q.dnsperf", b"a. A\n"), ("q", &[0, 17, 0, 0, 1, 0, 0, 1])]
        {
            assert_eq!(kind(name, bytes), Ok(()), "{name}");
        }
    }
}
