//! The difference between two versions of a zone. Both are read side by side in canonical order, so an unchanged
//! owner costs one comparison.

use crate::limits::SIDE_BY_SIDE_MAX;
use core::cmp::Ordering;
use std::collections::BTreeMap;
use wire::name::NameRef;
use wire::number::{Rtype, Serial};
use wire::rdata::{rdata_eq, rdata_lowercase};
use zone::set::RecordRef;
use zone::{Changeset, Record, RecordList};

/// Bytes that a record takes in an entry.
fn record_bytes(record: &Record) -> usize {
    record.owner.as_bytes().len() + 8 + record.rdata.len()
}

/// Sorts by owner in canonical order (RFC 4034 6.1) and type, the order in which a zone lists its records. The sort
/// is stable, and fast on sorted lists, as most zone files are.
pub(super) fn sort(records: RecordList) -> RecordList {
    if records.iter().map(|record| (record.owner, record.rtype)).is_sorted() {
        return records;
    }
    let mut order: Vec<u32> = (0..records.len() as u32).collect();
    order.sort_by_cached_key(|&index| {
        let record = records.get(index as usize);
        (sort_key(record.owner), record.rtype)
    });
    records.select(order.into_iter().map(|index| index as usize))
}

/// Bytes that compare as names do: labels from the right in lower case, each closed by a zero. Zeros and ones within
/// a label become two bytes, so the end of a label sorts before any byte that can follow.
fn sort_key(owner: NameRef<'_>) -> Box<[u8]> {
    let labels: Vec<&[u8]> = owner.labels().collect();
    let mut key = Vec::with_capacity(owner.as_bytes().len() + 1);
    for label in labels.into_iter().rev() {
        for &byte in label {
            match byte {
                0 | 1 => key.extend([1, byte + 1]),
                _ => key.push(byte.to_ascii_lowercase()),
            }
        }
        key.push(0);
    }
    key.into()
}

/// The changeset from `old` to `new`, both sorted by owner, with the SOA first in each half (RFC 1995 4). `None` if
/// it takes more than `bytes_max`. An RRset whose TTL changes is deleted and added whole.
pub(super) fn difference<'o>(
    old: impl Iterator<Item = RecordRef<'o>>,
    new: &RecordList,
    (serial_from, serial_to): (Serial, Serial),
    bytes_max: usize,
) -> Option<Changeset> {
    let mut old = old.peekable();
    let new: Vec<RecordRef<'_>> = new.iter().collect();
    let mut new = new.chunk_by(|a, b| a.owner == b.owner).peekable();
    let mut changeset = Changeset { serial_from: Some(serial_from), serial_to, deleted: Vec::new(), added: Vec::new() };
    let (mut before, mut bytes) = (Vec::new(), 0);
    loop {
        let (old_owner, new_owner) = (old.peek().map(|record| record.owner), new.peek().map(|of| of[0].owner));
        let order = match (old_owner, new_owner) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.cmp(&new),
        };
        before.clear();
        if order.is_le() {
            while let Some(record) = old.next_if(|record| Some(record.owner) == old_owner) {
                before.push(record);
            }
        }
        let after = if order.is_ge() { new.next().unwrap_or_default() } else { &[] };
        if !is_same(&before, after) {
            bytes += compare(&before, after, &mut changeset);
            if bytes > bytes_max {
                return None;
            }
        }
    }
    for half in [&mut changeset.deleted, &mut changeset.added] {
        half.sort_by_key(|record| record.rtype != Rtype::SOA);
    }
    Some(changeset)
}

/// Whether the records of one owner are equal. A zone holds no record twice, so equal counts and one matching record
/// each are enough.
fn is_same(old: &[RecordRef<'_>], new: &[RecordRef<'_>]) -> bool {
    let equals = |a: &RecordRef<'_>, b: &RecordRef<'_>| {
        a.rtype == b.rtype && a.ttl == b.ttl && rdata_eq(a.rtype, a.rdata, b.rdata)
    };
    old.len() == new.len()
        && old.len() <= SIDE_BY_SIDE_MAX
        && old.iter().all(|old| new.iter().any(|new| equals(old, new)))
}

/// Key of an RRset below its owner: the type, and for RRSIG the covered type.
type RrsetKey = (Rtype, u16);

/// An RRset: its TTL, and its records by rdata in lower case (RFC 4034 6.2).
#[derive(Default)]
struct Rrset {
    ttl: u32,
    records: BTreeMap<Vec<u8>, Record>,
}

fn by_rrset_key(records: impl Iterator<Item = Record>) -> BTreeMap<RrsetKey, Rrset> {
    let mut rrsets: BTreeMap<RrsetKey, Rrset> = BTreeMap::new();
    for record in records {
        let covered = match (record.rtype, record.rdata.first_chunk()) {
            (Rtype::RRSIG, Some(&covered)) => u16::from_be_bytes(covered),
            _ => 0,
        };
        let rrset = rrsets.entry((record.rtype, covered)).or_default();
        // RFC 2181 5.2: where the TTLs of an RRset differ, the lowest holds.
        rrset.ttl = if rrset.records.is_empty() { record.ttl } else { rrset.ttl.min(record.ttl) };
        let mut rdata = record.rdata.to_vec();
        rdata_lowercase(record.rtype, &mut rdata);
        rrset.records.entry(rdata).or_insert(record);
    }
    for rrset in rrsets.values_mut() {
        for record in rrset.records.values_mut() {
            record.ttl = rrset.ttl;
        }
    }
    rrsets
}

