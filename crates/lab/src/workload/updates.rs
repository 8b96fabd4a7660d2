//! Updates that are drawn: each gives a name another value.

use super::Generator;
use crate::limits::QUERY_OCTETS_MAX;
use wire::builder::MessageBuilder;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// Seconds that drawn records may be kept.
const TTL_S: u32 = 60;

/// Turns drawn questions into updates: the RRset of the question is replaced by one record with a new value, so that
/// each update is effective (RFC 2136 2.5.1, 2.5.2).
#[derive(Clone, Debug)]
pub struct Updates {
    apex: Name,
    questions: Generator,
    /// Makes each value new.
    count: u64,
    question: Vec<u8>,
}

impl Updates {
    /// Updates of the zone `apex` for the names and types that `questions` draws.
    ///
    /// # Errors
    /// A sentence, when it draws a type other than A, AAAA and TXT, or names outside the zone.
    pub fn new(apex: Name, questions: Generator) -> Result<Self, String> {
        let mut updates = Self { apex, questions, count: 0, question: vec![0; QUERY_OCTETS_MAX] };
        if let Some(rtype) = updates.questions.rtypes().find(|&rtype| value(rtype, 0).is_none()) {
            return Err(format!("updates are drawn for A, AAAA and TXT, not for {rtype:?}"));
        }
        let (name, _) = updates.draw().ok_or("the pattern gives no name")?;
        if name.as_ref().is_at_or_below(updates.apex.as_ref()) {
            return Ok(updates);
        }
        Err(format!("{name} is not in the zone {}; the pattern must end with the zone's name", updates.apex))
    }

    /// Another stream of the same distribution, for worker `index`.
    #[must_use]
    pub fn fork(&self, index: u64) -> Self {
        // Values of two workers differ in their upper bits.
        Self { questions: self.questions.fork(index), count: index << 28, ..self.clone() }
    }

    /// Writes the next update and gives its length.
    pub(super) fn fill(&mut self, out: &mut [u8]) -> usize {
        self.count += 1;
        let Some((owner, rtype)) = self.draw() else { return 0 };
        let rdata = value(rtype, self.count).unwrap_or_default();
        let message = MessageBuilder::update(0, self.apex.as_ref())
            .delete_rrset(owner.as_ref(), rtype)
            .add(owner.as_ref(), rtype, TTL_S, &rdata)
            .build();
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
        // The prefix of documentation (RFC 3849).
        Rtype::AAAA => Some([&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0][..], &count.to_be_bytes()].concat()),
        Rtype::TXT => {
            let text = count.to_string();
            Some([&[text.len() as u8], text.as_bytes()].concat())
        }
        _ => None,
    }
}
