//! Records by owner and type, without moving them: zones are large, and most are sorted already.

use crate::limits::{DISORDER_SHARE, MERGED_RUNS_MAX, SEARCHES_MAX};
use crate::record::{RecordList, RecordRef};
use core::cell::{Cell, OnceCell};
use core::cmp::Ordering;
use core::ops::Range;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// Hashes a name without regard to case, eight bytes at a time. Collisions are no attack, because the operator wrote
/// the file.
fn hash(name: NameRef<'_>) -> u64 {
    let mut hash = 0u64;
    for chunk in name.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        // Clears the case bit of every byte. A few more names collide, but names are compared anyway.
        let word = u64::from_le_bytes(word) & !0x2020_2020_2020_2020;
        hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    hash ^ hash >> 32
}

/// Finds the owners of a zone by name.
///
/// Owners in canonical order (RFC 4034 6.1) are found by binary search. If they are not sorted, or after many searches,
/// a hash table is used. It has open addressing. A slot contains half of the hash, and the number of an owner plus one;
/// 0 means free.
struct Names {
    /// The first record of each owner.
    first_records: Vec<u32>,
    is_sorted: bool,
    /// Number of searches without the table.
    searches: Cell<usize>,
    slots: OnceCell<Vec<u64>>,
}

impl Names {
    /// No owners yet. They must be added in canonical order.
    fn sorted(owners_max: usize) -> Self {
        let first_records = Vec::with_capacity(owners_max);
        Self { first_records, is_sorted: true, searches: Cell::new(0), slots: OnceCell::new() }
    }

