//! Invalid entries of a query file: counts by reason, and the text of the first ones.

use crate::limits::{SKIPPED_SHOWN_MAX, WORD_SHOWN_MAX};
use std::collections::BTreeMap;
use std::fmt;

/// Reason why an entry of a query file is invalid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoQuery {
    /// A line with only a name.
    NoType,
    /// An unknown type.
    UnknownType,
    /// An invalid name.
    BadName,
    /// An invalid third column.
    BadColumn,
    /// The query exceeds the size limit.
    TooLong,
    /// A message that is not a query.
    BadMessage,
    /// The file ends within a message.
    CutShort,
}

impl NoQuery {
    /// Meaning in words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NoType => "no type after the name",
            Self::UnknownType => "unknown type",
            Self::BadName => "bad name",
            Self::BadColumn => "bad third column",
            Self::TooLong => "query too long",
            Self::BadMessage => "not a message with one question",
            Self::CutShort => "file ends within a message",
        }
    }
}

/// Skipped entries of a query file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    counts: BTreeMap<NoQuery, u64>,
    /// The first skipped entries, each with position and reason.
    first: Vec<String>,
}

impl Skipped {
    pub(super) fn add(&mut self, reason: NoQuery, position: impl FnOnce() -> String) {
        *self.counts.entry(reason).or_default() += 1;
        if self.first.len() < SKIPPED_SHOWN_MAX {
            self.first.push(position());
        }
    }

    /// Number of skipped entries.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }
}

impl fmt::Display for Skipped {
    /// Writes lines for the terminal. Writes nothing if no entry was skipped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        if count == 0 {
            return Ok(());
        }
        self.first.iter().try_for_each(|first| writeln!(f, "{first}; skipped"))?;
        let reasons: Vec<_> =
            self.counts.iter().map(|(reason, count)| format!("{count} {}", reason.meaning())).collect();
        write!(f, "skipped {count} entries of the query file: {}", reasons.join(", "))
    }
}

/// Prepares a word for printing: escapes control characters and shortens long words.
pub(super) fn excerpt(text: &str) -> String {
    let mut letters = text.chars();
    let short: String = letters.by_ref().take(WORD_SHOWN_MAX).flat_map(char::escape_debug).collect();
    if letters.next().is_some() { short + "..." } else { short }
}
