//! Tests of the log: bytes, crashes against a model, damage, reading.

// The bytes of a record, and arithmetic.
mod golden;
// A log on a disk in memory, with a model.
pub(super) mod harness;
// Random programs with crashes.
mod crashes;
// Disks with larger physical blocks.
mod blocks;
// Flipped bits, lost files, contradictions.
mod damage;
// Reading entries, compaction, recycling.
mod reading;
