//! What was measured: one [`Second`] of statistics for each second of the run, and their sum. Seconds that change no
//! more are kept as [`Row`] and [`ConnectionRow`], a hundredth of their size.

// Seconds that may still change.
mod checked;
mod connections;
mod recycle;
mod second;
mod timeline;
mod transport_timelines;
// Seconds that are kept.
mod connection_row;
mod distribution;
mod quantiles;
mod row;

pub use checked::Checked;
pub use connection_row::ConnectionRow;
pub use connections::ConnectionSecond;
pub use distribution::Distribution;
pub use quantiles::Quantiles;
pub use row::Row;
pub use second::{RCODE_COUNT, Second};
pub(crate) use second::{fresh, record};
pub use timeline::{Timeline, TransportSecond};
pub use transport_timelines::{Sent, TransportTimelines};
