//! Pseudonyms of labels. The same label always has the same pseudonym, and two labels never share one.
//!
//! If lengths are kept, a label and its pseudonym have the same length and alphabet. The method is a Feistel network
//! over the positions of the bytes in the alphabet. It repeats until the result has the same kind as the label ("cycle
//! walking"). So a host name becomes a host name, and a label with an underscore inside keeps one.

use super::key::{BLOCK_BYTES, Cipher, Key};
use crate::limits::PSEUDONYMS_MAX;
use std::collections::BTreeMap;

/// What to do with the lengths of labels.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LabelLengths {
    /// Keep them. Messages keep their sizes, but short and long labels can be told apart.
    #[default]
    Keep,
    /// Make all labels equally long.
    Hide,
}

#[derive(Debug)]
pub(super) struct Labels {
    cipher: Cipher,
    lengths: LabelLengths,
    /// For labels of one byte: the permutation of each alphabet.
    single: [Vec<u8>; Kind::ALL.len()],
    /// A bounded cache of pseudonyms.
    known: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Kinds of labels in lower case. Labels with a leading underscore are handled in `names`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Letters, digits and hyphens, without a hyphen at an end (RFC 1123 2.1).
    Host,
    /// The same with underscores, or with hyphens at an end.
    Underscored,
    /// All others.
    Bytes,
}

const ALPHABET: &[u8; 38] = b"abcdefghijklmnopqrstuvwxyz0123456789-_";
/// Number of bytes except upper-case letters.
const BYTES: u16 = 256 - 26;
/// Rounds of the network: more than the proofs require for halves of one byte.
const ROUNDS: u8 = 12;
/// Length of a label whose length is hidden: 65 bits, enough to avoid collisions in a trace.
const HIDDEN_BYTES: usize = 13;
const HIDDEN_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl Kind {
    const ALL: [Self; 3] = [Self::Host, Self::Underscored, Self::Bytes];

    fn of(label: &[u8]) -> Option<Self> {
        if label.first().is_none_or(|&byte| byte == b'_') {
            return None;
        }
        if !label.iter().all(|byte| ALPHABET.contains(byte)) {
            return Some(Self::Bytes);
        }
        let is_host = !label.contains(&b'_') && !label.starts_with(b"-") && !label.ends_with(b"-");
        Some(if is_host { Self::Host } else { Self::Underscored })
    }

    /// Size of the alphabet.
    const fn radix(self) -> u16 {
        match self {
            Self::Host => ALPHABET.len() as u16 - 1,
            Self::Underscored => ALPHABET.len() as u16,
            Self::Bytes => BYTES,
        }
    }

    /// Position of a byte in the alphabet.
    fn index_of(self, byte: u8) -> u8 {
        match self {
            Self::Bytes if byte > b'Z' => byte - 26,
            Self::Bytes => byte,
            _ => ALPHABET.iter().position(|&letter| letter == byte).unwrap_or_default() as u8,
        }
    }

    /// The byte at a position of the alphabet.
    fn byte_at(self, index: u8) -> u8 {
        match self {
            Self::Bytes if index >= b'A' => index + 26,
            Self::Bytes => index,
            _ => ALPHABET[usize::from(index)],
        }
    }
}

/// Purposes of blocks.
const ROUND: u8 = 1;
const SINGLE: u8 = 2;
const HIDDEN: u8 = 3;

impl Labels {
    pub(super) fn new(key: &Key, lengths: LabelLengths) -> Self {
        let cipher = key.derived(b"catlab: labels 1");
        let single = Kind::ALL.map(|kind| {
            let mut indexes: Vec<u8> = (0..kind.radix()).map(|index| index as u8).collect();
            indexes.sort_by_key(|&index| cipher.digest([SINGLE, kind as u8, 0, 0], &[index]));
            indexes
        });
        Self { cipher, lengths, single, known: BTreeMap::new() }
    }

    /// Returns the pseudonym of a label in lower case without a leading underscore. The empty label has none.
    pub(super) fn label(&mut self, label: &[u8]) -> &[u8] {
        if !self.known.contains_key(label) {
            if self.known.len() >= PSEUDONYMS_MAX {
                self.known.clear();
            }
            let pseudonym = match self.lengths {
                LabelLengths::Keep => self.permuted(label),
                LabelLengths::Hide => self.hidden(label),
            };
            self.known.insert(label.to_vec(), pseudonym);
        }
        &self.known[label]
    }

    fn hidden(&self, label: &[u8]) -> Vec<u8> {
        let bits = u128::from_be_bytes(self.cipher.digest([HIDDEN, 0, 0, 0], label));
        (0..HIDDEN_BYTES).map(|at| HIDDEN_ALPHABET[(bits >> (5 * at)) as usize & 31]).collect()
    }

