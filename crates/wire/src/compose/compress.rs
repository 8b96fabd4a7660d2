//! The names written so far, for compression (RFC 1035 4.1.4).
//!
//! A bounded table with the offsets of names and their suffixes in the message. An entry is compared only with a suffix
//! of the same length, so a name costs at most one comparison per entry.

use crate::limits::{COMPRESSION_ENTRIES_MAX, HEADER_BYTES, POINTER_TARGET_MAX};
use crate::name::NameRef;
use crate::words::{first_lower_word, last_word};

/// Whether a pointer may lead to a name that differs in case (RFC 4343 4.1 allows it and describes the drawbacks).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Case {
    /// No: the receiver reads the exact bytes of the name.
    Kept,
    /// Yes: the receiver may read the case of an earlier name, such as the question.
    Ignored,
}

/// The offsets of names and their suffixes in the message so far.
pub(super) struct SentNames {
    count: usize,
    /// Bytes of the question's name, which comes first; 0 without a question. Most responses have no other name, so its
    /// suffixes are added when the first other name comes.
    qname_len: usize,
    /// Hashes that distinguish most suffixes; see [`suffix_hash`].
    hashes: [u32; COMPRESSION_ENTRIES_MAX],
    offsets: [u16; COMPRESSION_ENTRIES_MAX],
}

impl SentNames {
    pub(super) const fn new() -> Self {
        let (hashes, offsets) = ([0; COMPRESSION_ENTRIES_MAX], [0; COMPRESSION_ENTRIES_MAX]);
        Self { count: 0, qname_len: 0, hashes, offsets }
    }

    /// Clears the table, and notes a question's name of this length after the header.
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

    /// Finds the longest suffix of `name` in the message. Returns the number of bytes before the suffix, and its offset
    /// in `message`. Without one, all bytes except the root label, and `None`.
    pub(super) fn find(&mut self, message: &[u8], name: NameRef<'_>, case: Case) -> (usize, Option<u16>) {
        let bytes = name.as_bytes();
        // Most owners are the name of the question. A pointer to the root would be longer than the root.
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
            let hash = suffix_hash(end, last, bytes.len());
            for (known, &offset) in self.hashes[..self.count].iter().zip(&self.offsets) {
                if *known == hash && is_at(message, offset, end, case) {
                    return (at, Some(offset));
                }
            }
            at += 1 + bytes[at] as usize;
        }
        (at, None)
    }

    /// Adds the suffixes of `name` that start within its first `literal` bytes. The name was written at `offset`.
    pub(super) fn remember(&mut self, name: NameRef<'_>, literal: usize, offset: usize) {
        let bytes = name.as_bytes();
        let (mut at, last) = (0, last_word(bytes));
        while at < literal && self.count < COMPRESSION_ENTRIES_MAX && offset + at <= POINTER_TARGET_MAX {
            self.hashes[self.count] = suffix_hash(&bytes[at..], last, bytes.len());
            self.offsets[self.count] = (offset + at) as u16;
            self.count += 1;
            at += 1 + bytes[at] as usize;
        }
    }
}

/// Hashes the length and the first word of a suffix, without case. `last` is the last word of the name, which has
/// `byte_count` bytes.
#[inline]
fn suffix_hash(end: &[u8], last: u64, byte_count: usize) -> u32 {
    // An odd number with random bits: each byte affects the upper bits of the product.
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = first_lower_word(end, last, byte_count).wrapping_mul(MIX) >> 32;
    mixed as u32 & !0xFF | end.len() as u32
}

/// Whether the name at `offset` of the message equals `end`. All pointers there were written by this composer.
fn is_at(message: &[u8], offset: u16, mut end: &[u8], case: Case) -> bool {
    let mut at = offset as usize;
    // Most equal names are equal in case too, and uncompressed.
    if message.get(at..at + end.len()) == Some(end) {
        return true;
    }
    loop {
        match message.get(at..) {
            Some([high, low, ..]) if *high >= 0xC0 => {
                let target = usize::from(high & 0x3F) << 8 | usize::from(*low);
                // Pointers always go back. This check bounds the loop even if one did not.
                if target >= at {
                    return false;
                }
                at = target;
            }
            Some(rest @ [len, ..]) => {
                let len = 1 + *len as usize;
                let (Some(label), Some((own_label, after))) = (rest.get(..len), end.split_at_checked(len)) else {
                    return false;
                };
                let is_same = match case {
                    Case::Kept => label == own_label,
                    Case::Ignored => label.eq_ignore_ascii_case(own_label),
                };
                if !is_same {
                    return false;
                }
                if len == 1 {
                    return after.is_empty();
                }
                (end, at) = (after, at + len);
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

    /// A simple second implementation of the table, to compare with.
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

        /// The name as the receiver reads it, with the case of the name that the pointer leads to.
        fn read(&self, name: &Name, (literal, target): (usize, Option<u16>)) -> Name {
            let known = self.0.iter().find(|known| Some(known.1) == target);
            let end = known.map_or(&[0][..], |(end, _)| end);
            let bytes = [&name.as_bytes()[..literal], end].concat();
            NameRef::from_bytes(&bytes).unwrap().to_name()
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

    /// Names of few labels, so that many share a suffix. Longer ones have the same first word.
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
                // The question's name takes precedence over all suffixes, even if it differs in case.
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
