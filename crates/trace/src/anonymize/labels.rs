//! Pseudonyms of labels: the same label has the same one, and no two labels have one pseudonym between them.
//!
//! Where lengths are kept, a label is one of all that have its length and its alphabet, and its pseudonym is another of
//! them: a Feistel network over the places of its bytes in the alphabet, run again until what comes out is of the same
//! kind ("cycle walking"). So a host name stays one, and a label with an underscore inside keeps one.

use super::key::{BLOCK_BYTES, Cipher, Key};
use crate::limits::PSEUDONYMS_MAX;
use std::collections::BTreeMap;

/// What becomes of the lengths of labels.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Lengths {
    /// They stay: messages have their sizes, and short labels are told from long ones.
    #[default]
    Keep,
    /// All are of one length.
    Hide,
}

#[derive(Debug)]
pub(super) struct Labels {
    cipher: Cipher,
    lengths: Lengths,
    /// For labels of one byte: where each place of the alphabet goes.
    single: [Vec<u8>; Kind::ALL.len()],
    /// Those that were asked for; when they are too many they are asked for anew.
    known: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Kinds of labels, in lower case. No label that begins with an underscore is among them: see `names`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Letters, digits and hyphens, none of these at an end (RFC 1123 2.1).
    Host,
    /// The same with underscores, or hyphens at an end.
    Underscored,
    /// Any other.
    Bytes,
}

const ALPHABET: &[u8; 38] = b"abcdefghijklmnopqrstuvwxyz0123456789-_";
/// Bytes without the upper-case letters.
const BYTES: u16 = 256 - 26;
/// Rounds of the network: more than its proofs want of halves of one byte.
const ROUNDS: u8 = 12;
/// Bytes of a label whose length is hidden: 65 bits, so that no two of a trace meet.
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

    /// How many bytes there are in its alphabet.
    const fn radix(self) -> u16 {
        match self {
            Self::Host => ALPHABET.len() as u16 - 1,
            Self::Underscored => ALPHABET.len() as u16,
            Self::Bytes => BYTES,
        }
    }

    /// Where an byte stands in its alphabet.
    fn place(self, byte: u8) -> u8 {
        match self {
            Self::Bytes if byte > b'Z' => byte - 26,
            Self::Bytes => byte,
            _ => ALPHABET.iter().position(|&letter| letter == byte).unwrap_or_default() as u8,
        }
    }

    /// Which byte stands there.
    fn byte(self, place: u8) -> u8 {
        match self {
            Self::Bytes if place >= b'A' => place + 26,
            Self::Bytes => place,
            _ => ALPHABET[usize::from(place)],
        }
    }
}

/// What blocks are drawn for.
const ROUND: u8 = 1;
const SINGLE: u8 = 2;
const HIDDEN: u8 = 3;

impl Labels {
    pub(super) fn new(key: &Key, lengths: Lengths) -> Self {
        let cipher = key.derived(b"catlab: labels 1");
        let single = Kind::ALL.map(|kind| {
            let mut places: Vec<u8> = (0..kind.radix()).map(|place| place as u8).collect();
            places.sort_by_key(|&place| cipher.digest([SINGLE, kind as u8, 0, 0], &[place]));
            places
        });
        Self { cipher, lengths, single, known: BTreeMap::new() }
    }

    /// The pseudonym of a label in lower case that does not begin with an underscore; an empty one has none.
    pub(super) fn label(&mut self, label: &[u8]) -> &[u8] {
        if !self.known.contains_key(label) {
            if self.known.len() >= PSEUDONYMS_MAX {
                self.known.clear();
            }
            let pseudonym = match self.lengths {
                Lengths::Keep => self.permuted(label),
                Lengths::Hide => self.hidden(label),
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
        let mut places: Vec<u8> = label.iter().map(|&byte| kind.place(byte)).collect();
        loop {
            self.permute(kind, &mut places);
            let pseudonym: Vec<u8> = places.iter().map(|&place| kind.byte(place)).collect();
            // The label itself is of its kind, and every walk comes back to where it began: this ends.
            if Kind::of(&pseudonym) == Some(kind) {
                return pseudonym;
            }
        }
    }

    /// One of the permutations of all strings of this length over the alphabet of the kind.
    fn permute(&self, kind: Kind, places: &mut [u8]) {
        if let [place] = places {
            *place = self.single[kind as usize][usize::from(*place)];
            return;
        }
        let length = places.len() as u8;
        let (left, right) = places.split_at_mut(places.len() / 2);
        for round in 0..ROUNDS {
            let (changed, other) = if round.is_multiple_of(2) { (&mut *left, &*right) } else { (&mut *right, &*left) };
            let seed = self.cipher.digest([ROUND, kind as u8, length, round], other);
            for (counter, part) in changed.chunks_mut(BLOCK_BYTES / 2).enumerate() {
                let mut block = seed;
                block[0] ^= counter as u8 + 1;
                let block = self.cipher.block(block);
                for (place, drawn) in part.iter_mut().zip(block.as_chunks::<2>().0) {
                    let drawn = u16::from_be_bytes(*drawn) % kind.radix();
                    *place = ((u16::from(*place) + drawn) % kind.radix()) as u8;
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

    fn labels(lengths: Lengths) -> Labels {
        Labels::new(&Key::new([7; 32]), lengths)
    }

    #[test]
    fn all_labels_of_one_and_two_bytes_have_pseudonyms_of_their_own_and_of_their_kind() {
        let mut labels = labels(Lengths::Keep);
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
        let mut own = labels(Lengths::Keep);
        let mut others = Labels::new(&Key::new([8; 32]), Lengths::Keep);
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
    fn hidden_lengths_are_one_length() {
        let mut labels = labels(Lengths::Hide);
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
            let mut labels = Labels::new(&Key::new(other), Lengths::Keep);
            let pseudonym = labels.label(&label).to_vec();
            prop_assert_eq!(pseudonym.len(), label.len());
            prop_assert_eq!(Kind::of(&pseudonym), Kind::of(&label));
            prop_assert_eq!(labels.label(&label), &pseudonym);
        }
    }
}
