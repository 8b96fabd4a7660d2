//! Records by owner and type, without moving them: zones are large, and most are sorted already.

use crate::limits::{DISORDER_SHARE, SEARCHES_MAX};
use crate::record::{RecordList, RecordRef};
use core::cell::{Cell, OnceCell};
use core::ops::Range;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// A hash of a name without regard to case, eight octets at a time. The file is the operator's own, so nobody aims at
/// collisions.
fn hash(name: NameRef<'_>) -> u64 {
    let mut hash = 0u64;
    for chunk in name.octets().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        // Clears the bit of case in every octet; a few more names collide, equality decides.
        let word = u64::from_le_bytes(word) & !0x2020_2020_2020_2020;
        hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    hash ^ hash >> 32
}

/// The owners of a zone by name.
///
/// Where their order is canonical (RFC 4034 6.1) it is all that is needed to find one. A table is made when it is not,
/// or when many are looked for: open addressing, where a slot holds half of the hash and one more than the number of an
/// owner; 0 is free.
struct Names {
    /// The first record of each owner.
    firsts: Vec<u32>,
    is_sorted: bool,
    /// How often one was looked for without the table.
    searches: Cell<usize>,
    slots: OnceCell<Vec<u64>>,
}

impl Names {
    fn new(is_sorted: bool, owners_max: usize) -> Self {
        let slots = if is_sorted { OnceCell::new() } else { vec![0; (owners_max * 2).next_power_of_two()].into() };
        Self { firsts: Vec::new(), is_sorted, searches: Cell::new(0), slots }
    }

    /// The table of owners that were sorted.
    fn table(&self, records: &RecordList) -> Vec<u64> {
        let mut slots = vec![0; (self.firsts.len() * 2).next_power_of_two()];
        for (number, &first) in self.firsts.iter().enumerate() {
            let (slot, tag) = self.slot(&slots, records, records.get(first as usize).owner);
            slots[slot] = tag | (number as u64 + 1);
        }
        slots
    }

