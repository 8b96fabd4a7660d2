//! Keys: strings of small symbols.

use std::cmp::Ordering;
use std::fmt;

use crate::limits::{KEY_SYMBOLS_MAX, SYMBOL_COUNT};

/// Words of 8 symbols that hold a key and at least one end mark after it.
const WORDS: usize = (KEY_SYMBOLS_MAX + 1).div_ceil(8);

/// A string of at most [`KEY_SYMBOLS_MAX`] symbols, each less than [`SYMBOL_COUNT`].
///
/// Keys are ordered symbol by symbol; a key that is a prefix of another comes first. A key is big (584 bytes) and
/// meant to be reused. The cost of [`Key::clear`] is proportional to the key's length.
#[derive(Clone)]
pub struct Key {
    /// Each symbol plus one, then zeros. So a step of the descent needs no test of the length.
    marks: [u8; WORDS * 8],
    len: usize,
}

/// Maps each byte to one or two symbols.
pub struct Alphabet {
    /// Each symbol plus one, as in a key. The second is 0 for a byte with one symbol.
    marks: [[u8; 2]; 256],
}

impl Alphabet {
    /// Builds the alphabet from the symbols of each byte.
    ///
    /// # Panics
    /// When a symbol is not less than [`SYMBOL_COUNT`].
    #[must_use]
    pub const fn new(symbols: &[(u8, Option<u8>); 256]) -> Self {
        let mut marks = [[0; 2]; 256];
        let mut byte = 0;
        while byte < 256 {
            let (first, second) = symbols[byte];
            assert!(first < SYMBOL_COUNT, "symbol out of range");
            marks[byte][0] = first + 1;
            if let Some(second) = second {
                assert!(second < SYMBOL_COUNT, "symbol out of range");
                marks[byte][1] = second + 1;
            }
            byte += 1;
        }
        Self { marks }
    }

    /// The symbols of a byte.
    #[inline]
    #[must_use]
    pub const fn symbols(&self, byte: u8) -> (u8, Option<u8>) {
        let [first, second] = self.marks[byte as usize];
        (first - 1, second.checked_sub(1))
    }
}

/// Extracts the key of a leaf from its bytes. Only leaves store keys; branches do not.
pub trait LeafKey {
    /// Writes the key of `leaf` into `key`, which is empty. Equal bytes must always give equal keys.
    fn write_key(leaf: &[u8], key: &mut Key);

    /// The first index at which the key of `leaf` differs from `key`, and the leaf's symbol there (`None` after its
    /// end). Returns `None` for equal keys. Override this if it is possible without building the leaf's key.
    fn mismatch(leaf: &[u8], key: &Key) -> Option<(usize, Option<u8>)> {
        let mut leaf_key = Key::new();
        Self::write_key(leaf, &mut leaf_key);
        key.mismatch(&leaf_key).map(|at| (at, leaf_key.symbol(at)))
    }

    /// Whether `key` is the key of `leaf`.
    #[inline]
    fn has_key(leaf: &[u8], key: &Key) -> bool {
        Self::mismatch(leaf, key).is_none()
    }
}