/// Adds the differences at one owner; returns their size in bytes.
fn compare(old: &[RecordRef<'_>], new: &[RecordRef<'_>], changeset: &mut Changeset) -> usize {
    let (first_deleted, first_added) = (changeset.deleted.len(), changeset.added.len());
    let mut old = by_rrset_key(old.iter().map(RecordRef::to_record));
    let mut new = by_rrset_key(new.iter().map(RecordRef::to_record));
    for (key, before) in &mut old {
        if let Some(after) = new.get_mut(key).filter(|after| after.ttl == before.ttl || planted!(ReloadMissesTtl)) {
            before.records.retain(|rdata, _| after.records.remove(rdata).is_none());
        }
    }
    changeset.deleted.extend(old.into_values().flat_map(|rrset| rrset.records.into_values()));
    changeset.added.extend(new.into_values().flat_map(|rrset| rrset.records.into_values()));
    let halves = changeset.deleted[first_deleted..].iter().chain(&changeset.added[first_added..]);
    halves.map(record_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use wire::name::Name;

    /// A record as a zone compares it: without the case of names.
    type Fact = (Name, Rtype, u32, Vec<u8>);

    fn fact(record: &Record) -> Fact {
        let mut rdata = record.rdata.to_vec();
        rdata_lowercase(record.rtype, &mut rdata);
        (record.owner.as_ref().to_canonical(), record.rtype, record.ttl, rdata)
    }

    prop_compose! {
        fn any_record()(owner in 0usize..5, kind in 0usize..4, ttl in 1u32..3, byte in 0u8..4) -> Record {
            let owner = ["a.", "x.a.", "X.a.", "y.x.a.", "\\000.a."][owner].parse().unwrap();
            let (rtype, rdata): (Rtype, Vec<u8>) = match kind {
                0 => (Rtype::A, vec![192, 0, 2, byte]),
                1 => (Rtype::NS, [&[1, b"nNmM"[usize::from(byte)]][..], b"\x01a\0"].concat()),
                2 => (Rtype::RRSIG, [&[0, byte % 2 + 1][..], &[8; 16], &[0, 1, 2, 3 + byte]].concat()),
                _ => (Rtype::TXT, vec![1, byte]),
            };
            Record { owner, rtype, ttl, rdata: rdata.into() }
        }
    }

    /// These records as a zone holds them: without repeats, one TTL per RRset, in canonical order.
    fn as_in_zone(records: Vec<Record>) -> Vec<Record> {
        let records: Vec<Record> = sort(records.into()).iter().map(|record| record.to_record()).collect();
        let of_owner = records.chunk_by(|a, b| a.owner == b.owner).map(|records| by_rrset_key(records.iter().cloned()));
        let rrsets: Vec<_> = of_owner.flat_map(BTreeMap::into_values).collect();
        rrsets.into_iter().flat_map(|rrset| rrset.records.into_values()).collect()
    }

    fn facts(records: &[Record]) -> Vec<Fact> {
        let mut facts: Vec<_> = records.iter().map(fact).collect();
        facts.sort();
        facts
    }

    fn refs(records: &[Record]) -> impl Iterator<Item = RecordRef<'_>> {
        records.iter().map(Into::into)
    }

    proptest! {
        #[test]
        fn a_difference_turns_the_old_zone_into_the_new_one(
            old in vec(any_record(), 0..30),
            new in vec(any_record(), 0..30),
        ) {
            let old = as_in_zone(old);
            let sorted = sort(new.clone().into());
            let changeset = difference(refs(&old), &sorted, (Serial(1), Serial(2)), usize::MAX).unwrap();
            let mut result = facts(&old);
            for gone in facts(&changeset.deleted) {
                let position = result.binary_search(&gone);
                prop_assert!(position.is_ok(), "{gone:?} was not there");
                result.remove(position.unwrap());
            }
            for come in facts(&changeset.added) {
                let position = result.binary_search(&come);
                prop_assert!(position.is_err(), "{come:?} was there");
                result.insert(position.unwrap_err(), come);
            }
            prop_assert_eq!(&result, &facts(&as_in_zone(new)));
            // No record is both deleted and added.
            let gone = facts(&changeset.deleted);
            prop_assert!(facts(&changeset.added).iter().all(|come| gone.binary_search(come).is_err()));
            let bytes: usize = changeset.deleted.iter().chain(&changeset.added).map(record_bytes).sum();
            let at_most = |limit| difference(refs(&old), &sorted, (Serial(1), Serial(2)), limit);
            prop_assert_eq!(at_most(bytes), Some(changeset));
            prop_assert!(bytes == 0 || at_most(bytes - 1).is_none());
        }

        #[test]
        fn sort_keys_compare_as_names_do(labels in vec(vec(prop_oneof![0u8..4, 60u8..70, 95u8..100], 1..4), 0..8)) {
            let name = |labels: &[Vec<u8>]| {
                let mut bytes: Vec<u8> =
                    labels.iter().flat_map(|label| [&[label.len() as u8][..], label].concat()).collect();
                bytes.push(0);
                NameRef::split_from(&bytes).unwrap().0.to_name()
            };
            let (left, right) = labels.split_at(labels.len() / 2);
            let (left, right) = (name(left), name(right));
            let keys = sort_key(left.as_ref()).cmp(&sort_key(right.as_ref()));
            prop_assert_eq!(keys, left.cmp(&right));
        }
    }
}
