//! A list of messages in one allocation.

use crate::limits::QUERY_BYTES_MAX;

/// A list of messages in wire format with ID zero.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    /// The end offset of each message.
    ends: Vec<usize>,
}

impl Messages {
    /// Number of messages.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a list that is read from a file is never empty")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The message at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Messages::len`].
    #[must_use]
    pub fn at(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        &self.bytes[start..self.ends[index]]
    }

    /// Adds a message.
    ///
    /// # Panics
    /// If it is longer than [`QUERY_BYTES_MAX`]. Readers check this first.
    pub fn push(&mut self, message: &[u8]) {
        assert!(message.len() <= QUERY_BYTES_MAX);
        self.bytes.extend_from_slice(message);
        self.ends.push(self.bytes.len());
    }
}
