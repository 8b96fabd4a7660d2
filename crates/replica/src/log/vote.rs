//! A second copy of term and vote: a file with two slots, written in turn, so that a torn write destroys only the
//! older one. A vote is durable here before the log record that carries it, so either copy alone suffices.
//!
//! A slot is one sector: magic `CtVt`, version (2), zero (2), cluster id (16), raft id (8), raft group (4),
//! generation (8), term (8), vote (8), number of the newest segment that certainly holds a record (8), zeros, CRC-32C
//! of all before it (4).

use super::damage::{Damage, LogDamage, OpenError};
use super::limits::SECTOR_BYTES;
use super::position::LogId;
use crate::bytes::Cursor;
use crate::disk::{DiskError, DiskOp, DiskRead};

/// Name of the file.
pub(crate) const VOTE_FILE: &str = "vote";
/// The slots are a page apart, because file systems write pages. A write fills the page with zeros, so that it covers
/// whole physical blocks of the disk.
const SLOT_DISTANCE: u64 = 4096;
const FILE_BYTES: u64 = 2 * SLOT_DISTANCE;
const MAGIC: [u8; 4] = *b"CtVt";
const VERSION: u16 = 1;

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) term: u64,
    pub(crate) vote: u64,
    /// This segment and a record in it were durable before the slot was written; 0 while the log is being created.
    pub(crate) newest_segment: u64,
}

/// The file at start.
#[derive(Debug)]
pub(crate) struct OpenedVote {
    pub(crate) file: VoteFile,
    /// The newest slot.
    pub(crate) vote: Vote,
    /// Whether a copy was unreadable.
    pub(crate) is_copy_lost: bool,
    /// Writes the newest slot again unchanged, so that the next sync covers it.
    pub(crate) again: DiskOp,
}

/// The file as it was last written.
#[derive(Debug)]
pub(crate) struct VoteFile {
    id: LogId,
    generation: u64,
    next_slot: u64,
    /// `None` if a copy must be written even without a change.
    written: Option<Vote>,
}

impl VoteFile {
    /// A new file; the operations create it with a first slot.
    pub(crate) fn create(id: LogId, ops: &mut Vec<DiskOp>) -> Self {
        let mut file = Self { id, generation: 0, next_slot: 0, written: None };
        ops.push(DiskOp::Create { file: VOTE_FILE.into(), zeroed_bytes: FILE_BYTES });
        file.write(Vote { term: 0, vote: 0, newest_segment: 0 }, ops);
        ops.push(DiskOp::SyncDir);
        file
    }

    /// Reads the file at start.
    ///
    /// # Errors
    /// [`OpenError::Uninitialised`] if there is neither a slot nor a segment; [`Damage::Vote`] if there is a segment
    /// but no slot.
    pub(crate) fn open(disk: &dyn DiskRead, has_segments: bool) -> Result<OpenedVote, OpenError> {
        let bytes = match disk.read(VOTE_FILE, 0, FILE_BYTES as usize) {
            Ok(bytes) => bytes,
            Err(DiskError::Missing { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let slot = |number: u64| bytes.get((number * SLOT_DISTANCE) as usize..)?.get(..SECTOR_BYTES).and_then(decode);
        let (slots, newest) = match (slot(0), slot(1)) {
            (None, None) if has_segments => {
                return Err(LogDamage { file: VOTE_FILE.into(), offset: 0, what: Damage::Vote }.into());
            }
            (None, None) => return Err(OpenError::Uninitialised),
            (Some(a), None) => ([Some(a), None], 0),
            (None, Some(b)) => ([None, Some(b)], 1),
            (Some(a), Some(b)) => ([Some(a), Some(b)], u64::from(b.generation > a.generation)),
        };
        let Slot { id, generation, vote } = slots[newest as usize].expect("the newest of the readable ones");
        let is_copy_lost = slots.contains(&None);
        // The unreadable copy is written next.
        let file = Self { id, generation, next_slot: 1 - newest, written: (!is_copy_lost).then_some(vote) };
        let offset = newest * SLOT_DISTANCE;
        let mut bytes: Vec<u8> = bytes.into_iter().skip(offset as usize).take(SLOT_DISTANCE as usize).collect();
        bytes.resize(SLOT_DISTANCE as usize, 0);
        let again = DiskOp::Write { file: VOTE_FILE.into(), offset, data: bytes };
        Ok(OpenedVote { file, vote, is_copy_lost, again })
    }

    pub(crate) fn id(&self) -> LogId {
        self.id
    }

    /// Whether this term and vote are not in the newest copy.
    pub(crate) fn is_behind(&self, term: u64, vote: u64) -> bool {
        self.written.is_none_or(|written| (written.term, written.vote) != (term, vote))
    }

    /// Operations that write the older slot and make it durable.
    pub(crate) fn write(&mut self, vote: Vote, ops: &mut Vec<DiskOp>) {
        self.generation += 1;
        let mut bytes = encode(&Slot { id: self.id, generation: self.generation, vote });
        bytes.resize(SLOT_DISTANCE as usize, 0);
        ops.push(DiskOp::Write { file: VOTE_FILE.into(), offset: self.next_slot * SLOT_DISTANCE, data: bytes });
        ops.push(DiskOp::Sync { file: VOTE_FILE.into() });
        self.next_slot = if planted!(VoteInOneSlot) { self.next_slot } else { 1 - self.next_slot };
        self.written = Some(vote);
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Slot {
    id: LogId,
    generation: u64,
    vote: Vote,
}

fn encode(slot: &Slot) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SECTOR_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&slot.id.cluster);
    let Vote { term, vote, newest_segment } = slot.vote;
    bytes.extend_from_slice(&slot.id.member.to_be_bytes());
    bytes.extend_from_slice(&slot.id.group.to_be_bytes());
    for number in [slot.generation, term, vote, newest_segment] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.resize(SECTOR_BYTES - 4, 0);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    bytes
}

fn decode(sector: &[u8]) -> Option<Slot> {
    let (covered, stored) = sector.split_last_chunk::<4>()?;
    if crc32c::crc32c(covered).to_be_bytes() != *stored {
        return None;
    }
    let mut at = Cursor::new(covered);
    if at.array()? != MAGIC || at.u16()? != VERSION {
        return None;
    }
    at.take(2)?;
    Some(Slot {
        id: LogId { cluster: at.array()?, member: at.u64()?, group: at.u32()? },
        generation: at.u64()?,
        vote: Vote { term: at.u64()?, vote: at.u64()?, newest_segment: at.u64()? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_its_golden_bytes_and_any_flipped_bit_voids_it() {
        let id = LogId { cluster: *b"0123456789abcdef", member: 0x0000_0001_0000_0002, group: 6 };
        let slot = Slot { id, generation: 3, vote: Vote { term: 5, vote: 2, newest_segment: 7 } };
        let bytes = encode(&slot);
        assert_eq!(bytes.len(), SECTOR_BYTES);
        let mut golden =
            b"CtVt\x00\x01\x00\x000123456789abcdef\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x06".to_vec();
        for number in [3_u64, 5, 2, 7] {
            golden.extend_from_slice(&number.to_be_bytes());
        }
        assert_eq!(bytes[..golden.len()], golden);
        assert!(bytes[golden.len()..SECTOR_BYTES - 4].iter().all(|byte| *byte == 0));
        assert!(decode(&bytes) == Some(slot));
        for bit in 0..SECTOR_BYTES * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_none(), "bit {bit}");
        }
    }
}
