//! A DNS hierarchy on one machine: zones rebuilt from traffic, and an emulation of all their servers.
//!
//! A [`Folder`] connects the two: zone files, and the addresses that serve each zone.

pub mod limits;

// Differences between servers of the same zone.
mod server_behavior;

// The root servers.
pub mod roots;
// Zones from traffic.
pub mod construct;
// Generated zones.
pub mod synth;
// New signatures.
pub mod sign;
// The emulated servers.
pub mod serve;

mod bitmap;
mod files;
mod folder;
mod refuse_stream;

pub use files::{MADE_MARK, read_zone, write_zone};
pub use folder::{Folder, ZoneEntry, file_name};
pub use refuse_stream::refuse_stream;
pub use server_behavior::ServerBehavior;