    /// The owners in the order of their first records. Also sorts the records by these owners.
    fn grouped(inside: &mut Vec<u32>, records: &RecordList) -> Self {
        let mut slots = vec![0; (inside.len() * 2).next_power_of_two()];
        let mut names =
            Self { first_records: Vec::new(), is_sorted: false, searches: Cell::new(0), slots: OnceCell::new() };
        let mut before: Option<(NameRef<'_>, u32)> = None;
        let mut numbered = Vec::with_capacity(inside.len());
        for &index in &*inside {
            let name = records.get(index as usize).owner;
            let number = match before.filter(|(before, _)| before.as_bytes() == name.as_bytes()) {
                Some((_, number)) => number,
                None => {
                    let (slot, tag) = names.slot(&slots, records, name);
                    if slots[slot] == 0 {
                        names.first_records.push(index);
                        slots[slot] = tag | names.first_records.len() as u64;
                    }
                    slots[slot] as u32 - 1
                }
            };
            before = Some((name, number));
            numbered.push((number, index));
        }
        numbered.sort_by_key(|&(number, _)| number);
        *inside = numbered.into_iter().map(|(_, index)| index).collect();
        names.slots = slots.into();
        names
    }

    /// Builds the table for sorted owners.
    fn table(&self, records: &RecordList) -> Vec<u64> {
        let mut slots = vec![0; (self.first_records.len() * 2).next_power_of_two()];
        for (number, &first) in self.first_records.iter().enumerate() {
            let (slot, tag) = self.slot(&slots, records, records.get(first as usize).owner);
            slots[slot] = tag | (number as u64 + 1);
        }
        slots
    }

    /// The slot of the name, or the free slot for it, and the half of the hash that is stored in it.
    fn slot(&self, slots: &[u64], records: &RecordList, name: NameRef<'_>) -> (usize, u64) {
        let hash = hash(name);
        let (tag, mask) = (hash & 0xFFFF_FFFF_0000_0000, slots.len() - 1);
        let mut slot = hash as usize & mask;
        loop {
            let entry = slots[slot];
            let is_name = || records.get(self.first_records[entry as u32 as usize - 1] as usize).owner == name;
            if entry == 0 || (entry & 0xFFFF_FFFF_0000_0000 == tag && is_name()) {
                return (slot, tag);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn find(&self, records: &RecordList, name: NameRef<'_>) -> Option<u32> {
        if self.slots.get().is_none() && self.searches.get() < SEARCHES_MAX {
            self.searches.set(self.searches.get() + 1);
            let order = |first: &u32| records.get(*first as usize).owner.cmp(&name);
            return self.first_records.binary_search_by(order).ok().map(|number| number as u32);
        }
        let slots = self.slots.get_or_init(|| self.table(records));
        (slots[self.slot(slots, records, name).0] as u32).checked_sub(1)
    }
}

/// Returns the numbers of the records in the zone and of those outside it, in the order of the file. Also returns the
/// starts of sorted runs: between them, the owners in the zone are in canonical order.
fn split(apex: &Name, records: &RecordList) -> (Vec<u32>, Vec<u32>, Vec<usize>) {
    let (mut inside, mut outside, mut runs) = (Vec::with_capacity(records.len()), Vec::new(), Vec::new());
    let mut before: Option<NameRef<'_>> = None;
    for index in 0..records.len() as u32 {
        let owner = records.get(index as usize).owner;
        if before.is_none_or(|before| before.as_bytes() != owner.as_bytes()) {
            if !owner.is_at_or_below(apex.as_ref()) {
                outside.push(index);
                continue;
            }
            if before.is_some_and(|before| before.cmp(&owner).is_gt()) {
                runs.push(inside.len());
            }
            before = Some(owner);
        }
        inside.push(index);
    }
    (inside, outside, runs)
}

/// Sorts the numbers of records by the canonical order of their owners, unless they are far from sorted. Returns
/// whether it has sorted them. `runs` are the starts of sorted runs.
fn sort(inside: &mut Vec<u32>, runs: &[usize], records: &RecordList) -> bool {
    if runs.len() > inside.len() / DISORDER_SHARE {
        return false;
    }
    let cmp = |a: u32, b: u32| records.get(a as usize).owner.cmp(&records.get(b as usize).owner);
    if runs.len() > MERGED_RUNS_MAX {
        // This sort is stable, and faster for fewer runs.
        inside.sort_by(|&a, &b| cmp(a, b));
    } else if let Some(&first) = runs.first() {
        let ends = runs[1..].iter().copied().chain([inside.len()]);
        let merge_next = |merged: Vec<u32>, (&from, to)| merge(&merged, &inside[from..to], cmp);
        *inside = runs.iter().zip(ends).fold(inside[..first].to_vec(), merge_next);
    }
    true
}

/// Merges two sorted lists. Equal items of `a` come first. The number of comparisons grows with the number of switches
/// between the lists. Most files are sorted except for the apex and its name servers at the start.
fn merge(mut a: &[u32], mut b: &[u32], cmp: impl Fn(u32, u32) -> Ordering) -> Vec<u32> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let mut take = |from: &mut &[u32], count: usize| {
        let (head, rest) = from.split_at(count);
        merged.extend_from_slice(head);
        *from = rest;
    };
    while let Some(&next) = b.first() {
        let count = count_leading(a, |index| cmp(index, next).is_le());
        take(&mut a, count);
        let Some(&next) = a.first() else { break };
        let count = count_leading(b, |index| cmp(index, next).is_lt());
        take(&mut b, count);
    }
    merged.extend_from_slice(a);
    merged.extend_from_slice(b);
    merged
}

/// The number of leading items for which `is_before` holds, found by doubling steps.
fn count_leading(sorted: &[u32], is_before: impl Fn(u32) -> bool) -> usize {
    let mut step = 1;
    while step < sorted.len() && is_before(sorted[step]) {
        step *= 2;
    }
    let (known, end) = (step / 2, sorted.len().min(step + 1));
    known + sorted[known..end].partition_point(|&index| is_before(index))
}

/// The records of a zone by owner and type.
pub(super) struct Groups {
    names: Names,
    /// Numbers of records by owner, then by type (for RRSIG the covered type), then in file order.
    order: Vec<u32>,
    /// The start of each RRset in `order`, and the end of the last one.
    rrsets: Vec<u32>,
    /// The start of each owner in `rrsets`, and the end of the last one.
    owners: Vec<u32>,
    /// Numbers of the owners that must be checked.
    to_check: Vec<u32>,
    outside: Vec<u32>,
    apex: Option<u32>,
}

impl Groups {
    pub(super) fn new(apex: &Name, records: &RecordList) -> Self {
        let (mut order, outside, runs) = split(apex, records);
        let is_sorted = sort(&mut order, &runs, records);
        let names = if is_sorted { Names::sorted(order.len()) } else { Names::grouped(&mut order, records) };
        let capacity = order.len() + 1;
        let mut groups = Self {
            names,
            order,
            rrsets: Vec::with_capacity(capacity),
            owners: Vec::with_capacity(capacity),
            to_check: Vec::new(),
            outside,
            apex: None,
        };
        let mut from = 0;
        while from < groups.order.len() {
            from = groups.add_owner(records, from);
        }
        groups.owners.push(groups.rrsets.len() as u32);
        groups.rrsets.push(groups.order.len() as u32);
        groups.apex = groups.names.find(records, apex.as_ref());
        groups
    }

    /// Groups the records of the owner that starts at `from`. Returns the start of the next owner.
    fn add_owner(&mut self, records: &RecordList, from: usize) -> usize {
        let record = |index: u32| records.get(index as usize);
        let kind_of = |index: &u32| kind(record(*index));
        let (first, number) = (self.order[from], self.owners.len() as u32);
        let name = record(first).owner;
        let is_same_owner = |index: &&u32| record(**index).owner == name;
        let until = from + 1 + self.order[from + 1..].iter().take_while(is_same_owner).count();
        if self.names.is_sorted {
            self.names.first_records.push(first);
        }
        self.owners.push(self.rrsets.len() as u32);
        let of_owner = &mut self.order[from..until];
        if !of_owner.is_sorted_by_key(kind_of) {
            // This sort is stable, so the records of an RRset stay in file order.
            of_owner.sort_by_cached_key(kind_of);
        }
        let (mut last, mut must_check) = (None, false);
        for (at, &index) in (from..).zip(&*of_owner) {
            let record = record(index);
            let kind = kind(record);
            if last == Some(kind) {
                must_check = true;
            } else {
                self.rrsets.push(at as u32);
                must_check |= is_checked_type(record.rtype);
            }
            last = Some(kind);
        }
        if must_check {
            self.to_check.push(number);
        }
        until
    }

    /// Numbers of the records outside the zone.
    pub(super) fn outside(&self) -> &[u32] {
        &self.outside
    }

    /// The numbers of all owners.
    pub(super) fn owners(&self) -> Range<u32> {
        0..self.names.first_records.len() as u32
    }

    /// Numbers of the owners that must be checked. All others have single records of types that are allowed everywhere,
    /// so they can only be occluded.
    pub(super) fn to_check(&self) -> impl Iterator<Item = u32> {
        self.to_check.iter().copied()
    }

    pub(super) fn owner_name<'r>(&self, records: &'r RecordList, owner: u32) -> NameRef<'r> {
        records.get(self.names.first_records[owner as usize] as usize).owner
    }

    /// The number of a name that owns records.
    pub(super) fn find(&self, records: &RecordList, name: NameRef<'_>) -> Option<u32> {
        self.names.find(records, name)
    }

    /// Whether owners are in canonical order, so that names below a name follow it directly.
    pub(super) const fn is_sorted(&self) -> bool {
        self.names.is_sorted
    }

    /// The number of the apex, if it owns records.
    pub(super) const fn apex(&self) -> Option<u32> {
        self.apex
    }

    /// The RRsets of an owner, as numbers of records. RRSIGs of one covered type form one set.
    pub(super) fn rrsets(&self, owner: u32) -> impl Iterator<Item = &[u32]> {
        let at = owner as usize;
        (self.owners[at] as usize..self.owners[at + 1] as usize)
            .map(|rrset| &self.order[self.rrsets[rrset] as usize..self.rrsets[rrset + 1] as usize])
    }

    /// The first record of a type at an owner.
    pub(super) fn find_type<'r>(
        &self,
        records: &'r RecordList,
        owner: u32,
        rtype: Rtype,
    ) -> Option<(RecordRef<'r>, u32)> {
        let mut first_records = self.rrsets(owner).map(|rrset| (records.get(rrset[0] as usize), rrset[0]));
        first_records.find(|(record, _)| record.rtype == rtype)
    }

