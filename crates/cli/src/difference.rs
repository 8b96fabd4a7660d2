//! The difference between two versions of a zone, as lines.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// Maximum number of printed lines. The number of further lines is printed.
const SHOWN_MAX: usize = 200;

/// Deleted and added lines, each list sorted.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Difference {
    pub(crate) deleted: Vec<String>,
    pub(crate) added: Vec<String>,
}

impl Difference {
    /// Compares two zone files with one record per line, as the server prints them. The order does not matter.
    pub(crate) fn between(old: &str, new: &str) -> Self {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for (text, step) in [(old, -1), (new, 1)] {
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with([';', '$'])) {
                *counts.entry(line).or_default() += step;
            }
        }
        let mut difference = Self::default();
        for (line, count) in counts {
            let side = if count < 0 { &mut difference.deleted } else { &mut difference.added };
            side.extend(std::iter::repeat_n(line.to_owned(), count.unsigned_abs() as usize));
        }
        difference
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.added.is_empty()
    }

    /// Prints `-` and `+` lines and their number.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let lines = self.deleted.iter().map(|line| ('-', line)).chain(self.added.iter().map(|line| ('+', line)));
        let count = self.deleted.len() + self.added.len();
        for (sign, line) in lines.take(SHOWN_MAX) {
            writeln!(out, "{sign} {line}")?;
        }
        if count > SHOWN_MAX {
            writeln!(out, "... and {} more lines", count - SHOWN_MAX)?;
        }
        writeln!(out, "deleted {}, added {}", self.deleted.len(), self.added.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_and_added_lines_are_shown_and_counted() {
        let old = "; comment\n$ORIGIN a.\na. 1 IN SOA 1\nb.a. 1 IN A 1\nc.a. 1 IN A 1\n";
        let new = "c.a. 1 IN A 1\nb.a. 1 IN A 2\na. 1 IN SOA 2\n\n";
        let difference = Difference::between(old, new);
        let mut out = Vec::new();
        difference.print(&mut out).unwrap();
        let want = "- a. 1 IN SOA 1\n- b.a. 1 IN A 1\n+ a. 1 IN SOA 2\n+ b.a. 1 IN A 2\ndeleted 2, added 2\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
        assert!(Difference::between(old, old).is_empty());
    }

    #[test]
    fn a_long_difference_is_truncated() {
        let new: String = (0..SHOWN_MAX + 5).map(|n| format!("n{n}. 1 IN A 1\n")).collect();
        let mut out = Vec::new();
        Difference::between("", &new).print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("... and 5 more lines\ndeleted 0, added 205"), "{text}");
    }
}
