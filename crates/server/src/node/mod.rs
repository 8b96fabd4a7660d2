//! One running node: its threads, and what they share.

// The disk of the replica.
pub(crate) mod disk;
