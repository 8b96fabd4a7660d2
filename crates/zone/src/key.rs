//! Canonical names as store keys.
//!
//! A key contains the name's labels from right to left. Each byte is one or two symbols, and each label ends with
//! [`LABEL_END`], the lowest symbol. So the order of keys is the canonical order of names (RFC 4034 6.1), and a name's
//! key is a prefix of the keys of all names below it. The bytes of hostnames take one symbol each. A run of other bytes
//! between two of them shares one first symbol, which sorts in its place; the second symbol distinguishes them.

use crate::limits::KEY_RUN_BYTES_MAX;
use store::limits::SYMBOL_MAX;
use store::{Alphabet, Key};
use wire::limits::NAME_LABELS_MAX;
use wire::name::NameRef;

/// Ends a label. It is the lowest symbol, so a name sorts before names below it, and a label before its extensions.
pub const LABEL_END: u8 = 0;
/// Replaces `key` by the key of `name`.
pub fn write(name: NameRef<'_>, key: &mut Key) {
    key.clear();
    append(labels_of(name), key);
}

/// The key of `name`.
#[must_use]
pub fn of(name: NameRef<'_>) -> Key {
    let mut key = Key::new();
    append(labels_of(name), &mut key);
    key
}

/// Whether `key` is the key of `name`. Like comparing with [`of`], but without building that key.
#[must_use]
pub fn is_of(name: NameRef<'_>, key: &Key) -> bool {
    mismatch(name, key).is_none()
}

/// The first index at which the key of `name` differs from `key`, and the name's symbol there (`None` after its end).
/// `None` for equal keys.
pub(crate) fn mismatch(name: NameRef<'_>, key: &Key) -> Option<(usize, Option<u8>)> {
    let mut at = 0;
    let mut differs = None;
    let mut matches = |symbol| {
        if key.symbol(at) != Some(symbol) {
            differs = Some((at, Some(symbol)));
            return false;
        }
        at += 1;
        true
    };
    labels_from_right(labels_of(name), |label| {
        label.iter().all(|&byte| {
            let (first, second) = ALPHABET.symbols(byte);
            matches(first) && second.is_none_or(&mut matches)
        }) && matches(LABEL_END)
    });
    differs.or_else(|| (at < key.len()).then_some((at, None)))
}

/// Extends `key`, whose first `apex_len` symbols are the key of the zone's `apex`, to the key of `name`, which is at or
/// below the apex.
pub(crate) fn write_in_zone(name: NameRef<'_>, apex: NameRef<'_>, apex_len: usize, key: &mut Key) {
    debug_assert!(name.is_at_or_below(apex));
    key.truncate(apex_len);
    let (labels, _) = name.as_bytes().split_at(name.as_bytes().len() - apex.as_bytes().len());
    append(labels, key);
}

/// Extends the key of a name to the key of its child `label`.
pub fn push_label(key: &mut Key, label: &[u8]) {
    key.push_bytes(label, &ALPHABET);
    key.push(LABEL_END);
}

/// Extends `key` so that it sorts after every key with the same prefix.
pub fn push_above_all(key: &mut Key) {
    // No byte uses this symbol first; `symbols_fit_the_store` checks that.
    key.push(SYMBOL_MAX);
}

/// Appends labels, from right to left.
fn append(labels: &[u8], key: &mut Key) {
    labels_from_right(labels, |label| {
        push_label(key, label);
        true
    });
}

/// The labels of a name, without the root label.
fn labels_of(name: NameRef<'_>) -> &[u8] {
    let bytes = name.as_bytes();
    &bytes[..bytes.len() - 1]
}

/// Calls the visitor for labels from right to left until it returns false. Returns whether it never did.
fn labels_from_right(bytes: &[u8], mut visit: impl FnMut(&[u8]) -> bool) -> bool {
    let mut starts = [0u8; NAME_LABELS_MAX];
    let (mut count, mut at) = (0, 0);
    while at < bytes.len() {
        // A name has at most 255 bytes, and 127 labels without the root label.
        starts[count] = at as u8;
        count += 1;
        at += 1 + bytes[at] as usize;
    }
    starts[..count].iter().rev().all(|&start| {
        let start = start as usize;
        visit(&bytes[start + 1..start + 1 + bytes[start] as usize])
    })
}

