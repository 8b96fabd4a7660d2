//! Names sent before, for compression (RFC 1035 4.1.4).
//!
//! A bounded table of places where a name, or the end of one, stands in the message. An entry is compared only with an
//! end of its own length, so a name costs at most one comparison an entry, whatever the names are.

use crate::limits::{COMPRESSION_ENTRIES_MAX, HEADER_BYTES, POINTER_TARGET_MAX};
use crate::name::NameRef;
use crate::words::{first_lower_word, last_word};

/// Whether a pointer may lead to a name that differs in case (RFC 4343 4.1 allows it, and says what it costs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Case {
    /// No: what the receiver reads has the bytes of the name that was written.
    Kept,
    /// Yes: the receiver may read the case of a name that was written before, say of the question.
    Ignored,
}

/// Where names and their ends stand in the message so far.
pub(super) struct SentNames {
    count: usize,
    /// Bytes of the question's name, which stands first; 0 without a question. Most responses have no other name, so
    /// its ends are noted when one comes that is not it.
    qname_len: usize,
    /// What tells most ends apart: see [`mark_of`].
    marks: [u32; COMPRESSION_ENTRIES_MAX],
    offsets: [u16; COMPRESSION_ENTRIES_MAX],
}

impl SentNames {
    pub(super) const fn new() -> Self {
        let (marks, offsets) = ([0; COMPRESSION_ENTRIES_MAX], [0; COMPRESSION_ENTRIES_MAX]);
        Self { count: 0, qname_len: 0, marks, offsets }
    }

    /// Forgets all, and notes that a question's name of this length stands behind the header.
    pub(super) const fn restart(&mut self, qname_len: usize) {
        self.count = 0;
        self.qname_len = qname_len;
    }

    pub(super) const fn qname_len(&self) -> usize {
        self.qname_len
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) const fn truncate(&mut self, count: usize) {
        self.count = count;
    }

    /// The longest end of `name` that was sent: how many bytes stand before it, and where it stands in `message`.
    /// Without one, all bytes but the root label, and `None`.
    pub(super) fn find(&mut self, message: &[u8], name: NameRef<'_>, case: Case) -> (usize, Option<u16>) {
        let bytes = name.as_bytes();
        // Most owners are the name of the question. The root is no longer than a pointer to it.
        let qname = message.get(HEADER_BYTES..HEADER_BYTES + self.qname_len).unwrap_or_default();
        if qname == bytes && bytes.len() > 1 {
            return (0, Some(HEADER_BYTES as u16));
        }
        if self.count == 0
            && let Ok((qname, _)) = NameRef::split_from(qname)
        {
            self.remember(qname, qname.as_bytes().len() - 1, HEADER_BYTES);
        }
        let (mut at, last) = (0, last_word(bytes));
        while bytes[at] != 0 {
            let end = &bytes[at..];
            let mark = mark_of(end, last, bytes.len());
            for (known, &offset) in self.marks[..self.count].iter().zip(&self.offsets) {
                if *known == mark && stands_at(message, offset, end, case) {
                    return (at, Some(offset));
                }
            }
            at += 1 + bytes[at] as usize;
        }
        (at, None)
    }

    /// Remembers the ends of `name` that start within its first `literal` bytes; the name was written at `offset`.
    pub(super) fn remember(&mut self, name: NameRef<'_>, literal: usize, offset: usize) {
        let bytes = name.as_bytes();
        let (mut at, last) = (0, last_word(bytes));
        while at < literal && self.count < COMPRESSION_ENTRIES_MAX && offset + at <= POINTER_TARGET_MAX {
            self.marks[self.count] = mark_of(&bytes[at..], last, bytes.len());
            self.offsets[self.count] = (offset + at) as u16;
            self.count += 1;
            at += 1 + bytes[at] as usize;
        }
    }
}

/// The length of an end of a name, and what its first bytes come to without case. `last` is the last word of the name,
/// which has so many bytes.
#[inline]
fn mark_of(end: &[u8], last: u64, byte_count: usize) -> u32 {
    // Odd, and its bits are as good as random: each byte has a part in the upper ones of the product.
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = first_lower_word(end, last, byte_count).wrapping_mul(MIX) >> 32;
    mixed as u32 & !0xFF | end.len() as u32
}

