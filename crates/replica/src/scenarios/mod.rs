//! Scripted cases of whole clusters.

mod cluster;

mod elections;
mod membership;
mod persistence;
mod updates;
