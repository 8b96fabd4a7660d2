//! The SOA record of negative responses (RFC 2308 3), prepared when a zone changes. Its names are already compressed
//! against the apex, whose offset in a response follows from the question. So a response searches for no suffixes.
//!
//! ```text
//!   TTL (4) | MNAME | RNAME | five numbers (20)
//!   a name:  number of literal bytes, offset of their last label, pointer, the literal bytes
//! ```
//!
//! The result is identical to that of [`Composer::push_rrset`], which handles all other cases.

use super::{Composer, Full};
use crate::limits::{HEADER_BYTES, SOA_FORM_LABELS_MAX};
use crate::name::NameRef;
use crate::number::{Class, Rtype};
use crate::parse::Section;

/// Bytes of the five numbers of an SOA.
const NUMBERS_BYTES: usize = 20;
/// Bytes of the pointer to the owner, and of type, class, TTL and length.
const HEAD_BYTES: usize = 2 + 10;

/// The target of the pointer at the end of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pointer {
    /// No pointer: the name is uncompressed.
    None,
    /// The apex, at this offset from its start.
    Apex(u8),
    /// The MNAME, at this offset from its start.
    Mname(u8),
}

/// A name of the rdata.
#[derive(Clone, Copy)]
struct Part<'f> {
    literal: &'f [u8],
    /// Offset of the last label of `literal`.
    last_at: usize,
    pointer: Pointer,
}

/// The prepared SOA of negative responses; see the module. The zone stores its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SoaForm<'f>(&'f [u8]);

impl<'f> SoaForm<'f> {
    /// The form with stored bytes. Empty bytes mean no form.
    #[must_use]
    pub const fn from_bytes(bytes: &'f [u8]) -> Self {
        Self(bytes)
    }

    /// Prepares the SOA of a zone with the TTL of negative responses. The form is empty for the root zone, and for
    /// names with very many labels.
    #[must_use]
    pub fn make(apex: NameRef<'_>, ttl: u32, rdata: &[u8]) -> Vec<u8> {
        Self::try_make(apex, ttl, rdata).unwrap_or_default()
    }

    fn try_make(apex: NameRef<'_>, ttl: u32, rdata: &[u8]) -> Option<Vec<u8>> {
        let (mname, rest) = NameRef::split_from(rdata).ok()?;
        let (rname, numbers) = NameRef::split_from(rest).ok()?;
        let is_short = apex.label_count() + mname.label_count() <= SOA_FORM_LABELS_MAX;
        if apex.is_root() || numbers.len() != NUMBERS_BYTES || !is_short {
            return None;
        }
        let mut form = ttl.to_be_bytes().to_vec();
        let (common, _) = common_end(mname, apex);
        let pointer = pointer_offset(common, apex).map_or(Pointer::None, Pointer::Apex);
        let mname_literal = push_part(&mut form, mname, common, pointer);
        // RNAME can point only into the literal bytes of MNAME.
        let (common, _) = common_end(rname, apex);
        let (common_mname, at) = common_end(rname, mname);
        if common_mname > common && at < mname_literal {
            push_part(&mut form, rname, common_mname, Pointer::Mname(at as u8));
        } else {
            let pointer = pointer_offset(common, apex).map_or(Pointer::None, Pointer::Apex);
            push_part(&mut form, rname, common, pointer);
        }
        form.extend_from_slice(numbers);
        Some(form)
    }

    fn parts(self) -> Option<(&'f [u8; 4], Part<'f>, Part<'f>, &'f [u8])> {
        let (ttl, rest) = self.0.split_first_chunk()?;
        let (mname, rest) = split_part(rest)?;
        let (rname, numbers) = split_part(rest)?;
        Some((ttl, mname, rname, numbers))
    }
}

/// The longest common suffix of two names, byte by byte because names in rdata keep their case: its length without the
/// root label, and its offset in the second name.
fn common_end(name: NameRef<'_>, other: NameRef<'_>) -> (usize, usize) {
    let mut end = name.as_bytes();
    while end[0] != 0 {
        let at = other.as_bytes().len().checked_sub(end.len());
        let found = at.filter(|&at| other.as_bytes()[at..] == *end && is_label_start(other, at));
        if let Some(at) = found {
            return (end.len() - 1, at);
        }
        end = &end[1 + usize::from(end[0])..];
    }
    (0, other.as_bytes().len() - 1)
}

fn is_label_start(name: NameRef<'_>, at: usize) -> bool {
    let mut start = 0;
    while start < at {
        start += 1 + usize::from(name.as_bytes()[start]);
    }
    start == at
}

/// Offset of the suffix of the apex that has this many bytes; `None` for the root.
fn pointer_offset(common: usize, apex: NameRef<'_>) -> Option<u8> {
    (common > 0).then(|| (apex.as_bytes().len() - 1 - common) as u8)
}

