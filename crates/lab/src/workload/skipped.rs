//! Lines and messages of a query file that are no query: counted by reason, the first of them kept.

use crate::limits::{SKIPPED_SHOWN_MAX, WORD_SHOWN_MAX};
use std::collections::BTreeMap;
use std::fmt;

/// Why something of a query file is no query.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoQuery {
    /// A line with a name alone.
    NoType,
    /// A type that nobody knows.
    UnknownType,
    /// A name that no message can have.
    BadName,
    /// A third column that the dialect does not have.
    BadColumn,
    /// The query would be longer than queries may be.
    TooLong,
    /// A message that is not one of a query.
    BadMessage,
    /// The file ends within a message.
    CutShort,
}

impl NoQuery {
    /// What it means, for people.
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

/// What was skipped of a query file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    counts: BTreeMap<NoQuery, u64>,
    /// The first of them, each with its place and what is wrong.
    first: Vec<String>,
}

impl Skipped {
    pub(super) fn add(&mut self, reason: NoQuery, place: impl FnOnce() -> String) {
        *self.counts.entry(reason).or_default() += 1;
        if self.first.len() < SKIPPED_SHOWN_MAX {
            self.first.push(place());
        }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }
}

impl fmt::Display for Skipped {
    /// Lines for a terminal; nothing if nothing was skipped.
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

/// A word of a file as it can be shown: no control characters, and not all of a long one.
pub(super) fn shown(word: &str) -> String {
    let mut letters = word.chars();
    let short: String = letters.by_ref().take(WORD_SHOWN_MAX).flat_map(char::escape_debug).collect();
    if letters.next().is_some() { short + "..." } else { short }
}
