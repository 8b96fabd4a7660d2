//! Checks one file of the log while the log is in use, record by record and with little memory.

use super::OpenError;
use super::damage::{Damage, LogDamage};
use super::limits::{FETCH_BYTES_MAX, SECTOR_BYTES};
use super::record::{self, Header};
use super::segment::{check_chain, segment_number};
use super::vote::{VOTE_FILE, VoteFile};
use crate::disk::{DiskError, DiskRead};

/// Returns the damage in a file of the log.
///
/// # Errors
/// [`DiskError`].
pub(crate) fn check_file(disk: &dyn DiskRead, file: &str) -> Result<Vec<LogDamage>, DiskError> {
    if file == VOTE_FILE {
        return check_votes(disk);
    }
    let Some(number) = segment_number(file) else { return Ok(Vec::new()) };
    let mut window = Window { disk, file, start: 0, bytes: Vec::new() };
    let (mut at, mut found) = (0, Vec::new());
    // The offset at which unreadable bytes begin, and the header of the record before them, if it is intact.
    let (mut unreadable, mut previous) = (None, None::<Header>);
    let damage = |offset: u64, what| LogDamage { file: file.to_owned(), offset, what };
    loop {
        let sector = window.get(at, SECTOR_BYTES)?;
        if sector.len() < SECTOR_BYTES {
            break;
        }
        if record::is_unwritten(sector) {
            at += SECTOR_BYTES as u64;
            continue;
        }
        let header = match record::decode_header(sector) {
            Ok(header) if (header.segment, header.offset) == (number, at) => header,
            _ => {
                unreadable.get_or_insert(at);
                at += SECTOR_BYTES as u64;
                continue;
            }
        };
        let len = usize::try_from(header.disk_bytes()).unwrap_or(usize::MAX);
        let whole = window.get(at, len)?;
        let is_whole = whole.len() == len && record::body_is_intact(&header, whole);
        match (unreadable.take(), &previous) {
            (Some(from), _) => found.push(damage(from, Damage::Header)),
            (None, Some(previous)) => found.extend(check_chain(previous, &header).err().map(|what| damage(at, what))),
            (None, None) => {}
        }
        if !is_whole {
            found.push(damage(at, Damage::Body));
        }
        at += header.disk_bytes();
        previous = Some(header);
    }
    found.extend(unreadable.map(|from| damage(from, Damage::Header)));
    Ok(found)
}

fn check_votes(disk: &dyn DiskRead) -> Result<Vec<LogDamage>, DiskError> {
    let damage = LogDamage { file: VOTE_FILE.into(), offset: 0, what: Damage::Vote };
    match VoteFile::open(disk, true) {
        Ok(opened) if opened.is_copy_lost => Ok(vec![damage]),
        Ok(_) => Ok(Vec::new()),
        Err(OpenError::Damage(damage)) => Ok(vec![damage]),
        Err(OpenError::Disk(error)) => Err(error),
        Err(OpenError::Uninitialised) => Ok(Vec::new()),
    }
}

/// The part of a file that is in memory.
struct Window<'d> {
    disk: &'d dyn DiskRead,
    file: &'d str,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Returns `len` bytes of the file, or fewer at its end.
    fn get(&mut self, at: u64, len: usize) -> Result<&[u8], DiskError> {
        let is_covered = at >= self.start && at - self.start + len as u64 <= self.bytes.len() as u64;
        if !is_covered {
            self.bytes = self.disk.read(self.file, at, len.max(FETCH_BYTES_MAX as usize))?;
            self.start = at;
        }
        let from = ((at - self.start) as usize).min(self.bytes.len());
        let to = from.saturating_add(len).min(self.bytes.len());
        Ok(&self.bytes[from..to])
    }
}
