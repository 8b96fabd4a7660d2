//! Scripted cases with whole clusters. Each test decides which frames its members receive, and when.

// The cluster of all tests.
mod cluster;

// Elections and the leader.
mod clocks;
mod elections;
mod leader_transfers;
mod needed_votes;
mod two_sites;

// Accepted frames.
mod admission;
mod hostile;
mod impostors;
mod log_loss;

// From an update to its outcome.
mod audit;
mod exactly_once;
mod follower_commit;
mod forwarding;
mod overload;
mod policy;
mod reads;
mod repeats;
mod rights;
mod updates;

// Commands of administrators.
mod backup;
mod commands;
mod imports;
mod lagging;
mod zone_options;

// Zones with `ack = all-live`.
mod all_live;
mod leases;

// Members that join and leave.
mod membership;
mod quarantine;
mod replacements;
mod stops;
mod trust;

// The log, checkpoints and disks.
mod background;
mod full;
mod persistence;
mod torn;
mod transfers;

// Memory and panics.
mod memory;
mod message_of_death;
mod panics;
mod zone_memory;