impl Key {
    /// The empty key.
    pub const fn new() -> Self {
        Self { marks: [0; WORDS * 8], len: 0 }
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the key has no symbol.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends one symbol.
    ///
    /// # Panics
    /// When `symbol` is not less than [`SYMBOL_COUNT`], or the key has [`KEY_SYMBOLS_MAX`] symbols already. Callers
    /// bound the names from which they build keys.
    #[inline]
    pub fn push(&mut self, symbol: u8) {
        assert!(symbol < SYMBOL_COUNT, "symbol out of range");
        assert!(self.len < KEY_SYMBOLS_MAX, "key too long");
        self.marks[self.len] = symbol + 1;
        self.len += 1;
    }

    /// Appends the symbols of `bytes`.
    ///
    /// # Panics
    /// When the key might exceed [`KEY_SYMBOLS_MAX`] symbols, counting two for each byte; see [`Key::push`].
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8], alphabet: &Alphabet) {
        let free = self.marks[..KEY_SYMBOLS_MAX].get_mut(self.len..self.len + 2 * bytes.len());
        let free = free.expect("key too long");
        let mut len = 0;
        for &byte in bytes {
            let marks = alphabet.marks[usize::from(byte)];
            // If this byte has one symbol, the second is 0, and the next byte overwrites it.
            free[len..len + 2].copy_from_slice(&marks);
            len += 1 + usize::from(marks[1] != 0);
        }
        self.len += len;
    }

    /// The symbol at `index`, if the key is long enough.
    pub fn symbol(&self, index: usize) -> Option<u8> {
        self.marks[..self.len].get(index).map(|mark| mark - 1)
    }

    /// The symbols in order.
    pub fn symbols(&self) -> impl DoubleEndedIterator<Item = u8> + ExactSizeIterator + '_ {
        self.marks[..self.len].iter().map(|mark| mark - 1)
    }

    /// Removes all symbols.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Shortens the key to `len` symbols, if it is longer.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.marks[len..self.len].fill(0);
            self.len = len;
        }
    }

    /// Copies `other`. The cost is proportional to the lengths of both keys.
    pub fn copy_from(&mut self, other: &Key) {
        self.truncate(other.len);
        self.marks[..other.len].copy_from_slice(&other.marks[..other.len]);
        self.len = other.len;
    }

    /// Whether this key equals `other` or is a prefix of it.
    pub fn is_prefix_of(&self, other: &Key) -> bool {
        self.len <= other.len && self.marks[..self.len] == other.marks[..self.len]
    }

    /// The mark at `index`: the symbol plus one, or 0 at or after the end of the key.
    #[inline]
    pub(crate) fn mark(&self, index: usize) -> u8 {
        self.marks.get(index).copied().unwrap_or(0)
    }

    /// Index of the first mark that differs, `None` for equal keys.
    #[inline]
    pub fn mismatch(&self, other: &Key) -> Option<usize> {
        // Keys differ at the end mark of the longer one at the latest, so the comparison stops there.
        let word_count = self.len.max(other.len) / 8 + 1;
        let (chunks, _) = self.marks.as_chunks::<8>();
        let (other_chunks, _) = other.marks.as_chunks::<8>();
        for (index, (a, b)) in chunks.iter().zip(other_chunks).take(word_count).enumerate() {
            let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
            if difference != 0 {
                return Some(index * 8 + difference.trailing_zeros() as usize / 8);
            }
        }
        None
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.marks[..self.len] == other.marks[..self.len]
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.marks[..self.len].cmp(&other.marks[..other.len])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.symbols()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(symbols: &[u8]) -> Key {
        let mut key = Key::new();
        symbols.iter().for_each(|symbol| key.push(*symbol));
        key
    }

    #[test]
    fn prefix_comes_first() {
        assert!(key(&[]) < key(&[0]));
        assert!(key(&[3]) < key(&[3, 0]));
        assert!(key(&[3, 9]) < key(&[4]));
        assert!(key(&[3]).is_prefix_of(&key(&[3, 0])));
        assert!(!key(&[3, 1]).is_prefix_of(&key(&[3, 0])));
    }

    #[test]
    fn mismatch_is_the_first_difference_or_the_end() {
        assert_eq!(key(&[1, 2]).mismatch(&key(&[1, 2])), None);
        assert_eq!(key(&[1, 2]).mismatch(&key(&[1, 3])), Some(1));
        assert_eq!(key(&[1; 8]).mismatch(&key(&[1; 9])), Some(8));
        assert_eq!(key(&[1; KEY_SYMBOLS_MAX]).mismatch(&key(&[1; KEY_SYMBOLS_MAX - 1])), Some(KEY_SYMBOLS_MAX - 1));
    }

    #[test]
    fn a_reused_key_keeps_nothing() {
        let mut reused = key(&[7; 300]);
        reused.clear();
        reused.push(1);
        assert_eq!(reused, key(&[1]));
        assert_eq!(reused.mismatch(&key(&[1])), None);
        assert_eq!(reused.symbol(1), None);
    }

    #[test]
    fn pushed_bytes_map_to_their_symbols() {
        let mut symbols = [(0, None); 256];
        for byte in 0..=255 {
            symbols[usize::from(byte)] = (byte % SYMBOL_COUNT, (byte >= 100).then_some(byte % 7));
        }
        let alphabet = Alphabet::new(&symbols);
        let bytes: Vec<u8> = (0..=255).collect();
        let (mut whole, mut single) = (key(&[1; 7]), key(&[1; 7]));
        whole.push_bytes(&bytes, &alphabet);
        for byte in bytes {
            let (first, second) = alphabet.symbols(byte);
            assert_eq!((first, second), symbols[usize::from(byte)]);
            single.push(first);
            second.into_iter().for_each(|second| single.push(second));
        }
        assert_eq!(whole, single);
        assert_eq!(whole.mismatch(&single), None);
    }

    #[test]
    #[should_panic(expected = "key too long")]
    fn the_length_of_pushed_bytes_is_bounded() {
        key(&[0; KEY_SYMBOLS_MAX - 1]).push_bytes(b"a", &Alphabet::new(&[(1, None); 256]));
    }

    #[test]
    #[should_panic(expected = "key too long")]
    fn the_length_is_bounded() {
        key(&[0; KEY_SYMBOLS_MAX + 1]);
    }
}
