//! Finds the known key that is most similar to a mistyped one.

/// The most similar key in `known`, if at most a third of its letters, or two, differ.
pub(crate) fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let key: Vec<u8> = key.to_ascii_lowercase().into_bytes();
    known
        .iter()
        .map(|known| (distance(&key, known.as_bytes()), *known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Edits (insert, remove, change, swap of neighbours) between two words.
fn distance(a: &[u8], b: &[u8]) -> usize {
    // A longer word is not a mistyped key, and the table would be large.
    if a.len() > 64 {
        return usize::MAX;
    }
    let width = b.len() + 1;
    let mut table = vec![0usize; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (table[(i - 1) * width + j] + 1)
                    .min(table[i * width + j - 1] + 1)
                    .min(table[(i - 1) * width + j - 1] + change);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(table[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    table[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_keys_are_suggested_and_others_are_not() {
        let known = ["listen", "udp_workers", "tcp"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("Listen", &known), Some("listen"));
        assert_eq!(nearest("udpworkers", &known), Some("udp_workers"));
        assert_eq!(nearest("tpc", &known), Some("tcp"));
        assert_eq!(nearest("certificate", &known), None);
        assert_eq!(nearest(&"x".repeat(10_000), &known), None);
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"ab", b"ba"), 1);
    }
}
