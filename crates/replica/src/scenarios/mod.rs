//! Scripted cases of whole clusters.

mod backup;
mod chaos;
mod cluster;

mod admission;
mod all_live;
mod audit;
mod clocks;
mod commands;
mod doubt;
mod early;
mod elections;
mod exactly_once;
mod full;
mod hostile;
mod imports;
mod impostors;
mod leisure;
mod membership;
mod memory;
mod message_of_death;
mod panics;
mod persistence;
mod policy;
mod quarantine;
mod reads;
mod stops;
mod torn;
mod transfers;
mod trust;
mod two_sites;
mod updates;
mod zone_memory;
