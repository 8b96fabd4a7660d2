//! A whole cluster under one seed: virtual time, a network and disks that fail as they do in life.
//!
//! Everything that is drawn comes from one seed by named forks ([`rng::Rng`]), so that a draw more in one place moves
//! nothing in another, and the same seed gives the same run to the last octet.
#![forbid(unsafe_code)]

// Where chance comes from.
pub mod rng;
// What time it is, and what happens next.
pub mod clock;
// Frames between members.
pub mod network;
// The disk of a member.
pub mod disk;
