//! Records the first answer to each question in a slow run against a trusted server.

use super::expected::{Expected, ExpectedAnswer};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Answers recorded by all workers.
#[derive(Default, Debug)]
pub struct Recorder {
    expected: Mutex<Expected>,
}

impl Recorder {
    /// The expected answer to a question: the first one. A complete answer replaces a truncated one. `None` if there
    /// are too many questions.
    pub(super) fn right(&self, question: &[u8], dnssec_ok: bool, got: &ExpectedAnswer) -> Option<ExpectedAnswer> {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        match expected.exact(question, dnssec_ok) {
            Some(right) if !right.fingerprint.is_truncated || got.fingerprint.is_truncated => Some(right.clone()),
            _ => expected.note(question, dnssec_ok, got.clone()).then(|| got.clone()),
        }
    }

    /// Writes the recorded answers and returns their number.
    ///
    /// # Errors
    /// If the file cannot be written. No partial file remains.
    pub fn write(&self, path: &Path) -> Result<usize, report::folder::WriteError> {
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.write(path).map(|()| expected.count())
    }
}
