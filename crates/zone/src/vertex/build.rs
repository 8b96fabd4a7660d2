//! Builds leaves: decodes, changes and encodes the RRsets of an owner name.

use super::leaf::{HEAD_ALIAS, HEAD_CUT, HEAD_DNAME, KIND_VERTEX};
use super::read::Vertex;
use crate::limits::NUMBER_BYTES_MAX;
use crate::record::RecordRef;
use core::cmp::Ordering;
use wire::name::NameRef;
use wire::number::Rtype;
use wire::rdata::{Field, layout};

/// Why a record cannot be deleted or added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordMismatch {
    /// It does not exist.
    Missing,
    /// It exists already.
    Present,
    /// Its TTL differs from that of its RRset.
    Ttl,
}

/// An RRset being changed. The RRSIGs that cover one type count as one RRset (RFC 4034 3 ties their TTL to it).
#[derive(Debug, Default)]
pub(crate) struct Rdataset<'r> {
    pub(crate) ttl: u32,
    /// In canonical order, without duplicates.
    pub(crate) rdatas: Vec<&'r [u8]>,
}

/// The RRsets of one type and their RRSIGs.
#[derive(Debug)]
pub(crate) struct Draft<'r> {
    rtype: Rtype,
    pub(crate) data: Rdataset<'r>,
    pub(crate) rrsigs: Rdataset<'r>,
}

/// The changed RRsets of an owner name. Borrows rdatas from the leaf and from new records.
#[derive(Debug)]
pub(crate) struct VertexDraft<'r> {
    owner: NameRef<'r>,
    /// In ascending order of type.
    drafts: Vec<Draft<'r>>,
}

impl<'r> VertexDraft<'r> {
    /// An owner name without records.
    pub(crate) const fn new(owner: NameRef<'r>) -> Self {
        Self { owner, drafts: Vec::new() }
    }

    /// Decodes a leaf.
    pub(crate) fn from_vertex(vertex: &Vertex<'r>) -> Self {
        let drafts = vertex.entries().map(|rrset| Draft {
            rtype: rrset.rtype,
            data: Rdataset { ttl: rrset.ttl, rdatas: rrset.rdatas().collect() },
            rrsigs: Rdataset { ttl: rrset.rrsig_ttl, rdatas: rrset.rrsigs().collect() },
        });
        Self { owner: vertex.owner(), drafts: drafts.collect() }
    }

    /// The RRset, or the group of RRSIGs, that a record of this type and rdata belongs to.
    pub(crate) fn rdataset(&mut self, rtype: Rtype, rdata: &[u8]) -> &mut Rdataset<'r> {
        let kept_with = kept_with(rtype, rdata);
        let at = match self.drafts.binary_search_by_key(&kept_with, |draft| draft.rtype) {
            Ok(at) => at,
            Err(at) => {
                let draft = Draft { rtype: kept_with, data: Rdataset::default(), rrsigs: Rdataset::default() };
                self.drafts.insert(at, draft);
                at
            }
        };
        if rtype == Rtype::RRSIG { &mut self.drafts[at].rrsigs } else { &mut self.drafts[at].data }
    }

    /// Whether there are no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.drafts.iter().all(|draft| draft.data.rdatas.is_empty() && draft.rrsigs.rdatas.is_empty())
    }

    /// Replaces `leaf` by the encoding of the RRsets.
    pub(crate) fn write(&self, is_apex: bool, leaf: &mut Vec<u8>) {
        leaf.clear();
        leaf.push(0);
        leaf.extend_from_slice(self.owner.as_bytes());
        let mut head = KIND_VERTEX;
        for Draft { rtype, data, rrsigs } in &self.drafts {
            if data.rdatas.is_empty() && rrsigs.rdatas.is_empty() {
                continue;
            }
            if !data.rdatas.is_empty() {
                head |= head_of(*rtype, is_apex);
            }
            leaf.extend_from_slice(&rtype.0.to_be_bytes());
            let ttl = if data.rdatas.is_empty() { 0 } else { data.ttl };
            leaf.extend_from_slice(&ttl.to_be_bytes());
            let signed = !rrsigs.rdatas.is_empty();
            push_number(leaf, data.size() << 1 | usize::from(signed));
            data.write(leaf);
            if signed {
                leaf.extend_from_slice(&rrsigs.ttl.to_be_bytes());
                push_number(leaf, rrsigs.size());
                rrsigs.write(leaf);
            }
        }
        leaf[0] = head;
    }
}

/// Replaces `leaf` by the encoding of an owner with a single record that is no RRSIG. The result is the same as with a
/// draft, but faster. Most imported owners are of this kind.
pub(crate) fn write_single(record: &RecordRef<'_>, is_apex: bool, leaf: &mut Vec<u8>) {
    let RecordRef { owner, rtype, ttl, rdata } = *record;
    debug_assert_ne!(rtype, Rtype::RRSIG);
    leaf.clear();
    leaf.push(KIND_VERTEX | head_of(rtype, is_apex));
    leaf.extend_from_slice(owner.as_bytes());
    leaf.extend_from_slice(&rtype.0.to_be_bytes());
    leaf.extend_from_slice(&ttl.to_be_bytes());
    push_number(leaf, (number_bytes(rdata.len()) + rdata.len()) << 1);
    push_number(leaf, rdata.len());
    leaf.extend_from_slice(rdata);
}

