//! The effect of a set of records on its owner names. This module only writes the leaves, and the caller puts them into
//! the trees. So a change that does not fit has changed nothing.

use super::error::{ApplyError, RecordFault};
use super::zone_record::ZoneRecord;
use crate::hash::RecordHasher;
use crate::limits::LEAF_BYTES_MAX;
use crate::record::{Changeset, Record, RecordRef};
use crate::vertex::build::{RecordMismatch, VertexDraft, kept_with, write_single};
use crate::vertex::{LeafNames, Vertex};
use crate::{key, vertex};
use core::cmp::Ordering;
use store::{Key, View};
use wire::name::NameRef;
use wire::number::Rtype;

/// The zone before the change.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) store: View<'a, LeafNames>,
    pub(super) apex: NameRef<'a>,
    pub(super) record: ZoneRecord,
    pub(super) hasher: &'a RecordHasher,
}

/// The change of one owner name.
pub(super) struct LeafChange {
    pub(super) hashed: bool,
    pub(super) owner: Key,
    /// The new leaf; `None` if no record is left.
    pub(super) leaf: Option<Vec<u8>>,
}

/// The effect of records on a zone.
#[derive(Default)]
pub(super) struct Effect {
    pub(super) leaves: Vec<LeafChange>,
    /// Added to the hash of the zone.
    pub(super) hash: u128,
    /// Added to the count of its records, modulo 2^64.
    pub(super) record_count: u64,
}

/// One record of a changeset.
#[derive(Clone, Copy)]
struct RecordChange<'r> {
    record: &'r Record,
    adds: bool,
    index: usize,
}

impl RecordChange<'_> {
    fn fault(&self, fault: RecordFault) -> ApplyError {
        let index = self.index;
        if self.adds { ApplyError::Added { index, fault } } else { ApplyError::Deleted { index, fault } }
    }

    fn hashed(&self) -> bool {
        is_hashed(self.record.into())
    }

    fn tree_order(&self, other: &Self) -> Ordering {
        self.hashed().cmp(&other.hashed()).then_with(|| self.record.owner.cmp(&other.record.owner))
    }
}

/// The effect of `changeset` on a zone. All its records are checked, the serials and the result are not.
pub(super) fn effect_of(base: &Base<'_>, changeset: &Changeset) -> Result<Effect, ApplyError> {
    let deleted =
        changeset.deleted.iter().enumerate().map(|(index, record)| RecordChange { record, adds: false, index });
    let added = changeset.added.iter().enumerate().map(|(index, record)| RecordChange { record, adds: true, index });
    let mut changes: Vec<RecordChange<'_>> = deleted.chain(added).collect();
    for change in &changes {
        if !change.record.owner.as_ref().is_at_or_below(base.apex) {
            return Err(change.fault(RecordFault::OutOfZone));
        }
    }
    // The sort is stable: for each owner, deleted records come before added ones.
    changes.sort_by(RecordChange::tree_order);
    let mut effect = Effect::default();
    for changes in changes.chunk_by(|a, b| a.tree_order(b) == Ordering::Equal) {
        apply_to_owner(base, changes, &mut effect)?;
    }
    Ok(effect)
}

/// Applies the changes of one owner name.
fn apply_to_owner(base: &Base<'_>, changes: &[RecordChange<'_>], effect: &mut Effect) -> Result<(), ApplyError> {
    let (owner, hashed) = (changes[0].record.owner.as_ref(), changes[0].hashed());
    let key = key::of(owner);
    let mut draft = base.draft(&key, owner, hashed);
    for change in changes {
        let Record { rtype, ttl, ref rdata, ref owner } = *change.record;
        let rdataset = draft.rdataset(rtype, rdata);
        let done = if change.adds { rdataset.add(rtype, ttl, rdata) } else { rdataset.delete(rtype, ttl, rdata) };
        done.map_err(|mismatch| change.fault(mismatch.into()))?;
        let hash = base.hasher.record(owner.as_ref(), rtype, ttl, rdata);
        effect.count(change.adds, hash);
    }
    let leaf = base.write(&draft, owner).map_err(|fault| changes[changes.len() - 1].fault(fault))?;
    effect.leaves.push(LeafChange { hashed, owner: key, leaf });
    Ok(())
}

