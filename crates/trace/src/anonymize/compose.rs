//! Composes the anonymized message, with name compression.

use std::collections::BTreeMap;
use wire::limits::{MESSAGE_BYTES_MAX, POINTER_TARGET_MAX};

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Composer {
    bytes: Vec<u8>,
    /// Names and their suffixes in the message, with their positions.
    names: BTreeMap<Vec<u8>, u16>,
}

impl Composer {
    /// Starts a new message.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.names.clear();
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the same byte `count` times.
    pub(super) fn fill(&mut self, byte: u8, count: usize) {
        self.bytes.resize(self.bytes.len() + count, byte);
    }

    /// Appends a name in wire form. It is compressed if allowed (RFC 1035 4.1.4), and later names may point to it.
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
            let (label, after) = rest.split_at(1 + usize::from(length));
            self.bytes.extend_from_slice(label);
            rest = after;
        }
        self.bytes.push(0);
    }

    /// Appends two bytes for the length of the following data, which [`Composer::close`] fills in.
    pub(super) fn open(&mut self) -> usize {
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.len()
    }

    /// Writes the length. Returns false if it does not fit into two bytes.
    pub(super) fn close(&mut self, start: usize) -> bool {
        let Ok(length) = u16::try_from(self.bytes.len() - start) else { return false };
        self.bytes[start - 2..start].copy_from_slice(&length.to_be_bytes());
        true
    }

    /// Removes everything from a position on.
    pub(super) fn truncate(&mut self, to: usize) {
        self.bytes.truncate(to);
        self.names.retain(|_, at| usize::from(*at) < to);
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Overwrites bytes at a position.
    pub(super) fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The message, unless it is too long.
    pub(super) fn message(&self) -> Option<&[u8]> {
        (self.bytes.len() <= MESSAGE_BYTES_MAX).then_some(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Name, NameBuf};

    #[test]
    fn compressed_names_are_read_back() {
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
        composer.truncate(before);
        composer.name(b"\x01b\0", true);
        assert_eq!(composer.message().unwrap()[12..], *b"\x01a\0\x01b\0");
    }
}