/// Appends a name, whose last `common` bytes before the root label are replaced by the pointer. Returns the number of
/// literal bytes.
fn push_part(form: &mut Vec<u8>, name: NameRef<'_>, common: usize, pointer: Pointer) -> usize {
    let bytes = name.as_bytes();
    let literal = if pointer == Pointer::None { bytes } else { &bytes[..bytes.len() - 1 - common] };
    let (mut last_at, mut at) = (0, 0);
    while at < literal.len() && literal[at] != 0 {
        last_at = at;
        at += 1 + usize::from(literal[at]);
    }
    let (kind, offset) = match pointer {
        Pointer::None => (0, 0),
        Pointer::Apex(offset) => (1, offset),
        Pointer::Mname(offset) => (2, offset),
    };
    form.extend_from_slice(&[literal.len() as u8, last_at as u8, kind, offset]);
    form.extend_from_slice(literal);
    literal.len()
}

fn split_part(bytes: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let (&[len, last_at, kind, offset], rest) = bytes.split_first_chunk()?;
    let (literal, rest) = rest.split_at_checked(len.into())?;
    let pointer = match kind {
        0 => Pointer::None,
        1 => Pointer::Apex(offset),
        _ => Pointer::Mname(offset),
    };
    Some((Part { literal, last_at: last_at.into(), pointer }, rest))
}

impl Part<'_> {
    /// Whether the name has this label directly before the whole apex. Then it may share a longer suffix with the
    /// question.
    fn goes_on_with(&self, label: &[u8]) -> bool {
        self.pointer == Pointer::Apex(0) && !label.is_empty() && self.literal.get(self.last_at..) == Some(label)
    }

    const fn byte_count(&self) -> usize {
        self.literal.len() + if matches!(self.pointer, Pointer::None) { 0 } else { 2 }
    }

    /// Writes the name to the start, and returns the rest.
    fn put<'o>(&self, bytes: &'o mut [u8], apex_at: usize, mname_at: usize) -> &'o mut [u8] {
        let (literal, rest) = bytes.split_at_mut(self.literal.len());
        literal.copy_from_slice(self.literal);
        let target = match self.pointer {
            Pointer::None => return rest,
            Pointer::Apex(offset) => apex_at + usize::from(offset),
            Pointer::Mname(offset) => mname_at + usize::from(offset),
        };
        let (pointer, rest) = rest.split_at_mut(2);
        pointer.copy_from_slice(&(0xC000 | target as u16).to_be_bytes());
        rest
    }
}

impl Composer<'_> {
    /// Writes the SOA of a negative response. It must be the first record, and no name may follow it. The question's
    /// name is at or below the apex. Returns false, and writes nothing, if the form does not fit this question.
    ///
    /// # Errors
    /// [`Full`] when there is no room. Nothing is written then.
    pub fn push_soa_form(&mut self, apex: NameRef<'_>, form: SoaForm<'_>) -> Result<bool, Full> {
        let Some((ttl, mname, rname, numbers)) = form.parts() else { return Ok(false) };
        let Some((apex_at, label)) = self.apex_in_question(apex) else { return Ok(false) };
        if mname.goes_on_with(label) || rname.goes_on_with(label) {
            return Ok(false);
        }
        let rdata_len = mname.byte_count() + rname.byte_count() + numbers.len();
        let mname_at = self.at + HEAD_BYTES;
        let (head, rdata) = self.claim(HEAD_BYTES + rdata_len)?.split_at_mut(HEAD_BYTES);
        head[..2].copy_from_slice(&(0xC000 | apex_at as u16).to_be_bytes());
        head[2..4].copy_from_slice(&Rtype::SOA.0.to_be_bytes());
        head[4..6].copy_from_slice(&Class::IN.0.to_be_bytes());
        head[6..10].copy_from_slice(ttl);
        head[10..].copy_from_slice(&(rdata_len as u16).to_be_bytes());
        let rest = mname.put(rdata, apex_at, mname_at);
        rname.put(rest, apex_at, mname_at).copy_from_slice(numbers);
        self.header.counts[Section::Authority as usize] += 1;
        Ok(true)
    }

    /// Offset of the apex in the question, and the label before it, which is empty if the question is for the apex.
    /// `None` if the spelling differs, or the message has records already.
    fn apex_in_question(&self, apex: NameRef<'_>) -> Option<(usize, &[u8])> {
        let qname = self.bytes.get(HEADER_BYTES..HEADER_BYTES + self.names.qname_len())?;
        let apex_start = qname.len().checked_sub(apex.as_bytes().len())?;
        if self.at != self.records_at.at || qname[apex_start..] != *apex.as_bytes() {
            return None;
        }
        let (mut at, mut label_at) = (0, 0);
        for _ in 0..=SOA_FORM_LABELS_MAX {
            if at >= apex_start {
                return (at == apex_start).then_some((HEADER_BYTES + at, &qname[label_at..apex_start]));
            }
            label_at = at;
            at += 1 + usize::from(qname[at]);
        }
        None
    }
}