/// A zone that is being imported.
#[derive(Clone, Copy)]
pub(super) struct Import<'a> {
    pub(super) apex: NameRef<'a>,
    pub(super) hasher: &'a RecordHasher,
}

impl Import<'_> {
    /// Writes `leaf` from the existing records of an owner name, which are `existing`, and from these records. All of
    /// them have this owner and the same tree. The growth of the zone is added to `effect`.
    ///
    /// An import accepts records in any order. Duplicates are ignored (RFC 2181 5). If the TTLs of an RRset differ, the
    /// lowest one is used for all (RFC 2181 5.2).
    pub(super) fn owner(
        &self,
        existing: Option<Vertex<'_>>,
        records: &[RecordRef<'_>],
        effect: &mut Effect,
        leaf: &mut Vec<u8>,
    ) -> Result<(), RecordFault> {
        let owner = records[0].owner;
        if let (None, [record]) = (&existing, records)
            && record.rtype != Rtype::RRSIG
        {
            effect.count(true, self.hasher.record(owner, record.rtype, record.ttl, record.rdata));
            write_single(record, owner == self.apex, leaf);
            return Ok(());
        }
        let mut draft = existing.as_ref().map_or_else(|| VertexDraft::new(owner), VertexDraft::from_vertex);
        for &RecordRef { rtype, ttl, rdata, .. } in records {
            let rdataset = draft.rdataset(rtype, rdata);
            let Err(at) = rdataset.find(rtype, rdata) else {
                continue;
            };
            let ttl = if rdataset.rdatas.is_empty() { ttl } else { ttl.min(rdataset.ttl) };
            if ttl != rdataset.ttl {
                for rdata in &rdataset.rdatas {
                    effect.hash = effect.hash.wrapping_sub(self.hasher.record(owner, rtype, rdataset.ttl, rdata));
                    effect.hash = effect.hash.wrapping_add(self.hasher.record(owner, rtype, ttl, rdata));
                }
                rdataset.ttl = ttl;
            }
            rdataset.rdatas.insert(at, rdata);
            effect.count(true, self.hasher.record(owner, rtype, ttl, rdata));
        }
        draft.write(owner == self.apex, leaf);
        if leaf.len() > LEAF_BYTES_MAX { Err(RecordFault::TooLarge) } else { Ok(()) }
    }
}

/// Whether a record is kept in the tree of hashed owner names.
pub(super) fn is_hashed(record: RecordRef<'_>) -> bool {
    kept_with(record.rtype, record.rdata) == Rtype::NSEC3
}

impl<'a> Base<'a> {
    fn draft<'r>(&self, key: &Key, owner: NameRef<'r>, hashed: bool) -> VertexDraft<'r>
    where
        'a: 'r,
    {
        match self.vertex(key, hashed) {
            Some(vertex) => VertexDraft::from_vertex(&vertex),
            None => VertexDraft::new(owner),
        }
    }

    pub(super) fn vertex(&self, key: &Key, hashed: bool) -> Option<Vertex<'a>> {
        let tree = if hashed { self.record.hashed } else { self.record.names };
        self.store.get(tree, key).map(vertex::Vertex::from_leaf)
    }

    fn write(&self, draft: &VertexDraft<'_>, owner: NameRef<'_>) -> Result<Option<Vec<u8>>, RecordFault> {
        if draft.is_empty() {
            return Ok(None);
        }
        let mut leaf = Vec::new();
        draft.write(owner == self.apex, &mut leaf);
        if leaf.len() > LEAF_BYTES_MAX { Err(RecordFault::TooLarge) } else { Ok(Some(leaf)) }
    }
}

impl Effect {
    fn count(&mut self, adds: bool, hash: u128) {
        if adds {
            self.hash = self.hash.wrapping_add(hash);
            self.record_count = self.record_count.wrapping_add(1);
        } else {
            self.hash = self.hash.wrapping_sub(hash);
            self.record_count = self.record_count.wrapping_sub(1);
        }
    }
}

impl From<RecordMismatch> for RecordFault {
    fn from(mismatch: RecordMismatch) -> Self {
        match mismatch {
            RecordMismatch::Missing => Self::Missing,
            RecordMismatch::Present => Self::Present,
            RecordMismatch::Ttl => Self::Ttl,
        }
    }
}
