//! What was measured: one [`Second`] of statistics for each second of the run, and their sum.

mod connections;
mod ledger;
mod recycle;
mod second;
mod timeline;

pub use connections::ConnectionSecond;
pub use ledger::{Ledger, Sent};
pub use second::{RCODE_COUNT, Second};
pub use timeline::{Moment, Timeline};
