//! Sends each question once to a cold resolver, and captures its upstream traffic. Zones are rebuilt from it.

mod packets;
mod resolver;

pub use packets::PacketFile;
pub use resolver::{HarvestCounts, ask};

use crate::limits::HARVEST_QUESTIONS_MAX;
use std::collections::HashSet;
use wire::name::Name;
use wire::number::{Class, Rtype};
use wire::parse::FirstQuestion;

/// Distinct questions in order of appearance.
#[derive(Debug, Default)]
pub struct Questions {
    known: HashSet<(Name, Rtype)>,
    list: Vec<(Name, Rtype)>,
    /// Messages without a question of class IN. They are left out.
    pub without: u64,
    /// Questions above [`HARVEST_QUESTIONS_MAX`]. They are left out.
    pub beyond: u64,
}

impl Questions {
    /// Adds the question of a query, ignoring the case of its name.
    pub fn add(&mut self, message: &[u8]) {
        match FirstQuestion::read(message) {
            Ok(FirstQuestion { qname, qtype, qclass: Class::IN, .. })
                if !matches!(qtype, Rtype::AXFR | Rtype::IXFR) =>
            {
                let question = (qname.to_canonical(), qtype);
                if self.known.contains(&question) {
                    return;
                }
                if self.list.len() == HARVEST_QUESTIONS_MAX {
                    self.beyond += 1;
                    return;
                }
                self.known.insert(question.clone());
                self.list.push(question);
            }
            _ => self.without += 1,
        }
    }

    /// All questions.
    #[must_use]
    pub fn list(&self) -> &[(Name, Rtype)] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::builder::MessageBuilder;

    #[test]
    fn a_question_counts_once_whatever_its_case() {
        let mut questions = Questions::default();
        for (text, rtype) in
            [("a.test.", Rtype::A), ("b.test.", Rtype::A), ("A.Test.", Rtype::A), ("a.test.", Rtype::NS)]
        {
            let name: Name = text.parse().unwrap();
            questions.add(&MessageBuilder::query(7, name.as_ref(), rtype).build());
        }
        questions.add(&[0; 12]);
        questions.add(&MessageBuilder::query(7, Name::root().as_ref(), Rtype::AXFR).build());
        let list: Vec<_> = questions.list().iter().map(|(name, rtype)| format!("{name} {}", rtype.0)).collect();
        assert_eq!(list, ["a.test. 1", "b.test. 1", "a.test. 2"]);
        assert_eq!((questions.without, questions.beyond), (2, 0));
    }
}