/// Whether the name at `offset` of the message, whose pointers are our own, is `end`.
fn stands_at(message: &[u8], offset: u16, mut end: &[u8], case: Case) -> bool {
    let mut at = offset as usize;
    // Most that are equal are so byte for byte, and stand there whole.
    if message.get(at..at + end.len()) == Some(end) {
        return true;
    }
    loop {
        match message.get(at..) {
            Some([high, low, ..]) if *high >= 0xC0 => {
                let target = usize::from(high & 0x3F) << 8 | usize::from(*low);
                // Ours always go back; this holds even if they did not.
                if target >= at {
                    return false;
                }
                at = target;
            }
            Some(rest @ [len, ..]) => {
                let len = 1 + *len as usize;
                let (Some(label), Some((ours, behind))) = (rest.get(..len), end.split_at_checked(len)) else {
                    return false;
                };
                let is_same = match case {
                    Case::Kept => label == ours,
                    Case::Ignored => label.eq_ignore_ascii_case(ours),
                };
                if !is_same {
                    return false;
                }
                if len == 1 {
                    return behind.is_empty();
                }
                (end, at) = (behind, at + len);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use proptest::prelude::*;

    /// What is remembered, and how an end is found, said as plainly as can be.
    #[derive(Default)]
    struct Plain(Vec<(Vec<u8>, u16)>);

    impl Plain {
        fn remember(&mut self, name: &Name, literal: usize, offset: usize) {
            let mut end = name.as_ref();
            while let Some(parent) = end.parent() {
                let at = name.as_bytes().len() - end.as_bytes().len();
                if at < literal && self.0.len() < COMPRESSION_ENTRIES_MAX && offset + at <= POINTER_TARGET_MAX {
                    self.0.push((end.as_bytes().to_vec(), (offset + at) as u16));
                }
                end = parent;
            }
        }

        /// As the receiver reads a name that was written so: the case of what a pointer leads to may be another.
        fn read(&self, name: &Name, (literal, target): (usize, Option<u16>)) -> Name {
            let known = self.0.iter().find(|known| Some(known.1) == target);
            let end = known.map_or(&[0][..], |(end, _)| end);
            let bytes = [&name.as_bytes()[..literal], end].concat();
            NameRef::from_octets(&bytes).unwrap().to_name()
        }

        fn find(&self, name: &Name, case: Case) -> (usize, Option<u16>) {
            let mut end = name.as_ref();
            while let Some(parent) = end.parent() {
                let is_it = |known: &&(Vec<u8>, u16)| match case {
                    Case::Kept => known.0 == end.as_bytes(),
                    Case::Ignored => known.0.eq_ignore_ascii_case(end.as_bytes()),
                };
                if let Some((_, offset)) = self.0.iter().find(is_it) {
                    return (name.as_bytes().len() - end.as_bytes().len(), Some(*offset));
                }
                end = parent;
            }
            (name.as_bytes().len() - 1, None)
        }
    }

    /// Names of few labels, so that many have an end in common; the longer ones have the same first word.
    fn names() -> impl Strategy<Value = Name> {
        let label =
            prop::sample::select(vec!["a", "A", "b", "ns1", "NS1", "Example", "example", "longlabel1", "longlabel2"]);
        prop::collection::vec(label, 1..5).prop_map(|labels| labels.join(".").parse().unwrap())
    }

    proptest! {
        #[test]
        fn compression_finds_the_longest_earlier_suffix(
            qname in names(), others in prop::collection::vec((names(), any::<bool>()), 0..60)
        ) {
            let mut message = vec![0; HEADER_BYTES];
            message.extend_from_slice(qname.as_bytes());
            let (mut sent, mut plain) = (SentNames::new(), Plain::default());
            sent.restart(qname.as_bytes().len());
            plain.remember(&qname, qname.as_bytes().len() - 1, HEADER_BYTES);
            for (name, is_kept) in &others {
                let case = if *is_kept { Case::Kept } else { Case::Ignored };
                let found = sent.find(&message, name.as_ref(), case);
                // The question's name itself is looked at before all ends, also before one that differs in case.
                let expected = if *name.as_bytes() == *qname.as_bytes() {
                    (0, Some(HEADER_BYTES as u16))
                } else {
                    plain.find(name, case)
                };
                prop_assert_eq!(found, expected, "{} among {} others", name, others.len());
                let (literal, target) = found;
                let at = message.len();
                message.extend_from_slice(&name.as_bytes()[..literal]);
                match target {
                    Some(target) => message.extend_from_slice(&(0xC000 | target).to_be_bytes()),
                    None => message.push(0),
                }
                if literal > 0 {
                    sent.remember(name.as_ref(), literal, at);
                    plain.remember(&plain.read(name, found), literal, at);
                }
            }
        }
    }
}
