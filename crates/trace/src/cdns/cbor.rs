//! The part of CBOR (RFC 8949) that C-DNS uses. [`super::stream`] has checked that the bytes are complete items.

use std::ops::Range;

/// An item, and the position of its contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// An integer.
    Number(i128),
    /// Bytes or text of known length.
    Bytes(Range<usize>),
    /// Items.
    Array(Range<usize>),
    /// Alternating keys and values.
    Map(Range<usize>),
    /// An item that C-DNS does not use.
    Other,
}

/// Major types (RFC 8949 3.1).
pub(super) const UNSIGNED: u8 = 0;
pub(super) const NEGATIVE: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const TEXT: u8 = 3;
pub(super) const ARRAY: u8 = 4;
pub(super) const MAP: u8 = 5;
pub(super) const TAG: u8 = 6;
/// Ends an item of indefinite length (RFC 8949 3.2.1).
pub(super) const BREAK: u8 = 0xFF;

/// Number of bytes of the argument after the first byte of an item. `None` for invalid first bytes.
pub(super) const fn argument_bytes(first: u8) -> Option<usize> {
    match first & 0x1F {
        0..=23 => Some(0),
        info @ 24..=27 => Some(1 << (info - 24)),
        // Indefinite length, which integers and tags cannot have.
        31 if !matches!(first >> 5, UNSIGNED | NEGATIVE | TAG) => Some(0),
        _ => None,
    }
}

/// The argument of an item. `None` for an indefinite length.
pub(super) fn argument(first: u8, bytes: &[u8]) -> Option<u64> {
    match first & 0x1F {
        31 => None,
        info @ 0..=23 => Some(info.into()),
        _ => Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))),
    }
}

/// Iterates over items with their positions.
pub(super) struct Items<'o> {
    bytes: &'o [u8],
    at: Range<usize>,
}

impl<'o> Items<'o> {
    pub(super) fn new(bytes: &'o [u8], at: Range<usize>) -> Self {
        Self { bytes, at }
    }
}

impl Iterator for Items<'_> {
    type Item = (usize, Item);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at.start;
        if self.at.is_empty() {
            return None;
        }
        let (item, end) = read(&self.bytes[..self.at.end], start)?;
        self.at.start = end;
        Some((start, item))
    }
}

/// The item at a position.
pub(super) fn item_at(bytes: &[u8], at: usize) -> Option<Item> {
    read(bytes, at).map(|(item, _)| item)
}

/// The values of a map with keys from zero on.
pub(super) fn fields<const N: usize>(bytes: &[u8], map: Range<usize>) -> [Option<Item>; N] {
    let mut fields = [const { None }; N];
    let mut items = Items::new(bytes, map).map(|(_, item)| item);
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        // Negative keys are extensions of implementations (RFC 8618 7.1).
        if let Item::Number(key) = key
            && let Some(field) = usize::try_from(key).ok().and_then(|key| fields.get_mut(key))
        {
            *field = Some(value);
        }
    }
    fields
}

/// The values of the map at a position. All `None` if it is not a map.
pub(super) fn fields_at<const N: usize>(bytes: &[u8], at: usize) -> [Option<Item>; N] {
    match item_at(bytes, at) {
        Some(Item::Map(map)) => fields(bytes, map),
        _ => [const { None }; N],
    }
}

