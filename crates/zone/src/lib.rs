//! Zones: their contents, storage, files, and answers to queries. No I/O, no clock, no consensus.
#![forbid(unsafe_code)]

pub mod limits;

// Records.
pub mod record;

// The encoding of records for logs, checkpoints and peers.
pub mod codec;

// Presentation format.
pub mod text;

// Zone files.
pub mod file;

// Checks of whole zones.
pub mod check;

// Storage: names as keys, leaves of records, versions of all zones.
pub mod hash;
pub mod key;
pub mod nsec3;
pub mod set;
pub mod vertex;

// Answers: lookups, proofs of nonexistence, responses.
pub mod answer;
pub mod denial;
pub mod lookup;

pub use record::{Changeset, Record, RecordList, RecordRef, ZoneId};
pub use set::{SetVersion, Zone, ZoneReader, ZoneSet, ZoneSetConfig};
