//! One record, made durable by one fsync.
//!
//! A record begins on a sector and fills whole sectors. The first byte of each sector is a stamp that is never zero,
//! so a sector of zeros was never written, even if an entry holds zeros. The header is in the first sector, which a
//! disk writes atomically:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | magic `CtLg` |
//! | 2, 1, 1 | format version, flags (1: the log before this record is void), zero |
//! | 16, 8, 4 | cluster id; raft id of the member (node and incarnation); raft group |
//! | 8, 8, 8 | segment number; offset in it; number of the record |
//! | 4, 4 | bytes of the body without stamps and padding; entries in it |
//! | 8, 8 | index of the first entry; index of the last entry of the log once this record is in it |
//! | 8, 8, 8 | `HardState`: term, vote, commit |
//! | 8, 8 | index and term just before the first entry that the log still holds |
//! | 8 | number of the oldest segment that the log still needs |
//! | 8, 8, 32 | newest durable checkpoint: index, term, id |
//! | 8 | wall time of the last leader contact, milliseconds |
//! | 4, 4, 4 | CRC-32C: header of the record before this one; stamped and padded body; this header |
//!
//! Numbers are big-endian. The body holds the entries in order: term (8), kind (1), length of the context (4), length
//! of the data (4), context, data. Indices follow from the header.
//!
//! A write is one record, perhaps followed by empty records: the seal, and the padding up to the end of a physical
//! block (`next_record.rs`). Each empty record has a mark in the padding after its header, which older software
//! ignores: magic `CtPd`, whether the first record of the write holds entries or voids the log (1), offset of that
//! record (8).

use super::damage::Damage;
use super::limits::{ENTRY_BYTES_MAX, SECTOR_BYTES};
use super::position::{LogId, Position};
use crate::bytes::Cursor;
use crate::checkpoint::CheckpointRef;
use raft::eraftpb::{Entry, EntryType, HardState};

/// Bytes of the header, without the stamp before it.
pub(crate) const HEADER_BYTES: usize = 200;
/// Bytes of an entry before its context and data.
pub(crate) const ENTRY_FIXED_BYTES: usize = 17;
const MAGIC: [u8; 4] = *b"CtLg";
const PADDING_MAGIC: [u8; 4] = *b"CtPd";
const VERSION: u16 = 1;
const STAMP_HEADER: u8 = 0xA5;
const STAMP_BODY: u8 = 0x5A;
const FLAG_CLEARED: u8 = 1;
const DATA_PER_SECTOR: usize = SECTOR_BYTES - 1;

/// The header of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) id: LogId,
    /// The log before this record is void: it restarts at `base`.
    pub(crate) cleared: bool,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) number: u64,
    pub(crate) body_bytes: u32,
    pub(crate) entry_count: u32,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) hard_state: HardState,
    pub(crate) base: Position,
    pub(crate) oldest_segment: u64,
    pub(crate) checkpoint: CheckpointRef,
    pub(crate) contact_wall_ms: u64,
    pub(crate) previous_crc: u32,
    pub(crate) body_crc: u32,
    pub(crate) header_crc: u32,
}

impl Header {
    /// Bytes on disk, including stamps and padding.
    pub(crate) fn disk_bytes(&self) -> u64 {
        disk_bytes(self.body_bytes as usize)
    }
}

/// Bytes on disk of a record with a body of this size.
pub(crate) fn disk_bytes(body_bytes: usize) -> u64 {
    ((HEADER_BYTES + body_bytes).div_ceil(DATA_PER_SECTOR) * SECTOR_BYTES) as u64
}

/// Bytes of an entry in a body.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    ENTRY_FIXED_BYTES + entry.context.len() + entry.data.len()
}

/// The mark of an empty record, which describes the write that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Padding {
    /// Offset of the first record of the write.
    pub(crate) start: u64,
    /// Whether that record holds entries or voids the log.
    pub(crate) is_essential: bool,
}

impl Padding {
    /// The bytes of an empty record that belongs to this write.
    pub(crate) fn encode(self, header: &mut Header) -> Vec<u8> {
        let mut mark = Vec::from(PADDING_MAGIC);
        mark.push(u8::from(self.is_essential));
        mark.extend_from_slice(&self.start.to_be_bytes());
        encode_with(header, std::iter::empty(), &mark)
    }

    /// Reads the mark of an intact record; `None` if it has none.
    pub(crate) fn of(header: &Header, record: &[u8]) -> Option<Self> {
        let mut at = Cursor::new(record.get(1 + HEADER_BYTES..)?);
        if header.body_bytes > 0 || header.cleared || at.array()? != PADDING_MAGIC {
            return None;
        }
        let padding = Self { is_essential: at.u8()? != 0, start: at.u64()? };
        (padding.start < header.offset && padding.start.is_multiple_of(SECTOR_BYTES as u64)).then_some(padding)
    }
}

