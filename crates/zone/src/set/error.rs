//! Why a change of the zones is refused. All of it is decided by the content alone, so all replicas agree, except
//! [`Full`], which is about the memory of this one.

use crate::nsec3::Nsec3Error;
use core::fmt;
use store::Full;
use wire::number::Serial;

/// Why zones cannot be made, replaced or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneError {
    /// There is no such zone, or none being staged.
    Unknown,
    /// There is such a zone.
    Exists,
    /// What would be the zone's content is not one.
    Content(ContentFault),
    /// The arena is full.
    Full(Full),
}

/// What keeps records from being a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentFault {
    /// The apex does not have exactly one SOA (RFC 1035 5.2).
    Soa,
    /// The NSEC3PARAM of the apex cannot be served (RFC 9276 3.2).
    Nsec3(Nsec3Error),
}

/// What is wrong with one record of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFault {
    /// Its owner is not in the zone.
    OutOfZone,
    /// It is deleted, and is not there.
    Missing,
    /// It is added, and is there.
    Present,
    /// Its TTL is not that of its RRset (RFC 2181 5.2).
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
    /// The zone is not at the serial from which the change leads.
    Base {
        /// The serial of the changeset.
        expected: Option<Serial>,
        /// That of the zone.
        found: Option<Serial>,
    },
    /// A record of `deleted`.
    Deleted {
        /// Its place there.
        index: usize,
        /// What is wrong.
        fault: RecordFault,
    },
    /// A record of `added`.
    Added {
        /// Its place there.
        index: usize,
        /// What is wrong.
        fault: RecordFault,
    },
    /// The zone would not be at the serial to which the change leads.
    Target {
        /// The serial of the changeset.
        expected: Serial,
        /// That of the SOA after the change.
        found: Serial,
    },
    /// What would be the zone's content is not one.
    Content(ContentFault),
    /// The arena is full; the `Edit` is to be dropped.
    Full(Full),
}

/// Why records cannot be staged. Those before the one at fault are staged; give the stage up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportError {
    /// One of the records.
    Record {
        /// Its place.
        index: usize,
        /// What is wrong.
        fault: RecordFault,
    },
    /// The arena is full; the `Edit` is to be dropped.
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
