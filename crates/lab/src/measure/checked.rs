//! Answers that were held against what is right.

use crate::answers::Difference;
use serde::{Deserialize, Serialize};

/// Of the answered queries of a time: how many answers were looked at, and how many of these were wrong, by what
/// differed first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Checked {
    /// Answers that were looked at.
    pub checked: u64,
    /// Of these: to questions of which no right answer is known.
    pub unknown: u64,
    /// Of these: with another RCODE.
    pub rcode: u64,
    /// Of these: with another answer section.
    pub answer: u64,
    /// Of these: with another authority section.
    pub authority: u64,
    /// Of these: that are no message to their end.
    pub unreadable: u64,
}

impl Checked {
    /// Notes a wrong answer.
    pub fn count(&mut self, difference: Difference) {
        *match difference {
            Difference::Rcode => &mut self.rcode,
            Difference::Answer => &mut self.answer,
            Difference::Authority => &mut self.authority,
            Difference::Unreadable => &mut self.unreadable,
        } += 1;
    }

    /// Those that were wrong.
    #[must_use]
    pub const fn wrong(&self) -> u64 {
        self.rcode + self.answer + self.authority + self.unreadable
    }

    /// How many of so many answers are right, by the share of wrong ones among those that were looked at.
    #[must_use]
    pub fn right_of(&self, answers: u64) -> u64 {
        if self.wrong() == 0 {
            return answers;
        }
        let wrong = answers as f64 * self.wrong() as f64 / self.checked.max(1) as f64;
        answers.saturating_sub(wrong.round() as u64)
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.checked += other.checked;
        self.unknown += other.unknown;
        self.rcode += other.rcode;
        self.answer += other.answer;
        self.authority += other.authority;
        self.unreadable += other.unreadable;
    }

    /// Kinds of wrong answers, and how many there are of each.
    #[must_use]
    pub const fn kinds(&self) -> [(&'static str, u64); 4] {
        [
            ("RCODE", self.rcode),
            ("answer section", self.answer),
            ("authority section", self.authority),
            ("unreadable", self.unreadable),
        ]
    }

    /// Kinds that occur, as a person reads them: `3 with another RCODE, 1 unreadable`.
    #[must_use]
    pub fn told(&self) -> String {
        let told = self.kinds().into_iter().filter(|(_, count)| *count > 0).map(|(kind, count)| match kind {
            "unreadable" => format!("{count} unreadable"),
            _ => format!("{count} with another {kind}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

impl<'a> std::iter::Sum<&'a Self> for Checked {
    fn sum<I: Iterator<Item = &'a Self>>(parts: I) -> Self {
        let mut sum = Self::default();
        parts.for_each(|part| sum.add(part));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stands_for_the_whole() {
        let checked = Checked { checked: 100, rcode: 1, answer: 1, ..Checked::default() };
        assert_eq!((checked.right_of(10_000), Checked::default().right_of(7)), (9_800, 7));
        assert_eq!(checked.told(), "1 with another RCODE, 1 with another answer section");
        assert_eq!([checked, checked].iter().sum::<Checked>().wrong(), 4);
    }
}
