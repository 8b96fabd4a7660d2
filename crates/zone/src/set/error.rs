//! Reasons to refuse a change of the zones. They depend only on the content, so all replicas agree. The exception is
//! [`Full`], which depends on the memory of this replica.

use crate::nsec3::Nsec3Error;
use core::fmt;
use store::Full;
use wire::number::Serial;

/// Why a zone cannot be created, replaced or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneError {
    /// There is no such zone, or no such stage.
    Unknown,
    /// The zone exists already.
    Exists,
    /// The new content is not a valid zone.
    Content(ContentFault),
    /// The arena is full.
    Full(Full),
}

/// Why records are not a valid zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentFault {
    /// The apex does not have exactly one SOA (RFC 1035 5.2).
    Soa,
    /// The NSEC3PARAM of the apex cannot be served (RFC 9276 3.2).
    Nsec3(Nsec3Error),
}

/// An error in one record of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFault {
    /// Its owner is not in the zone.
    OutOfZone,
    /// The change deletes it, but it does not exist.
    Missing,
    /// The change adds it, but it exists already.
    Present,
    /// Its TTL differs from that of its RRset (RFC 2181 5.2).
    Ttl,
    /// Its owner name would have more bytes of records than
    /// [`LEAF_BYTES_MAX`](crate::limits::LEAF_BYTES_MAX).
    TooLarge,
}

/// Why a [`Changeset`](crate::record::Changeset) does not apply. Nothing was changed, except after `Full`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApplyError {
    /// There is no such zone.
    Unknown,
    /// The serial of the zone is not the one that the change starts from.
    Base {
        /// The serial of the changeset.
        expected: Option<Serial>,
        /// The serial of the zone.
        found: Option<Serial>,
    },
    /// A record of `deleted`.
    Deleted {
        /// Its index there.
        index: usize,
        /// The error.
        fault: RecordFault,
    },
    /// A record of `added`.
    Added {
        /// Its index there.
        index: usize,
        /// The error.
        fault: RecordFault,
    },
    /// The serial after the change would not be the one that the change ends with.
    Target {
        /// The serial of the changeset.
        expected: Serial,
        /// The serial of the SOA after the change.
        found: Serial,
    },
    /// The new content is not a valid zone.
    Content(ContentFault),
    /// The arena is full. The `Edit` must be dropped.
    Full(Full),
}

/// Why records cannot be staged. The records before the one at fault are staged, so the stage must be abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportError {
    /// One of the records.
    Record {
        /// Its index.
        index: usize,
        /// The error.
        fault: RecordFault,
    },
    /// The arena is full. The `Edit` must be dropped.
    Full(Full),
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfZone => "its owner is not in the zone",
            Self::Missing => "it is to be deleted and is not there",
            Self::Present => "it is to be added and is there",
            Self::Ttl => "its TTL is not that of its RRset",
            Self::TooLarge => "its owner name has too much data",
        })
    }
}

impl fmt::Display for ContentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Soa => f.write_str("the apex does not have exactly one SOA"),
            Self::Nsec3(Nsec3Error::Iterations(count)) => {
                write!(f, "NSEC3PARAM has {count} iterations, {} are served", crate::limits::NSEC3_ITERATIONS_MAX)
            }
            Self::Nsec3(Nsec3Error::Algorithm) => f.write_str("NSEC3PARAM has an unknown hash algorithm"),
            Self::Nsec3(Nsec3Error::Short) => f.write_str("NSEC3PARAM ends early"),
        }
    }
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such zone"),
            Self::Exists => f.write_str("the zone exists"),
            Self::Content(fault) => fault.fmt(f),
            Self::Full(_) => f.write_str("the arena is full"),
        }
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such zone"),
            Self::Base { expected, found } => write!(f, "the zone is at {found:?}, the change is from {expected:?}"),
            Self::Deleted { index, fault } => write!(f, "deleted record {index}: {fault}"),
            Self::Added { index, fault } => write!(f, "added record {index}: {fault}"),
            Self::Target { expected, found } => write!(f, "the change leads to {found:?}, not to {expected:?}"),
            Self::Content(fault) => fault.fmt(f),
            Self::Full(_) => f.write_str("the arena is full"),
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { index, fault } => write!(f, "record {index}: {fault}"),
            Self::Full(_) => f.write_str("the arena is full"),
        }
    }
}

impl core::error::Error for ZoneError {}
impl core::error::Error for ApplyError {}
impl core::error::Error for ImportError {}

impl From<Full> for ZoneError {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl From<Full> for ApplyError {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl From<Full> for ImportError {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}
