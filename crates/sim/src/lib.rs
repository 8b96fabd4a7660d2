//! A whole cluster under one seed: virtual time, a network and disks that fail as they do in life.
//!
//! The replicas are those of the daemon (`replica::Replica`), with its log and its checkpoints, on simulated disks.
//! Everything that is drawn comes from one seed by named forks ([`rng::Rng`]), so the same seed gives the same run to
//! the last byte ([`trace::Trace`]). [`run::run`] is one run; each promise that a cluster must keep is a file in
//! `invariants/`. How they were shown to catch bugs is in `docs/internals/decisions/0008-simulator.md`.
//!
//! ```text
//!   seed -> setup -> simulation: events in order of virtual time
//!                      clients, administrator, faults --> members (replica + disk + clocks) --> invariants, oracle
//!                                                         members <--> network, links
//! ```
#![forbid(unsafe_code)]

// Where chance comes from.
pub mod rng;
// What time it is, and what happens next.
pub mod clock;
// Frames between members.
pub mod network;
// The disk of a member.
pub mod disk;
// What happened, as one hash.
pub mod trace;

// How big and how bad a run is.
mod setup;
// One member.
mod machine;
// All members, and what happens next.
mod simulation;
// What members want carried out.
mod outputs;
// Who sees whom come and go.
mod links;
// The faults and commands of a run.
pub mod swarm;
// The faults and commands that overlapped.
pub mod coverage;
// What goes wrong.
mod faults;
// Faults at critical moments.
mod boundaries;
// Disks that lose or change data.
mod damage;
// Who lies.
mod hostile;
// Who sends updates.
mod clients;
// What they send.
mod updates;
// Who changes zones, keys and options.
mod administrator;
// The administrator's commands.
mod commands;
// CAs, data keys, pins and builds.
mod rotation;
// Clusters that are made from this one.
mod second_cluster;
// The expected contents of zones.
mod reference;
// The expected settings.
mod decided;
// Which policy may be in force.
mod policies;
// Which members come and go.
mod membership;
// What outsiders were told.
mod oracle;
// What must hold.
mod invariants;

// A run from start to end.
pub mod run;
