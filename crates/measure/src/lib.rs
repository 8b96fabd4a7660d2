//! Statistics of a run: a [`Second`] for each second of the run, and their sum.
//!
//! Completed seconds are stored as [`Row`] and [`ConnectionRow`], at a hundredth of the size.

#![forbid(unsafe_code)]

pub mod limits;

// Transports of queries, and checks of answers.
mod answer_check;
mod transport;
// Rows of single queries.
mod query_file_counts;
// Seconds that may still change.
mod check_counts;
mod connections;
mod histogram;
mod recycle;
mod second;
mod timeline;
mod transport_timelines;
// Stored seconds.
mod connection_row;
mod distribution;
mod quantiles;
mod row;
// Summaries of a series of seconds.
mod spread;
mod trend;
// Results of clients, and how closely a plan was followed.
mod client_classes;
mod client_tally;
mod pacing;

pub use answer_check::{AnswerCheck, AnswerChecker, AnswerChecking, WrongAnswer};
pub use check_counts::{CheckCounts, Difference};
pub use client_classes::{ClassTally, ClientClasses};
pub use client_tally::ClientTally;
pub use connection_row::ConnectionRow;
pub use connections::ConnectionSecond;
pub use distribution::Distribution;
pub use histogram::{new_histogram, record};
pub use pacing::Pacing;
pub use quantiles::Quantiles;
pub use query_file_counts::QueryFileCounts;
pub use row::Row;
pub use second::{RCODE_COUNT, Second};
pub use spread::Spread;
pub use timeline::{Timeline, TransportSecond};
pub use transport::Transport;
pub use transport_timelines::{Sent, TransportTimelines};
pub use trend::{Direction, Trend};
