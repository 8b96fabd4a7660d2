//! Leaves for tests: the length of the key in two bytes, the key's symbols, the value.

use catamaran_store::{Key, LeafKey};

/// Keys of such leaves.
pub(crate) struct Plain;

impl LeafKey for Plain {
    fn write_key(leaf: &[u8], key: &mut Key) {
        symbols(leaf).iter().for_each(|symbol| key.push(*symbol));
    }
}

/// The symbols of a leaf's key.
pub(crate) fn symbols(leaf: &[u8]) -> &[u8] {
    &leaf[2..2 + usize::from(u16::from_le_bytes([leaf[0], leaf[1]]))]
}

/// The value of a leaf.
pub(crate) fn value(leaf: &[u8]) -> &[u8] {
    &leaf[2 + symbols(leaf).len()..]
}

/// A leaf.
pub(crate) fn leaf(symbols: &[u8], value: &[u8]) -> Vec<u8> {
    let mut leaf = (symbols.len() as u16).to_le_bytes().to_vec();
    leaf.extend_from_slice(symbols);
    leaf.extend_from_slice(value);
    leaf
}

/// A key.
pub(crate) fn key(symbols: &[u8]) -> Key {
    let mut key = Key::new();
    symbols.iter().for_each(|symbol| key.push(*symbol));
    key
}
