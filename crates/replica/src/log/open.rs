//! Reads the log at start. Every byte is verified before it is used.

use super::damage::{Damage, LogDamage, OpenError, Repair};
use super::fetch::{Fetches, decode_span};
use super::index::{Extent, Extents, Terms};
use super::limits::TAIL_LOADED_SHARE;
use super::preallocate::SegmentPreallocator;
use super::record::{self, Header, Padding};
use super::segment::{Scan, check_chain, scan, segment_file, segment_number, spare_number};
use super::tail::Tail;
use super::vote::{OpenedVote, VOTE_FILE, Vote, VoteFile};
use super::writer::Writer;
use super::{Log, LogConfig, LogId, Position};
use crate::disk::{DiskOp, DiskRead};
use raft::eraftpb::{Entry, HardState};
use std::collections::BTreeMap;

impl Log {
    /// Reads and verifies the log of this directory. Also returns the crash damage that the first job will repair;
    /// until that job is done, opening again finds the same damage.
    ///
    /// # Errors
    /// [`OpenError`]; on [`OpenError::Damage`] the member goes into quarantine.
    pub fn open(disk: &dyn DiskRead, config: LogConfig) -> Result<(Self, Vec<Repair>), OpenError> {
        let files = disk.list()?;
        let segments: BTreeMap<u64, u64> =
            files.iter().filter_map(|(file, bytes)| Some((segment_number(file)?, *bytes))).collect();
        let OpenedVote { file: vote_file, vote, is_copy_lost, again } = VoteFile::open(disk, !segments.is_empty())?;
        if vote.newest_segment == 0 {
            return Err(OpenError::Uninitialised);
        }
        let id = vote_file.id();
        let (newest, last) = find_newest(disk, id, &segments, vote, is_copy_lost)?;
        let mut replay = Replay::default();
        let mut newest_scan = replay.segments(disk, id, &segments, last.oldest_segment..=newest)?;
        replay.finish(&last, newest)?;
        let hard_state = newest_vote(&last, vote, is_copy_lost)?;

        let mut repairs: Vec<Repair> = is_copy_lost.then_some(Repair::VoteCopy).into_iter().collect();
        if let Some(record) = newest_scan.torn {
            repairs.push(Repair::TailCut { file: segment_file(newest), offset: newest_scan.end, record });
        }
        let is_confirmed = newest == vote.newest_segment;
        let mut first_ops = write_again(newest, &newest_scan, is_confirmed, config.block_bytes);
        if planted!(StartWritesNothingAgain) {
            first_ops.clear();
        }
        let last = fill_block(newest, &mut newest_scan, config.block_bytes, last, &mut first_ops);
        first_ops.extend([again, DiskOp::Sync { file: VOTE_FILE.into() }]);
        let mut preallocator = SegmentPreallocator::new(config.segment_bytes);
        for (file, _) in &files {
            let is_live = |number| (last.oldest_segment..=newest).contains(&number);
            let spare = spare_number(file);
            if spare.is_some() || segment_number(file).is_some_and(|number| !is_live(number)) {
                first_ops.push(DiskOp::Remove { file: file.clone() });
            }
            spare.into_iter().for_each(|number| preallocator.skip_number(number));
        }
        first_ops.push(DiskOp::SyncDir);

        let mut writer = Writer::new(vote_file, first_ops, last.last);
        writer.segments =
            segments.range(last.oldest_segment..=newest).map(|(number, bytes)| (*number, *bytes)).collect();
        writer.resume(newest, newest_scan.end, &last);
        let mut log = Self {
            tail: Tail::new(last.last + 1, config.tail_bytes),
            applied: last.base.index,
            checkpoint: last.checkpoint,
            contact_wall_ms: last.contact_wall_ms,
            terms: replay.terms,
            extents: replay.extents,
            fetches: Fetches::default(),
            hard_state,
            writer,
            preallocator,
            config,
        };
        log.load_tail(disk)?;
        Ok((log, repairs))
    }

    /// Calls `each` with the entries `low..=high` in order, read from disk: the entries to apply at start, before any
    /// input.
    ///
    /// # Errors
    /// [`OpenError`] if the disk returns other bytes than [`Log::open`] verified, or the log does not hold them.
    pub fn replay(
        &self,
        disk: &dyn DiskRead,
        low: u64,
        high: u64,
        mut each: impl FnMut(Entry),
    ) -> Result<(), OpenError> {
        let mut next = low;
        for extent in self.extents.from(low) {
            if next > high {
                break;
            }
            for entry in read_extent(disk, self.id(), extent)? {
                if entry.index == next && next <= high.min(extent.last) {
                    next += 1;
                    each(entry);
                }
            }
        }
        if next <= high {
            let file = segment_file(self.writer.segment);
            return Err(LogDamage { file, offset: 0, what: Damage::Contradiction }.into());
        }
        Ok(())
    }

