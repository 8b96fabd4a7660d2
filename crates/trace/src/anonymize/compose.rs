//! The message that comes out: what is written, and names that point back to what was written before.

use std::collections::BTreeMap;
use wire::limits::{MESSAGE_BYTES_MAX, POINTER_TARGET_MAX};

/// A message while it is written.
#[derive(Debug, Default)]
pub(super) struct Composer {
    bytes: Vec<u8>,
    /// Names and the ends of names that stand in it, and where.
    names: BTreeMap<Vec<u8>, u16>,
}

impl Composer {
    /// Begins another one.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.names.clear();
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// So many times the same byte.
    pub(super) fn fill(&mut self, byte: u8, count: usize) {
        self.bytes.resize(self.bytes.len() + count, byte);
    }

    /// A name in wire form. It points back where it may and can (RFC 1035 4.1.4), and others may point to it.
    pub(super) fn name(&mut self, name: &[u8], is_compressed: bool) {
        let mut rest = name;
        while let Some((&length, _)) = rest.split_first().filter(|(length, _)| **length > 0) {
            if let Some(at) = self.names.get(rest).filter(|_| is_compressed) {
                self.bytes.extend_from_slice(&(0xC000 | at).to_be_bytes());
                return;
            }
            if self.bytes.len() <= POINTER_TARGET_MAX && !self.names.contains_key(rest) {
                self.names.insert(rest.to_vec(), self.bytes.len() as u16);
            }
            let (label, behind) = rest.split_at(1 + usize::from(length));
            self.bytes.extend_from_slice(label);
            rest = behind;
        }
        self.bytes.push(0);
    }

    /// Two bytes of length, of what is written from here up to [`Composer::close`].
    pub(super) fn open(&mut self) -> usize {
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.len()
    }

    /// Writes the length; false when it has no room in two bytes.
    pub(super) fn close(&mut self, start: usize) -> bool {
        let Ok(length) = u16::try_from(self.bytes.len() - start) else { return false };
        self.bytes[start - 2..start].copy_from_slice(&length.to_be_bytes());
        true
    }

    /// Takes back what was written from there on.
    pub(super) fn cut(&mut self, to: usize) {
        self.bytes.truncate(to);
        self.names.retain(|_, at| usize::from(*at) < to);
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes over what stands at `at`.
    pub(super) fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The message, unless it is longer than one can be.
    pub(super) fn message(&self) -> Option<&[u8]> {
        (self.bytes.len() <= MESSAGE_BYTES_MAX).then_some(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Name, NameBuf};

    #[test]
    fn names_point_back_and_read_as_they_were_written() {
        let names = ["www.example.com.", "example.com.", "mail.example.com.", "com.", ".", "www.example.com."];
        let names = names.map(|name| name.parse::<Name>().unwrap());
        for is_compressed in [false, true] {
            let mut composer = Composer::default();
            composer.fill(0, 12);
            let mut starts = Vec::new();
            for name in &names {
                starts.push(composer.len());
                composer.name(name.as_bytes(), is_compressed);
            }
            let message = composer.message().unwrap();
            for (name, start) in names.iter().zip(&starts) {
                assert_eq!(NameBuf::read(message, *start).unwrap().0.as_bytes(), name.as_bytes());
            }
            assert_eq!(
                message.len(),
                if is_compressed { 12 + 17 + 2 + 7 + 2 + 1 + 2 } else { 12 + 17 + 13 + 18 + 5 + 1 + 17 }
            );
        }
    }

    #[test]
    fn removed_names_are_not_compression_targets() {
        let mut composer = Composer::default();
        composer.fill(0, 12);
        composer.name(b"\x01a\0", true);
        let before = composer.len();
        composer.name(b"\x01b\0", true);
        composer.cut(before);
        composer.name(b"\x01b\0", true);
        assert_eq!(composer.message().unwrap()[12..], *b"\x01a\0\x01b\0");
    }
}
