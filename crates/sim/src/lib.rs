//! Simulates a whole cluster from one seed: virtual time, a network, and disks with realistic faults.
//!
//! The replicas are those of the daemon (`replica::Replica`), with its log and its checkpoints, on simulated disks.
//! All random values come from one seed by named forks ([`rng::Rng`]), so the same seed gives the same run to the
//! last byte ([`trace::Trace`]). [`run::run`] is one run. Each invariant of a cluster is a file in `invariants/`.
//! `docs/internals/decisions/0008-simulator.md` describes how the invariants were shown to find bugs.
//!
//! ```text
//!   seed -> setup -> simulation: events in order of virtual time
//!                      clients, administrator, faults --> members (replica + disk + clocks) --> invariants, oracle
//!                                                         members <--> network, links
//! ```
#![forbid(unsafe_code)]

// Random values.
pub mod rng;
// Virtual time and events.
pub mod clock;
// Frames between members.
pub mod network;
// The disk of a member.
pub mod disk;
// A hash of all events.
pub mod trace;

// The random parameters of a run.
mod setup;
// One member.
mod machine;
// The events of a run.
mod event;
// All members, and the loop over events.
mod simulation;
// The outputs of members.
mod outputs;
// Connections between members, and how members dial each other.
mod dialing;
mod links;
// The faults and commands of a run.
pub mod swarm;
// The faults and commands that overlapped.
pub mod coverage;
// Faults.
mod faults;
// Faults at critical moments.
mod boundaries;
// Disks that lose or change data.
mod damage;
// An attacker that is not a member.
mod attacker;
mod hostile;
// Clients, and their requests.
mod clients;
mod requests;
// Their updates.
mod updates;
// Updates of the model's zone.
mod plan;
// The administrator, and the execution of commands.
mod administration;
mod administrator;
// The administrator's commands.
mod commands;
// CAs, data keys, pins, and upgrades of builds.
mod rotation;
// Clusters created from this one.
mod second_cluster;
// The expected contents of zones.
mod reference;
// The expected settings.
mod decided;
// The policies that may be in force.
mod policies;
// Members that join and leave.
mod member_changes;
mod membership;
// The requests and responses of clients.
mod oracle;
// The invariants.
mod invariants;

// A run from start to end.
pub mod run;