    /// Loads all uncommitted entries and a few before them. Most members have the rest; others get it from disk.
    fn load_tail(&mut self, disk: &dyn DiskRead) -> Result<(), OpenError> {
        let bytes = self.config.tail_bytes / TAIL_LOADED_SHARE;
        let by_bytes = self.extents.first_within(bytes as u64).unwrap_or(self.first_index());
        let first = by_bytes.min(self.hard_state.commit + 1).max(self.first_index());
        let mut tail = Tail::new(first, self.config.tail_bytes);
        self.replay(disk, first, self.last_index(), |entry| tail.push(entry))?;
        self.tail = tail;
        Ok(())
    }
}

fn read_extent(disk: &dyn DiskRead, id: LogId, extent: &Extent) -> Result<Vec<Entry>, OpenError> {
    let bytes = disk.read(&segment_file(extent.segment), extent.offset, extent.len as usize)?;
    if bytes.len() as u64 != extent.len {
        let file = segment_file(extent.segment);
        return Err(LogDamage { file, offset: extent.offset, what: Damage::Short }.into());
    }
    Ok(decode_span(&bytes, id, extent.segment, extent.offset)?)
}

/// Writes the end of the log and the zeros after it again, because they may be on no disk although they were read.
///
/// The previous process may have died before its fsync, or because the fsync failed. After a failed fsync the kernel
/// may treat the pages as clean. Then a read comes from memory, another sync succeeds without writing, and the next
/// power loss shows what the disk really has. Writing the data again makes the pages dirty, so the sync covers them.
///
/// Everything before the last write is on the disk, because that write began after the previous sync had succeeded. The
/// vote file confirms the first sync in a segment (`is_confirmed`). The zeros may come from the cut of a torn tail at
/// the last start. They may be missing on the disk for the same reason.
///
/// The last record may have been acknowledged. Writing it again is harmless: the same bytes go to the same physical
/// blocks, so a crash changes none of them.
fn write_again(newest: u64, scan: &Scan, is_confirmed: bool, block_bytes: u64) -> Vec<DiskOp> {
    let (file, all) = (segment_file(newest), scan.bytes.len() as u64);
    let start = if is_confirmed { last_write(scan).start } else { 0 };
    let offset = start - start % block_bytes;
    let end = scan.end.next_multiple_of(block_bytes).min(all);
    let mut bytes = scan.bytes[offset as usize..scan.end as usize].to_vec();
    bytes.resize((end - offset) as usize, 0);
    let mut ops = vec![DiskOp::Write { file: file.clone(), offset, data: bytes }];
    ops.push(DiskOp::Zero { file: file.clone(), offset: end, bytes: all - end });
    ops.push(DiskOp::Sync { file });
    ops
}

/// Returns the last write in a segment. If the last record does not name the start of its write, it may be the seal of
/// the record before it.
fn last_write(scan: &Scan) -> Padding {
    let [.., last] = scan.records.as_slice() else { return Padding { start: 0, is_essential: true } };
    if let Some(padding) = Padding::of(last, &scan.bytes[last.offset as usize..]) {
        return padding;
    }
    let before_last = scan.records.iter().rev().nth(1).map_or(0, |record| record.offset);
    Padding { start: if last.entry_count > 0 { last.offset } else { before_last }, is_essential: true }
}

/// Fills the last physical block of the log with empty records, so that the next write begins a new block. Returns the
/// last record of the log. A log ends within a block after a write by older software, on a disk with smaller blocks, or
/// after the cut of a torn write.
fn fill_block(newest: u64, scan: &mut Scan, block_bytes: u64, last: Header, ops: &mut Vec<DiskOp>) -> Header {
    let end = scan.end.next_multiple_of(block_bytes).min(scan.bytes.len() as u64);
    if scan.end == end {
        return last;
    }
    let padding = last_write(scan);
    let offset = scan.end - scan.end % block_bytes;
    let mut bytes = scan.bytes[offset as usize..scan.end as usize].to_vec();
    let mut last = last;
    while scan.end < end {
        last = Header {
            cleared: false,
            offset: scan.end,
            number: last.number + 1,
            first: last.last + 1,
            previous_crc: last.header_crc,
            ..last
        };
        bytes.extend(padding.encode(&mut last));
        scan.end += last.disk_bytes();
    }
    let file = segment_file(newest);
    ops.extend([DiskOp::Write { file: file.clone(), offset, data: bytes }, DiskOp::Sync { file }]);
    last
}

