//! Counts of checked answers.

use serde::{Deserialize, Serialize};

/// Checked answers among the answered queries of an interval, and wrong ones by their first difference.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckCounts {
    /// Checked answers.
    pub checked: u64,
    /// Of these: answers to questions without a known answer.
    pub unknown: u64,
    /// Of these: answers with another RCODE.
    pub rcode: u64,
    /// Of these: answers with another answer section.
    pub answer: u64,
    /// Of these: answers with another authority section.
    pub authority: u64,
    /// Of these: answers that cannot be parsed.
    pub unreadable: u64,
}

impl CheckCounts {
    /// Counts a wrong answer.
    pub fn count(&mut self, difference: Difference) {
        *match difference {
            Difference::Rcode => &mut self.rcode,
            Difference::Answer => &mut self.answer,
            Difference::Authority => &mut self.authority,
            Difference::Unreadable => &mut self.unreadable,
        } += 1;
    }

    /// Number of wrong answers.
    #[must_use]
    pub const fn wrong(&self) -> u64 {
        self.rcode + self.answer + self.authority + self.unreadable
    }

    /// The estimated number of correct answers, given the share of wrong ones among checked answers.
    #[must_use]
    pub fn right_of(&self, answers: u64) -> u64 {
        if self.wrong() == 0 {
            return answers;
        }
        let wrong = answers as f64 * self.wrong() as f64 / self.checked.max(1) as f64;
        answers.saturating_sub(wrong.round() as u64)
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.checked += other.checked;
        self.unknown += other.unknown;
        self.rcode += other.rcode;
        self.answer += other.answer;
        self.authority += other.authority;
        self.unreadable += other.unreadable;
    }

    /// The number of wrong answers by kind.
    #[must_use]
    pub const fn kinds(&self) -> [(&'static str, u64); 4] {
        [
            ("RCODE", self.rcode),
            ("answer section", self.answer),
            ("authority section", self.authority),
            ("unreadable", self.unreadable),
        ]
    }

    /// Wrong answers as text, for example `3 with another RCODE, 1 unreadable`.
    #[must_use]
    pub fn describe(&self) -> String {
        let parts = self.kinds().into_iter().filter(|(_, count)| *count > 0).map(|(kind, count)| match kind {
            "unreadable" => format!("{count} unreadable"),
            _ => format!("{count} with another {kind}"),
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

impl<'a> std::iter::Sum<&'a Self> for CheckCounts {
    fn sum<I: Iterator<Item = &'a Self>>(parts: I) -> Self {
        let mut sum = Self::default();
        parts.for_each(|part| sum.add(part));
        sum
    }
}

/// The first part that differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// The RCODE.
    Rcode,
    /// The answer section.
    Answer,
    /// The authority section.
    Authority,
    /// The message cannot be parsed.
    Unreadable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_scaled_to_the_whole() {
        let checked = CheckCounts { checked: 100, rcode: 1, answer: 1, ..CheckCounts::default() };
        assert_eq!((checked.right_of(10_000), CheckCounts::default().right_of(7)), (9_800, 7));
        assert_eq!(checked.describe(), "1 with another RCODE, 1 with another answer section");
        assert_eq!([checked, checked].iter().sum::<CheckCounts>().wrong(), 4);
    }
}