/// The value of an unsigned number.
pub(super) fn number(item: &Option<Item>) -> Option<u64> {
    match item {
        Some(Item::Number(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// First byte, argument, and the position after them.
fn head(bytes: &[u8], at: usize) -> Option<(u8, Option<u64>, usize)> {
    let first = *bytes.get(at)?;
    let end = at + 1 + argument_bytes(first)?;
    Some((first, argument(first, bytes.get(at + 1..end)?), end))
}

/// The item at a position, and the position after it.
fn read(bytes: &[u8], at: usize) -> Option<(Item, usize)> {
    let (first, argument, start) = head(bytes, at)?;
    let end = past(bytes, at)?;
    let contents = start..if argument.is_none() { end - 1 } else { end };
    let item = match (first >> 5, argument) {
        (UNSIGNED, Some(number)) => Item::Number(number.into()),
        (NEGATIVE, Some(number)) => Item::Number(-1 - i128::from(number)),
        (BYTES | TEXT, Some(_)) => Item::Bytes(contents),
        (ARRAY, _) => Item::Array(contents),
        (MAP, _) => Item::Map(contents),
        // A tag describes the item after it.
        (TAG, _) => return read(bytes, start),
        _ => Item::Other,
    };
    Some((item, end))
}

/// The position after an item. Its recursion is as deep as the items are nested.
fn past(bytes: &[u8], at: usize) -> Option<usize> {
    let (first, argument, mut at) = head(bytes, at)?;
    let mut items = match (first >> 5, argument) {
        (BYTES | TEXT, Some(length)) => {
            let end = at.checked_add(usize::try_from(length).ok()?)?;
            return Some(end).filter(|end| *end <= bytes.len());
        }
        (BYTES | TEXT | ARRAY | MAP, None) => {
            while *bytes.get(at)? != BREAK {
                at = past(bytes, at)?;
            }
            return Some(at + 1);
        }
        (ARRAY, Some(items)) => items,
        (MAP, Some(pairs)) => pairs.checked_mul(2)?,
        (TAG, _) => 1,
        _ => 0,
    };
    while items > 0 {
        at = past(bytes, at)?;
        items -= 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_are_read() {
        // RFC 8949 appendix A.
        for (bytes, expected) in [
            (&[0x17][..], Item::Number(23)),
            (&[0x18, 0x64], Item::Number(100)),
            (&[0x1B, 0, 0, 0, 0xE8, 0xD4, 0xA5, 0x10, 0], Item::Number(1_000_000_000_000)),
            (&[0x1B, 255, 255, 255, 255, 255, 255, 255, 255], Item::Number(18_446_744_073_709_551_615)),
            (&[0x3B, 255, 255, 255, 255, 255, 255, 255, 255], Item::Number(-18_446_744_073_709_551_616)),
            (&[0x39, 0x03, 0xE7], Item::Number(-1_000)),
            (&[0xF9, 0x3C, 0x00], Item::Other),
            (&[0xF5], Item::Other),
            (&[0xC1, 0x1A, 0x51, 0x4B, 0x67, 0xB0], Item::Number(1_363_896_240)),
            (&[0x44, 1, 2, 3, 4], Item::Bytes(1..5)),
            (&[0x80], Item::Array(1..1)),
            (&[0x83, 1, 2, 3], Item::Array(1..4)),
            (&[0x9F, 1, 0x82, 2, 3, 0xFF], Item::Array(1..5)),
            (&[0xBF, 0x61, b'a', 1, 0xFF], Item::Map(1..4)),
            (&[0x5F, 0x42, 1, 2, 0x43, 3, 4, 5, 0xFF], Item::Other),
        ] {
            assert_eq!(read(bytes, 0), Some((expected, bytes.len())), "{bytes:02x?}");
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end], 0), None, "{bytes:02x?} {end}");
            }
        }
        for nothing in [0x1C, 0x1F, 0x3F, 0xDF, 0xFC] {
            assert_eq!(read(&[nothing, 0], 0), None, "{nothing:02x}");
        }
    }

    #[test]
    fn values_have_their_keys() {
        // {0: 7, -1: 8, 2: [1], 9: 1, "a": 3}
        let bytes = [0xA5, 0, 7, 0x20, 8, 2, 0x81, 1, 9, 1, 0x61, b'a', 3];
        let found: [Option<Item>; 3] = fields_at(&bytes, 0);
        assert_eq!(found, [Some(Item::Number(7)), None, Some(Item::Array(7..8))]);
        assert_eq!(number(&found[0]), Some(7));
        assert_eq!(fields_at::<1>(&[7], 0), [None]);
    }
}