    fn permuted(&self, label: &[u8]) -> Vec<u8> {
        let Some(kind) = Kind::of(label) else { return label.to_vec() };
        let mut indexes: Vec<u8> = label.iter().map(|&byte| kind.index_of(byte)).collect();
        loop {
            self.permute(kind, &mut indexes);
            let pseudonym: Vec<u8> = indexes.iter().map(|&index| kind.byte_at(index)).collect();
            // This ends: the permutation returns to the label itself, which has the right kind.
            if Kind::of(&pseudonym) == Some(kind) {
                return pseudonym;
            }
        }
    }

    /// A permutation of all strings of this length over the alphabet of the kind.
    fn permute(&self, kind: Kind, indexes: &mut [u8]) {
        if let [index] = indexes {
            *index = self.single[kind as usize][usize::from(*index)];
            return;
        }
        let length = indexes.len() as u8;
        let (left, right) = indexes.split_at_mut(indexes.len() / 2);
        for round in 0..ROUNDS {
            let (changed, other) = if round.is_multiple_of(2) { (&mut *left, &*right) } else { (&mut *right, &*left) };
            let seed = self.cipher.digest([ROUND, kind as u8, length, round], other);
            for (counter, part) in changed.chunks_mut(BLOCK_BYTES / 2).enumerate() {
                let mut block = seed;
                block[0] ^= counter as u8 + 1;
                let block = self.cipher.block(block);
                for (index, offset) in part.iter_mut().zip(block.as_chunks::<2>().0) {
                    let offset = u16::from_be_bytes(*offset) % kind.radix();
                    *index = ((u16::from(*index) + offset) % kind.radix()) as u8;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn labels(lengths: LabelLengths) -> Labels {
        Labels::new(&Key::new([7; 32]), lengths)
    }

    #[test]
    fn pseudonyms_of_short_labels_are_distinct_and_of_the_same_kind() {
        let mut labels = labels(LabelLengths::Keep);
        let bytes = || (0..=u8::MAX).filter(|byte| !byte.is_ascii_uppercase());
        let single: Vec<Vec<u8>> = bytes().map(|byte| vec![byte]).collect();
        let double: Vec<Vec<u8>> = bytes().flat_map(|a| bytes().map(move |b| vec![a, b])).collect();
        for all in [single, double] {
            let all: Vec<_> = all.into_iter().filter(|label| label[0] != b'_').collect();
            let pseudonyms: BTreeSet<Vec<u8>> = all
                .iter()
                .map(|label| {
                    let pseudonym = labels.label(label).to_vec();
                    assert_eq!(Kind::of(&pseudonym), Kind::of(label), "{label:?} {pseudonym:?}");
                    assert_eq!(pseudonym.len(), label.len());
                    pseudonym
                })
                .collect();
            assert_eq!(pseudonyms.len(), all.len());
        }
    }

    #[test]
    fn a_pseudonym_depends_on_the_key_and_on_every_byte() {
        let mut own = labels(LabelLengths::Keep);
        let mut others = Labels::new(&Key::new([8; 32]), LabelLengths::Keep);
        let long = [b'a'; 63];
        assert_ne!(own.label(&long).to_vec(), others.label(&long));
        let first = own.label(&long).to_vec();
        for at in 0..long.len() {
            let mut changed = long;
            changed[at] = b'b';
            let pseudonym = own.label(&changed).to_vec();
            let same = pseudonym.iter().zip(&first).filter(|(a, b)| a == b).count();
            assert!(same < 20, "{at}: {same}");
        }
    }

    #[test]
    fn hidden_labels_have_equal_lengths() {
        let mut labels = labels(LabelLengths::Hide);
        let pseudonyms: BTreeSet<Vec<u8>> =
            [&b"a"[..], b"aa", b"example", &[0xFF; 63]].iter().map(|label| labels.label(label).to_vec()).collect();
        assert!(pseudonyms.len() == 4 && pseudonyms.iter().all(|pseudonym| pseudonym.len() == HIDDEN_BYTES));
    }

    proptest! {
        #[test]
        fn pseudonyms_are_labels_of_the_same_kind(
            label in prop::collection::vec(any::<u8>(), 1..=63),
            other in any::<[u8; 32]>(),
        ) {
            let label = label.to_ascii_lowercase();
            prop_assume!(label[0] != b'_');
            let mut labels = Labels::new(&Key::new(other), LabelLengths::Keep);
            let pseudonym = labels.label(&label).to_vec();
            prop_assert_eq!(pseudonym.len(), label.len());
            prop_assert_eq!(Kind::of(&pseudonym), Kind::of(&label));
            prop_assert_eq!(labels.label(&label), &pseudonym);
        }
    }
}
