//! Lists of very many records, without an allocation for each.

use super::{Record, RecordRef};
use wire::name::NameRef;
use wire::number::Rtype;

/// Bytes between owner and rdata: type, TTL, length of rdata.
const FIXED_BYTES: usize = 2 + 4 + 2;

/// Bytes of a short record, for the initial capacity.
const BYTES_EXPECTED: usize = 24;

/// Records in one block of bytes, for loading zones of millions of names.
///
/// Each record consists of its owner in wire form, type (2 bytes), TTL (4), length of rdata (2), and rdata with
/// uncompressed names. Integers are big-endian.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RecordList {
    bytes: Vec<u8>,
    /// The offset of each record.
    starts: Vec<Start>,
}

/// The offset of a record, and in the lowest byte the length of its owner, at most 255.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Start(u64);

impl Start {
    fn new(at: usize, owner: NameRef<'_>) -> Self {
        Self((at as u64) << 8 | owner.as_bytes().len() as u64)
    }

    const fn at(self) -> usize {
        (self.0 >> 8) as usize
    }

    const fn owner_len(self) -> usize {
        (self.0 & 0xFF) as usize
    }

    const fn shifted(self, by: usize) -> Self {
        Self(self.0 - ((by as u64) << 8))
    }
}

impl RecordList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), starts: Vec::new() }
    }

    /// An empty list with capacity.
    #[must_use]
    pub fn with_capacity(records: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), starts: Vec::with_capacity(records) }
    }

    /// Takes encoded records; `None` if the bytes are not whole records. The contents of rdata are not checked.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let (mut starts, mut rest) = (Vec::with_capacity(bytes.len() / BYTES_EXPECTED), bytes.as_slice());
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            let (record, after_owner) = RecordRef::split_from(rest)?;
            starts.push(Start::new(at, record.owner));
            rest = after_owner;
        }
        Some(Self { bytes, starts })
    }

    /// The records as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records as bytes, without a copy.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Appends a record.
    ///
    /// # Panics
    /// When its rdata has more than 65,535 bytes, which no message could carry.
    pub fn push(&mut self, record: RecordRef<'_>) {
        let len = u16::try_from(record.rdata.len()).expect("rdata has at most 65,535 bytes");
        self.starts.push(Start::new(self.bytes.len(), record.owner));
        self.bytes.extend_from_slice(record.owner.as_bytes());
        self.bytes.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.bytes.extend_from_slice(&record.ttl.to_be_bytes());
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(record.rdata);
    }

    /// The record at this index.
    ///
    /// # Panics
    /// When the index is out of range.
    #[must_use]
    pub fn get(&self, index: usize) -> RecordRef<'_> {
        let start = self.starts[index];
        let (owner, rest) = self.bytes[start.at()..].split_at(start.owner_len());
        let (record, _) =
            RecordRef::after_owner(NameRef::from_checked(owner), rest).expect("a list holds whole records");
        record
    }

    /// The records in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RecordRef<'_>> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Copies of the records.
    #[must_use]
    pub fn to_records(&self) -> Vec<Record> {
        self.iter().map(|record| record.to_record()).collect()
    }

    /// Changes the TTL of a record.
    pub fn set_ttl(&mut self, index: usize, ttl: u32) {
        let at = self.starts[index].at() + self.starts[index].owner_len() + 2;
        self.bytes[at..at + 4].copy_from_slice(&ttl.to_be_bytes());
    }

    /// Replaces the rdata of a record by rdata of the same length.
    ///
    /// # Panics
    /// When the length differs.
    pub fn set_rdata(&mut self, index: usize, rdata: &[u8]) {
        let at = self.starts[index].at() + self.starts[index].owner_len() + FIXED_BYTES;
        let len = self.get(index).rdata.len();
        self.bytes[at..at + len].copy_from_slice(rdata);
    }

    /// The size of a record in bytes.
    #[must_use]
    pub fn bytes_of(&self, index: usize) -> usize {
        self.offset_of(index + 1) - self.offset_of(index)
    }

    /// The offset of a record, or the end after the last one.
    fn offset_of(&self, index: usize) -> usize {
        self.starts.get(index).map_or(self.bytes.len(), |start| start.at())
    }

    /// A list with copies of some records.
    #[must_use]
    pub fn slice(&self, range: core::ops::Range<usize>) -> Self {
        let (first, end) = (self.offset_of(range.start), self.offset_of(range.end));
        Self {
            bytes: self.bytes[first..end].to_vec(),
            starts: self.starts[range].iter().map(|start| start.shifted(first)).collect(),
        }
    }

    /// A list with copies of the records at these indexes, in that order.
    #[must_use]
    pub fn select(&self, order: impl Iterator<Item = usize>) -> Self {
        let mut selected = Self::with_capacity(self.starts.len(), self.bytes.len());
        order.for_each(|index| selected.push(self.get(index)));
        selected
    }
}

