//! What a zone holds and what it answers. No I/O, no clock, no consensus.
#![forbid(unsafe_code)]

pub mod limits;

// What a zone is made of.
pub mod record;

// Bytes of records, for logs, checkpoints and peers.
pub mod codec;

// Presentation format.
pub mod text;

// Zone files.
pub mod file;

// What a zone has to be.
pub mod check;

// How it is kept: names as keys, leaves of records, versions of all zones.
pub mod hash;
pub mod key;
pub mod nsec3;
pub mod set;
pub mod vertex;

// What it answers: the outcome of a query, the proofs that belong to it, the response.
pub mod answer;
pub mod denial;
pub mod lookup;

pub use record::{Changeset, Record, RecordList, RecordRef, ZoneId};
pub use set::{SetVersion, Zone, ZoneReader, ZoneSet, ZoneSetConfig};
