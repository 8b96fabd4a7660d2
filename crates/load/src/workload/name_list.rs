//! Names from a file, one in each line.

use super::skipped::excerpt;
use crate::limits::{NAMES_BYTES_MAX, NAMES_MAX};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use wire::name::Name;

/// Names in wire format.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NameList {
    bytes: Vec<u8>,
    /// Where each name ends.
    ends: Vec<usize>,
}

impl NameList {
    /// Reads a file. The first column of each line is a name, others are ignored. `;` and `#` start comments.
    ///
    /// # Errors
    /// A description of the problem: the file cannot be read or is too long, a name is invalid, or there is none.
    pub fn read(path: &Path) -> Result<Self, String> {
        let named = |reason: String| format!("{}: {reason}", path.display());
        let file = std::fs::File::open(path).map_err(|error| named(error.to_string()))?;
        let mut names = Self::default();
        let mut length = 0;
        for (index, line) in BufReader::new(file.take(NAMES_BYTES_MAX + 1)).lines().enumerate() {
            let line = line.map_err(|error| named(error.to_string()))?;
            length += line.len() as u64 + 1;
            if length > NAMES_BYTES_MAX || names.len() == NAMES_MAX {
                return Err(named(format!("it has more than {NAMES_MAX} names or {NAMES_BYTES_MAX} bytes; split it")));
            }
            names.push_line(&line).map_err(|reason| named(format!("line {}: {reason}", index + 1)))?;
        }
        if names.ends.is_empty() { Err(named("it has no name; write one in each line".into())) } else { Ok(names) }
    }

    fn push_line(&mut self, line: &str) -> Result<(), String> {
        let first = line.split_whitespace().next();
        let Some(text) = first.filter(|column| !column.starts_with([';', '#'])) else { return Ok(()) };
        let name: Name = text.parse().map_err(|error| format!("{} is not a name: {error}", excerpt(text)))?;
        self.bytes.extend_from_slice(name.as_bytes());
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// Number of names.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no names.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Name `index`, counted from 0 and again from the start after the last one. The root without names.
    pub(super) fn get(&self, index: u64) -> &[u8] {
        const ROOT: &[u8] = &[0];
        let Some(index) = (index as usize).checked_rem(self.ends.len()) else { return ROOT };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NameList, String> {
        let path = std::env::temp_dir().join(format!("catlab-names-{}-{:p}", std::process::id(), text.as_ptr()));
        std::fs::write(&path, text).unwrap();
        let names = NameList::read(&path);
        std::fs::remove_file(&path).unwrap();
        names
    }

    #[test]
    fn names_are_read_with_and_without_types() {
        let names = read("a.example\n\n# a comment\nB.example. AAAA\n.\n").unwrap();
        assert_eq!(names.len(), 3);
        assert_eq!(names.get(0), b"\x01a\x07example\0");
        assert_eq!(names.get(4), b"\x01B\x07example\0");
        assert_eq!(names.get(2), [0]);
    }

    #[test]
    fn invalid_files_are_refused_with_the_line() {
        let long = format!("a.example\n{}.example\n", "a".repeat(64));
        assert!(read(&long).unwrap_err().contains("line 2: "), "{:?}", read(&long));
        assert!(read("; nothing\n").unwrap_err().contains("it has no name"));
        assert!(NameList::read(Path::new("/no/such/file")).unwrap_err().starts_with("/no/such/file: "));
    }
}