    /// The records by owner and type, except those marked in `dropped`.
    pub(super) fn into_served(mut self, records: RecordList, dropped: &[bool]) -> RecordList {
        self.order.retain(|&index| !dropped.get(index as usize).is_some_and(|&is_dropped| is_dropped));
        if self.order.len() == records.len() && self.order.is_sorted() {
            return records;
        }
        records.select(self.order.into_iter().map(|index| index as usize))
    }
}

/// Identifies an RRset of an owner: the type, and for RRSIG the covered type (RFC 4035 2.2).
fn kind(record: RecordRef<'_>) -> u32 {
    match (record.rtype, record.rdata.first_chunk::<2>()) {
        (Rtype::RRSIG, Some(covered)) => u32::from(Rtype::RRSIG.0) << 16 | u32::from(u16::from_be_bytes(*covered)),
        (rtype, _) => u32::from(rtype.0) << 16,
    }
}

/// Whether even a single record of this type must be checked. These are all types that `owners`, `rrsets` and `targets`
/// check.
const fn is_checked_type(rtype: Rtype) -> bool {
    matches!(
        rtype,
        Rtype::SOA
            | Rtype::NS
            | Rtype::CNAME
            | Rtype::DNAME
            | Rtype::DS
            | Rtype::MX
            | Rtype::SRV
            | Rtype::NSEC3
            | Rtype::NSEC3PARAM
    )
}