/// The bytes of a record. Fills the checksums, the body's size and the count of entries into `header`.
pub(crate) fn encode<'e>(header: &mut Header, entries: impl Iterator<Item = &'e Entry> + Clone) -> Vec<u8> {
    encode_with(header, entries, &[])
}

/// Encodes a record with a mark after its header. Only a record without entries may have a mark.
fn encode_with<'e>(header: &mut Header, entries: impl Iterator<Item = &'e Entry> + Clone, mark: &[u8]) -> Vec<u8> {
    let body_bytes: usize = entries.clone().map(entry_bytes).sum();
    header.body_bytes = u32::try_from(body_bytes).expect("a record is closed long before 4 GiB");
    let total = disk_bytes(body_bytes) as usize;
    let mut sectors = SectorWriter { bytes: Vec::with_capacity(total) };
    sectors.bytes.push(STAMP_HEADER);
    sectors.bytes.resize(1 + HEADER_BYTES, 0);
    header.entry_count = 0;
    for entry in entries {
        header.entry_count += 1;
        put_entry(entry, &mut |part| sectors.put(part));
    }
    let mut bytes = sectors.bytes;
    bytes.resize(total, 0);
    if !mark.is_empty() {
        debug_assert_eq!(body_bytes, 0);
        bytes[1 + HEADER_BYTES..][..mark.len()].copy_from_slice(mark);
    }
    header.body_crc = crc32c::crc32c(&bytes[1 + HEADER_BYTES..]);
    let encoded = encode_header(header);
    bytes[1..=HEADER_BYTES].copy_from_slice(&encoded);
    header.header_crc = crc32c::crc32c(&bytes[..=HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 3..=HEADER_BYTES].copy_from_slice(&header.header_crc.to_be_bytes());
    bytes
}

/// Passes the bytes of an entry to `put` in parts.
pub(crate) fn put_entry(entry: &Entry, put: &mut dyn FnMut(&[u8])) {
    let mut fixed = [0; ENTRY_FIXED_BYTES];
    fixed[..8].copy_from_slice(&entry.term.to_be_bytes());
    fixed[8] = kind_code(entry.entry_type);
    fixed[9..13].copy_from_slice(&(entry.context.len() as u32).to_be_bytes());
    fixed[13..].copy_from_slice(&(entry.data.len() as u32).to_be_bytes());
    put(&fixed);
    put(&entry.context);
    put(&entry.data);
}

fn encode_header(header: &Header) -> [u8; HEADER_BYTES] {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[if header.cleared { FLAG_CLEARED } else { 0 }, 0]);
    bytes.extend_from_slice(&header.id.cluster);
    bytes.extend_from_slice(&header.id.member.to_be_bytes());
    bytes.extend_from_slice(&header.id.group.to_be_bytes());
    for number in [header.segment, header.offset, header.number] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&header.body_bytes.to_be_bytes());
    bytes.extend_from_slice(&header.entry_count.to_be_bytes());
    let HardState { term, vote, commit, .. } = header.hard_state;
    for number in [header.first, header.last, term, vote, commit, header.base.index, header.base.term] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    for number in [header.oldest_segment, header.checkpoint.index, header.checkpoint.term] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&header.checkpoint.id);
    bytes.extend_from_slice(&header.contact_wall_ms.to_be_bytes());
    bytes.extend_from_slice(&header.previous_crc.to_be_bytes());
    bytes.extend_from_slice(&header.body_crc.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.try_into().expect("the fields above add up to HEADER_BYTES")
}

/// Reads a header from the start of a sector.
///
/// # Errors
/// [`Damage::Header`] if this sector starts no record, [`Damage::Version`] if it starts one of another format.
pub(crate) fn decode_header(sector: &[u8]) -> Result<Header, Damage> {
    let covered = sector.get(..=HEADER_BYTES - 4).ok_or(Damage::Header)?;
    let stored = sector.get(HEADER_BYTES - 3..=HEADER_BYTES).ok_or(Damage::Header)?;
    if covered[0] != STAMP_HEADER || covered[1..5] != MAGIC || crc32c::crc32c(covered).to_be_bytes() != *stored {
        return Err(Damage::Header);
    }
    let version = u16::from_be_bytes([covered[5], covered[6]]);
    if version != VERSION {
        return Err(Damage::Version(version));
    }
    parse_header(&sector[7..=HEADER_BYTES]).ok_or(Damage::Header)
}

