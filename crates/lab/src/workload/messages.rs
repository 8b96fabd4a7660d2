//! Messages one after the other in one allocation.

use crate::limits::QUERY_BYTES_MAX;

/// A list of messages, each ready for the wire with ID zero.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
}

impl Messages {
    /// How many.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a list that is read from a file is never empty")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The message at `index`.
    ///
    /// # Panics
    /// When `index` is not below [`Messages::len`].
    #[must_use]
    pub fn at(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        &self.bytes[start..self.ends[index]]
    }

    /// Adds a message.
    ///
    /// # Panics
    /// When it is longer than [`QUERY_BYTES_MAX`]: readers check that.
    pub fn push(&mut self, message: &[u8]) {
        assert!(message.len() <= QUERY_BYTES_MAX);
        self.bytes.extend_from_slice(message);
        self.ends.push(self.bytes.len());
    }
}