#[cfg(test)]
impl Groups {
    /// The same groups, but every owner is checked.
    pub(super) fn all_to_check(self) -> Self {
        Self { to_check: self.owners().collect(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn records(owners: &[u8]) -> RecordList {
        let record = |owner: &u8| {
            let name: Name = match owner {
                0 => "test.".parse().unwrap(),
                1 => "elsewhere.".parse().unwrap(),
                2..=9 => format!("N{owner}.test.").parse().unwrap(),
                _ => format!("n{}.test.", owner % 9 + 2).parse().unwrap(),
            };
            crate::Record { owner: name, rtype: Rtype::A, ttl: 60, rdata: [*owner; 4].into() }
        };
        owners.iter().map(record).collect::<Vec<_>>().into()
    }

    proptest! {
        #[test]
        fn owners_are_sorted_however_many_runs_there_are(
            runs in vec(vec(0_u8..40, 0..60), 1..14),
            is_sorted in any::<bool>(),
        ) {
            let mut owners = runs;
            if is_sorted {
                let order = |owner: &u8| records(&[*owner]).get(0).owner.to_name();
                owners.iter_mut().for_each(|run| run.sort_by_key(order));
            }
            let (apex, records) = ("test.".parse().unwrap(), records(&owners.concat()));
            let groups = Groups::new(&apex, &records);
            let is_in = |index: &u32| records.get(*index as usize).owner.is_at_or_below(apex.as_ref());
            let (mut inside, outside): (Vec<u32>, Vec<u32>) = (0..records.len() as u32).partition(is_in);
            prop_assert_eq!(groups.outside(), outside);
            if groups.is_sorted() {
                inside.sort_by(|&a, &b| records.get(a as usize).owner.cmp(&records.get(b as usize).owner));
                prop_assert_eq!(&groups.order, &inside);
            }
            for owner in groups.owners() {
                let name = groups.owner_name(&records, owner);
                let of_owner = inside.iter().filter(|index| records.get(**index as usize).owner == name);
                prop_assert!(groups.rrsets(owner).flatten().eq(of_owner), "{name}");
                prop_assert_eq!(groups.find(&records, name), Some(owner));
            }
            let count: usize = groups.owners().map(|owner| groups.rrsets(owner).flatten().count()).sum();
            prop_assert_eq!(count, inside.len());
        }
    }
}
