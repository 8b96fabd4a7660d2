//! Zones and queries made from a seed, dense in the cases where servers differ.

mod queries;
mod zones;

pub use queries::queries;
pub use zones::{Signing, ZoneText, sign, zone};
