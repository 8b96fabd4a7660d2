//! The DNS hierarchy on one machine: zones rebuilt from traffic, and every server of them emulated.
//!
//! A [`Folder`] lies between the two: zone files, and which address serves which zones.

pub mod limits;

mod folder;

pub use folder::{Folder, ZoneEntry, file_name};
