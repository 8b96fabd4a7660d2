//! Names as words of eight bytes in lower case, for hashing and comparison.
//!
//! Length bytes are below 64 and thus no letters, so whole wire forms can be lower-cased.

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// All bytes as words in lower case. An incomplete last word is filled with the bytes before it, which then occur
/// twice. That is faster than a word of variable length, and unambiguous if the length is known.
pub(crate) fn lower_words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = bytes.as_chunks();
    let last = (!rest.is_empty()).then(|| bytes.last_chunk().copied().unwrap_or_else(|| short_word(rest)));
    words.iter().copied().chain(last).map(|word| lower(u64::from_le_bytes(word)))
}

/// The last word of `bytes`. Fewer bytes are followed by zeros.
pub(crate) fn last_word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.last_chunk().copied().unwrap_or_else(|| short_word(bytes)))
}

/// The first word of `end` in lower case, followed by zeros if it is shorter. `last` is the last word of the bytes that
/// `end` is a suffix of.
#[inline]
pub(crate) fn first_lower_word(end: &[u8], last: u64, byte_count: usize) -> u64 {
    lower(match end.first_chunk() {
        Some(&word) => u64::from_le_bytes(word),
        // A short suffix is the end of the last word.
        None => last >> (8 * (byte_count.min(WORD) - end.len())),
    })
}

fn short_word(bytes: &[u8]) -> [u8; WORD] {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    word
}

/// Lower-cases eight bytes: sets 0x20 in each upper-case ASCII letter.
#[inline]
pub(crate) const fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Adds to the lower seven bits of each byte, so that its highest bit means `A or later`, or `later than Z`.
    let bits = word & (0x7F * EACH);
    let from_a = bits + (0x80 - b'A' as u64) * EACH;
    let beyond_z = bits + (0x7F - b'Z' as u64) * EACH;
    word | (from_a & !beyond_z & !word & (0x80 * EACH)) >> 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn word_lowercase_equals_byte_lowercase(bytes: [u8; WORD]) {
            let mut expected = bytes;
            expected.make_ascii_lowercase();
            prop_assert_eq!(lower(u64::from_le_bytes(bytes)), u64::from_le_bytes(expected));
        }

        #[test]
        fn first_word_equals_the_word_of_its_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let last = last_word(&bytes);
            for at in 0..bytes.len() {
                let mut padded = bytes[at..].to_vec();
                padded.resize(padded.len().max(WORD), 0);
                padded.make_ascii_lowercase();
                let expected = u64::from_le_bytes(padded[..WORD].try_into().unwrap());
                prop_assert_eq!(first_lower_word(&bytes[at..], last, bytes.len()), expected);
            }
        }

        #[test]
        fn words_cover_all_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let words: Vec<u64> = lower_words(&bytes).collect();
            let mut expected = bytes.to_ascii_lowercase();
            prop_assert_eq!(words.len(), bytes.len().div_ceil(WORD));
            let mut joined = words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            let left = bytes.len() % WORD;
            if joined.len() > WORD && left > 0 {
                // The last word lies over the one before.
                let last = joined.split_off(joined.len() - WORD);
                joined.extend_from_slice(&last[WORD - left..]);
            }
            expected.resize(joined.len(), 0);
            prop_assert_eq!(joined, expected);
        }
    }
}