    /// The slot that holds the name, or the free one where it would go, and what is stored there of the hash.
    fn slot(&self, slots: &[u64], records: &RecordList, name: NameRef<'_>) -> (usize, u64) {
        let hash = hash(name);
        let (tag, mask) = (hash & 0xFFFF_FFFF_0000_0000, slots.len() - 1);
        let mut slot = hash as usize & mask;
        loop {
            let held = slots[slot];
            let is_name = || records.get(self.firsts[held as u32 as usize - 1] as usize).owner == name;
            if held == 0 || (held & 0xFFFF_FFFF_0000_0000 == tag && is_name()) {
                return (slot, tag);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn find(&self, records: &RecordList, name: NameRef<'_>) -> Option<u32> {
        if self.slots.get().is_none() && self.searches.get() < SEARCHES_MAX {
            self.searches.set(self.searches.get() + 1);
            let order = |first: &u32| records.get(*first as usize).owner.cmp(&name);
            return self.firsts.binary_search_by(order).ok().map(|number| number as u32);
        }
        let slots = self.slots.get_or_init(|| self.table(records));
        (slots[self.slot(slots, records, name).0] as u32).checked_sub(1)
    }

    /// The number of the owner of a record, a new one if need be. Of sorted owners, the last or one behind it.
    fn number(&mut self, records: &RecordList, index: u32) -> u32 {
        let name = records.get(index as usize).owner;
        let Some(mut slots) = self.slots.take() else {
            if self.firsts.last().is_none_or(|&last| records.get(last as usize).owner != name) {
                self.firsts.push(index);
            }
            return self.firsts.len() as u32 - 1;
        };
        let (slot, tag) = self.slot(&slots, records, name);
        if slots[slot] == 0 {
            self.firsts.push(index);
            slots[slot] = tag | self.firsts.len() as u64;
        }
        let number = slots[slot] as u32 - 1;
        self.slots = slots.into();
        number
    }
}

/// Brings the numbers of records into the canonical order of their owners, unless that is a long way; says whether it
/// was done.
fn sort(inside: &mut [u32], records: &RecordList) -> bool {
    let owner = |index: u32| records.get(index as usize).owner;
    let descents = inside.windows(2).filter(|pair| owner(pair[0]).cmp(&owner(pair[1])).is_gt()).count();
    if descents > inside.len() / DISORDER_SHARE {
        return false;
    }
    if descents > 0 {
        // Stable, and as quick as there are few runs.
        inside.sort_by(|&a, &b| owner(a).cmp(&owner(b)));
    }
    true
}

/// The records of a zone by owner and type.
pub(super) struct Groups {
    names: Names,
    /// Numbers of records, by owner, then type (of RRSIG: covered type), then as in the file.
    order: Vec<u32>,
    /// Where in `order` each RRset begins, and the last one ends.
    rrsets: Vec<u32>,
    /// Where in `rrsets` each owner begins, and the last one ends.
    owners: Vec<u32>,
    outside: Vec<u32>,
    apex: Option<u32>,
}

impl Groups {
    pub(super) fn new(apex: &Name, records: &RecordList) -> Self {
        let is_outside = |index: &u32| !records.get(*index as usize).owner.is_at_or_below(apex.as_ref());
        let (outside, mut inside): (Vec<u32>, Vec<u32>) = (0..records.len() as u32).partition(is_outside);
        let mut names = Names::new(sort(&mut inside, records), records.len());
        let mut keyed = Vec::with_capacity(inside.len());
        let mut before: Option<(NameRef<'_>, u32)> = None;
        for index in inside {
            let record = records.get(index as usize);
            let owner = match before {
                Some((name, number)) if name.octets() == record.owner.octets() => number,
                _ => names.number(records, index),
            };
            before = Some((record.owner, owner));
            keyed.push((u64::from(owner) << 32 | u64::from(kind(record)), index));
        }
        // Stable, and next to nothing for what is sorted.
        keyed.sort_by_key(|&(key, _)| key);
        let (mut rrsets, mut owners) =
            (Vec::with_capacity(keyed.len() + 1), Vec::with_capacity(names.firsts.len() + 1));
        let mut last = None;
        for (at, &(key, _)) in keyed.iter().enumerate() {
            if last.is_none_or(|last: u64| last >> 32 != key >> 32) {
                owners.push(rrsets.len() as u32);
            }
            if last != Some(key) {
                rrsets.push(at as u32);
            }
            last = Some(key);
        }
        owners.push(rrsets.len() as u32);
        rrsets.push(keyed.len() as u32);
        let order = keyed.into_iter().map(|(_, index)| index).collect();
        let apex = names.find(records, apex.as_ref());
        Self { names, order, rrsets, owners, outside, apex }
    }

    /// Numbers of records outside of the zone.
    pub(super) fn outside(&self) -> &[u32] {
        &self.outside
    }

    /// The numbers of all owners.
    pub(super) fn owners(&self) -> Range<u32> {
        0..self.names.firsts.len() as u32
    }

    pub(super) fn owner_name<'r>(&self, records: &'r RecordList, owner: u32) -> NameRef<'r> {
        records.get(self.names.firsts[owner as usize] as usize).owner
    }

    /// The number of a name that owns records.
    pub(super) fn find(&self, records: &RecordList, name: NameRef<'_>) -> Option<u32> {
        self.names.find(records, name)
    }

    /// Whether a name comes before all that is below it, and these before all others.
    pub(super) const fn is_sorted(&self) -> bool {
        self.names.is_sorted
    }

    /// The number of the apex, if it owns records.
    pub(super) const fn apex(&self) -> Option<u32> {
        self.apex
    }

    /// The RRsets of an owner, each as numbers of records. Signatures are one set for each type that they cover.
    pub(super) fn rrsets(&self, owner: u32) -> impl Iterator<Item = &[u32]> {
        let at = owner as usize;
        (self.owners[at] as usize..self.owners[at + 1] as usize)
            .map(|rrset| &self.order[self.rrsets[rrset] as usize..self.rrsets[rrset + 1] as usize])
    }

    /// The first record of an owner's RRset of a type.
    pub(super) fn find_type<'r>(
        &self,
        records: &'r RecordList,
        owner: u32,
        rtype: Rtype,
    ) -> Option<(RecordRef<'r>, u32)> {
        let mut firsts = self.rrsets(owner).map(|rrset| (records.get(rrset[0] as usize), rrset[0]));
        firsts.find(|(record, _)| record.rtype == rtype)
    }

    /// The records by owner and type, but for those that `dropped` names in order.
    pub(super) fn into_served(mut self, records: RecordList, dropped: &[bool]) -> RecordList {
        self.order.retain(|&index| !dropped.get(index as usize).is_some_and(|&is_dropped| is_dropped));
        if self.order.len() == records.len() && self.order.is_sorted() {
            return records;
        }
        records.pick(self.order.into_iter().map(|index| index as usize))
    }
}

/// What makes records of one owner one set: the type, and for signatures the type they cover (RFC 4035 2.2).
fn kind(record: RecordRef<'_>) -> u32 {
    match (record.rtype, record.rdata.first_chunk::<2>()) {
        (Rtype::RRSIG, Some(covered)) => u32::from(Rtype::RRSIG.0) << 16 | u32::from(u16::from_be_bytes(*covered)),
        (rtype, _) => u32::from(rtype.0) << 16,
    }
}