/// The flags of a type in the leaf's first byte.
fn head_of(rtype: Rtype, is_apex: bool) -> u8 {
    match rtype {
        Rtype::NS if !is_apex => HEAD_CUT,
        Rtype::DNAME => HEAD_DNAME,
        Rtype::CNAME => HEAD_ALIAS,
        _ => 0,
    }
}

impl<'r> Rdataset<'r> {
    /// Deletes a record.
    pub(crate) fn delete(&mut self, rtype: Rtype, ttl: u32, rdata: &[u8]) -> Result<(), RecordMismatch> {
        let at = self.find(rtype, rdata).map_err(|_| RecordMismatch::Missing)?;
        if self.ttl != ttl {
            return Err(RecordMismatch::Ttl);
        }
        self.rdatas.remove(at);
        Ok(())
    }

    /// Adds a new record, whose TTL must be that of its RRset.
    pub(crate) fn add(&mut self, rtype: Rtype, ttl: u32, rdata: &'r [u8]) -> Result<(), RecordMismatch> {
        let at = self.find(rtype, rdata).err().ok_or(RecordMismatch::Present)?;
        // RFC 2181 5.2: the TTLs of all records of an RRset are the same.
        if !self.rdatas.is_empty() && self.ttl != ttl {
            return Err(RecordMismatch::Ttl);
        }
        self.ttl = ttl;
        self.rdatas.insert(at, rdata);
        Ok(())
    }

    /// The index of an equal rdata, or the index at which to insert one.
    pub(crate) fn find(&self, rtype: Rtype, rdata: &[u8]) -> Result<usize, usize> {
        // Records mostly come in canonical order.
        match self.rdatas.last() {
            None => Err(0),
            Some(last) if canonical_cmp(rtype, last, rdata) == Ordering::Less => Err(self.rdatas.len()),
            Some(_) => self.rdatas.binary_search_by(|kept| canonical_cmp(rtype, kept, rdata)),
        }
    }

    fn size(&self) -> usize {
        self.rdatas.iter().map(|rdata| number_bytes(rdata.len()) + rdata.len()).sum()
    }

    fn write(&self, leaf: &mut Vec<u8>) {
        for rdata in &self.rdatas {
            push_number(leaf, rdata.len());
            leaf.extend_from_slice(rdata);
        }
    }
}

/// The type of a record's RRset: its own, or the covered type of an RRSIG (RFC 4034 3.1.1).
pub(crate) fn kept_with(rtype: Rtype, rdata: &[u8]) -> Rtype {
    match (rtype, rdata) {
        (Rtype::RRSIG, [high, low, ..]) => Rtype(u16::from_be_bytes([*high, *low])),
        (Rtype::RRSIG, _) => Rtype(0),
        _ => rtype,
    }
}

/// Compares rdatas in canonical form (RFC 4034 6.2, 6.3).
pub(crate) fn canonical_cmp(rtype: Rtype, a: &[u8], b: &[u8]) -> Ordering {
    if !is_case_folded(rtype) || a == b {
        return a.cmp(b);
    }
    canonical(rtype, a).cmp(&canonical(rtype, b))
}

/// Whether rdata of a type contains names that are compared without case.
pub(crate) fn is_case_folded(rtype: Rtype) -> bool {
    layout(rtype).unwrap_or_default().iter().any(|field| match field {
        Field::Name(rule) => rule.lowercase,
        Field::A6Name => true,
        _ => false,
    })
}

/// The canonical form of an rdata (RFC 4034 6.2).
pub(crate) fn canonical(rtype: Rtype, rdata: &[u8]) -> Vec<u8> {
    let mut bytes = rdata.to_vec();
    wire::rdata::rdata_lowercase(rtype, &mut bytes);
    bytes
}

const fn number_bytes(number: usize) -> usize {
    match number {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => NUMBER_BYTES_MAX,
    }
}

fn push_number(leaf: &mut Vec<u8>, number: usize) {
    let bytes = number_bytes(number);
    for shift in 0..bytes {
        let more = if shift + 1 < bytes { 0x80 } else { 0 };
        leaf.push((number >> (7 * shift) & 0x7F) as u8 | more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn single_record_has_the_same_encoding_as_a_draft(
            rtype in prop::sample::select(vec![1, 2, 5, 16, 28, 39, 65_280]),
            ttl in any::<u32>(),
            rdata in prop_oneof![0..20_usize, 0..20_000_usize].prop_flat_map(|len| vec(any::<u8>(), len)),
            is_apex in any::<bool>(),
        ) {
            let owner: wire::Name = "Some.Name.test.".parse().unwrap();
            let record = RecordRef { owner: owner.as_ref(), rtype: Rtype(rtype), ttl, rdata: &rdata };
            let mut draft = VertexDraft::new(record.owner);
            draft.rdataset(record.rtype, &rdata).add(record.rtype, ttl, &rdata).unwrap();
            let (mut from_draft, mut single) = (Vec::new(), vec![1]);
            draft.write(is_apex, &mut from_draft);
            write_single(&record, is_apex, &mut single);
            prop_assert_eq!(from_draft, single);
        }
    }
}
