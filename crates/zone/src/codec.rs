//! The encoding of log entries, frames and checkpoints: big-endian integers, counted bytes, names in wire form.
//!
//! A [`Decoder`] never allocates more than the input justifies: a count is refused if the remaining bytes cannot hold
//! that many items.

use crate::{Changeset, Record, RecordList, RecordRef, ZoneId};
use wire::name::{Name, NameRef};
use wire::number::{Rtype, Serial};

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input is too short.
    Short,
    /// There are bytes after the end.
    Trailing,
    /// A count or size is above its limit.
    TooLarge,
    /// A number without a meaning.
    Unknown,
    /// An invalid name.
    Name,
    /// A version that this software does not support.
    Version(u8),
}

/// Encodes into a vector.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An empty encoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the encoded bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes one byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Writes one byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    /// Writes two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes sixteen bytes.
    pub fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes bytes without a count.
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a 32-bit count and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes text like [`Self::bytes`].
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes a 32-bit count.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("every list that is encoded has a limit below 2^32"));
    }

    /// Writes a name in wire form.
    pub fn name(&mut self, name: &Name) {
        self.fixed(name.as_bytes());
    }

    /// Writes view and apex.
    pub fn zone_id(&mut self, zone: &ZoneId) {
        self.u16(zone.view);
        self.name(&zone.apex);
    }

    /// Writes owner, type, TTL, length of rdata, rdata.
    pub fn record(&mut self, record: &Record) {
        self.name(&record.owner);
        self.u16(record.rtype.0);
        self.u32(record.ttl);
        self.u16(u16::try_from(record.rdata.len()).expect("rdata has at most 65,535 bytes"));
        self.fixed(&record.rdata);
    }

    /// Writes a count and the records.
    pub fn records(&mut self, records: &[Record]) {
        self.count(records.len());
        for record in records {
            self.record(record);
        }
    }

    /// Writes a list like [`Self::records`].
    pub fn record_list(&mut self, records: &RecordList) {
        self.count(records.len());
        // A list stores its records in this encoding.
        self.fixed(records.as_bytes());
    }

    /// Writes whether there was a serial before, both serials, the deleted records, the added records.
    pub fn changeset(&mut self, changeset: &Changeset) {
        self.bool(changeset.serial_from.is_some());
        self.u32(changeset.serial_from.map_or(0, |serial| serial.0));
        self.u32(changeset.serial_to.0);
        self.records(&changeset.deleted);
        self.records(&changeset.added);
    }
}

/// Smallest record: root owner, type, TTL, length of rdata.
const RECORD_BYTES_MIN: usize = 1 + 2 + 4 + 2;

/// Decodes from the start of bytes. Each function fails with [`DecodeError`] if the bytes do not match.
#[derive(Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Creates a decoder for these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The remaining bytes.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that no bytes remain.
    pub const fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }

    /// Reads this number of bytes.
    pub fn fixed(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads this number of bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads one byte, 0 or 1.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Unknown),
        }
    }

    /// Reads two bytes.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads four bytes.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads eight bytes.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads sixteen bytes.
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        self.array().map(u128::from_be_bytes)
    }

    /// Reads counted bytes, at most `max`.
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        if len > max {
            return Err(DecodeError::TooLarge);
        }
        self.fixed(len)
    }

    /// Reads UTF-8 text like [`Self::bytes`].
    pub fn text(&mut self, max: usize) -> Result<String, DecodeError> {
        let bytes = self.bytes(max)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError::Unknown)
    }

    /// Reads a count of items of at least `item_bytes_min` bytes each, at most `max`.
    pub fn count(&mut self, max: usize, item_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count > max {
            return Err(DecodeError::TooLarge);
        }
        if count.saturating_mul(item_bytes_min) > self.rest.len() { Err(DecodeError::Short) } else { Ok(count) }
    }

    /// Reads a name in wire form.
    pub fn name(&mut self) -> Result<Name, DecodeError> {
        self.name_ref().map(|name| name.to_name())
    }

    fn name_ref(&mut self) -> Result<NameRef<'a>, DecodeError> {
        let (name, rest) = NameRef::split_from(self.rest).map_err(|_| DecodeError::Name)?;
        self.rest = rest;
        Ok(name)
    }

    /// Reads view and apex.
    pub fn zone_id(&mut self) -> Result<ZoneId, DecodeError> {
        let view = self.u16()?;
        let apex = self.name()?;
        // Accepts lower case only: otherwise one state would have two encodings.
        if apex.as_bytes().iter().any(u8::is_ascii_uppercase) {
            return Err(DecodeError::Name);
        }
        Ok(ZoneId { view, apex })
    }

    /// Reads owner, type, TTL, length of rdata, rdata.
    pub fn record(&mut self) -> Result<Record, DecodeError> {
        self.record_ref().map(|record| record.to_record())
    }

    fn record_ref(&mut self) -> Result<RecordRef<'a>, DecodeError> {
        let owner = self.name_ref()?;
        let rtype = Rtype(self.u16()?);
        let ttl = self.u32()?;
        let len = self.u16()?;
        Ok(RecordRef { owner, rtype, ttl, rdata: self.fixed(usize::from(len))? })
    }

    /// Reads a list like [`Self::records`].
    pub fn record_list(&mut self) -> Result<RecordList, DecodeError> {
        let count = self.count(usize::MAX, RECORD_BYTES_MIN)?;
        let mut records = RecordList::with_capacity(count, self.rest.len());
        for _ in 0..count {
            records.push(self.record_ref()?);
        }
        Ok(records)
    }

    /// Reads a count and the records.
    pub fn records(&mut self) -> Result<Vec<Record>, DecodeError> {
        let count = self.count(usize::MAX, RECORD_BYTES_MIN)?;
        let mut records = Vec::with_capacity(count);
        for _ in 0..count {
            records.push(self.record()?);
        }
        Ok(records)
    }

    /// Reads a changeset.
    pub fn changeset(&mut self) -> Result<Changeset, DecodeError> {
        let from = self.bool()?;
        let serial = Serial(self.u32()?);
        if !from && serial.0 != 0 {
            return Err(DecodeError::Unknown);
        }
        Ok(Changeset {
            serial_from: from.then_some(serial),
            serial_to: Serial(self.u32()?),
            deleted: self.records()?,
            added: self.records()?,
        })
    }
}
