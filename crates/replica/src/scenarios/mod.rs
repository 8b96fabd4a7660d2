//! Scripted cases of whole clusters.

mod backup;
mod chaos;
mod cluster;

mod elections;
mod hostile;
mod membership;
mod persistence;
mod quarantine;
mod transfers;
mod updates;
