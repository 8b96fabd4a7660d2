//! Canonical names as store keys.
//!
//! A key is the name's labels from the right, each byte as one or two symbols and each label closed by
//! [`LABEL_END`], the lowest symbol. So the order of keys is the canonical order of names (RFC 4034 6.1), and a
//! name's key is a prefix of the keys of all names below it. The bytes of hostnames take one symbol each; of the
//! others, runs between two of those share a first symbol that sorts where the run does, and the second tells them
//! apart.

use crate::limits::KEY_RUN_BYTES_MAX;
use store::limits::SYMBOL_MAX;
use store::{Alphabet, Key};
use wire::limits::NAME_LABELS_MAX;
use wire::name::NameRef;

/// Ends a label; the lowest symbol, so that a name sorts before what is below it and a label before its extensions.
pub const LABEL_END: u8 = 0;
/// Writes the key of `name` over what `key` held.
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

/// Whether `key` is that of `name`: as [`of`], without making it.
#[must_use]
pub fn is_of(name: NameRef<'_>, key: &Key) -> bool {
    mismatch(name, key).is_none()
}

/// The first place in which the key of `name` differs from `key`, and its own symbol there, `None` behind its end;
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

/// Extends `key` from that of the zone's `apex`, which is `apex_len` symbols long and begins it, to that of `name`,
/// which is at or below the apex.
pub(crate) fn write_in_zone(name: NameRef<'_>, apex: NameRef<'_>, apex_len: usize, key: &mut Key) {
    debug_assert!(name.is_at_or_below(apex));
    key.truncate(apex_len);
    let (below, _) = name.as_bytes().split_at(name.as_bytes().len() - apex.as_bytes().len());
    append(below, key);
}

/// Extends the key of a name to that of its child `label`.
pub fn push_label(key: &mut Key, label: &[u8]) {
    key.push_bytes(label, &ALPHABET);
    key.push(LABEL_END);
}

/// Extends `key` beyond every key that has it as a prefix.
pub fn push_above_all(key: &mut Key) {
    // No byte begins with it: `symbols_fit_the_store` sees to that.
    key.push(SYMBOL_MAX);
}

/// Appends labels, the rightmost first.
fn append(labels: &[u8], key: &mut Key) {
    labels_from_right(labels, |label| {
        push_label(key, label);
        true
    });
}

/// The labels of a name but for that of the root.
fn labels_of(name: NameRef<'_>) -> &[u8] {
    let bytes = name.as_bytes();
    &bytes[..bytes.len() - 1]
}

/// Visits labels from the right, as long as the visitor wants to go on; tells whether it always did.
fn labels_from_right(bytes: &[u8], mut visit: impl FnMut(&[u8]) -> bool) -> bool {
    let mut starts = [0u8; NAME_LABELS_MAX];
    let (mut count, mut at) = (0, 0);
    while at < bytes.len() {
        // A name has at most 255 bytes and 127 labels beside the root label.
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

/// Whether an byte, already in lower case, is among those that names are mostly made of.
const fn is_common(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z')
}

/// Deals out symbols in the order of bytes.
const fn make_codes() -> [(u8, Option<u8>); 256] {
    let mut of = [(0, None); 256];
    let mut first = LABEL_END;
    // None is open where this is the bound.
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
    // Case does not count (RFC 4343 3): upper case letters take the codes of lower case ones.
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

    /// Names over few labels, so that prefixes, equal names and neighbours are frequent, and over all bytes.
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
            NameRef::from_octets(&bytes).unwrap().to_name()
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
            let place = key_b.mismatch(&key_a).map(|at| (at, key_a.symbol(at)));
            prop_assert_eq!(mismatch(a.as_ref(), &key_b), place, "{} {}", a, b);
        }

        #[test]
        fn keys_in_a_zone_are_made_from_that_of_its_apex(a in names(), b in names(), apex in names()) {
            let apex_key = of(apex.as_ref());
            let mut key = apex_key.clone();
            for name in [a, b] {
                let bytes = [name.as_bytes().strip_suffix(&[0]).unwrap(), apex.as_bytes()].concat();
                let name = NameRef::from_octets(&bytes).unwrap();
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
