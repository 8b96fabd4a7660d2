//! The DNS hierarchy on one machine: zones rebuilt from traffic, and every server of them emulated.
//!
//! A [`Folder`] lies between the two: zone files, and which address serves which zones.

pub mod limits;

// How servers differ that have the same zone.
mod server_behavior;

// Whose addresses are known to everybody.
pub mod roots;
// Zones out of traffic.
pub mod construct;
// Zones that nobody has.
pub mod synth;
// Signed anew.
pub mod sign;
// Every server of them.
pub mod serve;

mod bitmap;
mod files;

mod folder;

pub use files::{MADE_MARK, read_zone, refuse_stream, write_zone};
pub use folder::{Folder, ZoneEntry, file_name};
pub use server_behavior::ServerBehavior;