/// The newest segment with a record, and its last record.
fn find_newest(
    disk: &dyn DiskRead,
    id: LogId,
    segments: &BTreeMap<u64, u64>,
    vote: Vote,
    is_copy_lost: bool,
) -> Result<(u64, Header), OpenError> {
    for (number, bytes) in segments.iter().rev() {
        // A segment newer than the vote file says was never acknowledged, unless a lost copy said so.
        let is_unfinished = *number > vote.newest_segment;
        match scan(disk, id, *number, *bytes, |_, _| Ok(())) {
            Ok(found) => match found.records.last() {
                Some(last) if *number >= vote.newest_segment => return Ok((*number, last.clone())),
                None if is_unfinished => {}
                _ => break,
            },
            Err(OpenError::Damage(_)) if is_unfinished && !is_copy_lost => {}
            Err(error) => return Err(error),
        }
    }
    let file = segment_file(vote.newest_segment);
    let what = if segments.contains_key(&vote.newest_segment) { Damage::Header } else { Damage::Missing };
    Err(LogDamage { file, offset: 0, what }.into())
}

/// The newer of the two copies of term and vote.
pub(super) fn newest_vote(last: &Header, vote: Vote, is_copy_lost: bool) -> Result<HardState, OpenError> {
    let record = &last.hard_state;
    let is_file_newer = (vote.term, vote.vote != 0) >= (record.term, record.vote != 0);
    let is_contradiction = vote.term == record.term && vote.vote != 0 && record.vote != 0 && vote.vote != record.vote;
    // The file is written first, so it is older than the log only if its newer copy is lost.
    if is_contradiction || (!is_file_newer && !is_copy_lost) {
        return Err(LogDamage { file: VOTE_FILE.into(), offset: 0, what: Damage::Vote }.into());
    }
    let mut newest = record.clone();
    if is_file_newer {
        (newest.term, newest.vote) = (vote.term, vote.vote);
    }
    Ok(newest)
}

/// Follows the records from the oldest needed segment on.
#[derive(Debug)]
struct Replay {
    terms: Terms,
    extents: Extents,
    previous: Option<Header>,
}

impl Default for Replay {
    fn default() -> Self {
        Self { terms: Terms::new(Position::default()), extents: Extents::default(), previous: None }
    }
}

impl Replay {
    /// Reads the segments in order; returns the last one's scan.
    fn segments(
        &mut self,
        disk: &dyn DiskRead,
        id: LogId,
        segments: &BTreeMap<u64, u64>,
        live: std::ops::RangeInclusive<u64>,
    ) -> Result<Scan, OpenError> {
        let newest = *live.end();
        for number in live {
            let file = segment_file(number);
            let damage = |offset: u64, what: Damage| LogDamage { file: file.clone(), offset, what };
            let bytes = *segments.get(&number).ok_or_else(|| damage(0, Damage::Missing))?;
            let scanned = scan(disk, id, number, bytes, |header, whole| self.record(header, whole))?;
            if number == newest {
                return Ok(scanned);
            }
            if scanned.torn.is_some() || scanned.records.is_empty() {
                return Err(damage(scanned.end, Damage::Header).into());
            }
        }
        Err(LogDamage { file: segment_file(newest), offset: 0, what: Damage::Missing }.into())
    }

    fn record(&mut self, header: &Header, whole: &[u8]) -> Result<(), Damage> {
        if let Some(previous) = &self.previous {
            check_chain(previous, header)?;
        }
        let count = u64::from(header.entry_count);
        if header.first.checked_add(count) != header.last.checked_add(1) || header.first == 0 {
            return Err(Damage::Contradiction);
        }
        if header.cleared {
            self.terms = Terms::new(header.base);
        } else if self.previous.is_none() || (count > 0 && header.first <= self.terms.base().index) {
            // Earlier records are in segments that are no longer needed; `finish` checks that.
            self.terms = Terms::new(Position { index: header.first - 1, term: 0 });
        }
        if header.first > self.terms.last() + 1 || (count == 0 && header.last != self.terms.last()) {
            return Err(Damage::Contradiction);
        }
        if count > 0 {
            self.terms.truncate(header.first);
            let mut is_falling = false;
            record::for_each_entry(header, whole, |entry| {
                let before = self.terms.term(self.terms.last()).unwrap_or(0);
                is_falling |= entry.term < before || entry.term > header.hard_state.term;
                self.terms.push(entry.term);
            })?;
            if is_falling {
                return Err(Damage::Contradiction);
            }
        }
        self.extents.add(header);
        self.previous = Some(header.clone());
        Ok(())
    }

    /// Checks that the last record's description of the log matches what was read.
    fn finish(&mut self, last: &Header, newest: u64) -> Result<(), OpenError> {
        let base = last.base;
        let is_covered = self.terms.last() == last.last && base.index <= last.last;
        let is_committed = (base.index..=last.last).contains(&last.hard_state.commit);
        if !is_covered || !is_committed || !self.extents.cover(base.index + 1, last.last) {
            let what = Damage::Contradiction;
            return Err(LogDamage { file: segment_file(newest), offset: last.offset, what }.into());
        }
        self.terms.compact(base);
        self.extents.compact(base.index);
        Ok(())
    }
}
