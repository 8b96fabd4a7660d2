//! One member of a cluster, without I/O: time, octets from peers and results of the disk come in as inputs.
#![forbid(unsafe_code)]

// What it asks of its disk.
pub mod disk;
// Everything that goes in and comes out.
pub mod io;

// An UPDATE from octets to the change it makes.
pub mod update;
