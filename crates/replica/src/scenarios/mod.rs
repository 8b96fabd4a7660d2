//! Scripted cases of whole clusters.

mod chaos;
mod cluster;

mod elections;
mod membership;
mod persistence;
mod updates;
