//! Unknown keys in TOML files: where they are, and the key that was probably meant.
#![forbid(unsafe_code)]

use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Length in characters of the longest word that counts as mistyped, and of the longest one in an error.
const WORD_MAX: usize = 64;

/// The known keys of a kind of file.
#[derive(Clone, Copy, Debug)]
pub struct KnownKeys<'k> {
    /// Each table by its path, for example `dns.tls` (the file itself is the empty path), and its keys. Tables that are
    /// not listed may have any keys.
    pub tables: &'k [(&'k str, &'k [&'k str])],
    /// Paths of keys that older versions named otherwise, and their names now.
    pub renamed: &'k [(&'k str, &'k str)],
}

/// A key that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// The key and its table, for example ``unknown key `prot` in [dns]``.
    pub what: String,
    /// The key that was probably meant, or all known keys of the table.
    pub hint: String,
    /// Where it is in the file.
    pub span: Range<usize>,
}

impl KnownKeys<'_> {
    /// The first unknown key of a file.
    #[must_use]
    pub fn first_unknown(&self, file: &DeTable<'_>) -> Option<UnknownKey> {
        self.unknown_below("", file)
    }

    fn unknown_below(&self, path: &str, table: &DeTable<'_>) -> Option<UnknownKey> {
        let known = self.tables.iter().find(|(known, _)| *known == path)?.1;
        table.iter().find_map(|(key, value)| {
            let name: &str = key.get_ref();
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let renamed = self.renamed.iter().find(|(old, _)| *old == below).map(|(_, new)| *new);
            if renamed.is_none() && !known.contains(&name) {
                return Some(unknown(name, path, known, key.span()));
            }
            let below = renamed.unwrap_or(&below);
            match value.get_ref() {
                DeValue::Table(table) => self.unknown_below(below, table),
                DeValue::Array(items) => {
                    let tables = items.iter().filter_map(|item| item.get_ref().as_table());
                    tables.into_iter().find_map(|table| self.unknown_below(below, table))
                }
                _ => None,
            }
        })
    }
}

fn unknown(key: &str, path: &str, known: &[&str], span: Range<usize>) -> UnknownKey {
    let table = if path.is_empty() { "at the top level".to_owned() } else { format!("in [{path}]") };
    let hint = match nearest(key, known) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known keys here: {}", known.join(", ")),
    };
    let what = format!("unknown key `{}` {table}", key.chars().take(WORD_MAX).collect::<String>());
    UnknownKey { what, hint, span }
}

/// The most similar known word, if at most a third of its letters, or two, differ. Letters in another order count once.
#[must_use]
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let length = word.chars().count();
    if length > WORD_MAX {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let distances = known.iter().map(|known| (strsim::damerau_levenshtein(&word, &known.to_ascii_lowercase()), *known));
    // A word without any letter of the known one is another word.
    let is_near = |distance: usize, known: &str| distance <= (known.len() / 3).max(2) && distance < length;
    distances
        .filter(|&(distance, known)| is_near(distance, known))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, known)| known)
}

/// The line number of a byte offset, from 1.
#[must_use]
pub fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: KnownKeys<'_> = KnownKeys {
        tables: &[
            ("", &["dns", "member", "open"]),
            ("dns", &["listen", "tls"]),
            ("dns.tls", &["dot"]),
            ("member", &["id"]),
        ],
        renamed: &[("names", "dns")],
    };

    fn first_unknown(text: &str) -> Option<(usize, String, String)> {
        let found = KEYS.first_unknown(DeTable::parse(text).unwrap().get_ref())?;
        Some((line_at(text, found.span.start), found.what, found.hint))
    }

    #[test]
    fn the_first_unknown_key_is_found_in_each_table() {
        for (text, line, what, hint) in [
            ("dsn = 1", 1, "unknown key `dsn` at the top level", "did you mean `dns`?"),
            ("[dns]\nlisten = 1\nlisen = 2", 3, "unknown key `lisen` in [dns]", "did you mean `listen`?"),
            ("[dns]\n\"x.tls\" = 1", 2, "unknown key `x.tls` in [dns]", "did you mean `tls`?"),
            ("[dns.tls]\nzebra = 1", 2, "unknown key `zebra` in [dns.tls]", "known keys here: dot"),
            ("[[member]]\nid = 1\n[[member]]\nidd = 2", 4, "unknown key `idd` in [member]", "did you mean `id`?"),
            ("[names]\nlisen = 2", 2, "unknown key `lisen` in [dns]", "did you mean `listen`?"),
        ] {
            assert_eq!(first_unknown(text), Some((line, what.to_owned(), hint.to_owned())), "{text}");
        }
        assert_eq!(first_unknown("[dns]\nlisten = 1\n[names]\ntls = 1\n[open]\nany = 1"), None);
    }

    #[test]
    fn similar_words_are_suggested_and_others_are_not() {
        let known = ["listen", "udp_workers", "tcp"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("Listen", &known), Some("listen"));
        assert_eq!(nearest("udpworkers", &known), Some("udp_workers"));
        assert_eq!(nearest("tpc", &known), Some("tcp"));
        assert_eq!(nearest("certificate", &known), None);
        assert_eq!(nearest("x", &["in", "by"]), None);
        assert_eq!(nearest(&"x".repeat(10_000), &known), None);
    }
}
