//! The start of every leaf: a byte with its kind, then the name or number that its key is built from.

use crate::key;
use store::{Key, LeafKey};
use wire::name::NameRef;

/// The kind of a leaf: the two high bits of its first byte.
const KIND: u8 = 0b1100_0000;
/// An owner name and its RRsets.
pub(crate) const KIND_VERTEX: u8 = 0b0000_0000;
/// A zone: its apex and its properties.
pub(crate) const KIND_ZONE: u8 = 0b0100_0000;
/// A view: its number and its zones.
pub(crate) const KIND_VIEW: u8 = 0b1000_0000;

/// The owner of a vertex has NS and is not the apex.
pub(crate) const HEAD_CUT: u8 = 1;
/// The owner of a vertex has DNAME.
pub(crate) const HEAD_DNAME: u8 = 2;
/// The owner of a vertex has CNAME.
pub(crate) const HEAD_ALIAS: u8 = 4;

/// Provides the store with the key of each kind of leaf.
#[derive(Clone, Copy, Debug)]
pub enum LeafNames {}

impl LeafKey for LeafNames {
    fn write_key(leaf: &[u8], key: &mut Key) {
        match leaf {
            [head, high, low, ..] if head & KIND == KIND_VIEW => write_view_key(u16::from_be_bytes([*high, *low]), key),
            _ => key::write(split_owner(leaf).0, key),
        }
    }

    #[inline]
    fn mismatch(leaf: &[u8], key: &Key) -> Option<(usize, Option<u8>)> {
        match leaf {
            [head, high, low, ..] if head & KIND == KIND_VIEW => {
                let mut view_key = Key::new();
                write_view_key(u16::from_be_bytes([*high, *low]), &mut view_key);
                view_key.mismatch(key).map(|at| (at, view_key.symbol(at)))
            }
            _ => key::mismatch(split_owner(leaf).0, key),
        }
    }
}

/// The name after the first byte of a leaf, and the rest.
pub(crate) fn split_owner(leaf: &[u8]) -> (NameRef<'_>, &[u8]) {
    // Only this crate writes leaves, so the name is valid. The root is an unused fallback.
    NameRef::split_from(leaf.get(1..).unwrap_or_default()).unwrap_or((NameRef::ROOT, &[]))
}

/// Appends the key of a view: its number, in digits that fit the symbols.
pub(crate) fn write_view_key(view: u16, key: &mut Key) {
    const BASE: u16 = 41;
    const { assert!((BASE as u32).pow(3) > u16::MAX as u32 && BASE <= store::limits::SYMBOL_MAX as u16) };
    key.clear();
    for digit in [view / BASE / BASE, view / BASE % BASE, view % BASE] {
        key.push(digit as u8);
    }
}
