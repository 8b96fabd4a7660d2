//! The first answer to each question, kept: what a slow run at a trusted server records.

use super::Expected;
use super::expected::Right;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Answers as they are recorded, by all workers.
#[derive(Default, Debug)]
pub struct Recorder {
    expected: Mutex<Expected>,
}

impl Recorder {
    /// The answer to a question; the first one is the right one. A whole answer takes the place of a truncated one.
    /// `None` when there are too many.
    pub(super) fn right(&self, question: &[u8], dnssec_ok: bool, got: &Right) -> Option<Right> {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        match expected.exact(question, dnssec_ok) {
            Some(right) if !right.fingerprint.is_truncated || got.fingerprint.is_truncated => Some(right.clone()),
            _ => expected.note(question, dnssec_ok, got.clone()).then(|| got.clone()),
        }
    }

    /// Writes what was recorded, and gives how many answers that are.
    ///
    /// # Errors
    /// When the file cannot be written; it is absent then.
    pub fn write(&self, path: &Path) -> Result<usize, crate::report::folder::WriteError> {
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.write(path).map(|()| expected.count())
    }
}
