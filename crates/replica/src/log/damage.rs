//! Kinds of damage to a log on disk. Damage is never repaired by cutting: the member goes into quarantine.

use super::position::Position;
use crate::disk::DiskError;
use core::fmt;

/// Synced bytes that differ from what was written. The local disk is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDamage {
    /// The file.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub what: Damage,
}

/// Kinds of [`LogDamage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A sector that should start a record does not.
    Header,
    /// A record that was written completely and differs from its checksum.
    Body,
    /// A record that does not continue the one before it.
    Chain,
    /// A needed segment does not exist.
    Missing,
    /// The file ends inside a record.
    Short,
    /// A file of another cluster, another member or another incarnation.
    Foreign,
    /// Records that contradict each other: a gap in the indices, or a term, vote or commit index that went back.
    Contradiction,
    /// No readable copy of term and vote.
    Vote,
    /// A format version that this software does not know.
    Version(u16),
}

impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, what } = self;
        match what {
            Damage::Header => write!(f, "{file}: no record at byte {offset}"),
            Damage::Body => write!(f, "{file}: the record at byte {offset} differs from its checksum"),
            Damage::Chain => write!(f, "{file}: the record at byte {offset} does not follow the one before it"),
            Damage::Missing => write!(f, "{file}: missing"),
            Damage::Short => write!(f, "{file}: ends inside the record at byte {offset}"),
            Damage::Foreign => write!(f, "{file}: belongs to another cluster or member"),
            Damage::Contradiction => write!(f, "{file}: the record at byte {offset} contradicts those before it"),
            Damage::Vote => write!(f, "{file}: no readable copy of term and vote"),
            Damage::Version(version) => write!(f, "{file}: format version {version} is unknown"),
        }
    }
}

impl std::error::Error for LogDamage {}

/// Why a log could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no log, or its creation never finished: the member has promised nothing.
    Uninitialised,
    /// The log is damaged: the member goes into quarantine.
    Damage(LogDamage),
    /// The disk could not be read.
    Disk(DiskError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uninitialised => f.write_str("there is no log"),
            Self::Damage(damage) => damage.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<LogDamage> for OpenError {
    fn from(damage: LogDamage) -> Self {
        Self::Damage(damage)
    }
}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// What is known about a record that was not completely written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TornRecord {
    /// Its header cannot be read.
    Unknown,
    /// It held no entries.
    Empty,
    /// It held entries.
    Entries {
        /// The last entry. The term is the record's: the entry has this term or an older one.
        last: Position,
    },
}

/// A repair made when the log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The last record was incomplete and was cut off. A crash during its write leaves such a record. So does a disk
    /// that lost one of its sectors after the record was acknowledged. The log cannot distinguish the two.
    TailCut {
        /// The segment.
        file: String,
        /// Offset of the record in bytes.
        offset: u64,
        /// What is known about the record.
        record: TornRecord,
    },
    /// One of the two copies of term and vote was unreadable and is written again.
    VoteCopy,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TailCut { file, offset, record } => {
                write!(f, "{file}: the last record, at byte {offset}, is incomplete and was cut off")?;
                match record {
                    TornRecord::Unknown => f.write_str("; its header cannot be read"),
                    TornRecord::Empty => f.write_str("; it held no entries"),
                    TornRecord::Entries { last } => write!(f, "; it held entries up to {}", last.index),
                }
            }
            Self::VoteCopy => f.write_str("one of the two copies of term and vote was unreadable and is written again"),
        }
    }
}
