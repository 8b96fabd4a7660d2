//! What was measured: one [`Second`] of statistics for each second of the run, and their sum.

mod second;
mod timeline;

pub use second::{RCODE_COUNT, Second};
pub use timeline::Timeline;
