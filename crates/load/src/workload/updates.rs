//! Generated updates. Each sets a new value for one or more names.

use super::Generator;
use crate::limits::QUERY_BYTES_MAX;
use wire::builder::MessageBuilder;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// TTL of generated records in seconds.
const TTL_S: u32 = 60;

/// Bytes of two records per name, without their owners: the fixed parts and the longest value.
const NAME_BESIDES_BYTES: usize = 2 * 10 + 21;
/// Bytes of an update besides these records: header, zone, and a signature.
const BESIDES_BYTES: usize = 1_024;

/// Turns generated questions into updates. The RRset of the question is replaced by one record with a new value, so
/// that each update is effective (RFC 2136 2.5.1, 2.5.2). An update may have several names.
#[derive(Clone, Debug)]
pub struct Updates {
    apex: Name,
    questions: Generator,
    names_each: u16,
    /// Makes each value different.
    count: u64,
    question: Vec<u8>,
}

impl Updates {
    /// Updates of the zone `apex` for the names and types of `questions`, with `names_each` names per update.
    ///
    /// # Errors
    /// A description of the problem: a type other than A, AAAA and TXT, names outside the zone, or too many names for
    /// one update.
    pub fn new(apex: Name, questions: Generator, names_each: u16) -> Result<Self, String> {
        let mut updates = Self { apex, questions, names_each, count: 0, question: vec![0; QUERY_BYTES_MAX] };
        if let Some(rtype) = updates.questions.rtypes().find(|&rtype| value(rtype, 0).is_none()) {
            return Err(format!("updates are drawn for A, AAAA and TXT, not for {rtype:?}"));
        }
        let (name, _) = updates.draw().ok_or("the pattern gives no name")?;
        if name.as_ref().is_at_or_below(updates.apex.as_ref()) {
            let names_max = (QUERY_BYTES_MAX - BESIDES_BYTES) / (2 * name.as_bytes().len() + NAME_BESIDES_BYTES);
            return if usize::from(names_each) <= names_max.max(1) {
                Ok(updates)
            } else {
                Err(format!("{names_each} names in an update; there is room for {names_max}"))
            };
        }
        Err(format!("{name} is not in the zone {}; the pattern must end with the zone's name", updates.apex))
    }

    /// The same distribution with another random stream, for worker `index`.
    #[must_use]
    pub fn fork(&self, index: u64) -> Self {
        // An address has 24 bits for values. Workers divide them from the highest bit down, so more workers have fewer
        // values each.
        let first = (index as u32).reverse_bits() >> 8;
        Self { questions: self.questions.fork(index), count: first.into(), ..self.clone() }
    }

    /// Writes the next update. Returns its length.
    pub(super) fn fill(&mut self, out: &mut [u8]) -> usize {
        let mut update = MessageBuilder::update(0, self.apex.as_ref());
        for _ in 0..self.names_each {
            self.count += 1;
            let Some((owner, rtype)) = self.draw() else { return 0 };
            let rdata = value(rtype, self.count).unwrap_or_default();
            let longer = update.byte_count() + 2 * owner.as_bytes().len() + NAME_BESIDES_BYTES;
            if longer + BESIDES_BYTES > QUERY_BYTES_MAX {
                // This name is too long for the remaining room.
                break;
            }
            update = update.delete_rrset(owner.as_ref(), rtype).add(owner.as_ref(), rtype, TTL_S, &rdata);
        }
        let message = update.build();
        out[..message.len()].copy_from_slice(&message);
        message.len()
    }

    fn draw(&mut self) -> Option<(Name, Rtype)> {
        let length = self.questions.fill(&mut self.question);
        let (name, rest) = NameRef::split_from(self.question.get(12..length)?).ok()?;
        Some((name.to_name(), Rtype(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]))))
    }
}

fn value(rtype: Rtype, count: u64) -> Option<Vec<u8>> {
    match rtype {
        Rtype::A => Some([&[10][..], &count.to_be_bytes()[5..]].concat()),
        // The documentation prefix (RFC 3849).
        Rtype::AAAA => Some([&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0][..], &count.to_be_bytes()].concat()),
        Rtype::TXT => {
            let text = count.to_string();
            Some([&[text.len() as u8], text.as_bytes()].concat())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Extras, NameDistribution, Popularity};
    use std::collections::BTreeSet;
    use wire::parse::{Message, Section};

    fn updates(names_each: u16) -> Result<Updates, String> {
        let (pattern, popularity) = ("q{n}.example.".to_owned(), Popularity::Uniform);
        let names = NameDistribution { pattern, count: 1_000, popularity, nxdomain_share: 0.0 };
        let questions = Generator::new(names, &[(Rtype::A, 1.0)], Extras::default(), 7).unwrap();
        Updates::new("example.".parse().unwrap(), questions, names_each)
    }

    #[test]
    fn an_update_gives_each_of_its_names_a_new_value() {
        let (mut updates, mut out, mut values) = (updates(10).unwrap(), vec![0; QUERY_BYTES_MAX], BTreeSet::new());
        for _ in 0..20 {
            let bytes = updates.fill(&mut out);
            let message = Message::parse(&out[..bytes]).unwrap();
            let records: Vec<_> = message.records(Section::Authority).map(Result::unwrap).collect();
            assert_eq!(records.len(), 20);
            values.extend(records.iter().skip(1).step_by(2).map(|record| record.rdata().to_vec()));
        }
        assert_eq!(values.len(), 200);
    }

    #[test]
    fn workers_do_not_write_the_same_values() {
        let (updates, mut out, mut values) = (updates(1).unwrap(), vec![0; QUERY_BYTES_MAX], BTreeSet::new());
        for index in 0..64 {
            let mut share = updates.fork(index);
            for _ in 0..10 {
                let bytes = share.fill(&mut out);
                let message = Message::parse(&out[..bytes]).unwrap();
                values
                    .extend(message.records(Section::Authority).nth(1).map(|record| record.unwrap().rdata().to_vec()));
            }
        }
        assert_eq!(values.len(), 640);
    }

    #[test]
    fn more_names_than_there_is_room_for_are_refused() {
        assert!(updates(30).is_ok());
        assert!(updates(500).unwrap_err().contains("there is room for"));
    }
}
