//! Zones and queries generated from a seed. They concentrate on cases in which servers differ.

mod queries;
mod zones;

pub use queries::queries;
pub use zones::{Signing, ZoneText, sign, zone};