impl<'a> RecordRef<'a> {
    /// The record at the start of `bytes`, and the rest; `None` if it is incomplete.
    #[must_use]
    pub fn split_from(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (owner, rest) = NameRef::split_from(bytes).ok()?;
        Self::after_owner(owner, rest)
    }

    /// The record of an owner, from the bytes after the owner.
    fn after_owner(owner: NameRef<'a>, rest: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (fixed, rest) = rest.split_first_chunk::<FIXED_BYTES>()?;
        let [t0, t1, ttl @ .., l0, l1] = *fixed;
        let (rdata, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([l0, l1])))?;
        let record = Self { owner, rtype: Rtype(u16::from_be_bytes([t0, t1])), ttl: u32::from_be_bytes(ttl), rdata };
        Some((record, rest))
    }
}

impl<'a, R: Into<RecordRef<'a>>> FromIterator<R> for RecordList {
    fn from_iter<T: IntoIterator<Item = R>>(records: T) -> Self {
        let mut list = Self::new();
        records.into_iter().for_each(|record| list.push(record.into()));
        list
    }
}

impl From<Vec<Record>> for RecordList {
    fn from(records: Vec<Record>) -> Self {
        records.iter().collect()
    }
}

impl core::fmt::Debug for RecordList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let owner = prop::sample::select(vec![".", "a.", "www.example.test.", "\\000x.A."]);
        (owner, any::<u16>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(
            |(owner, rtype, ttl, rdata)| Record {
                owner: owner.parse().unwrap(),
                rtype: Rtype(rtype),
                ttl,
                rdata: rdata.into(),
            },
        )
    }

    proptest! {
        #[test]
        fn record_lists_round_trip(
            records in prop::collection::vec(any_record(), 0..20),
            at in any::<prop::sample::Index>(),
        ) {
            let mut list = RecordList::from(records.clone());
            prop_assert_eq!((list.len(), list.is_empty()), (records.len(), records.is_empty()));
            prop_assert_eq!(list.to_records(), records.clone());
            let again = RecordList::from_bytes(list.as_bytes().to_vec());
            prop_assert_eq!(again.as_ref(), Some(&list));
            prop_assert_eq!((0..list.len()).map(|index| list.bytes_of(index)).sum::<usize>(), list.as_bytes().len());
            // A record that is cut off is refused.
            if let Some((_, rest)) = list.as_bytes().split_last() {
                prop_assert!(RecordList::from_bytes(rest.to_vec()).is_none());
                let index = at.index(list.len());
                prop_assert_eq!(list.slice(index..list.len()).to_records(), records[index..].to_vec());
                let reversed: Vec<Record> = records.iter().rev().cloned().collect();
                prop_assert_eq!(list.select((0..list.len()).rev()).to_records(), reversed);
                let mut changed = records;
                changed[index].ttl = 7;
                changed[index].rdata.fill(9);
                list.set_ttl(index, 7);
                list.set_rdata(index, &changed[index].rdata);
                prop_assert_eq!(list.to_records(), changed);
            }
        }
    }
}