/// The symbols of every byte.
static ALPHABET: Alphabet = Alphabet::new(&CODES);
const CODES: [(u8, Option<u8>); 256] = make_codes();

/// Whether a byte, already in lower case, is frequent in names.
const fn is_common(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z')
}

/// Assigns symbols in the order of bytes.
const fn make_codes() -> [(u8, Option<u8>); 256] {
    let mut of = [(0, None); 256];
    let mut first = LABEL_END;
    // No run is open while this has its initial value.
    let mut run = KEY_RUN_BYTES_MAX;
    let mut byte = 0usize;
    while byte < 256 {
        if (byte as u8).is_ascii_uppercase() {
            byte += 1;
            continue;
        }
        if is_common(byte as u8) {
            first += 1;
            of[byte] = (first, None);
            run = KEY_RUN_BYTES_MAX;
        } else {
            if run == KEY_RUN_BYTES_MAX {
                first += 1;
                run = 0;
            }
            of[byte] = (first, Some(run));
            run += 1;
        }
        byte += 1;
    }
    // Case is ignored (RFC 4343 3): upper-case letters get the codes of lower-case ones.
    let mut letter = b'A';
    while letter <= b'Z' {
        of[letter as usize] = of[letter.to_ascii_lowercase() as usize];
        letter += 1;
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::name::Name;

    /// Names of few labels, so that prefixes, equal names and neighbors are frequent, and of arbitrary bytes.
    fn names() -> impl Strategy<Value = Name> {
        let label = prop_oneof![
            prop::sample::select(vec![
                &b"a"[..],
                b"B",
                b"ab",
                b"a-",
                b"*",
                b"\x00",
                b"a\x00",
                b"\xff",
                b"_",
                b"`",
                b"z{"
            ])
            .prop_map(<[u8]>::to_vec),
            prop::collection::vec(any::<u8>(), 1..5),
        ];
        prop::collection::vec(label, 0..5).prop_map(|labels| {
            let mut bytes = Vec::new();
            for label in labels {
                bytes.push(label.len() as u8);
                bytes.extend(label);
            }
            bytes.push(0);
            NameRef::from_bytes(&bytes).unwrap().to_name()
        })
    }

    #[test]
    fn symbols_fit_the_store() {
        let highest = CODES.iter().map(|(first, _)| *first).max();
        assert_eq!(highest, Some(45));
        const { assert!(45 < SYMBOL_MAX && KEY_RUN_BYTES_MAX <= SYMBOL_MAX) };
        // The longest key: 250 bytes of two symbols each in four labels.
        const { assert!(store::limits::KEY_SYMBOLS_MAX >= 2 * 250 + 4 + 2) };
    }

    proptest! {
        #[test]
        fn key_order_equals_name_order(a in names(), b in names()) {
            let (key_a, key_b) = (of(a.as_ref()), of(b.as_ref()));
            prop_assert_eq!(key_a.cmp(&key_b), a.cmp(&b), "{} {}", a, b);
            prop_assert_eq!(is_of(a.as_ref(), &key_b), a == b, "{} {}", a, b);
            let difference = key_b.mismatch(&key_a).map(|at| (at, key_a.symbol(at)));
            prop_assert_eq!(mismatch(a.as_ref(), &key_b), difference, "{} {}", a, b);
        }

        #[test]
        fn keys_in_a_zone_are_made_from_that_of_its_apex(a in names(), b in names(), apex in names()) {
            let apex_key = of(apex.as_ref());
            let mut key = apex_key.clone();
            for name in [a, b] {
                let bytes = [name.as_bytes().strip_suffix(&[0]).unwrap(), apex.as_bytes()].concat();
                let name = NameRef::from_bytes(&bytes).unwrap();
                write_in_zone(name, apex.as_ref(), apex_key.len(), &mut key);
                prop_assert_eq!(&key, &of(name));
            }
        }

        #[test]
        fn an_ancestor_is_a_prefix(a in names(), b in names()) {
            let prefix = of(b.as_ref()).is_prefix_of(&of(a.as_ref()));
            prop_assert_eq!(prefix, a.as_ref().is_at_or_below(b.as_ref()));
        }
    }
}
