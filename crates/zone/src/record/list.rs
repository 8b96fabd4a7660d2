//! Very many records, without an allocation for each.

use super::{Record, RecordRef};
use wire::name::NameRef;
use wire::number::Rtype;

/// Bytes between owner and rdata: type, TTL, length of the rdata.
const FIXED_BYTES: usize = 2 + 4 + 2;

/// Bytes of a short record, of which a list has room for as many as fit before it grows.
const BYTES_EXPECTED: usize = 24;

/// Records one behind the other in one block of bytes: what a zone of a million names is loaded with.
///
/// Each is its owner in wire form, its type (2 bytes), its TTL (4), the length of its rdata (2) and its rdata, names
/// uncompressed; integers are big-endian.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RecordList {
    bytes: Vec<u8>,
    /// Where each record begins.
    starts: Vec<Start>,
}

/// Where a record begins, and in the lowest byte how long its owner is: at most 255 bytes.
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

    const fn moved_back(self, by: usize) -> Self {
        Self(self.0 - ((by as u64) << 8))
    }
}

impl RecordList {
    /// No records yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), starts: Vec::new() }
    }

    /// No records yet, and room for some.
    #[must_use]
    pub fn with_capacity(records: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), starts: Vec::with_capacity(records) }
    }

    /// Takes bytes that are whole records; `None` when they are not. What rdata holds is not looked at.
    #[must_use]
    pub fn from_octets(bytes: Vec<u8>) -> Option<Self> {
        let (mut starts, mut rest) = (Vec::with_capacity(bytes.len() / BYTES_EXPECTED), bytes.as_slice());
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            let (record, behind) = RecordRef::split_from(rest)?;
            starts.push(Start::new(at, record.owner));
            rest = behind;
        }
        Some(Self { bytes, starts })
    }

    /// The records as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records as bytes, in the block that they are in.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Appends a record.
    ///
    /// # Panics
    /// When its rdata has more than 65,535 bytes: no message could carry it.
    pub fn push(&mut self, record: RecordRef<'_>) {
        let len = u16::try_from(record.rdata.len()).expect("rdata has at most 65,535 bytes");
        self.starts.push(Start::new(self.bytes.len(), record.owner));
        self.bytes.extend_from_slice(record.owner.as_bytes());
        self.bytes.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.bytes.extend_from_slice(&record.ttl.to_be_bytes());
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(record.rdata);
    }

    /// The record of that number.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    pub fn get(&self, index: usize) -> RecordRef<'_> {
        let start = self.starts[index];
        let (owner, rest) = self.bytes[start.at()..].split_at(start.owner_len());
        let (record, _) = RecordRef::behind(NameRef::from_checked(owner), rest).expect("a list holds whole records");
        record
    }

    /// The records in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RecordRef<'_>> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Copies of the records, each for itself.
    #[must_use]
    pub fn to_records(&self) -> Vec<Record> {
        self.iter().map(|record| record.to_record()).collect()
    }

    /// Gives a record another TTL.
    pub fn set_ttl(&mut self, index: usize, ttl: u32) {
        let at = self.starts[index].at() + self.starts[index].owner_len() + 2;
        self.bytes[at..at + 4].copy_from_slice(&ttl.to_be_bytes());
    }

    /// Gives a record other rdata of the same length.
    ///
    /// # Panics
    /// When the length is another.
    pub fn set_rdata(&mut self, index: usize, rdata: &[u8]) {
        let at = self.starts[index].at() + self.starts[index].owner_len() + FIXED_BYTES;
        let len = self.get(index).rdata.len();
        self.bytes[at..at + len].copy_from_slice(rdata);
    }

    /// The bytes that a record takes.
    #[must_use]
    pub fn bytes_of(&self, index: usize) -> usize {
        self.place(index + 1) - self.place(index)
    }

    /// Where a record begins, or the end behind the last.
    fn place(&self, index: usize) -> usize {
        self.starts.get(index).map_or(self.bytes.len(), |start| start.at())
    }

    /// A copy of some records.
    #[must_use]
    pub fn slice(&self, range: core::ops::Range<usize>) -> Self {
        let (first, end) = (self.place(range.start), self.place(range.end));
        Self {
            bytes: self.bytes[first..end].to_vec(),
            starts: self.starts[range].iter().map(|start| start.moved_back(first)).collect(),
        }
    }

    /// Copies of the records of these numbers, in that order.
    #[must_use]
    pub fn pick(&self, order: impl Iterator<Item = usize>) -> Self {
        let mut picked = Self::with_capacity(self.starts.len(), self.bytes.len());
        order.for_each(|index| picked.push(self.get(index)));
        picked
    }
}

impl<'a> RecordRef<'a> {
    /// The record at the start of `bytes`, and what is behind it; `None` when there is no whole one.
    #[must_use]
    pub fn split_from(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (owner, rest) = NameRef::split_from(bytes).ok()?;
        Self::behind(owner, rest)
    }

    /// The record of an owner, from what stands behind it.
    fn behind(owner: NameRef<'a>, rest: &'a [u8]) -> Option<(Self, &'a [u8])> {
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
        fn a_list_gives_back_what_it_got(
            records in prop::collection::vec(any_record(), 0..20),
            at in any::<prop::sample::Index>(),
        ) {
            let mut list = RecordList::from(records.clone());
            prop_assert_eq!((list.len(), list.is_empty()), (records.len(), records.is_empty()));
            prop_assert_eq!(list.to_records(), records.clone());
            let again = RecordList::from_octets(list.as_bytes().to_vec());
            prop_assert_eq!(again.as_ref(), Some(&list));
            prop_assert_eq!((0..list.len()).map(|index| list.bytes_of(index)).sum::<usize>(), list.as_bytes().len());
            // A record that is cut off is none.
            if let Some((_, rest)) = list.as_bytes().split_last() {
                prop_assert!(RecordList::from_octets(rest.to_vec()).is_none());
                let index = at.index(list.len());
                prop_assert_eq!(list.slice(index..list.len()).to_records(), records[index..].to_vec());
                let reversed: Vec<Record> = records.iter().rev().cloned().collect();
                prop_assert_eq!(list.pick((0..list.len()).rev()).to_records(), reversed);
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
