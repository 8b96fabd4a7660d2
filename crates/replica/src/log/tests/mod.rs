//! Tests of the log: octets, crashes against a model, damage, reading back.

// The octets of a record, and the arithmetic.
mod golden;
// A log on a disk in memory, with a model beside it.
pub(super) mod harness;
// Random programs with crashes.
mod crashes;
// Disks with larger physical blocks.
mod blocks;
// Flipped bits, lost files, contradictions.
mod damage;
// Reading entries back, compaction, recycling.
mod reading;