fn parse_header(bytes: &[u8]) -> Option<Header> {
    let mut at = Cursor::new(bytes);
    let (flags, zero) = (at.u8()?, at.u8()?);
    if flags & !FLAG_CLEARED != 0 || zero != 0 {
        return None;
    }
    Some(Header {
        cleared: flags & FLAG_CLEARED != 0,
        id: LogId { cluster: at.array()?, member: at.u64()?, group: at.u32()? },
        segment: at.u64()?,
        offset: at.u64()?,
        number: at.u64()?,
        body_bytes: at.u32()?,
        entry_count: at.u32()?,
        first: at.u64()?,
        last: at.u64()?,
        hard_state: HardState { term: at.u64()?, vote: at.u64()?, commit: at.u64()?, ..HardState::default() },
        base: Position { index: at.u64()?, term: at.u64()? },
        oldest_segment: at.u64()?,
        checkpoint: CheckpointRef { index: at.u64()?, term: at.u64()?, id: at.array()? },
        contact_wall_ms: at.u64()?,
        previous_crc: at.u32()?,
        body_crc: at.u32()?,
        header_crc: at.u32()?,
    })
}

/// Whether the bytes of a complete record match the checksum of its body.
pub(crate) fn body_is_intact(header: &Header, record: &[u8]) -> bool {
    let stamped = record[SECTOR_BYTES..].iter().step_by(SECTOR_BYTES).all(|stamp| *stamp == STAMP_BODY);
    stamped && (crc32c::crc32c(&record[1 + HEADER_BYTES..]) == header.body_crc || planted!(RecordChecksumIgnored))
}

/// Whether any sector was never written.
pub(crate) fn has_unwritten_sector(bytes: &[u8]) -> bool {
    bytes.chunks(SECTOR_BYTES).any(is_unwritten)
}

/// Whether all bytes are zero.
pub(crate) fn is_unwritten(bytes: &[u8]) -> bool {
    // In pieces without a branch for each byte, because a segment is read to its end at each start.
    bytes.chunks(64).all(|piece| piece.iter().fold(0, |all, byte| all | byte) == 0)
}

/// Calls `each` with every entry of an intact record.
///
/// # Errors
/// [`Damage::Contradiction`] if the body does not match the header.
pub(crate) fn for_each_entry(header: &Header, record: &[u8], mut each: impl FnMut(Parts<'_>)) -> Result<(), Damage> {
    let body = strip_stamps(record, header.body_bytes as usize).ok_or(Damage::Contradiction)?;
    let mut at = Cursor::new(&body);
    for count in 0..u64::from(header.entry_count) {
        let index = header.first.checked_add(count).ok_or(Damage::Contradiction)?;
        let parts = parse_entry(index, &mut at).ok_or(Damage::Contradiction)?;
        each(parts);
    }
    if at.is_at_end() { Ok(()) } else { Err(Damage::Contradiction) }
}

/// An entry within its record.
pub(crate) struct Parts<'a> {
    pub(crate) index: u64,
    pub(crate) term: u64,
    kind: EntryType,
    context: &'a [u8],
    data: &'a [u8],
}

impl Parts<'_> {
    pub(crate) fn to_entry(&self) -> Entry {
        let mut entry = Entry { index: self.index, term: self.term, entry_type: self.kind, ..Entry::default() };
        entry.context = self.context.to_vec().into();
        entry.data = self.data.to_vec().into();
        entry
    }
}

/// Reads the entry with this index.
pub(crate) fn parse_entry<'a>(index: u64, at: &mut Cursor<'a>) -> Option<Parts<'a>> {
    let term = at.u64()?;
    let kind = kind_of(at.u8()?)?;
    let (context_bytes, data_bytes) = (at.u32()? as usize, at.u32()? as usize);
    if context_bytes.saturating_add(data_bytes) > ENTRY_BYTES_MAX {
        return None;
    }
    Some(Parts { index, term, kind, context: at.take(context_bytes)?, data: at.take(data_bytes)? })
}

/// The body of a record without stamps, padding and header.
fn strip_stamps(record: &[u8], body_bytes: usize) -> Option<Vec<u8>> {
    let mut body = Vec::with_capacity(record.len());
    body.extend_from_slice(record.get(1 + HEADER_BYTES..SECTOR_BYTES)?);
    for sector in record[SECTOR_BYTES..].chunks(SECTOR_BYTES) {
        body.extend_from_slice(&sector[1..]);
    }
    (body.len() >= body_bytes).then(|| {
        body.truncate(body_bytes);
        body
    })
}

fn kind_code(kind: EntryType) -> u8 {
    match kind {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange => 1,
        EntryType::EntryConfChangeV2 => 2,
    }
}

fn kind_of(code: u8) -> Option<EntryType> {
    match code {
        0 => Some(EntryType::EntryNormal),
        1 => Some(EntryType::EntryConfChange),
        2 => Some(EntryType::EntryConfChangeV2),
        _ => None,
    }
}

/// Appends bytes and puts the stamp at the start of each sector.
struct SectorWriter {
    bytes: Vec<u8>,
}

impl SectorWriter {
    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = self.bytes.len() % SECTOR_BYTES;
            if used == 0 {
                self.bytes.push(STAMP_BODY);
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(SECTOR_BYTES - used));
            self.bytes.extend_from_slice(now);
            bytes = later;
        }
    }
}
