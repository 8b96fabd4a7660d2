//! Names sent before, for compression (RFC 1035 4.1.4).
//!
//! A bounded table of places where a name, or the end of one, stands in the message. An entry is compared only with an
//! end of its own length, so a name costs at most one comparison an entry, whatever the names are.

use crate::limits::{COMPRESSION_ENTRIES_MAX, HEADER_OCTETS, POINTER_TARGET_MAX};
use crate::name::NameRef;

/// Whether a pointer may lead to a name that differs in case (RFC 4343 4.1 allows it, and says what it costs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Case {
    /// No: what the receiver reads has the octets of the name that was written.
    Kept,
    /// Yes: the receiver may read the case of a name that was written before, say of the question.
    Ignored,
}

/// Where names and their ends stand in the message so far.
pub(super) struct SentNames {
    count: usize,
    /// Octets of the question's name, which stands first; 0 without a question. Most responses have no other name, so
    /// its ends are noted when one comes that is not it.
    qname_len: usize,
    /// Octets of the end, uncompressed.
    lens: [u8; COMPRESSION_ENTRIES_MAX],
    /// Sum of its octets without case: tells most names apart that are of one length.
    sums: [u16; COMPRESSION_ENTRIES_MAX],
    offsets: [u16; COMPRESSION_ENTRIES_MAX],
}

impl SentNames {
    pub(super) const fn new() -> Self {
        Self {
            count: 0,
            qname_len: 0,
            lens: [0; COMPRESSION_ENTRIES_MAX],
            sums: [0; COMPRESSION_ENTRIES_MAX],
            offsets: [0; COMPRESSION_ENTRIES_MAX],
        }
    }

    /// Forgets all, and notes that a question's name of this length stands behind the header.
    pub(super) const fn restart(&mut self, qname_len: usize) {
        self.count = 0;
        self.qname_len = qname_len;
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) const fn truncate(&mut self, count: usize) {
        self.count = count;
    }

    /// The longest end of `name` that was sent: how many octets stand before it, and where it stands in `message`.
    /// Without one, all octets but the root label, and `None`.
    pub(super) fn find(&mut self, message: &[u8], name: NameRef<'_>, case: Case) -> (usize, Option<u16>) {
        let octets = name.octets();
        // Most owners are the name of the question. The root is no longer than a pointer to it.
        let qname = message.get(HEADER_OCTETS..HEADER_OCTETS + self.qname_len).unwrap_or_default();
        if qname == octets && octets.len() > 1 {
            return (0, Some(HEADER_OCTETS as u16));
        }
        if self.count == 0
            && let Ok((qname, _)) = NameRef::split_from(qname)
        {
            self.remember(qname, qname.octets().len() - 1, HEADER_OCTETS);
        }
        let (mut at, mut left) = (0, sum(octets));
        while octets[at] != 0 {
            let end = &octets[at..];
            for entry in 0..self.count {
                let offset = self.offsets[entry];
                let may_be = self.lens[entry] as usize == end.len() && self.sums[entry] == left;
                if may_be && stands_at(message, offset, end, case) {
                    return (at, Some(offset));
                }
            }
            let label = 1 + octets[at] as usize;
            left = left.wrapping_sub(sum(&octets[at..at + label]));
            at += label;
        }
        (at, None)
    }

    /// Remembers the ends of `name` that start within its first `literal` octets; the name was written at `offset`.
    pub(super) fn remember(&mut self, name: NameRef<'_>, literal: usize, offset: usize) {
        let octets = name.octets();
        let (mut at, mut left) = (0, sum(octets));
        while at < literal && self.count < COMPRESSION_ENTRIES_MAX && offset + at <= POINTER_TARGET_MAX {
            self.lens[self.count] = (octets.len() - at) as u8;
            self.sums[self.count] = left;
            self.offsets[self.count] = (offset + at) as u16;
            self.count += 1;
            let label = 1 + octets[at] as usize;
            left = left.wrapping_sub(sum(&octets[at..at + label]));
            at += label;
        }
    }
}

fn sum(octets: &[u8]) -> u16 {
    octets.iter().fold(0, |sum, octet| sum.wrapping_add(octet.to_ascii_lowercase().into()))
}

/// Whether the name at `offset` of the message, whose pointers are our own, is `end`.
fn stands_at(message: &[u8], offset: u16, mut end: &[u8], case: Case) -> bool {
    let mut at = offset as usize;
    loop {
        match message.get(at..) {
            Some([high, low, ..]) if *high >= 0xC0 => {
                let target = usize::from(high & 0x3F) << 8 | usize::from(*low);
                // Ours always go back; this holds even if they did not.
                if target >= at {
                    return false;
                }
                at = target;
            }
            Some(rest @ [len, ..]) => {
                let len = 1 + *len as usize;
                let (Some(label), Some((ours, behind))) = (rest.get(..len), end.split_at_checked(len)) else {
                    return false;
                };
                let is_same = match case {
                    Case::Kept => label == ours,
                    Case::Ignored => label.eq_ignore_ascii_case(ours),
                };
                if !is_same {
                    return false;
                }
                if len == 1 {
                    return behind.is_empty();
                }
                (end, at) = (behind, at + len);
            }
            _ => return false,
        }
    }
}
